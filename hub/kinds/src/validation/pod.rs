//! Pods, and the templates of them.
//!
//! In: a Pod or a template, on update also what is stored. Out: field errors.

pub(crate) mod annotations;
mod containers;
mod environment;
mod ephemeral;
mod handlers;
mod mounts;
pub(crate) mod resources;
mod restarts;
mod update;
mod windows;
mod windows_options;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::metadata::{annotations, labels};
use super::{Errors, facts, invalid_each, judge, list, names, text, volumes};
use containers::Of;
pub(super) use environment::{Teller, references};
pub(super) use handlers::number_each;
pub(crate) use update::{ephemeral, resized};
pub(super) use windows_options::{host_processes, options as options_for_windows};

/// A Pod itself.
pub(crate) fn pod(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let metadata = Path::field("metadata");
    let annotations = metadata.child("annotations");
    annotations::judge(&new["metadata"], &new["spec"], &annotations, errors);
    let stood = old.map(|old| &old["spec"]);
    spec(&new["spec"], Some(&new["metadata"]), stood, &Path::field("spec"), errors);
    containers::images(&new["spec"], &Path::field("spec"), errors);
    tokens(&new["spec"], errors);
    if old.is_none() && !list(&new["spec"], "ephemeralContainers").is_empty() {
        let at = Path::field("spec");
        errors.push(FieldError::forbidden(&at.child("ephemeralContainers"), "cannot be set on create"));
    }
    let gated = !list(&new["spec"], "schedulingGates").is_empty();
    if old.is_none() && gated && !text(&new["spec"], "nodeName").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&Path::field("spec").child("nodeName"), detail));
    }
    match old {
        Some(old) => {
            annotations::changed(new, old, &annotations, errors);
            update::changed(&new["spec"], &old["spec"], errors);
        }
        None => annotations::agree(&new["metadata"], &new["spec"], &Path::field("spec"), errors),
    }
}

/// A Pod without a ServiceAccount may have no volume with its token.
fn tokens(spec: &Value, errors: &mut Errors) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    let path = Path::field("spec");
    let path = path.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = path.index(index);
        let at = at.child("projected");
        let at = at.child("sources");
        for (index, source) in list(&volume["projected"], "sources").iter().enumerate() {
            if source["serviceAccountToken"].is_object() {
                let at = at.index(index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(FieldError::forbidden(&at.child("serviceAccountToken"), detail));
            }
        }
    }
}

/// A Pod template.
pub(crate) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&template["metadata"]["labels"], &path.child("labels"), errors);
    annotations(&template["metadata"], &path.child("annotations"), errors);
    annotations::judge(&template["metadata"], &template["spec"], &path.child("annotations"), errors);
    spec(&template["spec"], None, None, &path.child("spec"), errors);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("spec").child("ephemeralContainers"), detail));
    }
}

/// The spec of a Pod, whose metadata is `metadata` and whose spec was `old`, or of a template, without any.
fn spec(spec: &Value, metadata: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let name = metadata.map_or("", |metadata| text(metadata, "name"));
    let is_pod = metadata.is_some();
    let volumes = named_volumes(spec, name, &path.child("volumes"), errors);
    resource_claims(spec, &path.child("resourceClaims"), errors);
    let of = Of::new(spec, &volumes);
    containers::containers(&of, old.is_some(), path, errors);
    ephemeral::containers(&of, &path.child("ephemeralContainers"), errors);
    resources::of_pod(spec, &path.child("resources"), errors);
    containers::ports_of_node(spec, is_pod, path, errors);
    judge(facts::CORE_V1_POD_SPEC, spec, old, path, errors);
    files_of_variables(spec, path, errors);
}

