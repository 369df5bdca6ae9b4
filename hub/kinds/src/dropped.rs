//! Fields that kube-apiserver takes and forgets: those of features that are off by default in 1.34, and those that it fills in or
//! clears itself before it judges an object.
//!
//! In: the object to be stored and, on update, the one that stands. Out: the object without what is off. What was stored stays.
//! Field ownership was recorded before, so that a manager owns what was forgotten: so kube-apiserver has it.

use std::collections::HashSet;

use karmada_definitions::resource::ResourceDefinition;
use serde_json::{Map, Value, json};

/// Drops and fills in what the kind's own strategy does.
pub fn settle(definition: &ResourceDefinition, part: &str, new: &mut Value, old: Option<&Value>) {
    if definition.is_structural() {
        return;
    }
    if (&*definition.plural, part) == ("volumeattachments", "status") {
        for field in ["attachError", "detachError"] {
            if let Some(status) = new.get_mut("status") {
                remove(status, field, "errorCode");
            }
        }
    }
    if !matches!(part, "" | "ephemeralcontainers" | "resize") {
        return;
    }
    match (&*definition.group, &*definition.plural) {
        ("apps", "statefulsets") => {
            at(new, old, "/spec/template/spec", pod);
            at(new, old, "/spec/updateStrategy", rolling);
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            for pointer in ["/spec/behavior/scaleUp", "/spec/behavior/scaleDown"] {
                let stood = old.is_some_and(|old| has_tolerance(&old["spec"]["behavior"]));
                if !stood && let Some(rules) = new.pointer_mut(pointer).and_then(Value::as_object_mut) {
                    rules.remove("tolerance");
                }
            }
        }
        ("", "pods") => {
            pod(&mut new["spec"], old.map(|old| &old["spec"]));
            if old.is_none() {
                crate::label_keys::lay_in(new);
            }
        }
        ("apps", "deployments" | "replicasets" | "daemonsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => at(new, old, "/spec/template/spec", pod),
        ("batch", "cronjobs") => at(new, old, "/spec/jobTemplate/spec/template/spec", pod),
        ("", "podtemplates") => at(new, old, "/template/spec", pod),
        ("", "persistentvolumeclaims") => claim(&mut new["spec"], old.map(|old| &old["spec"])),
        ("", "serviceaccounts") => {
            for secret in each(new, "secrets") {
                secret.retain(|field, _| field == "name");
            }
        }
        ("", "nodes") => forget(new, old, "spec", &["configSource"]),
        ("coordination.k8s.io", "leases") => forget(new, old, "spec", &["strategy", "preferredHolder"]),
        ("storage.k8s.io", "csidrivers") => {
            forget(new, old, "spec", &["nodeAllocatableUpdatePeriodSeconds"]);
        }
        ("storage.k8s.io", "volumeattachments") => {
            for field in ["attachError", "detachError"] {
                remove(&mut new["status"], field, "errorCode");
            }
        }
        ("discovery.k8s.io", "endpointslices")
            if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) =>
        {
            each(new, "endpoints").for_each(|one| drop(one.remove("deprecatedTopology")));
        }
        ("resource.k8s.io", "deviceclasses") => forget(new, old, "spec", &["extendedResourceName"]),
        ("resource.k8s.io", "resourceclaims") => at(new, old, "/spec/devices", devices),
        ("resource.k8s.io", "resourceclaimtemplates") => at(new, old, "/spec/spec/devices", devices),
        ("resource.k8s.io", "resourceslices") => at(new, old, "/spec", slice),
        _ => {}
    }
}

