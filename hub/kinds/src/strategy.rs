//! What kube-apiserver's registries decide per kind: which writes they take, what a write resets, when a generation rises,
//! what a delete answers with.
//!
//! Facts, as pure functions of the resource: the registry asks, nothing here acts.

use karmada_definitions::resource::ResourceDefinition;
use karmada_schema::Empties;
use karmada_schema::object::meta;
use serde_json::{Map, Value};

/// Group and plural.
fn name(definition: &ResourceDefinition) -> (&str, &str) {
    (&definition.group, &definition.plural)
}

/// Whether an update may leave out the version it was made from.
pub fn updates_without_version(definition: &ResourceDefinition) -> bool {
    if definition.is_structural() {
        return false;
    }
    !matches!(
        name(definition),
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io" | "apiextensions.k8s.io", _)
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
            | ("policy", "poddisruptionbudgets")
            | ("storage.k8s.io", "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments")
    )
}

/// Whether an update may create.
pub fn creates_on_update(definition: &ResourceDefinition) -> bool {
    matches!(
        name(definition),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("coordination.k8s.io", "leases")
            | ("events.k8s.io", "events")
            | ("rbac.authorization.k8s.io", _)
            | ("node.k8s.io", "runtimeclasses")
    )
}

/// Whether a delete answers with the object instead of a `Status`.
pub fn returns_deleted(definition: &ResourceDefinition) -> bool {
    match name(definition) {
        ("", plural) => matches!(
            plural,
            "namespaces"
                | "pods"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ),
        ("storage.k8s.io", plural) => plural != "csistoragecapacities",
        ("resource.k8s.io", _) => true,
        _ => false,
    }
}

/// Whether dependants of its objects are collected: events go alone, whatever the options say.
pub fn is_collected(definition: &ResourceDefinition) -> bool {
    &*definition.plural != "events" || definition.is_structural()
}

/// The warning that every request on a deprecated resource is answered with.
pub fn deprecation(group: &str, version: &str, plural: &str) -> Option<&'static str> {
    match (group, version, plural) {
        ("", "v1", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "v1", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Metadata that a write of the status leaves as it was.
pub enum StatusMeta {
    /// Labels, annotations, finalizers and owners may change with it.
    Follows,
    /// These may not.
    Keeps(&'static [&'static str]),
}

/// Metadata that others act on.
pub const ACTED_ON: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

/// What a write of the status may do to the metadata.
pub fn status_meta(definition: &ResourceDefinition) -> StatusMeta {
    if definition.is_structural() {
        return StatusMeta::Keeps(ACTED_ON);
    }
    match name(definition) {
        ("apps", "deployments") => StatusMeta::Keeps(&["labels"]),
        ("", "pods") => StatusMeta::Keeps(&["ownerReferences"]),
        (
            "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io"
            | "storage.k8s.io"
            // Annotations of a Cluster say by which key its site speaks: who may write its status alone changes none.
            | "cluster.karmada.io",
            _,
        )
        | ("networking.k8s.io", "servicecidrs") => StatusMeta::Keeps(ACTED_ON),
        _ => StatusMeta::Follows,
    }
}

/// Whether a Job takes its labels from its template: the very same ones, with what is added to those.
pub fn shares_labels(definition: &ResourceDefinition, object: &Value) -> bool {
    let some = |labels: &Value| labels.as_object().is_some_and(|labels| !labels.is_empty());
    &*definition.group == "batch" && &*definition.plural == "jobs" && !some(&object["metadata"]["labels"])
}

/// The package of a group's types.
pub fn package(definition: &ResourceDefinition) -> &str {
    match &*definition.group {
        // Events are of the core, whichever version is spoken.
        "" | "events.k8s.io" => "core",
        "flowcontrol.apiserver.k8s.io" => "flowcontrol",
        group => group.split('.').next().unwrap_or("core"),
    }
}

/// Where kube-apiserver stores an object, which some of its messages tell.
pub fn storage_path(definition: &ResourceDefinition, key: &karmada_schema::object::ObjectKey) -> String {
    let plural = match (&*definition.group, &*definition.plural) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), plural) => format!("{group}/{plural}"),
        (group, plural) if definition.is_structural() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    let place = if key.namespace.is_empty() { String::new() } else { format!("/{}", key.namespace) };
    format!("/registry/{plural}{place}/{}", key.name)
}

/// Whether a change counts as a new generation.
pub fn raises_generation(definition: &ResourceDefinition, old: &Value, new: &Value) -> bool {
    // Only a create counts.
    if name(definition) == ("scheduling.k8s.io", "priorityclasses") {
        return false;
    }
    if content(definition, old) != content(definition, new) {
        return true;
    }
    let differs = |field: &str| !same_map(&old["metadata"][field], &new["metadata"][field]);
    match name(definition) {
        // Annotations are copied to replica sets.
        ("apps", "deployments") => differs("annotations"),
        ("discovery.k8s.io", "endpointslices") => differs("labels"),
        _ => false,
    }
}

/// Whether a change is counted by what was asked for, with what is dropped before it is stored.
pub fn counts_what_is_dropped(definition: &ResourceDefinition) -> bool {
    matches!(name(definition), ("discovery.k8s.io", "endpointslices") | ("resource.k8s.io", "resourceslices"))
}

fn same_map(a: &Value, b: &Value) -> bool {
    let empty = Map::new();
    a.as_object().unwrap_or(&empty) == b.as_object().unwrap_or(&empty)
}

fn content(definition: &ResourceDefinition, object: &Value) -> Map<String, Value> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    for skipped in ["kind", "apiVersion", "metadata"] {
        members.remove(skipped);
    }
    if definition.subresource("status").is_some() {
        members.remove("status");
    }
    members
}

/// Counts a change of anything but metadata and status; `counted`: there was one that what is left does not show.
pub fn raise_generation(
    definition: &ResourceDefinition,
    old: &Value,
    new: &mut Value,
    empties: &Empties,
    counted: bool,
) {
    if !crate::has_generation(definition) {
        return;
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    // Some kinds are compared as Go's memory has them: an empty list is not none.
    let is_literal = match name(definition) {
        ("networking.k8s.io", plural) => plural == "networkpolicies",
        (_, plural) => plural.ends_with("webhookconfigurations"),
    };
    let raises = counted || is_literal && empties.stay_in(new) || raises_generation(definition, old, new);
    set_generation(new, generation + i64::from(raises));
}

/// What is written of a status is no news to who acts on the object, whatever of the metadata comes along.
pub fn keep_generation(definition: &ResourceDefinition, old: &Value, new: &mut Value) {
    if crate::has_generation(definition) {
        set_generation(new, old["metadata"]["generation"].as_i64().unwrap_or(0));
    }
}

fn set_generation(object: &mut Value, generation: i64) {
    let metadata = meta::of(object);
    if generation == 0 {
        metadata.remove("generation");
    } else {
        metadata.insert("generation".into(), generation.into());
    }
}
