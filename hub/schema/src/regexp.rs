//! Patterns of schemas: Go's RE2 syntax, compiled with a size limit so that no pattern can exhaust memory.

use karmada_cel::as_go_reads;
use regex::{Regex, RegexBuilder};

/// The largest compiled form of one pattern, in bytes.
const LARGEST: usize = 2 << 20;

/// Compiles a pattern; `None` where it is none, or too large.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    build(pattern).ok()
}

fn build(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&as_go_reads(pattern)).size_limit(LARGEST).dfa_size_limit(LARGEST).build()
}

/// Why a pattern cannot be compiled, in Go's words; `None` where it can.
pub fn pattern_problem(pattern: &str) -> Option<String> {
    let error = build(pattern).err()?;
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let has = |words: &str| last.contains(words);
    let (what, part) = if matches!(error, regex::Error::CompiledTooBig(_)) {
        ("expression too large", pattern)
    } else if has("look-around") {
        let parts = ["(?=", "(?!", "(?<"].into_iter().filter_map(|part| Some((pattern.find(part)?, part)));
        ("invalid or unsupported Perl syntax", parts.min().map_or("(?", |(_, part)| part))
    } else if has("unclosed group") {
        ("missing closing )", pattern)
    } else if has("unopened group") {
        ("unexpected )", pattern)
    } else if has("unclosed character class") {
        ("missing closing ]", &pattern[pattern.rfind('[').unwrap_or(0)..])
    } else if has("repetition operator missing expression") {
        let at = pattern.find(['*', '+', '?']).unwrap_or(0);
        ("missing argument to repetition operator", pattern.get(at..=at).unwrap_or(pattern))
    } else if has("backreferences") || has("unrecognized escape") {
        let at = pattern.find('\\').unwrap_or(0);
        ("invalid escape sequence", pattern.get(at..at + 2).unwrap_or(pattern))
    } else {
        (last.trim_start_matches("error: "), pattern)
    };
    Some(format!("error parsing regexp: {what}: `{part}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_gos_syntax() {
        let matches = |pattern: &str, text: &str| compile(pattern).unwrap().is_match(text);
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "\u{661}"));
        assert!(matches(r"^a{$", "a{"));
    }

    #[test]
    fn what_is_no_pattern_is_said_in_words_of_go() {
        let problem = |pattern: &str| pattern_problem(pattern).unwrap();
        assert_eq!(problem("a(b"), "error parsing regexp: missing closing ): `a(b`");
        assert_eq!(problem("(?=a)"), "error parsing regexp: invalid or unsupported Perl syntax: `(?=`");
        assert!(problem("(((a{1,1000}){1,1000}){1,1000})").contains("too large"));
        assert_eq!(pattern_problem("^a$"), None);
    }
}
