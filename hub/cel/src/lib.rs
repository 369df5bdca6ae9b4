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
//! | steps (kube-apiserver's cost), over all expressions of one [`Evaluator`] | [`Limits::steps`] | [`EvalError::Budget`] |
//! | steps of one expression | [`Limits::call`] | [`EvalError::Call`] |
//! | work: parts visited, letters gone over | [`Limits::work`] | [`EvalError::Call`] |
//! | bytes held in values made on the way | [`Limits::bytes`] | [`EvalError::Budget`] |
//! | time while expressions run | [`Limits::time`] | [`EvalError::Call`] |
//! | all of these, over the evaluators of one request | [`Budget`] | [`EvalError::Budget`] |
//! | places of the patterns that one request compiles, and their time | [`Compiling`] | [`PatternError::Spent`] |
//! | bytes of compiled patterns that are kept, in this process | 64 MiB | what was used longest ago is compiled again |
//! | how many compute for longer than 20 ms at once, in this process | half of the processors | it waits two seconds, then [`EvalError::Crowded`] |
//!
//! Nothing else of this workspace is known here, and nothing else knows which interpreter is below.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

mod authorizer;
mod charge;
mod check;
mod compiling;
mod compute_slots;
mod cost;
mod declarations;
mod escape;
mod evaluate;
mod expand;
mod functions;
mod go_regexp;
mod lists;
mod meter;
mod operators;
mod patterns;
mod policy_names;
mod program;
mod syntax;
mod types;
mod value;
mod walk;
mod weigh;

pub use authorizer::{Authorizer, Decision, Question};
pub use compiling::Compiling;
pub use cost::{Extent, Inner};
pub use declarations::Declarations;
pub use escape::{escape, unescape};
pub use evaluate::{Crowded, EvalError, Evaluator};
pub use lists::Lists;
pub use meter::{Budget, Limits};
pub use patterns::PatternError;
pub use policy_names::PolicyNames;
pub use program::{CompileError, Expected, MAX_DEPTH, MAX_SOURCE, Program};
pub use types::{Elements, Format, Object, Shape, Type};
pub use value::Value;

#[cfg(test)]
mod tests;
