//! What an object may look like, and what can be done with it as a tree of JSON: the part of the API that knows no kind by name.
//!
//! In: the facts under `data/`, or an OpenAPI v3 schema ([`Schema::from_openapi`]); bodies, patches, stored bytes. Out:
//! [`SchemaRef`], a copyable cursor that validation, pruning, defaulting, patches, apply and OpenAPI walk; objects read,
//! changed and compared; and what is wrong with them, as [`FieldError`]s in kube-apiserver's words.
//!
//! The built-in types cost well under 1.5 MB: strings are interned, nodes are flat, and the text they were read from
//! is dropped.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod addresses;
pub mod apply;
mod arena;
pub mod bounded;
mod builtin;
mod compile;
pub mod condition;
mod decode;
mod default;
mod duplicate;
pub mod duration;
mod embedded;
pub mod facts;
pub mod fields;
pub mod findings;
mod formats;
mod go_type_errors;
pub mod json_error;
pub mod jsonpath;
pub mod metadata;
mod navigate;
pub mod object;
mod openapi;
pub mod patch;
pub mod protobuf;
mod prune;
mod regexp;
mod rule;
mod scalars;
pub mod selector;
mod shape;
mod structural;
pub mod time;
mod validate;
mod validation_rules;
pub mod yaml;

pub use arena::{Format, ListType, MapType, Type};
pub use builtin::{KUBERNETES_VERSION, Schemas};
pub use compile::SchemaError;
pub use decode::forget_empties;
pub use decode::go_kind;
pub use decode::{Empties, Read, decode_go, read_go};
pub use default::{apply_defaults, drop_nulls};
pub use duplicate::{duplicate_fields, in_order};
pub use formats::is_known as is_known_format;
pub use go_type_errors::DecodeError;
pub use karmada_field::{
    ErrorType, FieldError, Shown, go_json, go_struct, is_printable, names, path, quote, quote_list,
};
pub use navigate::{Schema, SchemaRef};
pub use prune::below as prune_below;
pub use prune::prune;
pub use regexp::pattern_problem;
pub use shape::JsonShape;
pub use structural::read_structural;
pub use validate::{validate, validate_update};
pub use validation_rules::{RuleFindings, run_rules};

#[cfg(test)]
mod tests;
