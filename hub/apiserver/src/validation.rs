//! kube-apiserver's validation of built-in kinds.
use crate::schema::FieldError;
use serde_json::Value;
/// Everything that is wrong with `new`.
pub fn validate_builtin(_group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    validate_metadata(kind, new, old)
}
/// What is wrong with the metadata.
pub fn validate_metadata(_kind: &str, _new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    Vec::new()
}
