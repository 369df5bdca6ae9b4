//! Patterns of schemas: Go's RE2 syntax, compiled with a size limit so that no pattern can exhaust memory.
//!
//! Go counts only ASCII as digits, letters and space, and gives `[`, `&&` and a lone `{` no meaning of their own; the patterns
//! are rewritten accordingly before they are compiled.

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

/// The pattern in the syntax of the library below.
fn as_go_reads(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    // Inside a class: where its first element stands.
    let mut class: Option<usize> = None;
    let mut at = 0;
    while at < chars.len() {
        match (chars[at], class) {
            ('\\', _) => {
                at += 1;
                escaped(chars.get(at).copied(), class.is_some(), &mut out);
            }
            ('[', None) => {
                out.push('[');
                if chars.get(at + 1) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                class = Some(at + 1);
            }
            ('[', Some(_)) => match posix_class(&chars[at..]) {
                Some(length) => {
                    out.extend(&chars[at..at + length]);
                    at += length - 1;
                }
                None => out.push_str("\\["),
            },
            (']', Some(first)) if first == at => out.push_str("\\]"),
            (']', Some(_)) => {
                class = None;
                out.push(']');
            }
            (c @ ('&' | '~'), Some(_)) => out.extend(['\\', c]),
            ('{', None) if named(&out) => out.push('{'),
            ('{', None) => match repetitions(&chars[at..]) {
                Some(length) => {
                    out.extend(&chars[at..at + length]);
                    at += length - 1;
                }
                None => out.push_str("\\{"),
            },
            ('}', None) if !out.ends_with(|c: char| c.is_alphanumeric()) || !in_braces(&out) => {
                out.push_str("\\}");
            }
            (c, _) => out.push(c),
        }
        at += 1;
    }
    out
}

fn escaped(c: Option<char>, in_class: bool, out: &mut String) {
    let rewritten = match (c, in_class) {
        (Some('d'), false) => "[0-9]",
        (Some('d'), true) => "0-9",
        (Some('D'), _) => "[^0-9]",
        (Some('w'), false) => "[0-9A-Za-z_]",
        (Some('w'), true) => "0-9A-Za-z_",
        (Some('W'), _) => "[^0-9A-Za-z_]",
        (Some('s'), false) => r"[\t\n\f\r ]",
        (Some('s'), true) => r"\t\n\f\r ",
        (Some('S'), _) => r"[^\t\n\f\r ]",
        (Some('b'), false) => r"(?-u:\b)",
        (Some(other), _) => {
            out.extend(['\\', other]);
            return;
        }
        (None, _) => "\\",
    };
    out.push_str(rewritten);
}

/// The length of `[:alpha:]` here.
fn posix_class(rest: &[char]) -> Option<usize> {
    if rest.get(1) != Some(&':') {
        return None;
    }
    let end = rest.windows(2).skip(2).position(|pair| pair == [':', ']'])?;
    Some(end + 4)
}

/// The length of `{2,3}` here.
fn repetitions(rest: &[char]) -> Option<usize> {
    let end = rest.iter().position(|c| *c == '}')?;
    let inside = &rest[1..end];
    let fits = inside.first().is_some_and(char::is_ascii_digit)
        && inside.iter().all(|c| c.is_ascii_digit() || *c == ',')
        && inside.iter().filter(|c| **c == ',').count() <= 1;
    fits.then_some(end + 1)
}

/// Whether what was just written is named in braces: `\p`, `\P`, `\x`.
fn named(out: &str) -> bool {
    [r"\p", r"\P", r"\x"].iter().any(|escape| out.ends_with(escape))
}

/// Whether a brace of `\p{Greek}` or `\x{10ffff}` is open.
fn in_braces(out: &str) -> bool {
    match (out.rfind('{'), out.rfind('}')) {
        (Some(open), close) => close.is_none_or(|close| close < open) && !out[..open].ends_with('\\'),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_go_matches() {
        for (pattern, text, wanted) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{661}", false),
            (r"^[\w-]+$", "a-b_c", true),
            (r"^[a[b]+$", "a[b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "]", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^a{$", "a{", true),
            (r"^{a}$", "{a}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "a.b-c", true),
        ] {
            let regex =
                compile(pattern).unwrap_or_else(|| panic!("{pattern}: {:?}", pattern_problem(pattern)));
            assert_eq!(regex.is_match(text), wanted, "{pattern} on {text}");
        }
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
