//! Between the versions of a kind: autoscaling v1 and v2, events of both groups, bindings v1alpha1 and v1alpha2.
//!
//! In: an object in one version. Out: the same in another. What the older version cannot say is kept where Kubernetes keeps
//! it (annotations) or lost as it is lost there.

use karmada_definitions::resource::ResourceDefinition;
use serde_json::{Map, Value, json};

mod autoscalers;

pub(crate) use autoscalers::{autoscaler_v1, autoscaler_v2, disown_changed};

/// From the version a client speaks to the stored one.
pub fn to_storage(definition: &ResourceDefinition, mut object: Value) -> Value {
    (definition.row.to_storage)(&mut object);
    object["apiVersion"] = json!(definition.storage_api_version());
    object
}

/// From the stored version to the one a client speaks.
pub fn from_storage(definition: &ResourceDefinition, mut object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.from_storage(object);
    }
    (definition.row.from_storage)(&mut object);
    object["apiVersion"] = json!(definition.api_version());
    object
}

#[derive(Clone, Copy)]
enum Direction {
    ToCore,
    FromCore,
}

/// events.k8s.io name, core name.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// An event of its own group, as it is stored.
pub(crate) fn event_to_core(event: &mut Value) {
    rename(event, &EVENT_FIELDS, Direction::ToCore);
}

/// The way back.
pub(crate) fn event_from_core(event: &mut Value) {
    rename(event, &EVENT_FIELDS, Direction::FromCore);
}

fn rename(object: &mut Value, fields: &[(&str, &str)], direction: Direction) {
    let Some(members) = object.as_object_mut() else { return };
    for (new, core) in fields {
        let (from, to) = match direction {
            Direction::ToCore => (new, core),
            Direction::FromCore => (core, new),
        };
        if let Some(value) = members.remove(*from) {
            members.insert((*to).to_owned(), value);
        }
    }
}

/// A binding of the older version, as the newer one has it.
pub(crate) fn binding_v1alpha2(object: &mut Value) {
    if let Some(replicas) = take_at(object, &["spec", "resource"], "replicas") {
        object["spec"]["replicas"] = replicas;
    }
    if let Some(request) = take_at(object, &["spec", "resource"], "resourcePerReplicas") {
        object["spec"]["replicaRequirements"] = json!({"resourceRequest": request});
    }
}

/// What v1alpha1 knows of a binding.
const OLD_BINDING_SPEC: [&str; 2] = ["resource", "clusters"];

/// A binding, as far as the older version can say it.
pub(crate) fn binding_v1alpha1(object: &mut Value) {
    let spec = object["spec"].take();
    let mut old = Map::new();
    for field in OLD_BINDING_SPEC {
        if let Some(value) = spec.get(field) {
            old.insert(field.to_owned(), value.clone());
        }
    }
    object["spec"] = Value::Object(old);
    if let Some(replicas) = spec.get("replicas") {
        object["spec"]["resource"]["replicas"] = replicas.clone();
    }
    if let Some(request) = spec["replicaRequirements"].get("resourceRequest") {
        object["spec"]["resource"]["resourcePerReplicas"] = request.clone();
    }
    // Not by index: that would write a null into a status without the list.
    let items = object.pointer_mut("/status/aggregatedStatus").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
        item.remove("health");
    }
}

fn take_at(object: &mut Value, path: &[&str], field: &str) -> Option<Value> {
    let mut at = object;
    for part in path {
        at = at.get_mut(*part)?;
    }
    at.as_object_mut()?.remove(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_the_same_group_with_one_version_is_left_alone() {
        let shipped = crate::catalogue::shipped();
        let works = shipped.resource("work.karmada.io", "v1alpha1", "works").unwrap();
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "spec": {"workload": {"manifests": [{"kind": "Pod"}]}}});
        assert_eq!(from_storage(works, work.clone()), work);
        assert_eq!(to_storage(works, work.clone()), work);
    }
}
