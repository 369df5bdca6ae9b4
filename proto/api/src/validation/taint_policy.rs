//! Which ClusterTaintPolicies may be stored.
//!
//! In: the JSON of a policy, and whether the hub allows taints of effect NoExecute. Out: what is wrong with its taints. Pure.

use serde_json::Value;

use crate::strings::taints;
use karmada_field::FieldError;

/// Whether policies may have taints by which workloads leave clusters: who runs the hub says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoExecute {
    /// They may.
    Allowed,
    /// They may not.
    #[default]
    Refused,
}

/// What is wrong with a ClusterTaintPolicy: a taint stands there twice, or evicts where that is not allowed.
pub fn validate_cluster_taint_policy(new: &Value, no_execute: NoExecute) -> Vec<FieldError> {
    let list: Vec<&Value> =
        new.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten().collect();
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let known = |taint: &Value| (text(taint, "key"), text(taint, "effect"));
    let mut errors = Vec::new();
    for (index, taint) in list.iter().enumerate() {
        let (path, (key, effect)) = (format!("spec.taints[{index}]"), known(taint));
        if effect == taints::NO_EXECUTE && no_execute == NoExecute::Refused {
            let why = "taints of effect NoExecute make workloads leave clusters: the hub must be started with --allow-no-execute-taint-policy";
            errors.push(FieldError::forbidden(&path, why));
        }
        if list[index + 1..].iter().any(|later| known(later) == (key.clone(), effect.clone())) {
            errors.push(FieldError::duplicate(&path, format!("{key}:{effect}")));
        }
    }
    errors
}
