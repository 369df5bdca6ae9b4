//! Reading a label selector, token by token, with the words of `k8s.io/apimachinery/pkg/labels`.
//!
//! In: the selector's text. Out: its requirements in the order of the text, or kube-apiserver's whole sentence on what cannot be read. Keys
//! and values are checked here too. Pure.

use super::Requirement;
use crate::names::{label_key_problems, label_value_problems};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Open,
    Close,
    Comma,
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    In,
    NotIn,
    Identifier,
    End,
    Error,
}

type Token = (Kind, String);

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn symbol(text: &str) -> Option<Kind> {
    Some(match text {
        "(" => Kind::Open,
        ")" => Kind::Close,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "=" => Kind::Equal,
        "==" => Kind::DoubleEqual,
        "!=" => Kind::NotEqual,
        ">" => Kind::Greater,
        "<" => Kind::Less,
        _ => return None,
    })
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c.is_whitespace() {
            at += 1;
        } else if is_special(c) {
            // The longest run of special characters that is a symbol.
            let mut seen = String::new();
            let mut last = None;
            while at < chars.len() && is_special(chars[at]) {
                seen.push(chars[at]);
                match symbol(&seen) {
                    Some(kind) => last = Some((kind, seen.clone())),
                    None if last.is_some() => break,
                    None => {}
                }
                at += 1;
            }
            out.push(last.unwrap_or((Kind::Error, format!("error expected: keyword found '{seen}'"))));
        } else {
            let start = at;
            while at < chars.len() && !chars[at].is_whitespace() && !is_special(chars[at]) {
                at += 1;
            }
            let word: String = chars[start..at].iter().collect();
            let kind = match word.as_str() {
                "in" => Kind::In,
                "notin" => Kind::NotIn,
                _ => Kind::Identifier,
            };
            out.push((kind, word));
        }
    }
    out.push((Kind::End, String::new()));
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn raw(&self) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[self.at.min(last)].clone()
    }

    /// The next token where a value may stand: operators' names are values there.
    fn look(&self) -> Token {
        match self.raw() {
            (Kind::In | Kind::NotIn, text) => (Kind::Identifier, text),
            other => other,
        }
    }

    fn take(&mut self) -> Token {
        let token = self.look();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut kind, mut text) = self.take();
        let absent = kind == Kind::Not;
        if absent {
            (kind, text) = self.take();
        }
        if kind != Kind::Identifier {
            return Err(format!("found '{text}', expected: identifier"));
        }
        if let Some(problem) = label_key_problems(&text) {
            return Err(format!("<nil>: Invalid value: {text:?}: {problem}"));
        }
        if matches!(self.look().0, Kind::End | Kind::Comma) {
            return Ok(if absent { Requirement::Absent(text) } else { Requirement::Exists(text) });
        }
        if absent {
            return Ok(Requirement::Absent(text));
        }
        self.compared(text)
    }

    fn compared(&mut self, key: String) -> Result<Requirement, String> {
        let (operator, text) = self.raw();
        self.at += 1;
        let values = match operator {
            Kind::In | Kind::NotIn => self.values()?,
            Kind::Equal | Kind::DoubleEqual | Kind::NotEqual | Kind::Greater | Kind::Less => {
                vec![self.exact()?]
            }
            _ => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let whole = |values: &[String]| values[0].parse::<i64>();
        let mut problems = Vec::new();
        if matches!(operator, Kind::Greater | Kind::Less) && whole(&values).is_err() {
            let words = "for 'Gt', 'Lt' operators, the value must be an integer";
            problems.push(format!("values[0]: Invalid value: {:?}: {words}", values[0]));
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(problem) = label_value_problems(value) {
                problems.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {problem}"));
            }
        }
        match problems.len() {
            0 => {}
            1 => return Err(problems.remove(0)),
            _ => return Err(format!("[{}]", problems.join(", "))),
        }
        Ok(match operator {
            Kind::NotIn | Kind::NotEqual => Requirement::NotIn(key, values),
            Kind::Greater => Requirement::Greater(key, whole(&values).unwrap_or(0)),
            Kind::Less => Requirement::Less(key, whole(&values).unwrap_or(0)),
            _ => Requirement::In(key, values),
        })
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.look().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (Kind::Identifier, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let (kind, text) = self.take();
        if kind != Kind::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let (kind, text) = self.look();
        match kind {
            Kind::Identifier | Kind::Comma => {
                let values = self.identifiers()?;
                match self.take().0 {
                    Kind::Close => Ok(values),
                    _ => Err(format!("found '{text}', expected: ')'")),
                }
            }
            // No value at all is the empty one.
            Kind::Close => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// Sorted, each once.
    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut found = std::collections::BTreeSet::new();
        loop {
            match self.take() {
                (Kind::Identifier, text) => {
                    found.insert(text);
                    match self.look() {
                        (Kind::Comma, _) => {}
                        (Kind::Close, _) => return Ok(found.into_iter().collect()),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Kind::Comma, _) => {
                    if found.is_empty() {
                        found.insert(String::new());
                    }
                    match self.look().0 {
                        Kind::Close => {
                            found.insert(String::new());
                            return Ok(found.into_iter().collect());
                        }
                        Kind::Comma => {
                            self.at += 1;
                            found.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }
}

/// Reads a selector; the error is kube-apiserver's whole sentence.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.look() {
            (Kind::Identifier | Kind::Not, _) => {
                let requirement =
                    parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                requirements.push(requirement);
                match parser.take() {
                    (Kind::End, _) => return Ok(requirements),
                    (Kind::Comma, _) => {
                        let (kind, text) = parser.look();
                        if !matches!(kind, Kind::Identifier | Kind::Not) {
                            return Err(format!("found '{text}', expected: identifier after ','"));
                        }
                    }
                    (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                }
            }
            (Kind::End, _) => return Ok(requirements),
            (_, text) => return Err(format!("found '{text}', expected: !, identifier, or 'end of string'")),
        }
    }
}
