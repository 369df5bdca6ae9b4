//! Being laid.

fn main() {}
