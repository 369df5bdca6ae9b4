//! An expression as a tree that knows where each part stands in the source.
//!
//! In: a source. Out: the [`Node`] that the checker walks. The interpreter has a tree of its own, which forgets places; here
//! nothing runs, so macros become the loops that they stand for and keep the place where they were called.

mod lexer;
mod macros;
pub(crate) mod read;
mod unary;

pub(crate) use self::unary::{has_few_signs, without_undone_signs};
use crate::types::Type;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its first byte, or that of its operator.
    pub at: usize,
    pub kind: Kind,
}

/// What a part is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Type),
    /// A text, unescaped.
    Text(String),
    Ident(String),
    Select {
        operand: Box<Node>,
        field: String,
        test: bool,
    },
    Call {
        target: Option<Box<Node>>,
        name: String,
        args: Vec<Node>,
    },
    /// `a && b && c`, or the same of `||`.
    Logic(Vec<Node>),
    /// Elements; with whether they are optional.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// A message of the named type.
    Message(String),
    /// What no macro can be made of, with why.
    Wrong(&'static str),
    Loop(Box<Loop>),
    /// `target.optMap(name, body)`, or `optFlatMap` where `flat`.
    Mapped {
        target: Box<Node>,
        name: String,
        body: Box<Node>,
        flat: bool,
    },
}

/// A loop over a list or a map, as a macro makes it.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub range: Node,
    pub names: Vec<String>,
    pub start: Node,
    pub condition: Node,
    pub step: Node,
    pub result: Node,
}

/// What loops gather in: a name that no user can write.
pub(crate) const GATHERED: &str = "@result";

impl Node {
    pub(crate) fn new(at: usize, kind: Kind) -> Node {
        Node { at, kind }
    }

    fn call(at: usize, name: &str, args: Vec<Node>) -> Node {
        Node::new(at, Kind::Call { target: None, name: name.to_owned(), args })
    }

    fn ident(at: usize, name: &str) -> Node {
        Node::new(at, Kind::Ident(name.to_owned()))
    }
}

/// Reads an expression; `None` for what this reader does not understand, which the interpreter's own parser then speaks of.
pub(crate) fn read(source: &str) -> Option<Node> {
    read::expression(source, lexer::tokens(source)?)
}
