//! The fleet's end of the stream, on the hub.

pub mod ports;
