//! libFuzzer's way into a target: which one, `FUZZ_TARGET` says.

#![no_main]

mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<targets::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, which is no target")).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
