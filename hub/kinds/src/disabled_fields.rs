//! Fields that kube-apiserver takes and forgets: those of features that are off by default, and those that it fills in or
//! clears itself before it judges an object.
//!
//! In: the object to be stored and, on update, the one that stands. Out: the object without what is off. What was stored stays.
//! Field ownership was recorded before, so that a manager owns what was forgotten: so kube-apiserver has it.

use karmada_definitions::resource::ResourceDefinition;
use serde_json::{Map, Value, json};

/// Drops and fills in what the kind's own strategy does.
pub fn drop_disabled_fields(
    definition: &ResourceDefinition,
    part: &str,
    new: &mut Value,
    old: Option<&Value>,
) {
    if !matches!(part, "" | "ephemeralcontainers" | "resize") {
        return;
    }
    (definition.row.drop_disabled_fields)(new, old);
}

/// A Pod.
pub(crate) fn whole_pod(new: &mut Value, old: Option<&Value>) {
    pod(&mut new["spec"], old.map(|old| &old["spec"]));
    if old.is_none() {
        crate::label_keys::lay_in(new);
    }
}

/// What has a Pod's template at its usual place.
pub(crate) fn template(new: &mut Value, old: Option<&Value>) {
    at(new, old, "/spec/template/spec", pod);
}

pub(crate) fn stateful_set(new: &mut Value, old: Option<&Value>) {
    template(new, old);
    at(new, old, "/spec/updateStrategy", rolling);
}

/// Of secrets of accounts only the names are kept.
pub(crate) fn service_account(new: &mut Value, _old: Option<&Value>) {
    for secret in each(new, "secrets") {
        secret.retain(|field, _| field == "name");
    }
}

pub(crate) fn endpoint_slice(new: &mut Value, old: Option<&Value>) {
    if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) {
        each(new, "endpoints").for_each(|one| drop(one.remove("deprecatedTopology")));
    }
}

/// Settles what is at a place, where there is something.
pub(crate) fn at(new: &mut Value, old: Option<&Value>, pointer: &str, act: fn(&mut Value, Option<&Value>)) {
    if let Some(new) = new.pointer_mut(pointer) {
        act(new, old.and_then(|old| old.pointer(pointer)));
    }
}

fn remove(of: &mut Value, field: &str, inner: &str) {
    if let Some(fields) = of.get_mut(field).and_then(Value::as_object_mut) {
        fields.remove(inner);
    }
}

/// Removes fields that the stored object does not have.
pub(crate) fn forget(new: &mut Value, old: Option<&Value>, part: &str, fields: &[&str]) {
    let Some(of) = new.get_mut(part).and_then(Value::as_object_mut) else { return };
    for field in fields {
        if old.is_none_or(|old| old[part][*field].is_null()) {
            of.remove(*field);
        }
    }
}

fn each<'v>(of: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Map<String, Value>> {
    of.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The spec of a Pod: signals that stop it, volumes of certificates, and with whom it is scheduled.
pub(crate) fn pod(spec: &mut Value, old: Option<&Value>) {
    if !spec.is_object() {
        return;
    }
    for kind in KINDS {
        for container in each(spec, kind) {
            let hooks = container.get_mut("lifecycle").and_then(Value::as_object_mut);
            if hooks.is_some_and(|hooks| hooks.remove("stopSignal").is_some() && hooks.is_empty()) {
                container.remove("lifecycle");
            }
        }
    }
    sources(spec, old);
    if old.is_none_or(|old| old["schedulingGroup"].is_null())
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("schedulingGroup");
    }
}

/// How many Pods of a set are away at once while it is changed.
fn rolling(strategy: &mut Value, old: Option<&Value>) {
    if old.is_none_or(|old| old["rollingUpdate"]["maxUnavailable"].is_null()) {
        remove(strategy, "rollingUpdate", "maxUnavailable");
    }
}

/// What a Pod calls its containers.
const KINDS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Volumes of certificates.
fn sources(spec: &mut Value, old: Option<&Value>) {
    let some = |of: &Value, field: &str, found: &dyn Fn(&Value) -> bool| {
        of[field].as_array().into_iter().flatten().any(found)
    };
    for field in ["clusterTrustBundle", "podCertificate"] {
        let projects =
            |volume: &Value| some(&volume["projected"], "sources", &|source| !source[field].is_null());
        if old.is_some_and(|old| some(old, "volumes", &projects)) {
            continue;
        }
        for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(projected) = volume.get_mut("projected") {
                each(projected, "sources").for_each(|source| drop(source.remove(field)));
            }
        }
    }
}

/// What a claim is filled from: said in both ways, or in none.
pub(crate) fn claim(spec: &mut Value, old: Option<&Value>) {
    if !spec.is_object() {
        return;
    }
    let stood = |field: &str| old.is_some_and(|old| old[field].is_object());
    let Some(fields) = spec.as_object_mut() else { return };
    let elsewhere = |source: &Value| source["namespace"].as_str().is_some_and(|space| !space.is_empty());
    if !stood("dataSourceRef") && fields.get("dataSourceRef").is_some_and(elsewhere) {
        fields.remove("dataSourceRef");
    }
    if !stood("dataSource") && !stood("dataSourceRef") && !fields.contains_key("dataSourceRef") {
        let known = fields.get("dataSource").is_some_and(|source| {
            let (group, kind) = (source["apiGroup"].as_str().unwrap_or_default(), &source["kind"]);
            (group.is_empty() && kind == "PersistentVolumeClaim")
                || (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot")
        });
        if !known {
            fields.remove("dataSource");
        }
    }
    let copy = |source: &Value| json!({"apiGroup": source["apiGroup"], "kind": source["kind"], "name": source["name"]});
    match (fields.get("dataSource").cloned(), fields.get("dataSourceRef").cloned()) {
        (Some(source), None) if source.is_object() => {
            fields.insert("dataSourceRef".to_owned(), copy(&source));
        }
        (None, Some(source)) if source.is_object() && !elsewhere(&source) => {
            fields.insert("dataSource".to_owned(), copy(&source));
        }
        _ => {}
    }
}

/// What devices of a slice tell in lists, and what of a node they stand for.
pub(crate) fn slice(spec: &mut Value, _old: Option<&Value>) {
    for one in each(spec, "devices") {
        one.remove("nodeAllocatableResourceMappings");
        for (_, attribute) in one.get_mut("attributes").and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(fields) = attribute.as_object_mut() {
                fields
                    .retain(|field, _| !matches!(field.as_str(), "bools" | "ints" | "strings" | "versions"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_a_claim_is_said_in_both_ways() {
        let mut spec = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}});
        claim(&mut spec, None);
        assert_eq!(spec["dataSourceRef"]["name"], "a");
        let mut spec = json!({"dataSource": {"kind": "Pod", "name": "a"}});
        claim(&mut spec, None);
        assert_eq!(spec, json!({}));
        let mut spec =
            json!({"dataSourceRef": {"apiGroup": "a.b", "kind": "X", "name": "a", "namespace": "b"}});
        claim(&mut spec, None);
        assert_eq!(spec, json!({}));
    }
}
