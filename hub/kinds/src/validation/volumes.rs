//! What the volumes of a Pod are made of.
//!
//! In: a volume of a Pod or of a template, or the Pod's settings of names (`dnsConfig`, `hostAliases`), with its path. Out: field errors in
//! kube-apiserver's order, with the field names that its messages use.

use std::collections::BTreeSet;

use karmada_schema::FieldError;
use karmada_schema::object::meta;
use karmada_schema::path::Path;
use serde_json::Value;

use super::metadata::{annotations, labels};
use super::security::descending;
use super::{Errors, addresses, facts, invalid_each, judge, list, names, text, volume_fields};

/// Every source, in the order in which the first is found.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The source of one volume: one, of which the first is judged. `pod`: what the Pod is called, where it is no template.
pub(super) fn source(volume: &Value, pod: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut given = SOURCES.into_iter().filter(|field| volume[*field].is_object());
    let Some(first) = given.next() else {
        errors.push(FieldError::required(path, "must specify a volume type"));
        return;
    };
    // Told as kube-apiserver tells it.
    let told = if first == "gcePersistentDisk" { "persistentDisk" } else { first };
    if first == "image" && !pod.is_empty() && text(&volume["image"], "reference").is_empty() {
        errors.push(FieldError::required(&path.child("image").child("reference"), ""));
    }
    one(first, &volume[first], &path.child(told), errors);
    if first == "iscsi" {
        portal(volume, path, errors);
    }
    if first == "ephemeral" {
        claim_name(text(volume, "name"), pod, path, errors);
    }
    for extra in given {
        let told = match extra {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        errors.push(FieldError::forbidden(&path.child(told), "may not specify more than 1 volume type"));
        if extra == "iscsi" {
            portal(volume, path, errors);
        }
    }
}

/// Where the initiator has a name of its own, the volume's name and the portal together are at most 64 characters long.
fn portal(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, source) = (text(volume, "name"), &volume["iscsi"]);
    if source["initiatorName"].is_string() && name.len() + 1 + text(source, "targetPortal").len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&path.child("name"), name, detail));
    }
}

/// The claim that is made for a volume is called after the Pod and the volume.
fn claim_name(volume: &str, pod: &str, path: &Path<'_>, errors: &mut Errors) {
    if pod.is_empty() || volume.is_empty() {
        return;
    }
    let name = format!("{pod}-{volume}");
    for message in names::dns_subdomain(&name) {
        let detail = format!("PVC name {name:?}: {message}");
        errors.push(FieldError::invalid(&path.child("name"), volume, detail));
    }
}

fn one(field: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let own = match field {
        "emptyDir" if text(source, "sizeLimit").starts_with('-') => {
            let detail = "SizeLimit field must be a valid resource quantity";
            return errors.push(FieldError::forbidden(&at.child("sizeLimit"), detail));
        }
        "iscsi" => return iscsi(source, at, errors),
        "csi" => return csi(source, at, errors),
        "projected" => return projected(source, at, errors),
        "ephemeral" => {
            let at = at.child("volumeClaimTemplate");
            return claim_template(&source["volumeClaimTemplate"], &at, errors);
        }
        "image" => facts::CORE_V1_IMAGE_VOLUME_SOURCE,
        "gitRepo" => facts::CORE_V1_GIT_REPO_VOLUME_SOURCE,
        "secret" => facts::CORE_V1_SECRET_VOLUME_SOURCE,
        "configMap" => facts::CORE_V1_CONFIG_MAP_VOLUME_SOURCE,
        "persistentVolumeClaim" => facts::CORE_V1_PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE,
        "downwardAPI" => facts::CORE_V1_DOWNWARD_APIVOLUME_SOURCE,
        "cinder" => facts::CORE_V1_CINDER_VOLUME_SOURCE,
        "storageos" => facts::CORE_V1_STORAGE_OSVOLUME_SOURCE,
        _ => return super::persistent_volumes::source(field, source, "", at, errors),
    };
    judge(own, source, None, at, errors);
}

/// A claim that is made for the Pod: of its metadata only labels and annotations are the template's to say.
fn claim_template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !template.is_object() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let (metadata, at) = (&template["metadata"], path.child("metadata"));
    annotations(metadata, &at.child("annotations"), errors);
    labels(&metadata["labels"], &at.child("labels"), errors);
    for field in meta::FIELDS.into_iter().filter(|field| !matches!(*field, "labels" | "annotations")) {
        let value = &metadata[field];
        let unset = value.is_null() || *value == "" || (field == "generation" && *value == 0);
        if !unset {
            let told = if field == "uid" { "uID" } else { field };
            errors.push(FieldError::forbidden(&at.child(told), "cannot be set"));
        }
    }
    super::core::claim_spec(&template["spec"], &path.child("spec"), errors);
}

