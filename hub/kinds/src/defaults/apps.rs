//! Deployments, daemon sets, stateful sets: their specs.
//!
//! In: an object's fields, or its spec's, after the plain defaults of its type. Out: the same fields with the defaults that depend on
//! others; what is set stays, except for the `apiVersion` and `kind` of claim templates. Also keeps the annotation that counts changes of a
//! daemon set's template.

use serde_json::{Value, json};

use super::{Fields, object, set, set_text, text};

pub(super) fn deployment(spec: &mut Fields) {
    let strategy = object(spec, "strategy");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", json!("25%"));
        set(rolling, "maxSurge", json!("25%"));
    }
}

pub(super) fn daemon_set(spec: &mut Fields) {
    let strategy = object(spec, "updateStrategy");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", json!(1));
        set(rolling, "maxSurge", json!(0));
    }
}

pub(super) fn stateful_set(spec: &mut Fields) {
    let strategy = object(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set_text(strategy, "type", "RollingUpdate");
        object(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && strategy.get("rollingUpdate").is_some_and(|r| r.is_object())
    {
        set(object(strategy, "rollingUpdate"), "partition", json!(0));
    }
    for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(claim) = claim.as_object_mut() {
            // Whatever was said: it can be nothing else.
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// How often a daemon set's template changed is told in an annotation.
pub(super) fn first_template_generation(fields: &mut Fields) {
    set_text(object(object(fields, "metadata"), "annotations"), TEMPLATE_GENERATION, "1");
}

/// Counts a changed template.
pub(super) fn next_template_generation(fields: &mut Fields, old: &Value) {
    let before =
        old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|text| text.parse().ok());
    let before: i64 = before.unwrap_or(1);
    let changed = fields.get("spec").map(|spec| &spec["template"]) != Some(&old["spec"]["template"]);
    let now = before + i64::from(changed);
    object(object(fields, "metadata"), "annotations")
        .insert(TEMPLATE_GENERATION.to_owned(), now.to_string().into());
}
