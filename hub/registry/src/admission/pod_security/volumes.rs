//! Checks of Pod security about volumes.
//!
//! In: a [`Pod`] with the version of the rules that it is judged by. Out: for each check a [`Violation`] with kube-apiserver's words, or
//! `None`. Pure; whether a claimed volume is one of the node's is not known here.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{Pod, Violation, name, number, quoted};

/// Sources that anybody may mount.
const FREE: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Sources that are known and restricted.
const RESTRICTED: [&str; 21] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

fn has(volume: &Value, source: &str) -> bool {
    !volume[source].is_null()
}

fn called(names: &[&str]) -> String {
    format!("{} {}", number("volume", "volumes", names.len()), quoted(names))
}

/// Nothing of the node's disk.
pub(super) fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let names: Vec<&str> = pod.volumes().filter(|volume| has(volume, "hostPath")).map(name).collect();
    (!names.is_empty()).then(|| Violation { reason: "hostPath volumes", detail: called(&names) })
}

/// Only what belongs to the Pod or is claimed.
pub(super) fn restricted(pod: &Pod<'_>) -> Option<Violation> {
    let wrong: Vec<&Value> =
        pod.volumes().filter(|volume| !FREE.iter().any(|source| has(volume, source))).collect();
    let source =
        |volume: &&Value| RESTRICTED.into_iter().find(|source| has(volume, source)).unwrap_or("unknown");
    let sources: BTreeSet<&str> = wrong.iter().map(source).collect();
    let names: Vec<&str> = wrong.into_iter().map(name).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {}",
            called(&names),
            number("uses", "use", names.len()),
            number("restricted volume type", "restricted volume types", sources.len()),
            quoted(&sources)
        ),
    })
}
