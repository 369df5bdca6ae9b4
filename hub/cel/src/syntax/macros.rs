//! Macros as the loops that they stand for. Whatever a macro makes stands where it was called: at its bracket.
//!
//! In: a call's place, its target, its name and arguments. Out: what it stands for, or the call as it is.

use super::{GATHERED, Kind, Loop, Node};
use crate::types::Type;

/// A call by a bare name.
pub(super) fn global(at: usize, name: &str, mut args: Vec<Node>) -> Option<Node> {
    if name != "has" || args.len() != 1 {
        return Some(Node::call(at, name, args));
    }
    match args.pop()?.kind {
        Kind::Select { operand, field, test: false } => {
            Some(Node::new(at, Kind::Select { operand, field, test: true }))
        }
        _ => None,
    }
}

/// A call of a value.
pub(super) fn member(at: usize, target: Node, name: &str, args: Vec<Node>) -> Option<Node> {
    let takes = |wanted: &[usize]| wanted.contains(&args.len());
    let of_one = match name {
        "all" | "exists" | "exists_one" | "existsOne" | "filter" => takes(&[2]),
        "map" => takes(&[2, 3]),
        _ => false,
    };
    let of_two = match name {
        "all" | "exists" | "exists_one" | "existsOne" => takes(&[3]),
        "transformList" | "transformMap" | "transformMapEntry" => takes(&[3, 4]),
        _ => false,
    };
    if matches!(name, "optMap" | "optFlatMap") && takes(&[2]) {
        let [of, body] = <[Node; 2]>::try_from(args).ok()?;
        let mapped = Kind::Mapped {
            target: Box::new(target),
            name: ident(&of)?,
            body: Box::new(body),
            flat: name == "optFlatMap",
        };
        return Some(Node::new(at, mapped));
    }
    if name == "sortBy" && takes(&[2]) {
        return sorted_by(at, target, args);
    }
    if of_one || of_two {
        let count = if of_one { 1 } else { 2 };
        let names: Option<Vec<String>> = args[..count].iter().map(ident).collect();
        let rest: Vec<Node> = args.into_iter().skip(count).collect();
        return Some(Node::new(at, Kind::Loop(Box::new(looped(at, target, names?, name, rest)?))));
    }
    Some(Node::new(at, Kind::Call { target: Some(Box::new(target)), name: name.to_owned(), args }))
}

/// The list under the name that loops gather in, to be sorted by what a loop over it gathers.
fn sorted_by(at: usize, target: Node, args: Vec<Node>) -> Option<Node> {
    if matches!(target.kind, Kind::Literal(_) | Kind::Text(_) | Kind::Map(_) | Kind::Message(_)) {
        const WHY: &str =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Some(Node::new(target.at, Kind::Wrong(WHY)));
    }
    let [of, key] = <[Node; 2]>::try_from(args).ok()?;
    let Some(name) = ident(&of) else {
        return Some(Node::new(of.at, Kind::Wrong("argument is not an identifier")));
    };
    let list = || Node::ident(at, GATHERED);
    let keys = looped(at, list(), vec![name], "map", vec![key])?;
    let keys = Node::new(at, Kind::Loop(Box::new(keys)));
    let sorted = Kind::Call {
        target: Some(Box::new(list())),
        name: "@sortByAssociatedKeys".to_owned(),
        args: vec![keys],
    };
    let bound = Loop {
        range: Node::new(at, Kind::List(Vec::new())),
        names: vec!["#unused".to_owned()],
        start: target,
        condition: Node::new(at, Kind::Literal(Type::Bool)),
        step: list(),
        result: Node::new(at, sorted),
    };
    Some(Node::new(at, Kind::Loop(Box::new(bound))))
}

fn ident(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn looped(at: usize, range: Node, names: Vec<String>, name: &str, mut rest: Vec<Node>) -> Option<Loop> {
    let gathered = || Node::ident(at, GATHERED);
    let literal = |ty: Type| Node::new(at, Kind::Literal(ty));
    let goes_on = |while_true: Node| Node::call(at, "@not_strictly_false", vec![while_true]);
    let truth = || literal(Type::Bool);
    let last = rest.pop()?;
    let when = rest.pop();
    let either = |when: Option<Node>, step: Node| match when {
        Some(when) => Node::call(at, "_?_:_", vec![when, step, gathered()]),
        None => step,
    };
    let adds = |element: Node| {
        let one = Node::new(at, Kind::List(vec![(element, false)]));
        Node::call(at, "_+_", vec![gathered(), one])
    };
    let (start, condition, step, result) = match name {
        "all" => {
            (truth(), goes_on(gathered()), Node::new(at, Kind::Logic(vec![gathered(), last])), gathered())
        }
        "exists" => {
            let not_yet = goes_on(Node::call(at, "!_", vec![gathered()]));
            (truth(), not_yet, Node::new(at, Kind::Logic(vec![gathered(), last])), gathered())
        }
        "exists_one" | "existsOne" => {
            let more = Node::call(at, "_+_", vec![gathered(), literal(Type::Int)]);
            let result = Node::call(at, "_==_", vec![gathered(), literal(Type::Int)]);
            (literal(Type::Int), truth(), either(Some(last), more), result)
        }
        "filter" => {
            let element = Node::ident(at, names.first()?);
            (Node::new(at, Kind::List(Vec::new())), truth(), either(Some(last), adds(element)), gathered())
        }
        "map" | "transformList" => {
            (Node::new(at, Kind::List(Vec::new())), truth(), either(when, adds(last)), gathered())
        }
        "transformMap" => {
            let entry = vec![gathered(), Node::ident(at, names.first()?), last];
            let step = Node::call(at, "cel.@mapInsert", entry);
            (Node::new(at, Kind::Map(Vec::new())), truth(), either(when, step), gathered())
        }
        _ => {
            let step = Node::call(at, "cel.@mapInsert", vec![gathered(), last]);
            (Node::new(at, Kind::Map(Vec::new())), truth(), either(when, step), gathered())
        }
    };
    Some(Loop { range, names, start, condition, step, result })
}
