//! Literals that can never be what a function reads: spans of time, points in time, patterns.
//!
//! In: a tree without other faults. Out: a fault for each such literal.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::report::Report;
use crate::compiling::Compiling;
use crate::functions::library;
use crate::patterns::PatternError;
use crate::syntax::{Kind, Node};

/// Looks at every literal of the expression; of patterns that come when the budget is spent, nothing is told.
pub(super) fn check(node: &Node, compiling: &Compiling, report: &mut Report<'_>) {
    look(node, compiling, report);
}

fn look(node: &Node, compiling: &Compiling, report: &mut Report<'_>) {
    if let Kind::Call { name, args, .. } = &node.kind
        && let Some((at, text)) = args.first().and_then(text_of)
        && matches!(name.as_str(), "duration" | "timestamp" | "matches")
        && !can_read(name, text, compiling)
    {
        report.add(at, format!("invalid {name} argument"));
    }
    for child in children(node) {
        look(child, compiling, report);
    }
}

fn text_of(node: &Node) -> Option<(usize, &str)> {
    match &node.kind {
        Kind::Text(text) => Some((node.at, text)),
        _ => None,
    }
}

fn can_read(name: &str, text: &str, compiling: &Compiling) -> bool {
    if name == "matches" {
        return !matches!(compiling.pattern(text), Err(PatternError::Malformed(_) | PatternError::TooLarge));
    }
    // The function itself is asked.
    library::convert(name, Value::String(Arc::new(text.to_owned()))).is_ok()
}

fn children(node: &Node) -> Vec<&Node> {
    match &node.kind {
        Kind::Select { operand, .. } => vec![operand],
        Kind::Call { target, args, .. } => target.iter().map(|target| &**target).chain(args).collect(),
        Kind::Logic(parts) => parts.iter().collect(),
        Kind::List(elements) => elements.iter().map(|(element, _)| element).collect(),
        Kind::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
        Kind::Loop(of) => vec![&of.range, &of.start, &of.condition, &of.step, &of.result],
        Kind::Mapped { target, body, .. } => vec![target, body],
        Kind::Literal(_) | Kind::Text(_) | Kind::Ident(_) | Kind::Message(_) | Kind::Wrong(_) => Vec::new(),
    }
}
