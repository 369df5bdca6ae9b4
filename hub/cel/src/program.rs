//! Compiling an expression: read, checked against what it may name, bounded.
//!
//! In: the text of an expression, what it may name, what it must yield. Out: a program, or why it cannot be used, in kube-apiserver's
//! words. Blocks: the parser runs on a thread of its own, with a large stack.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::parser::{ParseErrors, Parser};

use crate::check::{Checker, LONGEST_MESSAGE};
use crate::compiling::Compiling;
use crate::cost::{self, Extent};
use crate::declarations::Declarations;
use crate::patterns::PatternError;
use crate::types::Type;
use crate::{expand, lists, syntax};

/// The longest expression, in bytes.
pub const MAX_SOURCE: usize = 16 << 10;

/// The deepest nesting of an expression.
pub const MAX_DEPTH: usize = 200;

/// What an expression must yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A truth value.
    Bool,
    /// Text.
    Text,
    /// Text, or nothing.
    TextOrNull,
    /// Anything: variables.
    Any,
}

/// Why an expression cannot be used. `Display` is what follows `compilation failed: ` in kube-apiserver's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It does not parse, or names what is not there.
    #[error("{0}")]
    Invalid(String),
    /// It yields something else.
    #[error("must evaluate to {wanted} but got {found}")]
    Result {
        /// What was asked for.
        wanted: &'static str,
        /// What it yields.
        found: String,
    },
}

/// An expression that can be evaluated. Immutable and shareable.
#[derive(Debug)]
pub struct Program {
    pub(crate) expr: IdedExpr,
    /// The type of what it yields.
    pub yields: Type,
    names: Vec<String>,
    /// How deep the tree is.
    pub(crate) depth: usize,
}

impl Program {
    /// Compiles `source`, which may use the names declared.
    ///
    /// # Errors
    /// The expression is malformed, too large, names what is not declared, or yields another type than expected.
    pub fn compile(
        source: &str,
        declarations: &Declarations,
        expected: Expected,
    ) -> Result<Program, CompileError> {
        Program::compile_with(source, declarations, expected, &Compiling::default())
    }

    /// The same of one that somebody writes now, among all that the request compiles.
    ///
    /// # Errors
    /// As [`Program::compile`], or the patterns in it could not be judged any more.
    pub fn compile_within(
        source: &str,
        declarations: &Declarations,
        expected: Expected,
        compiling: &Compiling,
    ) -> Result<Program, CompileError> {
        let compiled = Program::compile_with(source, declarations, expected, compiling);
        match compiled {
            Ok(_) if compiling.is_spent() => Err(CompileError::Invalid(PatternError::Spent.to_string())),
            compiled => compiled,
        }
    }

    fn compile_with(
        source: &str,
        declarations: &Declarations,
        expected: Expected,
        compiling: &Compiling,
    ) -> Result<Program, CompileError> {
        if source.len() > MAX_SOURCE {
            return Err(CompileError::Invalid(format!(
                "ERROR: <input>:1:1: expression code point size exceeds limit: size: {}, limit {MAX_SOURCE}",
                source.len()
            )));
        }
        let Sound { mut expr, yields, used, depth } = with_room(|| read(source, declarations, compiling))??;
        let wanted = match (expected, &yields) {
            (Expected::Any, _)
            | (Expected::Bool, Type::Bool)
            | (Expected::Text | Expected::TextOrNull, Type::String)
            | (Expected::TextOrNull, Type::Null) => None,
            (_, Type::Dyn) if declarations.lenient => None,
            (Expected::Bool, _) => Some("bool"),
            (Expected::Text, _) => Some("string"),
            (Expected::TextOrNull, _) => Some("one of [string null_type]"),
        };
        if let Some(wanted) = wanted {
            return Err(CompileError::Result { wanted, found: yields.to_string() });
        }
        let known = declarations.names.keys();
        let names = known.filter(|name| used.contains(*name)).cloned().collect();
        if !declarations.lists.is_empty() {
            lists::weave(&mut expr, &mut declarations.lists.clone());
        }
        Ok(Program { expr, yields, names, depth })
    }

    /// The most that the expression may cost where `self` is as large as `extent`, in kube-apiserver's units. Of one that does not compile
    /// it is 0.
    pub fn worst_cost(source: &str, declarations: &Declarations, extent: &Extent) -> u64 {
        let read = || parse(source).and_then(expanded).map(|(expr, _)| expr);
        with_room(read).flatten().map_or(0, |expr| cost::worst(&expr, declarations, extent))
    }

