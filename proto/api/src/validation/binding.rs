//! Which ResourceBindings may be stored.
//!
//! In: the JSON of a binding of either kind. Out: what is wrong with it, nothing where it is good. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object;
use crate::strings::annotations;
use karmada_field::FieldError;

/// What is wrong with a binding of either kind: its dependencies must be readable, its components distinct.
pub fn validate_binding(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(text) = object::annotation(new, annotations::DEPENDENCIES)
        && let Err(error) = serde_json::from_str::<Vec<Value>>(text)
    {
        errors.push(FieldError::invalid(
            &format!("metadata.annotations[{}]", annotations::DEPENDENCIES),
            text,
            format!("annotation value must be a valid JSON: {error}"),
        ));
    }
    let mut names = BTreeSet::new();
    let components = new.pointer("/spec/components").and_then(Value::as_array);
    for (index, component) in components.into_iter().flatten().enumerate() {
        let name = component.get("name").and_then(Value::as_str).unwrap_or("");
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&format!("spec.components[{index}].name"), name));
        }
    }
    errors
}

/// What is wrong with what a binding names, where it is new or names something else now: it must be in the binding's own namespace, as whoever may write bindings there has no right
/// to other namespaces' objects. (Karmada takes such a binding and sends the other namespace's object.)
pub fn validate_reach(new: &Value) -> Option<FieldError> {
    let named = new.pointer("/spec/resource/namespace").and_then(Value::as_str).unwrap_or("");
    let why = match object::namespace(new) {
        own if own == named => return None,
        "" => "a ClusterResourceBinding names objects of the whole cluster",
        _ => "a ResourceBinding names objects of its own namespace",
    };
    Some(FieldError::invalid("spec.resource.namespace", named, why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_names_what_is_in_its_own_namespace() {
        for (own, named, stands) in
            [("a", "a", true), ("", "", true), ("a", "b", false), ("a", "", false), ("", "b", false)]
        {
            let binding = json!({"metadata": {"name": "x", "namespace": own}, "spec": {"resource": {"namespace": named}}});
            assert_eq!(validate_reach(&binding).is_none(), stands, "{own} {named}");
        }
        assert!(validate_reach(&json!({"metadata": {"name": "x"}, "spec": {"resource": {}}})).is_none());
    }

    /// One that names another namespace's from earlier stays as it is, and none is turned to there.
    #[test]
    fn a_binding_that_changes_what_it_names_stays_in_its_own_namespace() {
        use crate::admission::{Operation, validate};
        let naming = |namespace: &str, clusters: &[&str]| {
            let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
            json!({"metadata": {"name": "x", "namespace": "a"}, "spec": {"clusters": clusters,
                "resource": {"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": namespace}}})
        };
        let judged = |old: &Value, new: &Value| {
            validate("work.karmada.io", "ResourceBinding", Operation::Update, new, Some(old)).len()
        };
        assert_eq!(judged(&naming("a", &[]), &naming("b", &[])), 1);
        assert_eq!(judged(&naming("b", &[]), &naming("b", &["m1"])), 0);
        assert_eq!(judged(&naming("b", &[]), &naming("a", &[])), 0);
    }
}
