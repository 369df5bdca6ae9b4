//! The containers of a Pod: their names and images, ports and mounts.
//!
//! In: a Pod's spec, and the names of its volumes. Out: field errors.

use std::collections::{BTreeMap, BTreeSet};

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::environment::{environment, environment_sources};
use super::handlers::{hooks, probes};
use super::mounts::{devices, mounts};
use super::restarts::restarts;
use crate::validation::resources::{PodClaims, claims, requirements};
use crate::validation::{Errors, facts, invalid_each, judge, list, names, security, text};

/// What the rules of a container look at beside it.
pub(super) struct Of<'p> {
    /// The Pod's spec.
    pub(super) spec: &'p Value,
    /// The names of its volumes, and what each is of.
    pub(super) volumes: &'p BTreeMap<String, &'p Value>,
    /// Its claims.
    pub(super) claims: PodClaims<'p>,
}

impl<'p> Of<'p> {
    pub(super) fn new(spec: &'p Value, volumes: &'p BTreeMap<String, &'p Value>) -> Of<'p> {
        Of { spec, volumes, claims: PodClaims::of(spec) }
    }
}

/// Every container of a Pod's spec but the ephemeral ones; `runs`: of a Pod that is there.
pub(super) fn containers(of: &Of<'_>, runs: bool, path: &Path<'_>, errors: &mut Errors) {
    let main = path.child("containers");
    if list(of.spec, "containers").is_empty() {
        errors.push(FieldError::required(&main, ""));
    }
    // A grace that is negative means the shortest, which is what a running Pod is held to.
    let grace = of.spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let grace = if runs && grace < 0 { 1 } else { grace };
    let mut names_seen = BTreeSet::new();
    for (index, one) in list(of.spec, "containers").iter().enumerate() {
        let at = main.index(index);
        container(one, of, &at, errors);
        if !names_seen.insert(text(one, "name").to_owned()) {
            errors.push(FieldError::duplicate(&at.child("name"), text(one, "name")));
        }
        hooks(one, grace, &at, errors);
        probes(one, &at, errors);
        restarts(one, &at, errors);
    }
    host_ports(list(of.spec, "containers"), &main, errors);
    let init = path.child("initContainers");
    for (index, one) in list(of.spec, "initContainers").iter().enumerate() {
        let at = init.index(index);
        container(one, of, &at, errors);
        restarts(one, &at, errors);
        let policy = text(one, "restartPolicy");
        let name = text(one, "name");
        if !names_seen.insert(name.to_owned()) && !name.is_empty() {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        host_ports(std::slice::from_ref(one), &init, errors);
        if policy == "Always" {
            hooks(one, grace, &at, errors);
            probes(one, &at, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if one[field].is_object() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
        }
        resizes(one, &at.child("resizePolicy"), errors);
    }
}

/// What runs to its end is not started again to be resized.
fn resizes(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, one) in list(container, "resizePolicy").iter().enumerate() {
        if text(one, "restartPolicy") == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let at = path.index(index);
            errors.push(FieldError::invalid(&at.child("restartPolicy"), "RestartContainer", detail));
        }
    }
}

/// A port of the node that two containers want.
fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, one) in containers.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("ports");
        for (index, port) in list(one, "ports").iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let identity = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if number != 0 && !seen.insert(identity.clone()) {
                errors.push(FieldError::duplicate(&at.index(index).child("hostPort"), identity));
            }
        }
    }
}

/// On the node's own network a port of the container is that of the node. `is_pod`: where it must be said.
pub(super) fn ports_of_node(spec: &Value, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    if spec["hostNetwork"] != true {
        return;
    }
    let main = path.child("containers");
    for (index, one) in list(spec, "containers").iter().enumerate() {
        let at = main.index(index);
        let at = at.child("ports");
        for (index, port) in list(one, "ports").iter().enumerate() {
            let number = |field: &str| port[field].as_i64().unwrap_or(0);
            if (is_pod || number("hostPort") != 0) && number("hostPort") != number("containerPort") {
                let at = at.index(index);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&at.child("hostPort"), number("hostPort"), detail));
            }
        }
    }
}

/// An image's name has no space around it; templates are not judged so.
pub(super) fn images(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for kind in ["containers", "initContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            image(one, &all.index(index), errors);
        }
    }
}

/// The same of one container.
pub(super) fn image(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let image = text(container, "image");
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, detail));
    }
}

/// What holds for containers of every kind.
pub(super) fn container(container: &Value, of: &Of<'_>, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::CORE_V1_CONTAINER, container, None, path, errors);
    ports(container, &path.child("ports"), errors);
    environment(container, &path.child("env"), errors);
    environment_sources(container, &path.child("envFrom"), errors);
    mounts(container, of.volumes, &path.child("volumeMounts"), errors);
    devices(container, of.volumes, &path.child("volumeDevices"), errors);
    judge(facts::CORE_V1_CONTAINER_PULL, container, None, path, errors);
    let at = path.child("resources");
    requirements(&container["resources"], &at, errors);
    claims(&container["resources"], &of.claims, &at, errors);
    resize_policy(container, text(of.spec, "restartPolicy"), &path.child("resizePolicy"), errors);
    security::container(
        &container["securityContext"],
        of.spec["hostUsers"] != false,
        &path.child("securityContext"),
        errors,
    );
}

pub(super) fn ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        judge(facts::CORE_V1_CONTAINER_PORT, port, None, &at, errors);
    }
}

/// What is done to a container whose resources change.
fn resize_policy(container: &Value, restarts: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, one) in list(container, "resizePolicy").iter().enumerate() {
        let (name, policy) = (text(one, "resourceName"), text(one, "restartPolicy"));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.index(index), name));
        }
        judge(facts::CORE_V1_CONTAINER_RESIZE_POLICY, one, None, path, errors);
        if restarts == "Never" && policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, policy, detail));
        }
    }
}
