//! When a container that ended is started again, where it does not go by its Pod.
//!
//! In: a container. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, facts, judge, list};

/// A container's policy, and its rules by exit code.
pub(super) fn restarts(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
    let (policy, rules) = (&container["restartPolicy"], list(container, "restartPolicyRules"));
    let at = path.child("restartPolicy");
    if policy.is_null() {
        if rules.is_empty() {
            return;
        }
        let detail = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(&at, detail));
    } else {
        let policy = policy.as_str().unwrap_or_default();
        if !POLICIES.contains(&policy) {
            errors.push(FieldError::not_supported(&at, policy, &POLICIES));
        }
    }
    let at = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&at, rules.len() as u64, 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        judge(facts::CORE_V1_CONTAINER_RESTART_RULE, rule, None, &at.index(index), errors);
    }
}