fn at(new: &mut Value, old: Option<&Value>, pointer: &str, act: fn(&mut Value, Option<&Value>)) {
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
fn forget(new: &mut Value, old: Option<&Value>, part: &str, fields: &[&str]) {
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

/// The spec of a Pod: rules of restarts, images as volumes, names of its own.
fn pod(spec: &mut Value, old: Option<&Value>) {
    if !spec.is_object() {
        return;
    }
    let has = |of: &Value, kinds: &[&str], found: &dyn Fn(&Value) -> bool| {
        kinds.iter().any(|kind| of[*kind].as_array().into_iter().flatten().any(found))
    };
    let odd = |one: &Value| !matches!(one["restartPolicy"].as_str(), None | Some("Always"));
    let ruled = old.is_some_and(|old| {
        has(old, &["containers"], &|one| !one["restartPolicy"].is_null())
            || has(old, &["initContainers"], &odd)
    });
    if !ruled {
        for kind in ["containers", "ephemeralContainers"] {
            for container in each(spec, kind) {
                container.remove("restartPolicy");
                container.remove("restartPolicyRules");
            }
        }
        for container in each(spec, "initContainers") {
            container.remove("restartPolicyRules");
            if container.get("restartPolicy").is_some_and(|policy| policy != "Always") {
                container.remove("restartPolicy");
            }
        }
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
    if old.is_none_or(|old| old["hostnameOverride"].is_null())
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("hostnameOverride");
    }
    if !old.is_some_and(|old| has(old, &["volumes"], &|one| one["image"].is_object())) {
        images(spec);
    }
}

/// How many Pods of a set are away at once while it is changed.
fn rolling(strategy: &mut Value, old: Option<&Value>) {
    if old.is_none_or(|old| old["rollingUpdate"]["maxUnavailable"].is_null()) {
        remove(strategy, "rollingUpdate", "maxUnavailable");
    }
}

fn has_tolerance(behavior: &Value) -> bool {
    ["scaleUp", "scaleDown"].iter().any(|way| !behavior[*way]["tolerance"].is_null())
}

/// What a Pod calls its containers.
const KINDS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Variables from files, and volumes of certificates.
fn sources(spec: &mut Value, old: Option<&Value>) {
    let some = |of: &Value, field: &str, found: &dyn Fn(&Value) -> bool| {
        of[field].as_array().into_iter().flatten().any(found)
    };
    let from_file = |variable: &Value| !variable["valueFrom"]["fileKeyRef"].is_null();
    let reads_files = |old: &Value| {
        KINDS.iter().any(|kind| some(old, kind, &|container| some(container, "env", &from_file)))
    };
    if !old.is_some_and(reads_files) {
        for kind in KINDS {
            for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                for variable in each(container, "env") {
                    if let Some(from) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) {
                        from.remove("fileKeyRef");
                    }
                }
            }
        }
    }
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

/// Volumes that are images go, and what mounts them.
fn images(spec: &mut Value) {
    let named = |volume: &Value| volume["image"].is_object().then(|| volume["name"].clone());
    let gone: HashSet<Value> = spec["volumes"].as_array().into_iter().flatten().filter_map(named).collect();
    if gone.is_empty() {
        return;
    }
    retain(spec, "volumes", &|volume| !volume["image"].is_object());
    for kind in KINDS {
        for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            retain(container, "volumeMounts", &|mount| !gone.contains(&mount["name"]));
        }
    }
}

/// Keeps some of a list; an empty one goes.
fn retain(of: &mut Value, field: &str, keep: &dyn Fn(&Value) -> bool) {
    let Some(fields) = of.as_object_mut() else { return };
    let Some(all) = fields.get_mut(field).and_then(Value::as_array_mut) else { return };
    all.retain(|one| keep(one));
    if all.is_empty() {
        fields.remove(field);
    }
}

/// What a claim is filled from: said in both ways, or in none.
fn claim(spec: &mut Value, old: Option<&Value>) {
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

fn devices(devices: &mut Value, _old: Option<&Value>) {
    for request in devices.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            exactly.remove("capacity");
        }
        for one in each(request, "firstAvailable") {
            one.remove("capacity");
        }
    }
}

fn slice(spec: &mut Value, _old: Option<&Value>) {
    for one in each(spec, "devices") {
        for capacity in one.get_mut("capacity").and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(fields) = capacity.1.as_object_mut() {
                fields.remove("requestPolicy");
            }
        }
        for field in [
            "taints",
            "consumesCounters",
            "nodeName",
            "nodeSelector",
            "allNodes",
            "bindsToNode",
            "bindingConditions",
            "bindingFailureConditions",
            "allowMultipleAllocations",
        ] {
            one.remove(field);
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("sharedCounters");
        fields.remove("perDeviceNodeSelection");
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

    #[test]
    fn images_go_with_their_mounts() {
        let mut spec = json!({"volumes": [{"name": "v", "image": {"reference": "i"}}],
            "containers": [{"name": "c", "restartPolicy": "Always", "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]});
        pod(&mut spec, None);
        assert_eq!(spec, json!({"containers": [{"name": "c"}]}));
    }
}
