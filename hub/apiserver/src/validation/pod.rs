//! Pods, and the templates of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata::{annotations, labels};
use super::resources::requirements;
use super::{Errors, invalid_each, list, names, non_negative, one_of, text};
use super::{scheduling, security};
use crate::schema::FieldError;
use crate::schema::path::Path;

/// What a Pod's update may change.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A Pod itself.
pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    spec(&new["spec"], &Path::field("spec"), errors);
    if let Some(old) = old {
        pod_update(&new["spec"], &old["spec"], errors);
    }
}

fn pod_update(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    let mut munged = new.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in
            munged.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            if let (Some(container), Some(image)) =
                (container.as_object_mut(), old[field][index].get("image"))
            {
                container.insert("image".to_owned(), image.clone());
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "serviceAccount"] {
        if let Some(munged) = munged.as_object_mut() {
            match old.get(field) {
                Some(value) => munged.insert(field.to_owned(), value.clone()),
                None => munged.remove(field),
            };
        }
    }
    let mut stored = old.clone();
    for spec in [&mut munged, &mut stored] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("serviceAccount");
        }
    }
    if munged != stored {
        errors.push(FieldError::forbidden(
            &path,
            format!("pod updates may not change fields other than {UPDATABLE}"),
        ));
    }
}

/// A Pod template.
pub(super) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&template["metadata"]["labels"], &path.child("labels"), errors);
    annotations(&template["metadata"], &path.child("annotations"), errors);
    spec(&template["spec"], &path.child("spec"), errors);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("spec").child("ephemeralContainers"), detail));
    }
}

/// The spec of a Pod or of its template.
fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volumes(spec, &path.child("volumes"), errors);
    containers(spec, &volumes, path, errors);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
    labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    security::pod(spec, path, errors);
    scheduling::affinity(&spec["affinity"], &path.child("affinity"), errors);
    scheduling::spread(spec, &path.child("topologySpreadConstraints"), errors);
    named(spec, &["serviceAccountName", "nodeName"], names::dns_subdomain, path, errors);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(&path.child("activeDeadlineSeconds"), seconds, detail));
    }
    named(spec, &["hostname", "subdomain"], names::dns_label, path, errors);
    scheduling::tolerations(spec, &path.child("tolerations"), errors);
    named(spec, &["priorityClassName", "runtimeClassName"], names::dns_subdomain, path, errors);
}

fn named(
    spec: &Value,
    fields: &[&str],
    check: fn(&str) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    for field in fields {
        let value = text(spec, field);
        if !value.is_empty() {
            invalid_each(errors, &path.child(field), value, check(value));
        }
    }
}

/// Names of the volumes that are well formed.
fn volumes(spec: &Value, path: &Path<'_>, errors: &mut Errors) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = path.index(index);
        let before = errors.len();
        let sources = volume.as_object().map_or(0, |fields| {
            fields.iter().filter(|(field, value)| *field != "name" && !value.is_null()).count()
        });
        if sources == 0 {
            errors.push(FieldError::required(&at, "must specify a volume type"));
        }
        if sources > 1 {
            let extra =
                volume.as_object().into_iter().flatten().map(|(field, _)| field).filter(|f| *f != "name");
            for field in extra.skip(1) {
                errors
                    .push(FieldError::forbidden(&at.child(field), "may not specify more than 1 volume type"));
            }
        }
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        if known.contains(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        for (source, field) in
            [("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")]
        {
            if volume[source].is_object() && text(&volume[source], field).is_empty() {
                errors.push(FieldError::required(&at.child(source).child(field), ""));
            }
        }
        if volume["hostPath"].is_object() && text(&volume["hostPath"], "path").is_empty() {
            errors.push(FieldError::required(&at.child("hostPath").child("path"), ""));
        }
        if errors.len() == before {
            known.insert(name.to_owned());
        }
    }
    known
}

