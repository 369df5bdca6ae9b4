//! Patterns of schemas: Go's RE2 syntax, compiled with a size limit so that no pattern can exhaust memory.

use regex::{Regex, RegexBuilder};

/// Compiles a pattern; `None` where it is none, or too large.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).size_limit(1 << 20).dfa_size_limit(1 << 20).build().ok()
}
