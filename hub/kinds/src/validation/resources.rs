//! Resource amounts of containers and claims.
//!
//! In: names of resources, amounts, a container's `resources`, and the claims of its Pod. Out: field errors. Amounts that are no quantities
//! were refused when the object was decoded, and are passed over.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};

use karmada_api::resource_name::{is_native, is_standard, is_whole};
use karmada_quantity::Quantity;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, amount_shown, entries, invalid_each, list, names, text};

/// An amount must not be negative, and some come in whole units only.
pub(super) fn amount(name: &str, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(quantity) = Quantity::from_value(value) else { return };
    if quantity.nanos() < 0 {
        let shown = amount_shown(value);
        errors.push(FieldError::invalid(path, shown, "must be greater than or equal to 0"));
    }
    // Counted in thousandths, of which there are as many as a number of 64 bits can tell.
    if is_whole(name) && quantity.milli() % 1000 != 0 {
        errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
    }
}

/// An amount of storage.
pub(super) fn storage_amount(value: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    amount("storage", value, path, errors);
}

/// Whether more may be promised than there is.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// The name of a resource: a known one, or one with a domain.
pub(super) fn resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = names::qualified_name(name);
    if problems.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    invalid_each(errors, path, name, problems);
}

/// The name of a resource that a container can ask for.
pub(super) fn container_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    resource_name(name, path, errors);
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') {
        if !known {
            errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !name.contains("kubernetes.io/")
        && (name.starts_with("requests.") || !names::qualified_name(&format!("requests.{name}")).is_empty())
    {
        errors.push(FieldError::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

/// The same, as facts name it.
pub(super) fn container_resource_name(name: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    container_resource(name.as_str().unwrap_or_default(), path, errors);
}

/// The claims of a Pod, that its containers name.
pub(super) struct PodClaims<'p> {
    names: BTreeSet<&'p str>,
    /// How many errors may show all of the names yet.
    shown: Cell<usize>,
}

impl<'p> PodClaims<'p> {
    /// Those of a Pod's spec.
    pub(super) fn of(spec: &'p Value) -> PodClaims<'p> {
        let all = list(spec, "resourceClaims");
        let names = all.iter().filter_map(|one| one["name"].as_str()).collect();
        PodClaims { names, shown: Cell::new(super::whole_lists(all).len()) }
    }
}

/// `claims` of a container: each once, and of those that the Pod has.
pub(super) fn claims(resources: &Value, of_pod: &PodClaims<'_>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("claims");
    let (mut seen, mut whole, mut named) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (index, claim) in list(resources, "claims").iter().enumerate() {
        let (name, request, at) = (text(claim, "name"), text(claim, "request"), at.index(index));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        if whole.contains(name) || (request.is_empty() && named.contains(name)) {
            errors.push(FieldError::duplicate(&at, name));
        } else if seen.contains(&(name, request)) {
            errors.push(FieldError::duplicate(&at, format!("{name}/{request}")));
        }
        if !request.is_empty() {
            invalid_each(errors, &at.child("request"), request, names::dns_label(request));
        }
        seen.insert((name, request));
        named.insert(name);
        if request.is_empty() {
            whole.insert(name);
        }
        if !of_pod.names.contains(name) && of_pod.shown.get() > 0 {
            of_pod.shown.set(of_pod.shown.get() - 1);
            let mut error = FieldError::not_found(&at, name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            let all: Vec<&str> = of_pod.names.iter().copied().filter(|name| !name.is_empty()).collect();
            match &all[..] {
                [] => error.detail.push_str(" which is empty"),
                all => error.detail.push_str(&format!(": {}", all.join(", "))),
            }
            errors.push(error);
        }
    }
}

/// What a resource's name must be.
type Name = fn(&str, &Path<'_>, &mut Errors);

/// `resources` of a container.
pub(super) fn requirements(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    amounts(resources, container_resource, path, errors);
}

/// Limits and requests, each by itself and to each other.
pub(super) fn amounts(resources: &Value, check: Name, path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    for (name, value) in entries(resources, "limits") {
        check(name, &limits.key(name), errors);
        amount(name, value, &limits.key(name), errors);
        pages(name, value, &limits.key(name), errors);
    }
    for (name, value) in entries(resources, "requests") {
        check(name, &requests.key(name), errors);
        amount(name, value, &requests.key(name), errors);
        let limit = resources["limits"].get(name).and_then(Quantity::from_value);
        match (Quantity::from_value(value), limit) {
            (Some(request), Some(limit)) => {
                let relation = match may_overcommit(name) {
                    true if request > limit => Some("less than or equal to"),
                    false if request.nanos() != limit.nanos() => Some("equal to"),
                    _ => None,
                };
                if let Some(relation) = relation {
                    let detail =
                        format!("must be {relation} {name} limit of {}", text(&resources["limits"], name));
                    errors.push(FieldError::invalid(&requests, value.clone(), detail));
                }
            }
            (Some(_), None) if !may_overcommit(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits, detail));
            }
            _ => {}
        }
        pages(name, value, &requests.key(name), errors);
    }
    let named = |what: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|part| entries(resources, part).any(|(name, _)| what(name)))
    };
    if named(|name| name.starts_with("hugepages-")) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Huge pages are asked for in multiples of one page.
fn pages(name: &str, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let page = name.strip_prefix("hugepages-").and_then(|page| Quantity::read(page).ok());
    let (Some(page), Some(all)) = (page, Quantity::from_value(value)) else { return };
    if page.nanos() <= 0 || all.nanos() % page.nanos() != 0 {
        let all = value.as_str().unwrap_or_default();
        let detail = format!("{all} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid(path, all, detail));
    }
}
