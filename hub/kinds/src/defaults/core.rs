//! Namespaces, nodes, volumes, limits.
//!
//! In: the fields of an object or of a part of it, after the plain defaults of its type. Out: the same fields, where a label, finalizer,
//! selector or amount that was not set follows from others; a Secret's `stringData` is moved into `data`.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, text};

/// A Secret's type; and `stringData`, which is written and never read, becomes data.
pub(super) fn secret(fields: &mut Fields) {
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = object(fields, "data");
    for (key, text) in texts {
        let bytes = text.as_str().unwrap_or_default();
        data.insert(key, base64::engine::general_purpose::STANDARD.encode(bytes).into());
    }
}

/// A controller takes its template's labels for selector and labels.
pub(super) fn replication_controller(fields: &mut Fields) {
    let labels = fields.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(labels) = labels.filter(Value::is_object) else { return };
    let spec = object(fields, "spec");
    if is_empty(spec, "selector") {
        spec.insert("selector".to_owned(), labels.clone());
    }
    let metadata = object(fields, "metadata");
    if is_empty(metadata, "labels") {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// The name as a label, and the finalizer that lets a namespace empty itself. A namespace that is being deleted has
/// had its finalizers set by those who empty it.
pub(super) fn namespace(fields: &mut Fields) {
    let metadata = object(fields, "metadata");
    let (name, deleting) = (text(metadata, "name").to_owned(), metadata.contains_key("deletionTimestamp"));
    if !name.is_empty() {
        object(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    if deleting {
        return;
    }
    let spec = object(fields, "spec");
    let finalizers = spec.entry("finalizers").or_insert(Value::Null);
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(finalizers) =
        finalizers.as_array_mut().filter(|list| !list.iter().any(|one| one == "kubernetes"))
    {
        finalizers.push(json!("kubernetes"));
    }
}

/// A node's first range stands in `podCIDR` and in `podCIDRs`: where both are set and differ, `podCIDR` wins.
pub(super) fn node_spec(fields: &mut Fields) {
    let first = text(fields, "podCIDR").to_owned();
    let listed = fields.get("podCIDRs").and_then(|all| all[0].as_str()).unwrap_or_default().to_owned();
    if !first.is_empty() && first != listed {
        fields.insert("podCIDRs".to_owned(), json!([first]));
    } else if first.is_empty() && !listed.is_empty() {
        fields.insert("podCIDR".to_owned(), listed.into());
    }
}

pub(super) fn node_status(fields: &mut Fields) {
    if let Some(capacity) = fields.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        set(fields, "allocatable", capacity);
    }
}

/// For containers: the default is the maximum, the default request is the default, or else the minimum.
pub(super) fn limit_range_item(fields: &mut Fields) {
    if text(fields, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) = fields.get(from).and_then(Value::as_object).cloned() else { continue };
        let target = object(fields, to);
        for (resource, amount) in amounts {
            target.entry(resource).or_insert(amount);
        }
    }
}
