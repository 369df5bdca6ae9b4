//! Reading tokens into a tree, by CEL's grammar.
//!
//! In: tokens. Out: the tree, macros expanded. How deep brackets may stand in each other is bounded, so that no source exhausts
//! the stack.

use super::lexer::{Token, Word};
use super::{Kind, Node, macros};
use crate::types::Type;

/// The deepest nesting that is read.
const DEPTH: usize = 250;

struct Reader {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    end: usize,
}

pub(super) fn expression(source: &str, tokens: Vec<Token>) -> Option<Node> {
    let mut reader = Reader { tokens, next: 0, depth: 0, end: source.len() };
    let node = reader.conditional()?;
    (reader.next == reader.tokens.len()).then_some(node)
}

const RELATIONS: [(&str, &str); 6] =
    [("<", "_<_"), ("<=", "_<=_"), (">", "_>_"), (">=", "_>=_"), ("==", "_==_"), ("!=", "_!=_")];

impl Reader {
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    fn sees(&self, sign: &str) -> bool {
        self.sees_after(0, sign)
    }

    fn sees_after(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.tokens.get(self.next + ahead), Some(Token { word: Word::Sign(found), .. }) if *found == sign)
    }

    /// The place of the sign, where it comes next; it is then read.
    fn takes(&mut self, sign: &str) -> Option<usize> {
        let at = self.at();
        self.sees(sign).then(|| {
            self.next += 1;
            at
        })
    }

    /// A word that is a name.
    fn name(&mut self) -> Option<String> {
        match self.tokens.get(self.next)? {
            Token { word: Word::Ident(name), .. } => {
                let name = name.clone();
                self.next += 1;
                Some(name)
            }
            _ => None,
        }
    }

    fn conditional(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let condition = self.logic("||")?;
        let node = match self.takes("?") {
            None => condition,
            Some(at) => {
                let yes = self.logic("||")?;
                self.takes(":")?;
                let no = self.conditional()?;
                Node::call(at, "_?_:_", vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Some(node)
    }

    fn logic(&mut self, sign: &'static str) -> Option<Node> {
        let part = |reader: &mut Reader| match sign {
            "||" => reader.logic("&&"),
            _ => reader.relation(),
        };
        let first = part(self)?;
        let Some(at) = self.takes(sign) else { return Some(first) };
        let mut parts = vec![first, part(self)?];
        while self.takes(sign).is_some() {
            parts.push(part(self)?);
        }
        Some(Node::new(at, Kind::Logic(parts)))
    }

    fn relation(&mut self) -> Option<Node> {
        let mut left = self.sum()?;
        loop {
            let at = self.at();
            let name = match &self.tokens.get(self.next).map(|token| &token.word) {
                Some(Word::Ident(word)) if word == "in" => "@in",
                Some(Word::Sign(sign)) => match RELATIONS.iter().find(|(known, _)| known == sign) {
                    Some((_, name)) => name,
                    None => return Some(left),
                },
                _ => return Some(left),
            };
            self.next += 1;
            left = Node::call(at, name, vec![left, self.sum()?]);
        }
    }

    fn sum(&mut self) -> Option<Node> {
        let mut left = self.product()?;
        loop {
            let at = self.at();
            let name = if self.sees("+") {
                "_+_"
            } else if self.sees("-") {
                "_-_"
            } else {
                return Some(left);
            };
            self.next += 1;
            left = Node::call(at, name, vec![left, self.product()?]);
        }
    }

    fn product(&mut self) -> Option<Node> {
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            let signs = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];
            let Some((_, name)) = signs.into_iter().find(|(sign, _)| self.sees(sign)) else {
                return Some(left);
            };
            self.next += 1;
            left = Node::call(at, name, vec![left, self.unary()?]);
        }
    }

    fn unary(&mut self) -> Option<Node> {
        let at = self.at();
        let number = matches!(self.tokens.get(self.next + 1), Some(Token { word: Word::Number(_), .. }));
        if self.sees("-") && number {
            // A sign before a number is the number's own.
            self.next += 1;
            let mut node = self.member()?;
            let mut first = &mut node;
            loop {
                match &mut first.kind {
                    Kind::Select { operand, .. } => first = operand,
                    Kind::Call { target: Some(target), .. } => first = target,
                    _ => break,
                }
            }
            first.at = at;
            return Some(node);
        }
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.takes(sign).is_some() {
                count += 1;
            }
            if count > 0 {
                let node = self.member()?;
                // Two of a kind undo each other.
                return Some(if count % 2 == 0 { node } else { Node::call(at, name, vec![node]) });
            }
        }
        self.member()
    }

    fn member(&mut self) -> Option<Node> {
        let mut node = self.primary()?;
        loop {
            let dot = self.at();
            if self.takes(".").is_some() {
                let optional = self.takes("?").is_some();
                let named = self.at();
                let field = self.name()?;
                let open = self.at();
                node = if optional {
                    let text = Node::new(named, Kind::Text(field));
                    Node::call(dot, "_?._", vec![node, text])
                } else if self.takes("(").is_some() {
                    let args = self.listed(")")?;
                    macros::member(open, node, &field, args)?
                } else if self.sees("{") && named_chain(&node).is_some() {
                    let chain = named_chain(&node)?;
                    self.message(&format!("{chain}.{field}"))?
                } else {
                    Node::new(dot, Kind::Select { operand: Box::new(node), field, test: false })
                };
            } else if let Some(open) = self.takes("[") {
                let name = if self.takes("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.conditional()?;
                self.takes("]")?;
                node = Node::call(open, name, vec![node, index]);
            } else {
                return Some(node);
            }
        }
    }

    /// Expressions up to a closing sign.
    fn listed(&mut self, close: &str) -> Option<Vec<Node>> {
        let mut all = Vec::new();
        if self.takes(close).is_some() {
            return Some(all);
        }
        loop {
            all.push(self.conditional()?);
            if self.takes(close).is_some() {
                return Some(all);
            }
            self.takes(",")?;
        }
    }

    /// The fields of a message are not looked at: there are no message types.
    fn message(&mut self, name: &str) -> Option<Node> {
        let at = self.takes("{")?;
        while self.takes("}").is_none() {
            self.takes("?");
            self.name()?;
            self.takes(":")?;
            self.conditional()?;
            if !self.sees("}") {
                self.takes(",")?;
            }
        }
        Some(Node::new(at, Kind::Message(name.to_owned())))
    }

    fn primary(&mut self) -> Option<Node> {
        let at = self.at();
        if self.takes("(").is_some() {
            let node = self.conditional()?;
            self.takes(")")?;
            return Some(node);
        }
        if self.takes("[").is_some() {
            return self.list(at);
        }
        if self.takes("{").is_some() {
            return self.map(at);
        }
        self.takes(".");
        let at = self.at();
        let word = self.tokens.get(self.next)?.word.clone();
        self.next += 1;
        let kind = match word {
            Word::Number(ty) => Kind::Literal(ty),
            Word::Bytes => Kind::Literal(Type::Bytes),
            Word::Text(text) => Kind::Text(text),
            Word::Ident(name) => match name.as_str() {
                "true" | "false" => Kind::Literal(Type::Bool),
                "null" => Kind::Literal(Type::Null),
                _ if self.sees("(") => {
                    let open = self.takes("(")?;
                    let args = self.listed(")")?;
                    return macros::global(open, &name, args);
                }
                _ if self.sees("{") => return self.message(&name),
                _ => Kind::Ident(name),
            },
            Word::Sign(_) => return None,
        };
        Some(Node::new(at, kind))
    }

    fn list(&mut self, at: usize) -> Option<Node> {
        let mut all = Vec::new();
        while self.takes("]").is_none() {
            let optional = self.takes("?").is_some();
            all.push((self.conditional()?, optional));
            if !self.sees("]") {
                self.takes(",")?;
            }
        }
        Some(Node::new(at, Kind::List(all)))
    }

    fn map(&mut self, at: usize) -> Option<Node> {
        let mut all = Vec::new();
        while self.takes("}").is_none() {
            let optional = self.takes("?").is_some();
            let key = self.conditional()?;
            self.takes(":")?;
            all.push((key, self.conditional()?, optional));
            if !self.sees("}") {
                self.takes(",")?;
            }
        }
        Some(Node::new(at, Kind::Map(all)))
    }
}

/// `a.b.c`, where that is all that it is.
pub(crate) fn named_chain(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", named_chain(operand)?)),
        _ => None,
    }
}
