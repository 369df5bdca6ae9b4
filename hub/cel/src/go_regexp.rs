//! Go's syntax of regular expressions (RE2), told to a library with another.
//!
//! In: a pattern as Go reads it. Out: one that the `regex` crate reads as the same. Go counts only ASCII as `\d`, `\w`, `\s` and for `\b`,
//! while `.`, letters and `\p` are Unicode in both; it gives `[`, `&&` and a lone `{` no meaning of their own, and knows `\Q`, octal
//! numbers and `\p{^…}`.

/// The pattern as the `regex` crate has to be told it.
pub fn as_go_reads(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    // Inside a class: where its first element stands.
    let mut class: Option<usize> = None;
    let mut at = 0;
    while at < chars.len() {
        match (chars[at], class) {
            ('\\', None) if chars.get(at + 1) == Some(&'Q') => at = quoted(&chars, at + 2, &mut out),
            ('\\', _) => {
                at += 1;
                at = escaped(&chars, at, class.is_some(), &mut out);
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
            ('{', None) => match repetitions(&chars[at..]) {
                Some(length) => {
                    out.extend(&chars[at..at + length]);
                    at += length - 1;
                }
                None => out.push_str("\\{"),
            },
            ('}', None) => out.push_str("\\}"),
            (c, _) => out.push(c),
        }
        at += 1;
    }
    out
}

/// What stands between `\Q` and `\E` (or the end) is text. Answers where it ends.
fn quoted(chars: &[char], from: usize, out: &mut String) -> usize {
    let rest = chars.get(from..).unwrap_or_default();
    let length = rest.windows(2).position(|pair| pair == ['\\', 'E']);
    let text: String = rest[..length.unwrap_or(rest.len())].iter().collect();
    out.push_str(&regex::escape(&text));
    length.map_or(chars.len(), |length| from + length + 1)
}

/// What follows a backslash, which stands at `at`. Answers where it ends.
fn escaped(chars: &[char], at: usize, in_class: bool, out: &mut String) -> usize {
    let rest = chars.get(at..).unwrap_or_default();
    let rewritten = match (rest.first(), in_class) {
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
        (Some('B'), false) => r"(?-u:\B)",
        // Places in words to the library, letters to Go.
        (Some('<'), _) => "<",
        (Some('>'), _) => ">",
        (Some('0'..='7'), _) => return octal(rest, at, out),
        (Some('p' | 'P' | 'x'), _) if rest.get(1) == Some(&'{') => return named(rest, at, out),
        (Some(other), _) => {
            out.extend(['\\', *other]);
            return at;
        }
        (None, _) => "\\",
    };
    out.push_str(rewritten);
    at
}

/// `\0` with up to two digits more, or a first digit and at least one more: a letter by its number. One digit alone would refer to a
/// group, which neither knows.
fn octal(rest: &[char], at: usize, out: &mut String) -> usize {
    let digits: Vec<u32> = rest.iter().take(3).map_while(|digit| digit.to_digit(8)).collect();
    if digits.len() == 1 && digits[0] != 0 {
        out.extend(['\\', rest[0]]);
        return at;
    }
    let number = digits.iter().fold(0, |number, digit| number * 8 + digit);
    out.push_str(&format!(r"\x{{{number:x}}}"));
    at + digits.len() - 1
}

/// `\p{Greek}`, `\p{^Greek}`, `\x{10ffff}`.
fn named(rest: &[char], at: usize, out: &mut String) -> usize {
    let is_negated = rest.get(2) == Some(&'^');
    let from = if is_negated { 3 } else { 2 };
    let name: String = rest[from..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
    let letter = match rest[0] {
        'p' if is_negated => 'P',
        'P' if is_negated => 'p',
        other => other,
    };
    let end = from + name.len();
    if rest.get(end) != Some(&'}') || (is_negated && letter == 'x') {
        out.extend(['\\', rest[0]]);
        return at;
    }
    out.push_str(&format!("\\{letter}{{{name}}}"));
    at + end
}

/// The length of `[:alpha:]` here.
fn posix_class(rest: &[char]) -> Option<usize> {
    if rest.get(1) != Some(&':') {
        return None;
    }
    let name = rest[2..].iter().take_while(|c| c.is_ascii_alphabetic() || **c == '^').count();
    (rest.get(name + 2..name + 4) == Some(&[':', ']'])).then_some(name + 4)
}

/// The length of `{2,3}` here.
fn repetitions(rest: &[char]) -> Option<usize> {
    let length = rest[1..].iter().take_while(|c| c.is_ascii_digit() || **c == ',').count();
    let inside = &rest[1..=length];
    let fits = inside.first().is_some_and(char::is_ascii_digit)
        && inside.iter().filter(|c| **c == ',').count() <= 1
        && rest.get(length + 1) == Some(&'}');
    fits.then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go's regexp/syntax documents it.
    const TABLE: [(&str, &str, bool); 62] = [
        (r"^\d+$", "12", true),
        (r"^\d+$", "\u{661}", false),
        (r"^\D$", "\u{661}", true),
        (r"^[\d]$", "\u{661}", false),
        (r"^[^\d]$", "\u{661}", true),
        (r"^[\D]$", "\u{661}", true),
        (r"^[^\D]$", "\u{661}", false),
        (r"^\w+$", "aZ_9", true),
        (r"^\w+$", "é", false),
        (r"^\W$", "é", true),
        (r"^[\w-]+$", "a-b_c", true),
        (r"^[\w-]+$", "ü", false),
        (r"^[^\w]$", "ü", true),
        (r"^[\W]$", "ü", true),
        (r"^\s$", "\t", true),
        (r"^\s$", "\u{b}", false),
        (r"^\s$", "\u{a0}", false),
        (r"^\s$", "\u{2003}", false),
        (r"^\S$", "\u{2003}", true),
        (r"^[\s]$", "\u{85}", false),
        (r"^[\S]$", "\u{85}", true),
        (r"é\b", "éa", true),
        (r"\bé", "é", false),
        (r"a\bé", "aé", true),
        (r"a\Bé", "aé", false),
        (r"é\Bé", "éé", true),
        (r"^\Bé$", "é", true),
        (r"^\B$", "", true),
        (r"\bfoo\b", "a foo.", true),
        (r"(?i)^\w$", "\u{17f}", true),
        (r"(?i)^\W$", "\u{17f}", false),
        (r"(?i)^é$", "É", true),
        (r"(?i)^k$", "\u{212a}", true),
        (r"^.$", "é", true),
        (r"^.$", "\n", false),
        (r"(?s)^.$", "\n", true),
        (r"^é+$", "éé", true),
        (r"^[à-ü]$", "é", true),
        (r"^\pL$", "é", true),
        (r"^\pN$", "\u{661}", true),
        (r"^\PL$", "é", false),
        (r"^\p{Greek}$", "β", true),
        (r"^\p{^Greek}$", "β", false),
        (r"^\P{^Greek}$", "β", true),
        (r"^[\pL\d]+$", "é1", true),
        (r"^[\pL\d]+$", "\u{661}", false),
        (r"^[[:alpha:]]$", "é", false),
        (r"^[[:word:]]+$", "a_1", true),
        (r"^[[:^digit:]]$", "\u{661}", true),
        (r"^[a[b]+$", "a[b", true),
        (r"^[]a]+$", "]a", true),
        (r"^[^]a]+$", "]", false),
        (r"^[a&&b]+$", "&", true),
        (r"^a{$", "a{", true),
        (r"^{a}$", "{a}", true),
        (r"^a{2,3}$", "aaa", true),
        (r"^a{,2}$", "a{,2}", true),
        (r"^\x{e9}\xe9$", "éé", true),
        (r"^\0\101$", "\u{0}A", true),
        (r"^\Qa.b\E+$", "a.bb", true),
        (r"^\Qa.b", "a.b", true),
        (r"^\<\>$", "<>", true),
    ];

    #[test]
    fn patterns_match_what_go_matches() {
        for (pattern, text, wanted) in TABLE {
            let read = as_go_reads(pattern);
            let regex = regex::Regex::new(&read).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), wanted, "{pattern} as {read} on {text:?}");
        }
    }

    #[test]
    fn long_patterns_are_read_in_one_walk() {
        for part in ["{", "a}", "[[:", "\\p{", "\\Q", "{1", "\\x{a"] {
            let pattern = part.repeat(200_000);
            let began = std::time::Instant::now();
            as_go_reads(&pattern);
            assert!(began.elapsed() < std::time::Duration::from_secs(20), "{part}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in [r"\1", r"\8", r"(?=a)", r"a(b", r"\", r"[\b]", r"\Z", "[a", r"\p{Greek", r"\x{^41}"] {
            assert!(regex::Regex::new(&as_go_reads(pattern)).is_err(), "{pattern}");
        }
    }
}
