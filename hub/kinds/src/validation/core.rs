//! Configuration, namespaces and claims.
//!
//! In: an object of one of these kinds, or a part of it, on an update with what stands. Out: field errors in kube-apiserver's order. A
//! claim's spec is judged the same way in templates of other kinds.

use karmada_quantity::Quantity;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::{Errors, amount_shown, entries, facts, immutable, invalid_each, judge, list, names, text};

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

pub(crate) fn config_map(new: &Value, old: Option<&Value>, errors: &mut Errors) {
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

pub(crate) fn secret(new: &Value, old: Option<&Value>, errors: &mut Errors) {
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

/// What Go says of bytes that are no JSON object, as far as the first bytes tell.
pub(super) fn json_problem(bytes: &[u8]) -> String {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{') => "unexpected end of JSON input".to_owned(),
        Some(b'[') => "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned(),
        Some(b'"') => {
            "json: cannot unmarshal string into Go value of type map[string]interface {}".to_owned()
        }
        Some(first @ (b'n' | b't' | b'f')) => {
            let word = match first {
                b'n' => "null",
                b't' => "true",
                _ => "false",
            };
            let given = bytes.trim_ascii();
            let at = word.bytes().zip(given).position(|(a, b)| a != *b);
            match at {
                Some(at) => format!(
                    "invalid character '{}' in literal {word} (expecting '{}')",
                    char::from(given[at]),
                    char::from(word.as_bytes()[at])
                ),
                None => "unexpected end of JSON input".to_owned(),
            }
        }
        Some(byte) => format!("invalid character '{}' looking for beginning of value", char::from(*byte)),
    }
}

pub(crate) fn namespace(new: &Value, errors: &mut Errors) {
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

pub(crate) fn persistent_volume_claim(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let Some(old) = old else { return claim_spec(spec, &path, errors) };
    // Older versions took any group here: where the stored claim names one, an update may name any.
    let named = |field: &str| old["spec"][field]["apiGroup"].is_string();
    let groups = if named("dataSource") || named("dataSourceRef") { Groups::Any } else { Groups::Names };
    claim(spec, groups, &path, errors);
    claim_update(new, old, &path, errors);
}

/// What the groups of a claim's sources may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    Names,
    Any,
}

/// The spec of a new claim, or of a template of claims.
pub(super) fn claim_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    claim(spec, Groups::Names, path, errors);
}

fn claim(spec: &Value, groups: Groups, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::CORE_V1_PERSISTENT_VOLUME_CLAIM_SPEC, spec, None, path, errors);
    data_sources(spec, groups, path, errors);
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        invalid_each(errors, &path.child("volumeAttributesClassName"), class, names::dns_subdomain(class));
    }
}

/// How much a claim asks for. As in kube-apiserver, errors leave `requests` out of the path.
pub(super) fn asked_storage(resources: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (asked, path) = (&resources["requests"]["storage"], path.key("storage"));
    match Quantity::from_value(asked) {
        None => errors.push(FieldError::required(&path, "")),
        Some(size) if size.nanos() <= 0 => {
            errors.push(FieldError::invalid(&path, amount_shown(asked), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

/// What a new volume is filled from.
fn data_sources(spec: &Value, groups: Groups, path: &Path<'_>, errors: &mut Errors) {
    for field in ["dataSource", "dataSourceRef"] {
        let (source, at) = (&spec[field], path.child(field));
        if !source.is_object() {
            continue;
        }
        judge(facts::CORE_V1_TYPED_OBJECT_REFERENCE, source, None, &at, errors);
        let group = text(source, "apiGroup");
        if group.is_empty() && text(source, "kind") != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(&at, text(source, "kind"), detail));
        }
        if !group.is_empty() && groups == Groups::Names {
            invalid_each(errors, &at.child("apiGroup"), group, names::dns_subdomain(group));
        }
        let namespace = text(source, "namespace");
        if !namespace.is_empty() {
            invalid_each(errors, &at.child("namespace"), namespace, names::dns_label(namespace));
        }
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let differ = ["apiGroup", "kind", "name"].iter().any(|part| source[*part] != reference[*part]);
    let detail = match text(reference, "namespace") {
        "" if reference.is_object() && differ => "must match dataSourceRef",
        "" => return,
        _ => "may not be specified when dataSourceRef.namespace is specified",
    };
    if source.is_object() {
        // kube-apiserver shows a path of fields as the value here, which prints as `{}`.
        errors.push(FieldError::invalid(path, Shown::Raw("{}".to_owned()), detail));
    }
}

fn claim_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let class = |object: &Value| object["metadata"]["annotations"][CLASS].clone();
    if class(new) != class(old) {
        let meta = Path::field("metadata");
        let at = meta.child("annotations");
        errors.push(FieldError::invalid(&at.child(CLASS), class(new), "field is immutable"));
    }
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
    let size = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Quantity::from_value).map_or(0, |size| size.nanos())
    };
    let asked = "/spec/resources/requests/storage";
    // A request that is left out counts as zero: the volume would shrink to nothing.
    if size(new, asked) < size(old, asked) && size(new, asked) <= size(old, "/status/capacity/storage") {
        let resources = path.child("resources");
        let requests = resources.child("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(&requests.child("storage"), detail));
    }
    immutable(&new["spec"]["volumeMode"], &old["spec"]["volumeMode"], &Path::field("volumeMode"), errors);
}
