//! Literals that can never be what a function reads: spans of time, points in time, patterns.
//!
//! In: a tree without other faults. Out: a fault for each such literal.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};

use super::report::Report;
use crate::compiling::Compiling;
use crate::evaluate::{EvalError, Evaluator};
use crate::meter::Limits;
use crate::patterns::PatternError;
use crate::program::Program;
use crate::syntax::{Kind, Node};
use crate::types::Type;

/// Looks at every literal of the expression; of those that come when the budget is spent, nothing is told.
pub(super) fn check(node: &Node, compiling: &Compiling, report: &mut Report<'_>) {
    look(node, &Readers { evaluator: Evaluator::new(Limits::default()), compiling }, report);
}

/// Who reads such literals.
struct Readers<'a> {
    evaluator: Evaluator,
    compiling: &'a Compiling,
}

fn look(node: &Node, readers: &Readers<'_>, report: &mut Report<'_>) {
    if let Kind::Call { name, args, .. } = &node.kind
        && let Some((at, text)) = args.first().and_then(text_of)
        && matches!(name.as_str(), "duration" | "timestamp" | "matches")
        && !readers.can_read(name, text)
    {
        report.add(at, format!("invalid {name} argument"));
    }
    for child in children(node) {
        look(child, readers, report);
    }
}

fn text_of(node: &Node) -> Option<(usize, &str)> {
    match &node.kind {
        Kind::Text(text) => Some((node.at, text)),
        _ => None,
    }
}

impl Readers<'_> {
    fn can_read(&self, name: &str, text: &str) -> bool {
        if name == "matches" {
            return !matches!(
                self.compiling.pattern(text),
                Err(PatternError::Malformed(_) | PatternError::TooLarge)
            );
        }
        // The function itself is asked.
        let literal = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::String(text.to_owned().into())) };
        let call = CallExpr { func_name: name.to_owned(), target: None, args: vec![literal] };
        let expr = IdedExpr { id: 0, expr: Expr::Call(call) };
        let read = self.evaluator.value(&Program::bare(expr, Type::Dyn));
        !matches!(read, Err(EvalError::Failed(_) | EvalError::Type(_)))
    }
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
