//! What the volumes of a Pod are made of.

use std::collections::BTreeSet;

use serde_json::Value;

use super::security::descending;
use super::{Errors, invalid_each, list, names, text};
use crate::schema::FieldError;
use crate::schema::path::Path;

/// The source of one volume.
pub(super) fn source(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(fields) = volume.as_object() else { return };
    for (field, source) in fields.iter().filter(|(_, source)| source.is_object()) {
        let at = path.child(field);
        match field.as_str() {
            "hostPath" => host_path(source, &at, errors),
            "emptyDir" if text(source, "sizeLimit").starts_with('-') => {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(&at.child("sizeLimit"), detail));
            }
            "gitRepo" => {
                required(source, "repository", &at, errors);
                descending(text(source, "directory"), &at.child("directory"), errors);
            }
            "secret" => {
                required(source, "secretName", &at, errors);
                mode(&source["defaultMode"], &at.child("defaultMode"), errors);
                items(source, &at, errors);
            }
            "configMap" => {
                required(source, "name", &at, errors);
                mode(&source["defaultMode"], &at.child("defaultMode"), errors);
                items(source, &at, errors);
            }
            "persistentVolumeClaim" => required(source, "claimName", &at, errors),
            "nfs" => nfs(source, &at, errors),
            "iscsi" => iscsi(source, &at, errors),
            "csi" => csi(source, &at, errors),
            "downwardAPI" => {
                mode(&source["defaultMode"], &at.child("defaultMode"), errors);
                for item in list(source, "items") {
                    downward(item, &at, errors);
                }
            }
            "projected" => projected(source, &at, errors),
            "ephemeral" if !source["volumeClaimTemplate"].is_object() => {
                errors.push(FieldError::required(&at.child("volumeClaimTemplate"), ""));
            }
            _ => {}
        }
    }
}

/// A text that must be there.
pub(super) fn required(source: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if text(source, field).is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    }
}

fn mode(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = value.as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path, mode, detail));
    }
}

fn items(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = path.child("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        let at = all.index(index);
        required(item, "key", &at, errors);
        required(item, "path", &at, errors);
        descending(text(item, "path"), &at.child("path"), errors);
        mode(&item["mode"], &at.child("mode"), errors);
    }
}

/// A path of the node.
pub(super) fn host_path(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let target = text(source, "path");
    if target.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(&path.child("path"), target, "must not contain '..'"));
    }
    let kind = text(source, "type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
}

/// A path of a file server.
pub(super) fn nfs(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, "server", path, errors);
    required(source, "path", path, errors);
    if !text(source, "path").starts_with('/') {
        let detail = "must be an absolute path";
        errors.push(FieldError::invalid(&path.child("path"), text(source, "path"), detail));
    }
}

fn iscsi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, "targetPortal", path, errors);
    let name = text(source, "iqn");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("iqn"), ""));
    } else if !["iqn.", "eui.", "naa."].iter().any(|start| name.starts_with(start)) {
        errors.push(FieldError::invalid(&path.child("iqn"), name, "must be valid format"));
    }
    let lun = source["lun"].as_i64().unwrap_or(0);
    if !(0..=255).contains(&lun) {
        errors.push(FieldError::invalid(&path.child("lun"), lun, "must be between 0 and 255, inclusive"));
    }
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    super::storage::csi_driver_name(text(source, "driver"), &path.child("driver"), errors);
    let secret = &source["nodePublishSecretRef"];
    if secret.is_object() && text(secret, "name").is_empty() {
        let at = path.child("nodePublishSecretRef");
        errors.push(FieldError::required(&at.child("name"), ""));
    }
}

fn downward(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(item, "path", path, errors);
    descending(text(item, "path"), &path.child("path"), errors);
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
    mode(&item["mode"], &path.child("mode"), errors);
}

fn projected(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    mode(&source["defaultMode"], &path.child("defaultMode"), errors);
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
                required(part, "name", &at.child(kind), errors);
                items(part, &at.child(kind), errors);
                for item in list(part, "items") {
                    put(text(item, "path"), text(part, "name"), errors);
                }
            }
        }
        for item in list(&one["downwardAPI"], "items") {
            downward(item, &at.child("downwardAPI"), errors);
            put(text(item, "path"), text(item, "path"), errors);
        }
        let token = &one["serviceAccountToken"];
        if token.is_object() {
            let seconds = token["expirationSeconds"].as_i64().unwrap_or(3600);
            let at = at.child("serviceAccountToken");
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                errors.push(FieldError::invalid(&at.child("expirationSeconds"), seconds, detail));
            } else if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.push(FieldError::invalid(&at.child("expirationSeconds"), seconds, detail));
            }
            if text(token, "path").is_empty() {
                errors.push(FieldError::required(&path.child("path"), ""));
            } else {
                descending(text(token, "path"), &path.child("path"), errors);
                put(text(token, "path"), text(token, "path"), errors);
            }
        }
    }
}

/// `spec.dnsConfig`.
pub(super) fn dns(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (config, at) = (&spec["dnsConfig"], path.child("dnsConfig"));
    if text(spec, "dnsPolicy") == "None" {
        if !config.is_object() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(&at, detail));
        } else if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(&at.child("nameservers"), detail));
        }
    }
    let servers = at.child("nameservers");
    for (index, server) in list(config, "nameservers").iter().filter_map(Value::as_str).enumerate() {
        address(server, &servers.index(index), errors);
    }
    let searches = at.child("searches");
    for (index, search) in list(config, "searches").iter().filter_map(Value::as_str).enumerate() {
        let plain = search.strip_suffix('.').unwrap_or(search);
        let known = plain.is_empty()
            || plain
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_'));
        if !known {
            let detail = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
            errors.push(FieldError::invalid(&searches.index(index), plain, detail));
        }
    }
    let options = at.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(&options.index(index), "must not be empty"));
        }
    }
}

fn address(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.parse::<std::net::IpAddr>().is_err() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, value, detail));
    }
}

/// `spec.hostAliases`.
pub(super) fn host_aliases(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let at = path.index(index);
        address(text(alias, "ip"), &at.child("ip"), errors);
        let hostnames = at.child("hostnames");
        for (index, name) in list(alias, "hostnames").iter().filter_map(Value::as_str).enumerate() {
            invalid_each(errors, &hostnames.index(index), name, names::dns_subdomain(name));
        }
    }
}
