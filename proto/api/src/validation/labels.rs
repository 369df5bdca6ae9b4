//! Which labels and label selectors may be stored.
//!
//! In: a key, a value or a selector, and the path of its field. Out: what is wrong with it, in Kubernetes' words. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use karmada_field::{FieldError, names};

/// What is wrong with the key of a label or annotation.
pub(super) fn label_key(path: &str, key: &str) -> impl Iterator<Item = FieldError> {
    names::qualified_name(key).into_iter().map(move |why| FieldError::invalid(path, key, why))
}

/// What is wrong with a label's value.
pub(super) fn label_value(path: &str, value: &str) -> impl Iterator<Item = FieldError> {
    names::label_value(value).into_iter().map(move |why| FieldError::invalid(path, value, why))
}

/// What is wrong with a label selector.
pub fn validate_label_selector(selector: &LabelSelector, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        let path = format!("{path}.matchLabels");
        errors.extend(label_key(&path, key));
        errors.extend(label_value(&path, value));
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                &format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                &format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    &format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        errors.extend(label_key(&format!("{path}.key"), &requirement.key));
        for (index, value) in values.iter().enumerate() {
            errors.extend(label_value(&format!("{path}.values[{index}]"), value));
        }
    }
    errors
}
