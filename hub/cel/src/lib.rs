//! CEL as Kubernetes speaks it: rules of CustomResourceDefinitions, match conditions, admission policies.
//!
//! In: an expression with the names and types it may use ([`Declarations`]), then values for those names. Out: a [`Program`] or
//! what is wrong with the expression, in the words of cel-go; then a bool, a text or a value, or why there is none.
//!
//! Expressions come from users and run inside the API server, so everything about them is bounded:
//!
//! | bound | value | what happens beyond |
//! | --- | --- | --- |
//! | text of one expression | [`MAX_SOURCE`] bytes | refused when compiled |
//! | nesting of one expression | [`MAX_DEPTH`] | refused when compiled |
//! | steps of loops, over all expressions of one [`Evaluator`] | [`Limits::steps`] | [`EvalError::Budget`] |
//! | steps of loops of one expression | [`Limits::call`] | [`EvalError::Call`] |
//! | bytes held in values made on the way | [`Limits::bytes`] | [`EvalError::Budget`] |
//! | wall clock, looked at on every loop step | [`Limits::time`] | [`EvalError::Call`] |
//!
//! Nothing else of this workspace is known here, and nothing else knows which interpreter is below.

mod authorizer;
mod check;
mod check_functions;
mod cost;
mod escape;
mod evaluate;
mod expand;
mod functions;
mod guard;
mod lists;
mod program;
mod syntax;
mod types;
mod value;

pub use authorizer::{Authorizer, Decision, Question};
pub use cost::{Extent, Inner};
pub use escape::{escape, unescape};
pub use evaluate::{EvalError, Evaluator, Limits};
pub use lists::Lists;
pub use program::{CompileError, Expected, MAX_DEPTH, MAX_SOURCE, Program};
pub use types::{Declarations, Elements, Format, Object, Shape, Type};
pub use value::Value;

#[cfg(test)]
mod tests;
