//! kube-apiserver's defaulting of built-in kinds.
use serde_json::Value;
/// Lays in defaults.
pub fn default_builtin(_group: &str, _version: &str, _kind: &str, _value: &mut Value) {}
