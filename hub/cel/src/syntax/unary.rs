//! Signs that undo each other (`!!x`, `--x`), taken out before the interpreter's own parser reads a source.
//!
//! In: a source. Out: the same with spaces in their place, so that everything else stands where it stood. That parser takes an even number of signs for
//! one (cel-go for none), and looks at what stands behind them twice, so that a hundred letters of nested signs kept it busy for years.

use std::borrow::Cow;

use super::lexer::{self, Token, Word};

/// Signs of a source that is no expression, beyond which only that is said of it.
const MOST_SIGNS: usize = 16;

/// Whether an operand ends with this word, so that a minus behind it is one between two operands.
fn ends_operand(word: &Word) -> bool {
    match word {
        Word::Ident(name) => name != "in",
        Word::Number(_) | Word::Text(_) | Word::Bytes => true,
        Word::Sign(sign) => matches!(*sign, ")" | "]" | "}"),
    }
}

/// The sign that a token is, where it may stand before an operand.
fn sign_of(token: &Token) -> Option<&'static str> {
    match token.word {
        Word::Sign(sign @ ("!" | "-")) => Some(sign),
        _ => None,
    }
}

/// Places of the signs that undo each other.
fn undone(tokens: &[Token]) -> Vec<usize> {
    let (mut places, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let Some(sign) = sign_of(&tokens[at]) else {
            at += 1;
            continue;
        };
        let is_between = sign == "-" && at > 0 && ends_operand(&tokens[at - 1].word);
        let from = at + usize::from(is_between);
        let length = tokens[from..].iter().take_while(|token| sign_of(token) == Some(sign)).count();
        places.extend(tokens[from..from + length / 2 * 2].iter().map(|token| token.at));
        at = from + length;
    }
    places
}

/// A source without signs that undo each other. One whose words cannot be told stays as it is.
pub(crate) fn without_undone_signs(source: &str) -> Cow<'_, str> {
    let places = lexer::tokens(source).map(|tokens| undone(&tokens)).unwrap_or_default();
    if places.is_empty() {
        return Cow::Borrowed(source);
    }
    let mut text = source.to_owned();
    places.into_iter().for_each(|at| text.replace_range(at..=at, " "));
    Cow::Owned(text)
}

/// Whether a source that is no expression has so few signs that the interpreter's parser may say what is wrong with it: what it makes of such a source while
/// it looks for the next word that fits nobody can tell before.
pub(crate) fn has_few_signs(source: &str) -> bool {
    source.bytes().filter(|byte| matches!(byte, b'!' | b'-')).count() <= MOST_SIGNS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_undo_each_other_go_and_everything_else_stays_where_it_is() {
        for (source, wanted) in [
            ("!!x", "  x"),
            ("!!!x", "  !x"),
            ("! ! x", "    x"),
            ("--1", "  1"),
            ("1 --1", "1 --1"),
            ("1 - - -1", "1 -    1"),
            ("a[0]--b", "a[0]--b"),
            ("a in --b", "a in   b"),
            ("f(--x, !!y) - 1", "f(  x,   y) - 1"),
            ("a != b && !c", "a != b && !c"),
            ("'!!' + \"--\"", "'!!' + \"--\""),
            ("-(--(-1))", "-(  (-1))"),
            ("!-!-1", "!-!-1"),
        ] {
            assert_eq!(without_undone_signs(source), wanted, "{source}");
        }
    }
}
