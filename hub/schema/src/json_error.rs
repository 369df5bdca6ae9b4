//! What is wrong with a text that is no JSON, in the words of Go's `encoding/json`.
//!
//! In: a body's bytes. Out: Go's sentence on the first mistake, or `None`. Looks at syntax alone, on the stack of one call however deep the
//! text nests; `serde_json` reads the value.

/// The deepest nesting that Go reads.
const DEEPEST: usize = 10_000;

/// The first thing wrong with the syntax; `None` where the text is JSON.
pub fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { bytes, at: 0 };
    if let Err(problem) = reader.document() {
        return Some(problem);
    }
    reader.spaces();
    reader.peek().map(|byte| unexpected(byte, "after top-level value"))
}

/// A character as Go quotes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        0x00..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{:04x}'", u32::from(byte)),
        other => format!("'{}'", char::from(other)),
    }
}

fn unexpected(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Brace,
    Bracket,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(ended)?;
        self.at += 1;
        Ok(byte)
    }

    /// One value with all it holds. What is open is on a list of its own: depth costs no stack.
    fn document(&mut self) -> Result<(), String> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.spaces();
            match self.next()? {
                b'{' => {
                    self.open(&mut open, Open::Brace)?;
                    self.spaces();
                    if self.peek() != Some(b'}') {
                        self.key()?;
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                }
                b'[' => {
                    self.open(&mut open, Open::Bracket)?;
                    self.spaces();
                    if self.peek() != Some(b']') {
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                first @ (b'-' | b'0'..=b'9') => self.number(first)?,
                other => return Err(unexpected(other, "looking for beginning of value")),
            }
            if self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    fn open(&self, open: &mut Vec<Open>, one: Open) -> Result<(), String> {
        open.push(one);
        if open.len() > DEEPEST {
            Err(format!(
                "invalid character '{}' exceeded max depth",
                if one == Open::Brace { '{' } else { '[' }
            ))
        } else {
            Ok(())
        }
    }

    /// What follows a value: the end of what holds it, any number of times, or the next one. Answers whether all is closed.
    fn close(&mut self, open: &mut Vec<Open>) -> Result<bool, String> {
        loop {
            let Some(one) = open.last().copied() else { return Ok(true) };
            self.spaces();
            match (self.next()?, one) {
                (b',', Open::Brace) => {
                    self.key()?;
                    return Ok(false);
                }
                (b',', Open::Bracket) => return Ok(false),
                (b'}', Open::Brace) | (b']', Open::Bracket) => {
                    open.pop();
                }
                (other, Open::Brace) => return Err(unexpected(other, "after object key:value pair")),
                (other, Open::Bracket) => return Err(unexpected(other, "after array element")),
            }
        }
    }

    fn key(&mut self) -> Result<(), String> {
        self.spaces();
        match self.next()? {
            b'"' => self.string()?,
            other => return Err(unexpected(other, "looking for beginning of object key string")),
        }
        self.spaces();
        match self.next()? {
            b':' => Ok(()),
            other => Err(unexpected(other, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next()?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(unexpected(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(unexpected(other, "in string escape code")),
                },
                other @ 0x00..=0x1f => return Err(unexpected(other, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let place = format!("in literal {word} (expecting {})", quoted(expected));
                return Err(unexpected(byte, &place));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let mut first = first;
        if first == b'-' {
            first = self.next()?;
            if !first.is_ascii_digit() {
                return Err(unexpected(first, "in numeric literal"));
            }
        }
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            let byte = self.next()?;
            if !byte.is_ascii_digit() {
                return Err(unexpected(byte, "after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let mut byte = self.next()?;
            if matches!(byte, b'+' | b'-') {
                byte = self.next()?;
            }
            if !byte.is_ascii_digit() {
                return Err(unexpected(byte, "in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_is_refused_in_gos_words() {
        for (text, wanted) in [
            ("{\"a\": [1, 2.5e3, true, null, \"x\\u00e4\"]}", None),
            ("", Some("unexpected end of JSON input")),
            ("{", Some("unexpected end of JSON input")),
            ("{a", Some("invalid character 'a' looking for beginning of object key string")),
            ("{\"a\"]", Some("invalid character ']' after object key")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("{} {}", Some("invalid character '{' after top-level value")),
            ("trie", Some("invalid character 'i' in literal true (expecting 'u')")),
            ("-a", Some("invalid character 'a' in numeric literal")),
            ("01", Some("invalid character '1' after top-level value")),
            ("\"\n", Some("invalid character '\\n' in string literal")),
        ] {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), wanted, "{text}");
        }
        let deep = "[".repeat(20_000);
        assert_eq!(
            syntax_error(deep.as_bytes()).as_deref(),
            Some("invalid character '[' exceeded max depth")
        );
    }
}
