//! Which OverridePolicies and ClusterOverridePolicies may be stored.
//!
//! In: the JSON of a policy of either kind. Out: what is wrong with its selectors, clusters and changes. Whether a change fits an object is
//! not known here. Pure.

use serde_json::Value;

use super::is_json_pointer;
use super::labels::{label_key, label_value};
use super::placement::validate_affinity;
use super::policy::validate_selectors;
use crate::object;
use crate::override_policy::{
    FieldOverrider, FieldPatchOperation, LabelAnnotationOverrider, Operator, OverrideSpec, Overriders,
};
use karmada_field::FieldError;

/// What is wrong with an override policy of either kind.
pub fn validate_override_policy(new: &Value) -> Vec<FieldError> {
    let spec: OverrideSpec = match super::read(&new["spec"], "spec") {
        Ok(spec) => spec,
        Err(errors) => return errors,
    };
    let mut errors =
        validate_selectors(&spec.resource_selectors, object::namespace(new), "spec.resourceSelectors");
    let old_form = spec.target_cluster.is_some() || !spec.overriders.is_empty();
    if !spec.override_rules.is_empty() && old_form {
        errors.push(FieldError::invalid(
            "spec.overrideRules",
            Value::Null,
            "overrideRules and overriders (or targetCluster) can't co-exist",
        ));
    }
    if let Some(affinity) = &spec.target_cluster {
        errors.extend(validate_affinity(affinity, "spec.targetCluster"));
    }
    errors.extend(validate_overriders(&spec.overriders, "spec.overriders"));
    for (index, rule) in spec.override_rules.iter().enumerate() {
        let path = format!("spec.overrideRules[{index}]");
        if let Some(affinity) = &rule.target_cluster {
            errors.extend(validate_affinity(affinity, &format!("{path}.targetCluster")));
        }
        errors.extend(validate_overriders(&rule.overriders, &format!("{path}.overriders")));
    }
    errors
}

fn validate_overriders(overriders: &Overriders, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, image) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = image.predicate.as_ref().filter(|p| !is_json_pointer(&p.path)) {
            errors.push(FieldError::invalid(
                &format!("{path}.imageOverrider[{index}].predicate.path"),
                predicate.path.as_str(),
                "path should be a valid JSON pointer",
            ));
        }
    }
    errors.extend(validate_label_overriders(
        &overriders.labels_overrider,
        &format!("{path}.labelsOverrider"),
        true,
    ));
    errors.extend(validate_label_overriders(
        &overriders.annotations_overrider,
        &format!("{path}.annotationsOverrider"),
        false,
    ));
    for (index, field) in overriders.field_overrider.iter().enumerate() {
        errors.extend(validate_field_overrider(field, &format!("{path}.fieldOverrider[{index}]")));
    }
    errors
}

fn validate_label_overriders(
    overriders: &[LabelAnnotationOverrider],
    path: &str,
    values_are_labels: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, overrider) in overriders.iter().enumerate() {
        let path = format!("{path}[{index}].value");
        for (key, value) in &overrider.value {
            errors.extend(label_key(&path, key));
            if values_are_labels {
                errors.extend(label_value(&path, value));
            }
        }
    }
    errors
}

fn validate_field_overrider(field: &FieldOverrider, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_json_pointer(&field.field_path) {
        errors.push(FieldError::invalid(
            &format!("{path}.fieldPath"),
            field.field_path.as_str(),
            "path should be a valid JSON pointer",
        ));
    }
    if field.json.is_empty() == field.yaml.is_empty() {
        errors.push(FieldError::invalid(path, Value::Null, "exactly one of json and yaml must be set"));
    }
    for (name, operations) in [("json", &field.json), ("yaml", &field.yaml)] {
        for (index, operation) in operations.iter().enumerate() {
            errors.extend(validate_operation(operation, &format!("{path}.{name}[{index}]")));
        }
    }
    errors
}

fn validate_operation(operation: &FieldPatchOperation, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_json_pointer(&operation.sub_path) {
        errors.push(FieldError::invalid(
            &format!("{path}.subPath"),
            operation.sub_path.as_str(),
            "path should be a valid JSON pointer",
        ));
    }
    let value_path = format!("{path}.value");
    match (operation.operator, &operation.value) {
        (Operator::Add | Operator::Replace, None) => {
            errors.push(FieldError::required(&value_path, "value is required for add or replace operation"));
        }
        (Operator::Remove, Some(_)) => {
            errors.push(FieldError::forbidden(&value_path, "value is not allowed for remove operation"));
        }
        _ => {}
    }
    errors
}
