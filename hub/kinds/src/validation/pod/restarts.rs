//! When a container that ended is started again, where it does not go by its Pod.
//!
//! In: a container. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, list, text};

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
        restart_rule(rule, &at.index(index), errors);
    }
}

fn restart_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let action = text(rule, "action");
    if !ACTIONS.contains(&action) {
        errors.push(FieldError::not_supported(&path.child("action"), action, &ACTIONS));
    }
    let (codes, at) = (&rule["exitCodes"], path.child("exitCodes"));
    if !codes.is_object() {
        return errors.push(FieldError::required(&at, "must be specified"));
    }
    let operator = text(codes, "operator");
    if !OPERATORS.contains(&operator) {
        errors.push(FieldError::not_supported(&at.child("operator"), operator, &OPERATORS));
    }
    let values = list(codes, "values").len() as u64;
    if values > 255 {
        errors.push(FieldError::too_many(&at.child("values"), values, 255));
    }
}
