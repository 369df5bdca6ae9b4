//! Which ResourceBindings may be stored.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field_error::FieldError;
use crate::object;
use crate::strings::annotations;

/// What is wrong with a binding of either kind: its dependencies must be readable, its components distinct.
pub fn validate_binding(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(text) = object::annotation(new, annotations::DEPENDENCIES)
        && let Err(error) = serde_json::from_str::<Vec<Value>>(text)
    {
        errors.push(FieldError::invalid(
            format!("metadata.annotations[{}]", annotations::DEPENDENCIES),
            text,
            format!("annotation value must be a valid JSON: {error}"),
        ));
    }
    let mut names = BTreeSet::new();
    let components = new.pointer("/spec/components").and_then(Value::as_array);
    for (index, component) in components.into_iter().flatten().enumerate() {
        let name = component.get("name").and_then(Value::as_str).unwrap_or("");
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("spec.components[{index}].name"), name));
        }
    }
    errors
}
