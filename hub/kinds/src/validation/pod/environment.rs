//! The environment of a container: variables, and where they come from.
//!
//! In: a container. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, facts, invalid_each, judge, list, names, text};

pub(super) fn environment(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = path.index(index);
        judge(facts::CORE_V1_ENV_VAR, variable, None, &at, errors);
        let from = &variable["valueFrom"];
        let Some(sources) = from.as_object() else { continue };
        let from_path = at.child("valueFrom");
        references(from, Teller::Variable, &from_path, errors);
        judge(facts::CORE_V1_ENV_VAR_SOURCE, from, None, &from_path, errors);
        let sources = sources.values().filter(|source| !source.is_null()).count();
        let detail = match sources {
            0 => NO_SOURCE,
            _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(&from_path, "", detail));
    }
}

const NO_SOURCE: &str =
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";

/// What tells a container of its Pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::validation) enum Teller {
    /// A variable of its environment.
    Variable,
    /// A file of a volume.
    File,
}

/// What tells of the Pod itself.
pub(in crate::validation) fn references(from: &Value, teller: Teller, path: &Path<'_>, errors: &mut Errors) {
    if from["fieldRef"].is_object() {
        field(&from["fieldRef"], teller, &path.child("fieldRef"), errors);
    }
    if from["resourceFieldRef"].is_object() && !(teller == Teller::File && from["fieldRef"].is_object()) {
        resource(&from["resourceFieldRef"], teller, &path.child("resourceFieldRef"), errors);
    }
}

fn field(of: &Value, teller: Teller, path: &Path<'_>, errors: &mut Errors) {
    const IN_FILES: [&str; 5] =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    const IN_VARIABLES: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    /// What is known, and yet told nowhere.
    const ELSEWHERE: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
    let (version, field) = (text(of, "apiVersion"), text(of, "fieldPath"));
    let at = path.child("fieldPath");
    for (value, name) in [(version, "apiVersion"), (field, "fieldPath")] {
        if value.is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
            return;
        }
    }
    let mut refuse = |why: String| {
        errors.push(FieldError::invalid(&at, field, format!("error converting fieldPath: {why}")));
    };
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"));
    }
    if let Some((part, key)) = field.strip_suffix("']").and_then(|field| field.split_once("['")) {
        match part {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                invalid_each(errors, path, &key, names::qualified_name(&key));
            }
            "metadata.labels" => invalid_each(errors, path, key, names::qualified_name(key)),
            _ => refuse(format!("field label does not support subscript: {field}")),
        }
        return;
    }
    let known: &[&str] = if teller == Teller::File { &IN_FILES } else { &IN_VARIABLES };
    let meant = if field == "spec.host" { "spec.nodeName" } else { field };
    if known.contains(&meant) {
        return;
    }
    let exists = [&IN_FILES[..], &IN_VARIABLES, &ELSEWHERE].concat().contains(&meant);
    if exists {
        errors.push(FieldError::not_supported(&at, meant, known));
    } else {
        refuse(format!("field label not supported: {field}"));
    }
}

fn resource(of: &Value, teller: Teller, path: &Path<'_>, errors: &mut Errors) {
    const RESOURCES: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let name = text(of, "resource");
    let is_pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| name.starts_with(start));
    if teller == Teller::File && text(of, "containerName").is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if name.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !is_pages && !RESOURCES.contains(&name) {
        errors.push(FieldError::not_supported(&path.child("resource"), name, &RESOURCES));
    }
    divisor(name, text(of, "divisor"), is_pages, &path.child("divisor"), errors);
}

/// The unit in which a resource is told.
fn divisor(name: &str, divisor: &str, is_pages: bool, path: &Path<'_>, errors: &mut Errors) {
    const UNITS: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let of = match name.split_once('.').map(|(_, of)| of) {
        _ if divisor.is_empty() || divisor == "0" => return,
        Some("cpu") if !matches!(divisor, "1m" | "1") => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            errors.push(FieldError::invalid(path, name, detail));
            return;
        }
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if is_pages => "hugepages",
        _ => return,
    };
    if !UNITS.contains(&divisor) {
        let detail =
            format!("only divisor's values {} are supported with the {of} resource", UNITS.join(", "));
        errors.push(FieldError::invalid(path, name, detail));
    }
}

pub(super) fn environment_sources(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let at = path.index(index);
        judge(facts::CORE_V1_ENV_FROM_SOURCE, source, None, &at, errors);
        let given = ["configMapRef", "secretRef"].into_iter().filter(|field| source[*field].is_object());
        let detail = match given.count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", detail));
    }
}
