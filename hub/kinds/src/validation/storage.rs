//! Storage kinds: classes, drivers, nodes' drivers, capacities, attachments.

use std::collections::BTreeSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, entries, immutable, invalid_each, list, names, resources, text};

/// Bytes that parameters may hold in all.
const MAX_PARAMETERS: usize = 256 << 10;

/// A provisioner's or driver's name.
pub(super) fn provisioner(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        let name = name.to_lowercase();
        invalid_each(errors, path, &name, names::qualified_name(&name));
    }
}

/// Parameters of a class.
pub(super) fn parameters(value: &Value, may_be_empty: bool, path: &Path<'_>, errors: &mut Errors) {
    let all: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    if all.len() > 512 {
        errors.push(FieldError::too_long(path, 512));
        return;
    }
    let mut size = 0;
    for (key, value) in &all {
        if key.is_empty() {
            errors.push(FieldError::invalid(path, "", "field can not be empty."));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS {
        errors.push(FieldError::too_long(path, MAX_PARAMETERS as u64));
    }
    if !may_be_empty && all.is_empty() {
        errors.push(FieldError::required(path, "must contain at least one key/value pair"));
    }
}

pub(crate) fn volume_attributes_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        for (field, detail) in [
            ("driverName", "updates to driverName are forbidden."),
            ("parameters", "updates to parameters are forbidden."),
        ] {
            if new[field] != old[field] {
                errors.push(FieldError::forbidden(&Path::field(field), detail));
            }
        }
    }
    provisioner(text(new, "driverName"), &Path::field("driverName"), errors);
    parameters(&new["parameters"], false, &Path::field("parameters"), errors);
}

pub(crate) fn csi_driver(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    for (field, named) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if spec[field].is_null() {
            errors.push(FieldError::required(&path.child(named), ""));
        }
    }
    let policy = text(spec, "fsGroupPolicy");
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    if !spec["fsGroupPolicy"].is_null() && !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(&path.child("fsGroupPolicy"), policy, &POLICIES));
    }
    token_requests(spec, &path.child("tokenRequests"), errors);
    if let Some(seconds) = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64().filter(|seconds| *seconds < 10)
    {
        let at = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(FieldError::invalid(&at, seconds, "must be greater than or equal to 10 seconds"));
    }
    if let Some(wanted) = spec["serviceAccountTokenInSecrets"].as_bool()
        && list(spec, "tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), wanted, detail));
    }
    for mode in list(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !matches!(mode, "Persistent" | "Ephemeral") {
            let at = path.child("volumeLifecycleModes");
            errors.push(FieldError::not_supported(&at, mode, &["Persistent", "Ephemeral"]));
        }
    }
    if let Some(old) = old {
        let before = &old["spec"];
        for (field, named) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            immutable(&spec[field], &before[field], &path.child(named), errors);
        }
    }
}

fn token_requests(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, request) in list(spec, "tokenRequests").iter().enumerate() {
        let at = path.index(index);
        if !seen.insert(text(request, "audience")) {
            errors.push(FieldError::duplicate(&at.child("audience"), text(request, "audience")));
            continue;
        }
        let Some(seconds) = request["expirationSeconds"].as_i64() else { continue };
        let at = at.child("expirationSeconds");
        if seconds < 600 {
            errors.push(FieldError::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
        }
        if seconds > 1 << 32 {
            errors.push(FieldError::invalid(
                &at,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            ));
        }
    }
}

