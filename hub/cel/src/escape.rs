//! Field names as identifiers: CEL has no `-`, `.` or `/` in names, and reserves words.
//!
//! In: a field's name, or an identifier. Out: the other of the two; none for a name that no identifier can stand for. Pure.

/// Words that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const PARTS: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// The identifier of a field; `None` where the name cannot be written as one, and so cannot be reached.
pub fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let first = name.bytes().next()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if first.is_ascii_digit() || !name.bytes().all(|b| plain(b) || matches!(b, b'.' | b'-' | b'/')) {
        return None;
    }
    if name.bytes().all(plain) && !name.contains("__") {
        return Some(name.to_owned());
    }
    let mut out = String::with_capacity(name.len() + 8);
    let mut rest = name;
    while !rest.is_empty() {
        match PARTS.iter().find(|(part, _)| rest.starts_with(part)) {
            Some((part, word)) => {
                out.push_str(word);
                rest = &rest[part.len()..];
            }
            None => {
                let next = rest.chars().next().map_or(1, char::len_utf8);
                out.push_str(&rest[..next]);
                rest = &rest[next..];
            }
        }
    }
    Some(out)
}

/// The field of an identifier.
pub fn unescape(identifier: &str) -> String {
    let word = identifier.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| RESERVED.contains(word)) {
        return word.to_owned();
    }
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(next) = rest.chars().next() {
        match PARTS.iter().find(|(_, word)| rest.starts_with(word)) {
            Some((part, word)) => {
                out.push_str(part);
                rest = &rest[word.len()..];
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}
