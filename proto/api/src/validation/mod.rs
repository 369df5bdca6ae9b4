//! Which objects of the Karmada kinds may be stored.
//!
//! In: the new object as JSON, and the old one on update. Out: every wrong field. Schemas are checked elsewhere
//! and before; what a schema would refuse is not looked at twice, an object that cannot be read is one error.

pub mod binding;
pub mod cluster;
pub mod federated_resource_quota;
pub mod labels;
pub mod link_policy;
pub mod override_policy;
pub mod placement;
pub mod policy;
pub mod residency_rule;
pub mod taint_policy;

use serde::de::DeserializeOwned;
use serde_json::Value;

use karmada_field::FieldError;

/// Reads a part of an object as typed; what cannot be read is one error at `path`.
fn read<T: DeserializeOwned>(value: &Value, path: &str) -> Result<T, Vec<FieldError>> {
    serde_json::from_value(value.clone())
        .map_err(|error| vec![FieldError::invalid(path, Value::Null, error.to_string())])
}

/// The path of an element.
fn at(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Whether `path` is a JSON pointer (RFC 6901): empty or from a slash, `~` only as `~0` and `~1`.
pub fn is_json_pointer(path: &str) -> bool {
    if !path.is_empty() && !path.starts_with('/') {
        return false;
    }
    let bytes = path.as_bytes();
    bytes.iter().enumerate().all(|(i, b)| *b != b'~' || matches!(bytes.get(i + 1), Some(b'0' | b'1')))
}
