//! Values that a Go type cannot hold, in the words of Go's `encoding/json`.
//!
//! In: where the decoder is, and what it met. Out: a [`DecodeError`] with Go's message, to be wrapped with kind and version for a 400.

use serde_json::Value;

use super::path::Path;
use karmada_field::quote;

/// A body that cannot be held by the kind's Go type. `Display` is Go's message; the caller wraps it as
/// `KIND in version "VERSION" cannot be handled as a KIND: …` (400 BadRequest), which [`DecodeError::wrap`] does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

impl DecodeError {
    /// The message of the 400 Status.
    pub fn wrap(&self, version: &str, kind: &str) -> String {
        format!("{kind} in version {} cannot be handled as a {kind}: {}", quote(version), self.0)
    }
}

/// Where the decoder is: the struct it is in, the path, and the Go type expected.
#[derive(Clone, Copy)]
pub(super) struct GoPosition<'a> {
    pub(super) owner: &'a str,
    pub(super) path: &'a Path<'a>,
    pub(super) go_type: &'a str,
}

impl GoPosition<'_> {
    pub(super) fn mismatch(&self, what: &str) -> DecodeError {
        if self.owner.is_empty() {
            return DecodeError(format!(
                "json: cannot unmarshal {what} into Go value of type {}",
                self.go_type
            ));
        }
        DecodeError(format!(
            "json: cannot unmarshal {what} into Go struct field {}.{} of type {}",
            self.owner,
            self.path.fields(),
            self.go_type
        ))
    }
}

pub(super) fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
