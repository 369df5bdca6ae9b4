//! What a kind looks like: one compact model for built-in Go types, Karmada's kinds and (compiled later) CRDs.
//!
//! In: the facts under `data/`, or an OpenAPI v3 schema ([`Schema::from_openapi`]). Out: [`SchemaRef`], a copyable
//! cursor that validation, pruning, defaulting, patches, apply and OpenAPI walk; [`Kind`], which puts the steps of
//! reading a body in kube-apiserver's order; and the [`catalogue`] of served resources.
//!
//! The built-in types cost well under 1.5 MB: strings are interned, nodes are flat, and the text they were read from
//! is dropped.

mod arena;
mod builtin;
pub mod catalogue;
mod compile;
mod decode;
mod default;
mod duplicate;
mod embedded;
mod field_error;
mod formats;
mod kind;
mod navigate;
pub mod path;
mod prune;
pub mod quantity;
mod regexp;
mod rules;
mod scalars;
mod shape;
pub mod time;
mod validate;

pub use arena::{Format, ListType, MapType, Type};
pub use builtin::Schemas;
pub use compile::SchemaError;
pub(crate) use decode::forget_empties;
pub(crate) use decode::go_kind;
pub use decode::{DecodeError, Empties, Read, decode_go};
pub use default::{apply_defaults, drop_nulls};
pub use duplicate::{duplicate_fields, in_order};
pub use field_error::{ErrorType, FieldError, Shown};
pub(crate) use field_error::{go_json, go_struct, quote};
pub(crate) use formats::is_known as is_known_format;
pub use kind::{Kind, Style};
pub use navigate::{Schema, SchemaRef};
pub(crate) use prune::below as prune_below;
pub use prune::prune;
pub(crate) use regexp::pattern_problem;
pub use rules::{Verdict, run_rules};
pub(crate) use shape::JsonShape;
pub use validate::{validate, validate_update};

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