pub(crate) fn csi_node(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("drivers");
    let mut seen = BTreeSet::new();
    for (index, driver) in list(&new["spec"], "drivers").iter().enumerate() {
        let at = path.index(index);
        super::volume_fields::csi_driver_name(text(driver, "name"), &at.child("name"), errors);
        let node = text(driver, "nodeID");
        if node.is_empty() {
            errors.push(FieldError::required(&at.child("nodeID"), ""));
        }
        if node.len() > 256 {
            errors.push(FieldError::invalid(&at.child("nodeID"), node, "must be 256 characters or less"));
        }
        super::non_negative(&driver["allocatable"], "count", &at.child("allocatable"), errors);
        if !seen.insert(text(driver, "name")) {
            errors.push(FieldError::duplicate(&at.child("name"), text(driver, "name")));
        }
        let mut keys = BTreeSet::new();
        for key in list(driver, "topologyKeys").iter().filter_map(Value::as_str) {
            if key.is_empty() {
                errors.push(FieldError::required(&at, ""));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(&at, key));
            }
            invalid_each(errors, &at, key, names::qualified_name(key));
        }
    }
    for before in old.map_or(&[][..], |old| list(&old["spec"], "drivers")) {
        for now in list(&new["spec"], "drivers") {
            // How many volumes fit may change while the node runs.
            let fixed = |driver: &Value| {
                let mut driver = driver.clone();
                driver.as_object_mut().map(|fields| fields.remove("allocatable"));
                driver
            };
            if now["name"] == before["name"] && fixed(now) != fixed(before) {
                let shown = Shown::Raw(go_struct(&fixed(now)).to_string());
                errors.push(FieldError::invalid(&path, shown, "field is immutable"));
            }
        }
    }
}

pub(crate) fn csi_storage_capacity(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    label_selector(&new["nodeTopology"], &Path::field("nodeTopology"), errors);
    let class = text(new, "storageClassName");
    invalid_each(errors, &Path::field("storageClassName"), class, names::dns_subdomain(class));
    if !new["capacity"].is_null() {
        resources::amount("storage", &new["capacity"], &Path::field("capacity"), errors);
    }
    for field in ["nodeTopology", "storageClassName"] {
        if old.is_some_and(|old| new[field] != old[field]) {
            let shown = super::encoded(&new[field]);
            errors.push(FieldError::invalid(&Path::field(field), shown, "field is immutable"));
        }
    }
}

pub(crate) fn volume_attachment(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    attachment(new, errors);
    if let Some(volume) = spec["source"]["persistentVolumeName"].as_str() {
        let at = Path::field("spec.source.persistentVolumeName");
        invalid_each(errors, &at, volume, names::dns_subdomain(volume));
    }
    if old.is_some_and(|old| old["spec"] != *spec) {
        let shown = Shown::Raw(go_struct(spec).to_string());
        errors.push(FieldError::invalid(&path, shown, "field is immutable"));
    }
}

fn attachment(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    super::volume_fields::csi_driver_name(text(spec, "attacher"), &path.child("attacher"), errors);
    let (source, at) = (&spec["source"], path.child("source"));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source["inlineVolumeSpec"].is_object(), source["persistentVolumeName"].as_str()) {
        (false, None) => errors.push(FieldError::required(&at, ONE)),
        (true, Some(_)) => errors.push(FieldError::forbidden(&at, ONE)),
        (true, None) => {
            let at = at.child("inlineVolumeSpec");
            super::volume_sources::spec(&source["inlineVolumeSpec"], "", true, &at, errors);
        }
        (_, Some("")) => errors.push(FieldError::required(
            &at.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        )),
        _ => {}
    }
    let node = text(spec, "nodeName");
    invalid_each(errors, &path.child("nodeName"), node, names::dns_subdomain(node));
    attachment_status(new, errors);
}

/// How an attachment went.
pub(crate) fn attachment_status(new: &Value, errors: &mut Errors) {
    for (field, problem) in entries(new, "status").filter(|(field, _)| field.ends_with("Error")) {
        if text(problem, "message").len() > 1024 {
            let at = Path::field("status");
            errors.push(FieldError::too_long(&at.child(field).child("message"), MAX_PARAMETERS as u64));
        }
        if let Some(code) = problem["errorCode"].as_i64().filter(|code| *code < 0) {
            let at = Path::field("status");
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(&at.child(field).child("errorCode"), code, detail));
        }
    }
}