fn containers(spec: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let main = path.child("containers");
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(&main, ""));
    }
    let mut names_seen = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (index, one) in list(spec, "containers").iter().enumerate() {
        let at = main.index(index);
        container(one, volumes, &at, errors);
        if !names_seen.insert(text(one, "name").to_owned()) {
            errors.push(FieldError::duplicate(&at.child("name"), text(one, "name")));
        }
        probes(one, &at, errors);
        for (port_index, port) in list(one, "ports").iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let identity = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if number != 0 && !host_ports.insert(identity.clone()) {
                errors.push(FieldError::duplicate(
                    &at.child("ports").index(port_index).child("hostPort"),
                    identity,
                ));
            }
        }
    }
    let init = path.child("initContainers");
    for (index, one) in list(spec, "initContainers").iter().enumerate() {
        let at = init.index(index);
        container(one, volumes, &at, errors);
        let name = text(one, "name");
        if !name.is_empty() && !names_seen.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if text(one, "restartPolicy") == "Always" {
            probes(one, &at, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if one[field].is_object() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
        }
    }
}

fn container(container: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        invalid_each(errors, &path.child("name"), name, names::dns_label(name));
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, detail));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, errors);
    ports(container, &path.child("ports"), errors);
    environment(container, &path.child("env"), errors);
    mounts(container, volumes, &path.child("volumeMounts"), errors);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    requirements(&container["resources"], &path.child("resources"), errors);
    security::container(&container["securityContext"], &path.child("securityContext"), errors);
}

fn ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let problems = names::port_name(name);
            if problems.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
            invalid_each(errors, &at.child("name"), name, problems);
        }
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => errors.push(FieldError::required(&at.child("containerPort"), "")),
            number => number_each(errors, &at.child("containerPort"), number),
        }
        match port["hostPort"].as_i64().unwrap_or(0) {
            0 => {}
            number => number_each(errors, &at.child("hostPort"), number),
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
    }
}

/// Adds an error where the number is no port.
pub(super) fn number_each(errors: &mut Errors, path: &Path<'_>, number: i64) {
    errors.extend(
        names::port_number(number).into_iter().map(|message| FieldError::invalid(path, number, message)),
    );
}

fn environment(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::env_name(name));
        }
        let from = &variable["valueFrom"];
        let Some(sources) = from.as_object() else { continue };
        let from_path = at.child("valueFrom");
        let sources = sources.values().filter(|source| !source.is_null()).count();
        let detail = match sources {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            1 if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => {
                for field in ["configMapKeyRef", "secretKeyRef"] {
                    if from[field].is_object() && text(&from[field], "key").is_empty() {
                        errors.push(FieldError::required(&from_path.child(field).child("key"), ""));
                    }
                }
                continue;
            }
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(&from_path, "", detail));
    }
}

fn mounts(container: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if !seen.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "must be unique"));
        }
    }
}

fn probes(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if !probe.is_object() {
            continue;
        }
        let at = path.child(field);
        let handlers: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc"]
            .into_iter()
            .filter(|handler| probe[*handler].is_object())
            .collect();
        if handlers.is_empty() {
            errors.push(FieldError::required(&at, "must specify a handler type"));
        }
        for extra in handlers.iter().skip(1) {
            errors.push(FieldError::forbidden(&at.child(extra), "may not specify more than 1 handler type"));
        }
        if probe["exec"].is_object() && list(&probe["exec"], "command").is_empty() {
            errors.push(FieldError::required(&at.child("exec").child("command"), ""));
        }
        for handler in ["httpGet", "tcpSocket"] {
            if probe[handler].is_object() {
                port(&probe[handler]["port"], &at.child(handler).child("port"), errors);
            }
        }
        for count in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe, count, &at, errors);
        }
        if field != "readinessProbe"
            && let Some(successes) = probe["successThreshold"].as_i64().filter(|successes| *successes != 1)
        {
            errors.push(FieldError::invalid(&at.child("successThreshold"), successes, "must be 1"));
        }
    }
}

/// A port by number or name.
pub(super) fn port(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(name) => invalid_each(errors, path, name, names::port_name(name)),
        other => number_each(errors, path, other.as_i64().unwrap_or(0)),
    }
}
