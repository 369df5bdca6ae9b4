//! Namespaces are held by a finalizer of their own until they are empty.
//!
//! In: a new Namespace. Out: the same with the finalizer `kubernetes` in its spec, and nothing else in the spec.

use serde_json::{Value, json};

/// Makes a new one held.
pub(crate) fn hold(namespace: &mut Value) {
    let mut all = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !all.iter().any(|one| one == "kubernetes") {
        all.push(json!("kubernetes"));
    }
    namespace["spec"] = json!({"finalizers": all});
}
