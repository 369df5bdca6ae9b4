//! Configuration, namespaces, claims, volumes, quotas, classes, leases.

use serde_json::Value;

use super::resources::amount;
use super::selector::label_selector;
use super::{Errors, entries, immutable, invalid_each, list, names, one_of, text};
use crate::schema::FieldError;
use crate::schema::path::Path;
use crate::schema::quantity::Quantity;

/// Secrets and ConfigMaps hold at most this many bytes.
const MAX_DATA: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

/// An object that was frozen stays so, data and all.
fn frozen(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Errors) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    if new["immutable"] != true {
        errors.push(FieldError::forbidden(&Path::field("immutable"), FROZEN));
    }
    for field in fields {
        if new[*field] != old[*field] {
            errors.push(FieldError::forbidden(&Path::field(field), FROZEN));
        }
    }
}

fn keys(object: &Value, field: &str, errors: &mut Errors) {
    let path = Path::field(field);
    for (key, _) in entries(object, field) {
        invalid_each(errors, &path.key(key), key, names::config_key(key));
    }
}

/// What base64 text holds, in bytes.
fn decoded(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|b| *b == b'=').count())
}

pub(super) fn config_map(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    frozen(new, old, &["data", "binaryData"], errors);
    keys(new, "data", errors);
    keys(new, "binaryData", errors);
    let data = Path::field("data");
    for (key, _) in entries(new, "data").filter(|(key, _)| new["binaryData"].get(key.as_str()).is_some()) {
        errors.push(FieldError::invalid(
            &data.key(key),
            key.as_str(),
            "duplicate of key present in binaryData",
        ));
    }
    let texts: usize = entries(new, "data").map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
    let bytes: usize = entries(new, "binaryData").map(|(_, value)| decoded(value)).sum();
    if texts + bytes > MAX_DATA {
        errors.push(FieldError::too_long(&Path::field("[]"), MAX_DATA as u64));
    }
}

pub(super) fn secret(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        immutable(&new["type"], &old["type"], &Path::field("type"), errors);
    }
    frozen(new, old, &["data"], errors);
    keys(new, "data", errors);
    let data = Path::field("data");
    if entries(new, "data").map(|(_, value)| decoded(value)).sum::<usize>() > MAX_DATA {
        errors.push(FieldError::too_long(&data, MAX_DATA as u64));
    }
    let has = |key: &str| new["data"].get(key).is_some();
    let mut need = |key: &str| errors.push(FieldError::required(&data.key(key), ""));
    match text(new, "type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if new["metadata"]["annotations"][annotation].as_str().is_none_or(str::is_empty) {
                let meta = Path::field("metadata");
                errors.push(FieldError::required(&meta.child("annotations").key(annotation), ""));
            }
        }
        "kubernetes.io/dockercfg" => json_key(new, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_key(new, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if new["data"]["ssh-privatekey"].as_str().is_none_or(str::is_empty) => {
            need("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).for_each(need);
        }
        _ => {}
    }
}

/// A key that must be there and hold a JSON object.
fn json_key(secret: &Value, key: &str, errors: &mut Errors) {
    use base64::Engine as _;
    let data = Path::field("data");
    let at = data.key(key);
    let Some(text) = secret["data"][key].as_str() else {
        errors.push(FieldError::required(&at, ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).is_err() {
        errors.push(FieldError::invalid(&at, "<secret contents redacted>", json_problem(&bytes)));
    }
}

/// What Go says of bytes that are no JSON object, as far as the first byte tells.
fn json_problem(bytes: &[u8]) -> String {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{') => "unexpected end of JSON input".to_owned(),
        Some(b'[') => "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned(),
        Some(b'"') => {
            "json: cannot unmarshal string into Go value of type map[string]interface {}".to_owned()
        }
        Some(byte) => format!("invalid character '{}' looking for beginning of value", char::from(*byte)),
    }
}

pub(super) fn namespace(new: &Value, errors: &mut Errors) {
    let spec = Path::field("spec");
    for finalizer in list(&new["spec"], "finalizers").iter().filter_map(Value::as_str) {
        let path = spec.child("finalizers");
        invalid_each(errors, &path, finalizer, names::qualified_name(finalizer));
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path, finalizer, detail));
        }
    }
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn persistent_volume_claim(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let modes = list(spec, "accessModes");
    let at = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&at, "at least 1 access mode is required"));
    }
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&at, mode, &ACCESS_MODES));
    }
    let known = |mode: &&Value| mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode));
    if modes.iter().any(|mode| mode == "ReadWriteOncePod")
        && modes.iter().filter(known).any(|mode| mode != "ReadWriteOncePod")
    {
        errors.push(FieldError::forbidden(&at, "may not use ReadWriteOncePod with other access modes"));
    }
    label_selector(&spec["selector"], &path.child("selector"), errors);
    let resources = path.child("resources");
    let storage = resources.key("storage");
    match Quantity::from_value(&spec["resources"]["requests"]["storage"]) {
        None => errors.push(FieldError::required(&storage, "")),
        Some(size) if size.nanos() <= 0 => {
            errors.push(FieldError::invalid(&storage, size.canonical(), "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        invalid_each(errors, &path.child("storageClassName"), class, names::dns_subdomain(class));
    }
    let mode = text(spec, "volumeMode");
    if !matches!(mode, "" | "Block" | "Filesystem") {
        errors.push(FieldError::not_supported(&path.child("volumeMode"), mode, &["Block", "Filesystem"]));
    }
    if let Some(old) = old {
        claim_update(new, old, &path, errors);
    }
}

fn claim_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let bound = new["status"]["phase"] == "Bound";
    let rest = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(spec) = spec.as_object_mut() {
            if text(&old["spec"], "volumeName").is_empty() {
                spec.remove("volumeName");
            }
            if bound {
                spec.remove("volumeAttributesClassName");
                if let Some(requests) =
                    spec.get_mut("resources").and_then(|r| r.get_mut("requests")?.as_object_mut())
                {
                    requests.remove("storage");
                }
            }
            // A class that was never set may be filled in.
            if old["spec"]["storageClassName"].is_null() {
                spec.remove("storageClassName");
            }
        }
        spec
    };
    if rest(new) != rest(old) {
        errors.push(FieldError::forbidden(
            path,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Quantity::from_value);
    let request = "/spec/resources/requests/storage";
    if let (Some(new_size), Some(old_size)) = (size(new, request), size(old, request)) {
        let capacity = size(old, "/status/capacity/storage").map_or(0, Quantity::nanos);
        if new_size < old_size && new_size.nanos() <= capacity {
            let resources = path.child("resources");
            let requests = resources.child("requests");
            let detail = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden(&requests.child("storage"), detail));
        }
    }
}

/// What of a volume's spec is not its source.
const VOLUME_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn persistent_volume(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path.child("accessModes"), ""));
    }
    let at = path.child("accessModes");
    for mode in
        list(spec, "accessModes").iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode))
    {
        errors.push(FieldError::not_supported(&at, mode, &ACCESS_MODES));
    }
    let capacity = path.child("capacity");
    if entries(spec, "capacity").next().is_none() {
        errors.push(FieldError::required(&capacity, ""));
    }
    if spec["capacity"].get("storage").is_none() {
        errors.push(FieldError::not_supported(&capacity, spec["capacity"].clone(), &["storage"]));
    }
    let sources: Vec<&String> = entries(new, "spec")
        .map(|(field, _)| field)
        .filter(|field| !VOLUME_FIELDS.contains(&field.as_str()) && !spec[field.as_str()].is_null())
        .collect();
    if sources.is_empty() {
        errors.push(FieldError::required(&path, "must specify a volume type"));
    }
    for extra in sources.iter().skip(1) {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 volume type"));
    }
    for (name, value) in entries(spec, "capacity") {
        amount(name, value, &capacity.key(name), errors);
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !matches!(policy, "" | "Retain" | "Delete" | "Recycle") {
        let at = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::not_supported(&at, policy, &["Delete", "Recycle", "Retain"]));
    }
}

