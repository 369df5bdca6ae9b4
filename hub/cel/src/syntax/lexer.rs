//! The words of an expression.
//!
//! In: a source. Out: its tokens with their places; `None` where a text does not end or a character means nothing.

use crate::types::Type;

/// A word and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub at: usize,
    pub word: Word,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Ident(String),
    /// A number; its type.
    Number(Type),
    /// A text or bytes, unescaped.
    Text(String),
    Bytes,
    Sign(&'static str),
}

const SIGNS: [&str; 27] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "-", "+", "*", "/", "%", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=", "|", "&",
];

pub(super) fn tokens(source: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let first = rest.chars().next()?;
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (word, length) = word(rest, first)?;
        all.push(Token { at, word });
        at += length;
    }
    Some(all)
}

fn word(rest: &str, first: char) -> Option<(Word, usize)> {
    if let Some(text) = text(rest) {
        return text;
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        return Some((Word::Ident(rest[..end].to_owned()), end));
    }
    let point = rest.strip_prefix('.').is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    if first.is_ascii_digit() || point {
        return Some(number(rest));
    }
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
    Some((Word::Sign(sign), sign.len()))
}

fn number(rest: &str) -> (Word, usize) {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let hex = rest.starts_with("0x") || rest.starts_with("0X");
    let mut end = if hex {
        2 + bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count()
    } else {
        digits(0)
    };
    let mut ty = Type::Int;
    if !hex && bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
        ty = Type::Double;
    }
    if !hex && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
            ty = Type::Double;
        }
    }
    if ty == Type::Int && matches!(bytes.get(end), Some(b'u' | b'U')) {
        return (Word::Number(Type::Uint), end + 1);
    }
    (Word::Number(ty), end)
}

/// A text with its prefixes; `None` where none begins here, `Some(None)` where one does not end.
fn text(rest: &str) -> Option<Option<(Word, usize)>> {
    // A prefix has two letters at most: to look further for each word would be a look at all that follows it.
    let start = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let prefix = rest[..start].to_ascii_lowercase();
    if !matches!(prefix.as_str(), "" | "r" | "b" | "br") {
        return None;
    }
    let (raw, is_bytes) = (prefix.contains('r'), prefix.contains('b'));
    let body = &rest[start..];
    let quote = [r#"""""#, "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
    let inner = &body[quote.len()..];
    let mut at = 0;
    loop {
        let Some(here) = inner.get(at..).filter(|here| !here.is_empty()) else { return Some(None) };
        if here.starts_with(quote) {
            break;
        }
        if quote.len() == 1 && here.starts_with(['\n', '\r']) {
            return Some(None);
        }
        at += match here.strip_prefix('\\').filter(|_| !raw) {
            Some(escape) => match escape_length(escape) {
                Some(length) => 1 + length,
                None => return Some(None),
            },
            None => here.chars().next().map_or(1, char::len_utf8),
        };
    }
    let content = &inner[..at];
    let length = start + at + 2 * quote.len();
    if is_bytes {
        return Some(Some((Word::Bytes, length)));
    }
    let content = if raw { content.to_owned() } else { unescaped(content) };
    Some(Some((Word::Text(content), length)))
}

/// How long an escape is behind its backslash; `None` where it is none.
fn escape_length(text: &str) -> Option<usize> {
    let digits = |count: usize, radix: u32| {
        let digits = text.get(1..=count)?;
        digits.chars().all(|digit| digit.is_digit(radix)).then_some(1 + count)
    };
    match text.chars().next()? {
        'x' | 'X' => digits(2, 16),
        'u' => digits(4, 16),
        'U' => digits(8, 16),
        '0'..='3' => digits(2, 8),
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(1),
        _ => None,
    }
}

/// The text that escapes stand for; what is no escape stays.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let Some(kind) = after.chars().next() else { break };
        let coded = match kind {
            'x' | 'X' => Some((1, 2, 16)),
            'u' => Some((1, 4, 16)),
            'U' => Some((1, 8, 16)),
            '0'..='3' => Some((0, 3, 8)),
            _ => None,
        };
        let read = coded.and_then(|(skip, count, radix)| {
            let digits = after.get(skip..skip + count)?;
            let code = u32::from_str_radix(digits, radix).ok()?;
            Some((char::from_u32(code)?, skip + count))
        });
        let (shown, used) = read.unwrap_or_else(|| {
            let shown = match kind {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'v' => '\u{b}',
                other => other,
            };
            (shown, kind.len_utf8())
        });
        out.push(shown);
        rest = &after[used..];
    }
    out.push_str(rest);
    out
}
