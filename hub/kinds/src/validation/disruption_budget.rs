//! PodDisruptionBudgets: how many Pods of a selection may be missing.
//!
//! In: a budget. Out: field errors.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::Value;

use super::Errors;

/// Not both how many are there, and how many may be missing.
pub(super) fn one_bound(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            go_json(&spec["selector"]),
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        errors.push(FieldError::invalid(path, Shown::Raw(shown), detail));
    }
}