/// What must come true before a Pod is placed: each once.
pub(super) fn scheduling_gates(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, gate) in all.as_array().into_iter().flatten().enumerate() {
        let (name, at) = (text(gate, "name"), path.index(index));
        invalid_each(errors, &at, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
}

/// What a Pod costs beside its containers.
pub(super) fn overhead(amounts: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    super::resources::requirements(&serde_json::json!({"limits": amounts}), path, errors);
}

/// What of a Pod is of one operating system alone.
pub(super) fn system(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if !spec["os"].is_object() {
        return;
    }
    let at = path.child("os");
    match text(&spec["os"], "name") {
        "linux" => windows::linux(spec, path, errors),
        "windows" => windows::windows(spec, path, errors),
        "" => errors.push(FieldError::required(&at.child("name"), "")),
        other => errors.push(FieldError::not_supported(&at, other, &["linux", "windows"])),
    }
}

/// Variables are read from files of empty directories alone.
fn files_of_variables(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = list(spec, "volumes");
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            let at = all.index(index);
            let at = at.child("env");
            for (index, variable) in list(one, "env").iter().enumerate() {
                let from = &variable["valueFrom"]["fileKeyRef"];
                if !from.is_object() {
                    continue;
                }
                let (name, at) = (text(from, "volumeName"), at.index(index));
                let (at, found) = (at.child("valueFrom"), volumes.iter().rfind(|one| one["name"] == name));
                let at = at.child("fileKeyRef");
                let at = at.child("volumeName");
                match found {
                    None => errors.push(FieldError::not_found(&at, name)),
                    Some(volume) if volume["emptyDir"].is_object() => {}
                    Some(_) => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.push(FieldError::invalid(&at, name, detail));
                    }
                }
            }
        }
    }
}

/// A name for the host that is not made of the Pod's.
pub(super) fn host_name(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    let at = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[field] == true {
            let detail = format!("may not be specified when {field} is true");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    if name.len() > 64 {
        errors.push(FieldError::too_long(&at, 64));
    }
    invalid_each(errors, &at, name, names::dns_subdomain(name));
}

/// Who shares the node's users shares nothing else of it.
pub(super) fn host_users(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if spec["hostUsers"] != false {
        return;
    }
    const DETAIL: &str = "when `hostUsers` is false";
    // Two of them are written as kube-apiserver's own struct has them.
    for (field, told) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            errors.push(FieldError::forbidden(&path.child(told), DETAIL));
        }
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            if !list(one, "volumeDevices").is_empty() {
                let at = all.index(index);
                errors.push(FieldError::forbidden(&at.child("volumeDevices"), DETAIL));
            }
        }
    }
}

/// Claims of devices: named once, and each by its own name or its template's.
fn resource_claims(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let (at, name) = (path.index(index), text(claim, "name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        } else {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.iter().filter(|field| !claim[**field].is_null()).count() {
            2 => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                claim["name"], claim["resourceClaimName"], claim["resourceClaimTemplateName"]
            );
            errors.push(FieldError::invalid(&at, Shown::Raw(shown), detail));
        }
        for field in sources {
            if let Some(other) = claim[field].as_str() {
                invalid_each(errors, &at.child(field), other, names::dns_subdomain(other));
            }
        }
    }
}

/// Names of the volumes that are well formed; `pod`: what the Pod is called, where it is no template.
fn named_volumes<'s>(
    spec: &'s Value,
    pod: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) -> BTreeMap<String, &'s Value> {
    let ephemeral = list(spec, "volumes").iter().filter(|volume| volume["ephemeral"].is_object());
    let made: HashSet<String> = match pod {
        "" => HashSet::new(),
        pod => ephemeral.map(|one| format!("{pod}-{}", text(one, "name"))).collect(),
    };
    let mut known = BTreeMap::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = path.index(index);
        let before = errors.len();
        volumes::source(volume, pod, &at, errors);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        if known.contains_key(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if errors.len() == before {
            known.insert(name.to_owned(), volume);
        }
        let claim = &volume["persistentVolumeClaim"];
        if claim.is_object() && made.contains(text(claim, "claimName")) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            let at = at.child("persistentVolumeClaim");
            errors.push(FieldError::invalid(&at.child("claimName"), text(claim, "claimName"), detail));
        }
    }
    known
}
