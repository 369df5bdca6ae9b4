//! Resource amounts of containers and claims.

use serde_json::Value;

use super::{Errors, entries};
use crate::schema::FieldError;
use crate::schema::path::Path;
use crate::schema::quantity::Quantity;

/// An amount must not be negative, and some come in whole units only.
pub(super) fn amount(name: &str, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(quantity) = Quantity::from_value(value) else { return };
    if quantity.nanos() < 0 {
        errors.push(FieldError::invalid(path, quantity.canonical(), "must be greater than or equal to 0"));
    }
    if is_whole(name) && !quantity.is_whole() {
        errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
    }
}

/// Counted resources: pods, services and the like, and extended ones.
fn is_whole(name: &str) -> bool {
    match name {
        "pods"
        | "services"
        | "replicationcontrollers"
        | "resourcequotas"
        | "secrets"
        | "configmaps"
        | "persistentvolumeclaims"
        | "services.nodeports"
        | "services.loadbalancers" => true,
        _ => is_extended(name) || name.starts_with("count/"),
    }
}

fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io") && domain != "count")
}

fn may_overcommit(name: &str) -> bool {
    !is_extended(name) && !name.starts_with("hugepages-")
}

fn container_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !known && !name.contains('/') {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
        errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
    }
}

/// `resources` of a container.
pub(super) fn requirements(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (name, value) in entries(resources, "limits") {
        container_resource(name, &limits.key(name), errors);
        amount(name, value, &limits.key(name), errors);
    }
    for (name, value) in entries(resources, "requests") {
        container_resource(name, &requests.key(name), errors);
        amount(name, value, &requests.key(name), errors);
        let limit = resources["limits"].get(name).and_then(Quantity::from_value);
        match (Quantity::from_value(value), limit) {
            (Some(request), Some(limit)) => {
                let relation = match may_overcommit(name) {
                    true if request > limit => "less than or equal to",
                    false if request.nanos() != limit.nanos() => "equal to",
                    _ => continue,
                };
                let detail = format!("must be {relation} {name} limit of {}", limit.canonical());
                errors.push(FieldError::invalid(&requests, request.canonical(), detail));
            }
            (Some(_), None) if !may_overcommit(name) => {
                errors.push(FieldError::required(
                    &limits,
                    "Limit must be set for non overcommitable resources",
                ));
            }
            _ => {}
        }
    }
    let named = |what: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|part| entries(resources, part).any(|(name, _)| what(name)))
    };
    if named(|name| name.starts_with("hugepages-")) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}
