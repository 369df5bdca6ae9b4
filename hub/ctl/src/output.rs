//! What a person or a pipe reads. In: text. Out: stdout, and progress on stderr where somebody looks at it.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use karmada_schema::yaml;
use serde_json::Value;

/// Text without what a terminal would carry out: a site or a tenant may have put it into a name, a version or a message. Signs of control are
/// shown as kubectl shows them (`^[`), but for ends of lines and tabs.
pub fn plain(text: &str) -> Cow<'_, str> {
    let moves = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(moves) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match u8::try_from(c) {
            Ok(sign) if moves(c) && sign < 0x80 => out.extend(['^', char::from(sign ^ 0x40)]),
            _ if moves(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The most characters of a server's words that are shown.
const WORDS: usize = 2048;

/// A server's words as they are told within ours: on one line, and short.
pub fn words(text: &str) -> String {
    // What changes the direction of writing makes a text say something else than it holds.
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    let parts = |c: char| if c.is_whitespace() || turns(c) { ' ' } else { c };
    let mut rest = text.trim().chars().map(parts);
    let mut line: String = rest.by_ref().take(WORDS).collect();
    if rest.next().is_some() {
        line.push('…');
    }
    line
}

/// Writes to stdout; a reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let text = plain(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to stdout"),
        _ => Ok(()),
    }
}

/// Writes a line to stdout.
pub fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Objects as YAML, as `kubectl apply -f` reads them.
pub fn yaml(objects: &[Value]) -> Result<String> {
    let texts: Result<Vec<String>> = objects
        .iter()
        .map(|object| {
            let text = yaml::write(object).context("writing YAML")?;
            Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
        })
        .collect();
    Ok(texts?.join("---\n"))
}

/// What is being waited for, a line for each change; silent where stderr is no terminal.
pub struct Progress {
    shown: bool,
    last: String,
}

impl Progress {
    /// Shown on a terminal only.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// The present step.
    pub fn step(&mut self, text: &str) {
        if self.shown && self.last != text {
            eprintln!("… {}", plain(text));
            text.clone_into(&mut self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{WORDS, plain, words};

    #[test]
    fn a_servers_words_are_a_short_line() {
        assert_eq!(words("no\nerror: all\tis well\r\n"), "no error: all is well");
        assert_eq!(words("a\u{202e}b\u{2028}c"), "a b c");
        let book = words(&"ä".repeat(100_000));
        assert!(book.chars().count() == WORDS + 1 && book.ends_with('…'));
    }

    #[test]
    fn what_others_wrote_gives_no_orders_to_a_terminal() {
        assert_eq!(plain("NAME   READY\na\tb\n"), "NAME   READY\na\tb\n");
        assert_eq!(plain("\u{1b}]0;owned\u{7}\u{1b}[2Jready\r"), "^[]0;owned^G^[[2Jready^M");
        assert_eq!(plain("\u{7f}\u{9b}2J"), "^?\\u{9b}2J");
    }
}