fn iscsi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    volume_fields::required(source, "targetPortal", path, errors);
    let name = text(source, "iqn");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("iqn"), ""));
    } else {
        iscsi_name(name, &path.child("iqn"), errors);
    }
    judge(facts::CORE_V1_ISCSIVOLUME_SOURCE, source, None, path, errors);
    let asks = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if asks && !source["secretRef"].is_object() {
        errors.push(FieldError::required(&path.child("secretRef"), ""));
    }
    if let Some(initiator) = source["initiatorName"].as_str() {
        iscsi_name(initiator, &path.child("initiatorname"), errors);
    }
}

fn iscsi_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let detail = match ["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start)) {
        false => "must be valid format starting with iqn, eui, or naa",
        true if !volume_fields::is_iscsi_name(name) => "must be valid format",
        true => return,
    };
    errors.push(FieldError::invalid(path, name, detail));
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    volume_fields::csi_driver_name(text(source, "driver"), &path.child("driver"), errors);
    let secret = &source["nodePublishSecretRef"];
    if !secret.is_object() {
        return;
    }
    let name = text(secret, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("nodePublishSecretRef").child("name"), ""));
    } else {
        invalid_each(errors, &path.child("name"), name, names::dns_subdomain(name));
    }
}

/// A relative path without `..`, whose first part does not begin with `..` either: kubelet keeps such names for itself.
pub(super) fn local(target: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let target = target.as_str().unwrap_or_default();
    descending(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(FieldError::invalid(path, target, "must not start with '..'"));
    }
}

/// What a file tells of the Pod: one thing.
pub(super) fn downward_api_file(item: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    super::pod::references(item, super::pod::Teller::File, path, errors);
    match (item["fieldRef"].is_object(), item["resourceFieldRef"].is_object()) {
        (true, true) => {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(path, "resource", detail));
        }
        (false, false) => {
            errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
        _ => {}
    }
}

fn projected(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::CORE_V1_PROJECTED_VOLUME_SOURCE, source, None, path, errors);
    let mut paths = BTreeSet::new();
    let mut put = |target: &str, of: &str, errors: &mut Errors| {
        if !target.is_empty() && !paths.insert(target.to_owned()) {
            errors.push(FieldError::invalid(path, of, "conflicting duplicate paths"));
        }
    };
    let all = path.child("sources");
    for (index, one) in list(source, "sources").iter().enumerate() {
        let at = all.index(index);
        for kind in ["secret", "configMap"] {
            let part = &one[kind];
            if part.is_object() {
                judge(facts::CORE_V1_SECRET_PROJECTION, part, None, &at.child(kind), errors);
                for item in list(part, "items") {
                    put(text(item, "path"), text(part, "name"), errors);
                }
            }
        }
        for item in list(&one["downwardAPI"], "items") {
            judge(facts::CORE_V1_DOWNWARD_APIVOLUME_FILE, item, None, &at.child("downwardAPI"), errors);
            put(text(item, "path"), text(item, "path"), errors);
        }
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let several = kinds.into_iter().filter(|kind| one[*kind].is_object()).count() > 1;
        let token = &one["serviceAccountToken"];
        if token.is_object() {
            let at = at.child("serviceAccountToken");
            judge(facts::CORE_V1_SERVICE_ACCOUNT_TOKEN_PROJECTION, token, None, &at, errors);
            if text(token, "path").is_empty() {
                errors.push(FieldError::required(&path.child("path"), ""));
            } else {
                local(&token["path"], None, &path.child("path"), errors);
            }
        }
        if several {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
}

/// `spec.dnsConfig`.
pub(super) fn dns(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (config, at) = (&spec["dnsConfig"], path.child("dnsConfig"));
    if text(spec, "dnsPolicy") == "None" {
        if !config.is_object() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(&at, detail));
            return;
        } else if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(&at.child("nameservers"), detail));
            return;
        }
    }
    let servers = at.child("nameservers");
    if list(config, "nameservers").len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid(&servers, config["nameservers"].clone(), detail));
    }
    for (index, server) in list(config, "nameservers").iter().filter_map(Value::as_str).enumerate() {
        addresses::usable(server, &[], &servers.index(index), errors);
    }
    let searches = at.child("searches");
    let all: Vec<&str> = list(config, "searches").iter().filter_map(Value::as_str).collect();
    for (wrong, detail) in [
        (all.len() > 32, "must not have more than 32 search paths"),
        (
            all.join(" ").len() > 2048,
            "must not have more than 2048 characters (including spaces) in the search list",
        ),
    ] {
        if wrong {
            errors.push(FieldError::invalid(&searches, config["searches"].clone(), detail));
        }
    }
    for (index, search) in all.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        invalid_each(errors, &searches.index(index), search, names::dns_search(search));
    }
    let options = at.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(&options.index(index), "must not be empty"));
        }
    }
}

/// `spec.hostAliases`.
pub(super) fn host_aliases(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in all.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        addresses::usable(text(alias, "ip"), &[], &at.child("ip"), errors);
        let hostnames = at.child("hostnames");
        for (index, name) in list(alias, "hostnames").iter().filter_map(Value::as_str).enumerate() {
            invalid_each(errors, &hostnames.index(index), name, names::dns_subdomain(name));
        }
    }
}
