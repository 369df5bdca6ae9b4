//! Where a container finds the Pod's volumes: as folders, or as devices.
//!
//! In: a container, and the Pod's volumes by name. Out: field errors.

use std::collections::{BTreeMap, BTreeSet};

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::security::descending;
use crate::validation::{Errors, list, text};

type Volumes<'v> = BTreeMap<String, &'v Value>;

/// What a field says in each item.
fn texts<'a>(all: &'a [Value], field: &str) -> BTreeSet<&'a str> {
    all.iter().map(|one| text(one, field)).collect()
}

/// The folders of a container.
pub(super) fn mounts(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let devices = list(container, "volumeDevices");
    let (device_names, device_paths) = (texts(devices, "name"), texts(devices, "devicePath"));
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if !seen.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "must be unique"));
        }
        if device_names.contains(name) {
            let detail = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid(&at.child("name"), name, detail));
        }
        if device_paths.contains(target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&at.child("mountPath"), target, detail));
        }
        // Below the list, not the item: so kube-apiserver says it.
        descending(text(mount, "subPath"), &path.child("subPath"), errors);
        let expression = text(mount, "subPathExpr");
        if !text(mount, "subPath").is_empty() && !expression.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(&at.child("subPathExpr"), expression, detail));
        }
        descending(expression, &path.child("subPathExpr"), errors);
        propagation(mount, container, path, errors);
    }
}

/// How mounts of the node and of the container reach each other, and how deep a mount is read-only.
fn propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let at = path.child("mountPropagation");
    let mode = mount["mountPropagation"].as_str();
    if let Some(mode) = mode.filter(|mode| !KNOWN.contains(mode)) {
        errors.push(FieldError::not_supported(&at, mode, &KNOWN));
    }
    if mode == Some("Bidirectional") && container["securityContext"]["privileged"] != true {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(&at, detail));
    }
    let at = path.child("recursiveReadOnly");
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                errors.push(FieldError::forbidden(&at, "may only be specified when readOnly is true"));
            }
            if mode.is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(&at, detail));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(&at, other, &["Disabled", "Enabled", "IfPossible"]));
        }
    }
}

/// The devices of a container: claims alone can be some.
pub(super) fn devices(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mounts = list(container, "volumeMounts");
    let (mount_names, mount_paths) = (texts(mounts, "name"), texts(mounts, "mountPath"));
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        let mut name_is = |detail: &str| errors.push(FieldError::invalid(&at.child("name"), name, detail));
        let volume = volumes.get(name);
        if names.contains(name) {
            name_is("must be unique");
        }
        if volume
            .is_some_and(|one| !one["persistentVolumeClaim"].is_object() && !one["ephemeral"].is_object())
        {
            name_is("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
        }
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if volume.is_none() {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        let path_at = at.child("devicePath");
        if target.is_empty() {
            errors.push(FieldError::required(&path_at, ""));
        }
        if paths.contains(target) {
            errors.push(FieldError::invalid(&path_at, target, "must be unique"));
        }
        if target.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(&path_at, target, "can not contain backsteps ('..')"));
        } else {
            paths.insert(target);
        }
        if mount_names.contains(name) {
            let detail = "must not already exist in volumeMounts";
            errors.push(FieldError::invalid(&at.child("name"), name, detail));
        }
        if mount_paths.contains(target) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&path_at, target, detail));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
