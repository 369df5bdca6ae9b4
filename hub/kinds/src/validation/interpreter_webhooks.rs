//! Webhooks that interpret resources: whom they ask, in which versions, and of what.
//!
//! In: a ResourceInterpreterWebhookConfiguration. Out: field errors. Names, clients and versions are judged as those of admission webhooks;
//! nothing is asked of what stood before.

use std::collections::HashSet;

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::admission_registration::{client, qualified_name, spoken_versions};
use super::{Errors, list, text};

/// What a webhook may be asked to do.
const OPERATIONS: [&str; 9] = [
    "*",
    "AggregateStatus",
    "InterpretComponent",
    "InterpretDependency",
    "InterpretHealth",
    "InterpretReplica",
    "InterpretStatus",
    "Retain",
    "ReviseReplica",
];

/// What is wrong with a configuration.
pub(crate) fn configuration(new: &Value, errors: &mut Errors) {
    let (all, mut seen) = (Path::field("webhooks"), HashSet::new());
    for (index, hook) in list(new, "webhooks").iter().enumerate() {
        let path = all.index(index);
        let name = text(hook, "name");
        qualified_name(name, 2, &path.child("name"), errors);
        for (at, rule) in list(hook, "rules").iter().enumerate() {
            of_rule(rule, &path.child("rules").index(at), errors);
        }
        let timeout = &hook["timeoutSeconds"];
        if timeout.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            let words = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(&path.child("timeoutSeconds"), timeout.clone(), words));
        }
        client(&hook["clientConfig"], &path.child("clientConfig"), errors);
        let versions = path.child("interpreterContextVersions");
        spoken_versions(&hook["interpreterContextVersions"], &["v1alpha1"], &versions, errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
}

/// What a webhook is asked of: something in each part, and `*` alone.
fn of_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (field, what) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("kinds", "kinds"),
    ] {
        let (all, at) = (list(rule, field), path.child(field));
        if all.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if all.len() > 1 && all.iter().any(|one| one == "*") {
            let words = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(&at, rule[field].clone(), words));
        }
        for (index, one) in all.iter().enumerate() {
            let one = one.as_str().unwrap_or_default();
            match field {
                "operations" if !OPERATIONS.contains(&one) => {
                    errors.push(FieldError::not_supported(&at.index(index), one, &OPERATIONS));
                }
                // The core group has no name.
                "apiVersions" | "kinds" if one.is_empty() => {
                    errors.push(FieldError::required(&at.index(index), ""));
                }
                _ => {}
            }
        }
    }
}
