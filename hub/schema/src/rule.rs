//! A CEL rule of a schema, ready to run.
//!
//! A type alone: `rules` compiles and runs it, the arena keeps it beside its node.

use karmada_cel::Program;

use karmada_field::ErrorType;

/// One rule, ready to run.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Option<Program>,
    pub(super) source: String,
    pub(super) message: String,
    pub(super) message_expression: Option<Program>,
    pub(super) reason: ErrorType,
    pub(super) field_path: Vec<String>,
    pub(super) transition: bool,
    pub(super) optional_old: bool,
}
