//! What names, labels, keys and ports may look like.
//!
//! In: a text or a number. Out: sentences that say what is wrong with it, in kube-apiserver's words; no sentence where nothing is. Pure.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SEARCH: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";

/// Whether `text` is one or more bytes of `inner`, with `ends` first and last. The shapes above are all made of this.
fn is_word(text: &str, ends: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            ends(*first) && ends(*last) && bytes.iter().all(|b| ends(*b) || inner(*b))
        }
        _ => false,
    }
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    is_word(text, is_lower, |b| b == b'-')
}

fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_search(text: &str) -> bool {
    let part =
        |text: &str| is_word(text.strip_prefix('_').unwrap_or(text), is_lower, |b| matches!(b, b'-' | b'_'));
    text.split('.').all(part)
}

fn is_qualified(text: &str) -> bool {
    is_word(text, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

fn explain(text: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    // Two spaces before "or": that is how it is written.
    format!("{text} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

/// The same in kube-apiserver's newer words.
fn too_many_bytes(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

/// A DNS label (RFC 1123).
pub fn dns_label(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(text, 63).into_iter().collect();
    if !is_label(text) {
        if is_subdomain(text) {
            out.push("must not contain dots".to_owned());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                         start and end with an alphanumeric character";
            out.push(explain(words, LABEL, &["my-name", "123-abc"]));
        }
    }
    out
}

/// A DNS subdomain (RFC 1123).
pub fn dns_subdomain(text: &str) -> Vec<String> {
    too_long(text, 253).into_iter().chain(not_a_subdomain(text)).collect()
}

/// The same in kube-apiserver's newer words.
pub fn long_name(text: &str) -> Vec<String> {
    too_many_bytes(text, 253).into_iter().chain(not_a_subdomain(text)).collect()
}

fn not_a_subdomain(text: &str) -> Option<String> {
    let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                 start and end with an alphanumeric character";
    (!is_subdomain(text)).then(|| explain(words, SUBDOMAIN, &["example.com"]))
}

/// A domain in which names are looked for: parts may begin with an underscore.
pub fn dns_search(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(text, 253).into_iter().collect();
    if !is_search(text) {
        let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                     and must start and end with an alphanumeric character";
        out.push(explain(words, SEARCH, &["example.com"]));
    }
    out
}

/// A wildcard host name.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let rest = text.strip_prefix("*.");
    if rest.is_some_and(is_subdomain) {
        return too_long(text, 253).into_iter().collect();
    }
    let words = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                 consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    vec![explain(words, &format!("\\*\\.{SUBDOMAIN}"), &["*.example.com"])]
}

/// A DNS label that starts with a letter (RFC 1035).
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(text, 63).into_iter().collect();
    if !is_label_1035(text) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character";
        out.push(explain(words, LABEL_1035, &["my-name", "abc-123"]));
    }
    out
}

/// A segment of a URL path.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|one| text.contains(**one))
        .map(|one| format!("may not contain '{one}'"))
        .collect()
}

/// Whether `text` may be the key of a label or annotation.
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let prefixed = prefix.is_none_or(|prefix| prefix.len() <= 253 && is_subdomain(prefix));
    prefixed && name.len() <= 63 && is_qualified(name)
}

/// The key of a label or annotation, or a finalizer.
pub fn qualified_name(text: &str) -> Vec<String> {
    if is_qualified_name(text) {
        return Vec::new();
    }
    const WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut out = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                let shape = not_a_subdomain(prefix);
                let problems = too_many_bytes(prefix, 253).into_iter().chain(shape);
                out.extend(problems.map(|message| format!("prefix part {message}")));
            }
            name
        }
        _ => {
            let words = explain(WORDS, QUALIFIED, &EXAMPLES);
            return vec![format!(
                "a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if let Some(message) = too_many_bytes(name, 63) {
        out.push(format!("name part {message}"));
    }
    if !is_qualified(name) {
        out.push(format!("name part {}", explain(WORDS, QUALIFIED, &EXAMPLES)));
    }
    out
}

/// Whether `text` may be a label's value.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= 63 && is_qualified(text))
}

/// A label's value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_many_bytes(text, 63).into_iter().collect();
    if !text.is_empty() && !is_qualified(text) {
        let words = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character";
        out.push(explain(words, &format!("({QUALIFIED})?"), &["MyValue", "my_value", "12345"]));
    }
    out
}

fn is_config_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

/// The key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(text, 253).into_iter().collect();
    if !is_config_key(text) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        out.push(explain(words, CONFIG_KEY, &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." | ".." => out.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
    out
}

/// The name of an environment variable.
pub fn env_name(text: &str) -> Vec<String> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The name of an HTTP header.
pub fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![explain(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A port's number.
pub fn port_number(number: i64) -> Vec<String> {
    if (1..=65535).contains(&number) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// A port's name.
pub fn port_name(text: &str) -> Vec<String> {
    let mut out: Vec<String> = too_long(text, 15).into_iter().collect();
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || !text.bytes().all(known) {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

fn is_percent(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// A percentage.
pub fn percent(text: &str) -> Vec<String> {
    if is_percent(text) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![explain(words, "[0-9]+%", &["1%", "93%"])]
}

/// What is wrong with the key of a label; several sentences as one.
pub fn label_key_problems(key: &str) -> Option<String> {
    Some(qualified_name(key)).filter(|all| !all.is_empty()).map(|all| all.join("; "))
}

/// What is wrong with the value of a label.
pub fn label_value_problems(value: &str) -> Option<String> {
    Some(label_value(value)).filter(|all| !all.is_empty()).map(|all| all.join("; "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    type Rule = fn(&str) -> bool;

    /// What is told to users is the rule.
    #[test]
    fn a_name_is_taken_where_the_expression_that_is_told_takes_it() {
        let rules: [(&str, Rule); 7] = [
            (LABEL, is_label),
            (SUBDOMAIN, is_subdomain),
            (SEARCH, is_search),
            (LABEL_1035, is_label_1035),
            (QUALIFIED, is_qualified),
            (CONFIG_KEY, is_config_key),
            ("[0-9]+%", is_percent),
        ];
        for (pattern, rule) in rules {
            let told = Regex::new(&format!("^(?:{pattern})$")).unwrap();
            proptest!(ProptestConfig::with_cases(2000), |(text in "[-aZ0_.%]{0,7}|é?[a-z]{0,3}\n?")| {
                prop_assert_eq!(rule(&text), told.is_match(&text), "{:?} by {}", text, pattern);
            });
        }
    }
}
