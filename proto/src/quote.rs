//! How text that somebody else chose is shown in logs and messages: in quotes, on one line, and short.
//!
//! In: any text of a peer. Out: something to print. A name with a newline in it cannot look like a line of our own, and a name of a
//! megabyte costs no more than one of a hundred characters.

use std::fmt::{self, Write};

/// Characters that are shown; of what is longer, the number of bytes is said.
const SHOWN: usize = 100;

/// A peer's text as it may be printed.
#[derive(Clone, Copy)]
pub struct Quoted<'a>(&'a str);

/// `text` as it may be printed.
pub fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

/// The most of a peer's words that is kept.
const WORDS: usize = 2048;

/// A peer's words on one line and bounded, where they are a part of what is told: in errors, conditions, events.
pub fn one_line(text: &str) -> String {
    one_line_of(text, WORDS)
}

/// The same with at most so many characters.
pub fn one_line_of(text: &str, most: usize) -> String {
    // What changes the direction of writing makes a text say something else than it holds.
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    let plain = text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c });
    let mut characters = plain.peekable();
    let mut line: String = characters.by_ref().take(most).collect();
    if characters.peek().is_some() {
        line.push('…');
    }
    line
}

/// The longest reason that a site may tell of a Work, in bytes.
pub const REASON: usize = 256;
/// The longest message, in bytes.
pub const MESSAGE: usize = 16 * 1024;

/// A peer's text as it is kept: on one line and cut to `most` bytes at a character's edge.
pub fn bounded(text: &str, most: usize) -> String {
    let cut = &text[..text.floor_char_boundary(most)];
    one_line_of(cut, most)
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(SHOWN) {
            // As Rust writes it in a literal: control characters, quotes and what changes the direction of writing are escaped.
            write!(f, "{}", character.escape_debug())?;
        }
        f.write_char('"')?;
        if characters.next().is_some() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_within_others_stay_on_their_line_and_short() {
        assert_eq!(one_line("no\n2026-01-01 INFO all is well\u{202e}"), "no 2026-01-01 INFO all is well ");
        let long = one_line(&"ä".repeat(500_000));
        assert!(long.chars().count() == WORDS + 1 && long.ends_with('…'));
    }

    #[test]
    fn a_text_stays_on_its_line_and_short() {
        assert_eq!(quoted("north").to_string(), r#""north""#);
        assert_eq!(
            quoted("a\n2026-01-01 INFO\t\"all is well\"").to_string(),
            r#""a\n2026-01-01 INFO\t\"all is well\"""#
        );
        for hidden in ["\u{1b}[2J", "\u{202e}abc", "\u{0}", "\r", "\u{2028}"] {
            let shown = quoted(hidden).to_string();
            assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}' && c != '\u{2028}'), "{shown}");
        }
        let long = quoted(&"ä\n".repeat(500_000)).to_string();
        assert!(long.len() < 400 && long.ends_with("… (1500000 bytes)"), "{long}");
    }
}
