//! Jobs and autoscalers.
//!
//! In: the fields of a Job or an autoscaler, or an autoscaler's spec. Out: the same fields with defaults that follow from others
//! (completions, back-off, labels, metrics, scaling behaviour); and, once a Job has its uid, its generated labels and selector.

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

/// In v1, metrics other than CPU stand in annotations. The object is converted to v2 and back: annotations that cannot be read are dropped,
/// and one without any metric aims at 80 % of CPU.
pub(super) fn autoscaler_v1(fields: &mut Fields) {
    let mut whole = Value::Object(std::mem::take(fields));
    crate::conversion::autoscaler_v2(&mut whole);
    crate::conversion::autoscaler_v1(&mut whole);
    if let Value::Object(whole) = whole {
        *fields = whole;
    }
}

/// The defaults of a FederatedHPA: those of an autoscaler of one cluster.
pub(crate) fn federated_autoscaler(new: &mut Value, _: Option<&Value>) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    set(spec, "minReplicas", json!(1));
    autoscaler_v2(spec);
}

pub(super) fn autoscaler_v2(spec: &mut Fields) {
    if is_empty(spec, "metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert(
            "metrics".to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let policy = |ty: &str, value: i64| json!({"type": ty, "value": value, "periodSeconds": 15});
    let up = object(behavior, "scaleUp");
    set(up, "stabilizationWindowSeconds", json!(0));
    set(up, "selectPolicy", json!("Max"));
    set(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
    let down = object(behavior, "scaleDown");
    set(down, "selectPolicy", json!("Max"));
    set(down, "policies", json!([policy("Percent", 100)]));
}