pub(super) fn resource_quota(new: &Value, errors: &mut Errors) {
    let spec = Path::field("spec");
    let hard = spec.child("hard");
    for (name, value) in entries(&new["spec"], "hard") {
        amount(name, value, &hard.key(name), errors);
    }
}

pub(super) fn storage_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if old.is_none() {
        super::storage::provisioner(text(new, "provisioner"), &Path::field("provisioner"), errors);
        super::storage::parameters(&new["parameters"], true, &Path::field("parameters"), errors);
    }
    one_of(new, "reclaimPolicy", &["Delete", "Retain"], &Path::ROOT, errors);
    one_of(new, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &Path::ROOT, errors);
    let Some(old) = old else { return };
    for (field, detail) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new[field] != old[field] {
            errors.push(FieldError::forbidden(&Path::field(field), detail));
        }
    }
    immutable(
        &new["volumeBindingMode"],
        &old["volumeBindingMode"],
        &Path::field("volumeBindingMode"),
        errors,
    );
}

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    const HIGHEST: i64 = 1_000_000_000;
    let (name, value) = (text(&new["metadata"], "name"), new["value"].as_i64().unwrap_or(0));
    if name.starts_with("system-") && !matches!(name, "system-node-critical" | "system-cluster-critical") {
        let meta = Path::field("metadata");
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: name is not a \
                      known system priority class name";
        errors.push(FieldError::forbidden(&meta.child("name"), detail));
    } else if value > HIGHEST && !name.starts_with("system-") {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden(&Path::field("value"), detail));
    }
    if let Some(old) = old {
        if new["value"] != old["value"] {
            errors.push(FieldError::forbidden(&Path::field("value"), "may not be changed in an update."));
        }
        immutable(
            &new["preemptionPolicy"],
            &old["preemptionPolicy"],
            &Path::field("preemptionPolicy"),
            errors,
        );
    }
}

pub(super) fn lease(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            &path.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if let Some(transitions) = spec["leaseTransitions"].as_i64().filter(|transitions| *transitions < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("leaseTransitions"), transitions, detail));
    }
}
