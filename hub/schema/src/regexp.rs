//! What is wrong with a pattern, in Go's words.
//!
//! In: the pattern, and what this hub's own engine says of it. Out: `error parsing regexp: …` with the reason and the part that Go would
//! name, as far as they can be told from the other engine's.

use karmada_cel::PatternError;

/// Why it is no pattern, as Go says it.
pub fn pattern_problem(pattern: &str, error: &PatternError) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let has = |words: &str| last.contains(words);
    let (what, part) = if *error == PatternError::TooLarge {
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
    format!("error parsing regexp: {what}: `{part}`")
}

#[cfg(test)]
mod tests {
    use karmada_cel::Compiling;

    use super::*;

    #[test]
    fn what_is_no_pattern_is_said_in_words_of_go() {
        let problem = |pattern: &str| {
            pattern_problem(pattern, &Compiling::default().pattern(pattern).expect_err("it is none"))
        };
        assert_eq!(problem("a(b"), "error parsing regexp: missing closing ): `a(b`");
        assert_eq!(problem("(?=a)"), "error parsing regexp: invalid or unsupported Perl syntax: `(?=`");
        assert!(problem("(((a{1,1000}){1,1000}){1,1000})").contains("too large"));
    }
}
