//! Jobs.
//!
//! In: the fields of a Job. Out: the same fields with defaults that follow from others (completions, back-off, labels); and, once a Job has
//! its uid, its generated labels and selector.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, text};

pub(super) fn job(fields: &mut Fields) {
    let labels = fields.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let spec = object(fields, "spec");
    let has = |spec: &Fields, name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    if !has(spec, "completions") && !has(spec, "parallelism") {
        spec.insert("completions".to_owned(), json!(1));
    }
    set(spec, "parallelism", json!(1));
    let per_index = has(spec, "backoffLimitPerIndex");
    set(spec, "backoffLimit", if per_index { json!(i32::MAX) } else { json!(6) });
    let replaced = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "podReplacementPolicy", json!(replaced));
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty()))
    {
        let metadata = object(fields, "metadata");
        if is_empty(metadata, "labels") {
            metadata.insert("labels".to_owned(), labels);
        }
    }
}

/// Labels by name and uid, and the selector by uid, unless the selector is set by hand.
pub(super) fn generate_selector(fields: &mut Fields) {
    let metadata = object(fields, "metadata");
    let (name, uid) = (text(metadata, "name").to_owned(), text(metadata, "uid").to_owned());
    let spec = object(fields, "spec");
    if spec.get("manualSelector") == Some(&Value::Bool(true)) || uid.is_empty() {
        return;
    }
    let labels = object(object(object(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        set(labels, key, json!(value));
    }
    let selector = object(object(spec, "selector"), "matchLabels");
    set(selector, "batch.kubernetes.io/controller-uid", json!(uid));
}
