//! Annotations that mean something to a Pod: mirrors of static Pods, the cost of its deletion, profiles that are fields by now.
//!
//! In: a Pod's or a template's metadata and spec. Out: field errors. On update what some of them may become.

use std::collections::BTreeSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, quote};
use serde_json::{Value, json};

use crate::validation::{Errors, list, scheduling, security, text};

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(in crate::validation) const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Followed by a container's name, as is the next.
pub(in crate::validation) const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(in crate::validation) const ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The annotations of `metadata`, each with its text.
fn all(metadata: &Value) -> impl Iterator<Item = (&str, &str)> {
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Every container with the path of its list and its place there.
fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| list(spec, field).iter().enumerate().map(move |(index, one)| (field, index, one)))
}

/// What the annotations say by themselves.
pub(super) fn judge(metadata: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let value = |key: &str| metadata["annotations"][key].as_str();
    if let Some(mirror) = value(MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), mirror, detail));
    }
    let tolerations = value(TOLERATIONS).and_then(|said| serde_json::from_str::<Value>(said).ok());
    if let Some(tolerations) = tolerations.filter(Value::is_array) {
        scheduling::tolerations(&tolerations, None, &path.child(TOLERATIONS), errors);
    }
    if let Some(cost) = value(DELETION_COST).filter(|cost| !is_cost(cost)) {
        errors.push(FieldError::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    for (key, profile) in all(metadata).filter(|(key, _)| *key == SECCOMP || key.starts_with(SECCOMP_OF)) {
        seccomp(profile, &path.child(key), errors);
    }
    let known: BTreeSet<&str> = containers(spec).map(|(_, _, one)| text(one, "name")).collect();
    for (key, profile) in all(metadata) {
        let Some(container) = key.strip_prefix(ARMOR_OF) else { continue };
        if !known.contains(container) {
            errors.push(FieldError::invalid(&path.key(key), container, "container not found"));
        }
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: {}", quote(profile));
            errors.push(FieldError::invalid(&path.key(key), profile, detail));
        }
    }
}

/// A whole number of 32 bits, written without a plus and without zeros before it.
fn is_cost(text: &str) -> bool {
    let first = text.bytes().next();
    let is_plain = text == "0" || matches!(first, Some(b'-' | b'1'..=b'9'));
    is_plain && text.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, path: &Path<'_>, errors: &mut Errors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(file) => security::descending(file, path, errors),
        None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
    }
}

/// The field that an annotation stands for: its type, and the profile on the node.
fn field_of(annotation: &str) -> Option<(&'static str, Option<&str>)> {
    match annotation {
        "unconfined" => Some(("Unconfined", None)),
        "runtime/default" | "docker/default" => Some(("RuntimeDefault", None)),
        _ => annotation.strip_prefix("localhost/").map(|file| ("Localhost", Some(file))),
    }
}

/// What is said of a profile in an annotation; `place` is where its metadata is.
pub(in crate::validation) fn deprecated(place: &str, key: &str) -> String {
    format!(
        "{place}metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
    )
}

/// Gives a new Pod's containers the profiles that annotations name, as fields. Answers what to tell the client.
pub(crate) fn app_armor_from_annotations(pod: &mut Value) -> Vec<String> {
    let (annotations, mut warnings) = (pod["metadata"]["annotations"].clone(), Vec::new());
    let whole = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for one in pod["spec"].get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let key = format!("{ARMOR_OF}{}", text(one, "name"));
            let said = annotations[key.as_str()].as_str();
            let Some(said) = said.filter(|_| !one["securityContext"]["appArmorProfile"].is_object()) else {
                continue;
            };
            warnings.push(deprecated("", &key));
            let Some((kind, file)) = field_of(said) else { continue };
            let mut profile = json!({"type": kind});
            if let Some(file) = file {
                profile["localhostProfile"] = file.into();
            }
            if profile != whole {
                one["securityContext"]["appArmorProfile"] = profile;
            }
        }
    }
    warnings
}

/// Where a new Pod says a profile twice, it says the same.
pub(super) fn agree(metadata: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let annotation = |key: String| metadata["annotations"][key.as_str()].as_str();
    let context = path.child("securityContext");
    if let Some(said) = annotation(SECCOMP.to_owned()) {
        let field = &spec["securityContext"]["seccompProfile"];
        same(said, field, "seccomp", &context.child("seccompProfile"), errors);
    }
    let none = Value::Null;
    let armor_of_all = &spec["securityContext"]["appArmorProfile"];
    for (what, prefix, profile, of_all) in [
        ("seccomp", SECCOMP_OF, "seccompProfile", &none),
        ("apparmor", ARMOR_OF, "appArmorProfile", armor_of_all),
    ] {
        for (field, index, one) in containers(spec) {
            let Some(said) = annotation(format!("{prefix}{}", text(one, "name"))) else { continue };
            let own = &one["securityContext"][profile];
            let field = path.child(field);
            let at = field.index(index);
            let at = at.child("securityContext");
            same(said, if own.is_object() { own } else { of_all }, what, &at.child(profile), errors);
        }
    }
}

fn same(annotation: &str, field: &Value, what: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some((kind, file)) = field_of(annotation).filter(|_| field.is_object()) else { return };
    if text(field, "type") != kind {
        let detail = format!("{what} type in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("type"), detail));
    } else if field["localhostProfile"].as_str() != file {
        let detail = format!("{what} profile in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("localhostProfile"), detail));
    }
}

/// What a Pod is and how it is confined is said once.
pub(super) fn changed(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let armor = |key: &str| key.starts_with(ARMOR_OF);
    for (key, before) in all(&old["metadata"]) {
        if new["metadata"]["annotations"][key] == before {
            continue;
        }
        if armor(key) {
            let detail = "may not remove or update AppArmor annotations";
            errors.push(FieldError::forbidden(&path.key(key), detail));
        }
        if key == MIRROR {
            let detail = "may not remove or update mirror pod annotation";
            errors.push(FieldError::forbidden(&path.key(key), detail));
        }
    }
    for (key, _) in all(&new["metadata"]).filter(|(key, _)| !old["metadata"]["annotations"][key].is_string())
    {
        if armor(key) {
            errors.push(FieldError::forbidden(&path.key(key), "may not add AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(FieldError::forbidden(&path.key(key), "may not add mirror pod annotation"));
        }
    }
    judge(&new["metadata"], &new["spec"], path, errors);
}