    /// Whether the expression names the variable.
    pub fn uses(&self, name: &str) -> bool {
        self.names.iter().any(|used| used == name)
    }
}

/// The parser's messages, as many as there is room for: each shows the line that it is about.
fn messages(errors: &ParseErrors) -> String {
    let mut text = String::new();
    for (at, error) in errors.errors.iter().enumerate() {
        if text.len() > LONGEST_MESSAGE {
            text.push_str(&format!("\n{} more errors were truncated", errors.errors.len() - at));
            break;
        }
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&error.to_string());
    }
    text
}

/// The parser's message with its margin as cel-go writes it. Where an expression could end, cel-go's parser expects nothing but its
/// end; of no source at all it tells a place before the first.
fn worded(message: &str, source: &str) -> String {
    const END: &str = "expecting {<EOF>, ";
    let mut message = message.replace("\n| ", "\n | ");
    while let Some(start) = message.find(END) {
        let rest = &message[start..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let Some(end) = rest[..line].rfind('}') else { break };
        message.replace_range(start..=start + end, "expecting <EOF>");
    }
    if source.is_empty() { message.replacen("<input>:1:1:", "<input>:1:0:", 1) } else { message }
}

/// An expression that the interpreter can walk, and what is known of it.
struct Sound {
    expr: IdedExpr,
    yields: Type,
    /// The names it uses.
    used: BTreeSet<String>,
    depth: usize,
}

/// Reads and checks an expression. A tree that is too deep is told before anything else. The construction of a message (`Type{…}`) is left
/// to the checker, which has the words for it.
fn read(source: &str, declarations: &Declarations, compiling: &Compiling) -> Result<Sound, CompileError> {
    let node = syntax::read(source);
    if node.is_none() && !syntax::has_few_signs(source) {
        return Err(Unsound::Malformed.told());
    }
    let expr = parse(source)?;
    if let Err(deep @ Unsound::Deep) = sound(&expr, 0) {
        return Err(deep.told());
    }
    let node = node.ok_or_else(|| Unsound::Malformed.told())?;
    let mut checker = Checker::new(source, declarations, compiling);
    let yields = checker.check(&node).map_err(CompileError::Invalid)?;
    let used = checker.used;
    let (expr, depth) = expanded(expr)?;
    Ok(Sound { expr, yields, used, depth })
}

fn parse(source: &str) -> Result<IdedExpr, CompileError> {
    let plain = syntax::without_undone_signs(source);
    let parsed = Parser::new().enable_optional_syntax(true).parse(&plain);
    parsed.map_err(|error| CompileError::Invalid(worded(&messages(&error), source)))
}

/// The expression with its macros written out, and how deep it is.
fn expanded(mut expr: IdedExpr) -> Result<(IdedExpr, usize), CompileError> {
    sound(&expr, 0).map_err(Unsound::told)?;
    expand::expand(&mut expr);
    let depth = sound(&expr, 0).map_err(Unsound::told)?;
    Ok((expr, depth))
}

/// The parser and the checker recurse as deep as the expression, so they get a stack of their own; what they return is bounded by
/// [`sound`].
fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, CompileError> {
    const STACK: usize = 32 << 20;
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel-parse".into()).stack_size(STACK);
        thread.spawn_scoped(scope, work).map(|thread| thread.join())
    });
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Unsound::Malformed.told()),
        Err(error) => Err(CompileError::Invalid(format!("internal error: {error}"))),
    }
}

/// Why a tree cannot be walked.
enum Unsound {
    /// A part that is none.
    Malformed,
    /// Nesting that no stack holds.
    Deep,
}

impl Unsound {
    fn told(self) -> CompileError {
        CompileError::Invalid(match self {
            Unsound::Malformed => "ERROR: <input>:1:1: Syntax error".to_owned(),
            Unsound::Deep => format!("ERROR: <input>:1:1: expression recursion limit exceeded: {MAX_DEPTH}"),
        })
    }
}

/// Refuses trees that the interpreter cannot walk. Answers how deep the tree is.
fn sound(expr: &IdedExpr, depth: usize) -> Result<usize, Unsound> {
    if depth > MAX_DEPTH {
        return Err(Unsound::Deep);
    }
    let children: Vec<&IdedExpr> = match &expr.expr {
        Expr::Unspecified | Expr::Struct(_) => return Err(Unsound::Malformed),
        Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Comprehension(one) => {
            vec![&one.iter_range, &one.accu_init, &one.loop_cond, &one.loop_step, &one.result]
        }
    };
    children.into_iter().try_fold(depth, |deepest, child| Ok(deepest.max(sound(child, depth + 1)?)))
}
