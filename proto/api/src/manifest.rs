//! What of a template may travel to a member: server-filled fields go, and what the hub set is recorded.
//!
//! In: a template as JSON. Out: the same object without what one API server filled in for itself, and with the lists by which an agent later tells the hub's labels and annotations
//! from those that were added in the member.

use serde_json::{Map, Value};

use crate::object;
use crate::strings::annotations::{MANAGED_ANNOTATIONS, MANAGED_LABELS};

/// Metadata that belongs to one API server alone.
const SERVER_METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// Labels that the Job controller sets, in both spellings.
const JOB_LABELS: [&str; 4] =
    ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];

/// Removes what one API server filled in. `drop_job_ttl`: a finished Job shall not vanish from the member before
/// the hub knows that it finished, so on the way into a Work its time to live goes too.
pub fn prune(manifest: &mut Value, drop_job_ttl: bool) {
    let kind = object::kind(manifest).to_owned();
    let Some(root) = manifest.as_object_mut() else { return };
    root.remove("status");
    if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_METADATA {
            metadata.remove(field);
        }
    }
    // The kind alone decides, whatever the group.
    match kind.as_str() {
        "Deployment" => prune_deployment(manifest),
        "Job" => prune_job(manifest, drop_job_ttl),
        "Service" => prune_service(manifest),
        "ServiceAccount" => prune_service_account(manifest),
        "Secret" => prune_secret(manifest),
        "PersistentVolumeClaim" => prune_claim(manifest),
        _ => {}
    }
}

fn prune_deployment(manifest: &mut Value) {
    object::remove_annotation(manifest, "deployment.kubernetes.io/revision");
    object::remove_annotation(manifest, "deployment.kubernetes.io/revision-history");
}

fn prune_job(manifest: &mut Value, drop_ttl: bool) {
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if drop_ttl {
        spec.remove("ttlSecondsAfterFinished");
    }
    if spec.get("manualSelector").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let remove = |map: Option<&mut Value>| {
        if let Some(map) = map.and_then(Value::as_object_mut) {
            for label in JOB_LABELS {
                map.remove(label);
            }
        }
    };
    remove(spec.get_mut("selector").and_then(|s| s.get_mut("matchLabels")));
    remove(spec.get_mut("template").and_then(|t| t.get_mut("metadata")).and_then(|m| m.get_mut("labels")));
}

fn prune_service(manifest: &mut Value) {
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let assigned = spec.get("clusterIP").and_then(Value::as_str).is_some_and(|ip| ip != "None");
    if assigned {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

fn prune_service_account(manifest: &mut Value) {
    let generated = format!("{}-token-", object::name(manifest));
    if let Some(secrets) = manifest.get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| {
            !secret.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(&generated))
        });
    }
}

fn prune_secret(manifest: &mut Value) {
    if manifest.get("type").and_then(Value::as_str) != Some("kubernetes.io/service-account-token") {
        return;
    }
    object::root(manifest).insert("data".to_owned(), Value::Null);
    object::remove_annotation(manifest, "kubernetes.io/service-account.uid");
}

fn prune_claim(manifest: &mut Value) {
    const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    if object::annotation(manifest, SELECTED_NODE).is_some_and(|node| !node.is_empty()) {
        object::remove_annotation(manifest, SELECTED_NODE);
    }
}

/// The keys of a metadata map, sorted, joined by commas.
fn keys(metadata: &Map<String, Value>, map: &str) -> String {
    let mut keys: Vec<&str> = metadata
        .get(map)
        .and_then(Value::as_object)
        .map(|entries| entries.keys().map(String::as_str).collect())
        .unwrap_or_default();
    keys.sort_unstable();
    keys.join(",")
}

/// Records on the manifest which labels and annotations it has, the record itself included.
pub fn record_managed(manifest: &mut Value) {
    let metadata = object::metadata(manifest);
    let labels = keys(metadata, "labels");
    let annotations = object::child(metadata, "annotations");
    annotations.insert(MANAGED_LABELS.to_owned(), Value::from(labels));
    annotations.entry(MANAGED_ANNOTATIONS).or_insert(Value::Null);
    let list = keys(metadata, "annotations");
    object::child(metadata, "annotations").insert(MANAGED_ANNOTATIONS.to_owned(), Value::from(list));
}
