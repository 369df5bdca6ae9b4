//! PodDisruptionBudgets: how many Pods of a selection may be missing.
//!
//! In: a budget. Out: field errors.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, at_most_all, int_or_percent};

pub(crate) fn pod_disruption_budget(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            go_json(&spec["selector"]),
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        errors.push(FieldError::invalid(&path, Shown::Raw(shown), detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(&spec[field], &path.child(field), errors);
        at_most_all(&spec[field], &path.child(field), errors);
    }
    label_selector(&spec["selector"], &path.child("selector"), errors);
    const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = spec["unhealthyPodEvictionPolicy"].as_str();
    if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
        errors.push(FieldError::not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &POLICIES));
    }
}
