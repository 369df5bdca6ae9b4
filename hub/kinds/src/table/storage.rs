//! Volumes, storage classes and device claims.
//!
//! In: an object of one of these kinds, and the time. Out: its cells in the order of the kind's columns in `data/catalogue.jsonl`, wide
//! ones included. An old annotation that names a storage class wins over the field.

use serde_json::Value;

use super::Row;
use super::cells::{Fields as _, NONE, UNSET, joined, scalar, texts};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn class(row: Row<'_>) -> Value {
    let annotation = row.at("/metadata/annotations")[CLASS_ANNOTATION].as_str();
    annotation.or(row.text("/spec/storageClassName")).unwrap_or_default().into()
}

fn phase(row: Row<'_>) -> Value {
    if row.is_deleting() { "Terminating".into() } else { row.text_or("/status/phase", "") }
}

fn text_or_unset(row: Row<'_>, pointer: &str) -> Value {
    row.text(pointer).unwrap_or(UNSET).into()
}

pub(crate) fn persistent_volume(row: Row<'_>) -> Vec<Value> {
    let claim = row.at("/spec/claimRef");
    let claim = if claim.is_object() {
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        format!("{}/{}", text("namespace"), text("name"))
    } else {
        String::new()
    };
    vec![
        row.name(),
        scalar(row.at("/spec/capacity/storage")).into(),
        access_modes(row.list("/spec/accessModes")).into(),
        row.text_or("/spec/persistentVolumeReclaimPolicy", ""),
        phase(row),
        claim.into(),
        class(row),
        text_or_unset(row, "/spec/volumeAttributesClassName"),
        row.text_or("/status/reason", ""),
        row.age(),
        text_or_unset(row, "/spec/volumeMode"),
    ]
}

pub(crate) fn persistent_volume_claim(row: Row<'_>) -> Vec<Value> {
    let volume = row.text("/spec/volumeName").unwrap_or_default();
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (scalar(row.at("/status/capacity/storage")), access_modes(row.list("/status/accessModes")))
    };
    vec![
        row.name(),
        phase(row),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(row),
        text_or_unset(row, "/spec/volumeAttributesClassName"),
        row.age(),
        text_or_unset(row, "/spec/volumeMode"),
    ]
}

pub(crate) fn storage_class(row: Row<'_>) -> Vec<Value> {
    let annotations = row.at("/metadata/annotations");
    let is_default =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|key| annotations[*key] == "true");
    let name = scalar(row.at("/metadata/name"));
    vec![
        if is_default { format!("{name} (default)").into() } else { name.into() },
        row.text_or("/provisioner", ""),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        (row.at("/allowVolumeExpansion") == true).into(),
        row.age(),
    ]
}

pub(crate) fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let flag = |field: &str, otherwise: bool| {
        Value::from(row.at(&format!("/spec/{field}")).as_bool().unwrap_or(otherwise))
    };
    let modes = texts(row.list("/spec/volumeLifecycleModes"), ",");
    let tokens = match row.at("/spec/tokenRequests") {
        Value::Array(requests) => joined(requests, "audience", ","),
        _ => UNSET.to_owned(),
    };
    vec![
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens.into(),
        flag("requiresRepublish", false),
        if modes.is_empty() { NONE.into() } else { modes.into() },
        row.age(),
    ]
}

pub(crate) fn csi_node(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.list("/spec/drivers").len().into(), row.age()]
}

pub(crate) fn volume_attachment(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text_or("/spec/attacher", ""),
        row.text_or("/spec/source/persistentVolumeName", ""),
        row.text_or("/spec/nodeName", ""),
        (row.at("/status/attached") == true).into(),
        row.age(),
    ]
}

pub(crate) fn volume_attributes_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text_or("/driverName", ""), row.age()]
}

pub(crate) fn resource_claim(row: Row<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if row.is_deleting() {
        states.push("deleted");
    }
    if row.at("/status/allocation").is_object() {
        states.push("allocated");
        if !row.list("/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !row.is_deleting() {
        states.push("pending");
    }
    vec![row.name(), states.join(",").into(), row.age()]
}

pub(crate) fn resource_slice(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text_or("/spec/nodeName", ""),
        row.text_or("/spec/driver", ""),
        row.text_or("/spec/pool/name", ""),
        row.age(),
    ]
}
