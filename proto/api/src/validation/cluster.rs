//! Which Clusters may be stored.
//!
//! In: the JSON of a Cluster, or its name, taints or grades alone. Out: what is wrong, all of it at once and each with the path of its
//! field. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::labels::{label_key, label_value};
use crate::cluster::{ClusterSpec, ResourceModel};
use crate::object;
use karmada_field::{FieldError, names};
use karmada_quantity::Quantity;

/// The longest cluster name: names derived from it must still be names.
pub const MAX_NAME: usize = 48;

/// What is wrong with a cluster's own name.
pub fn validate_name(name: &str) -> Vec<FieldError> {
    cluster_name(name, "metadata.name").into_iter().collect()
}

/// What is wrong with the name of a cluster, wherever it stands.
pub fn cluster_name(name: &str, path: &str) -> Option<FieldError> {
    let why = match name {
        "" => Some("must be not empty".to_owned()),
        _ if name.len() > MAX_NAME => Some(format!("must be no more than {MAX_NAME} characters")),
        _ => names::dns_label(name).into_iter().next(),
    };
    why.map(|why| FieldError::invalid(path, name, why))
}

/// What is wrong with a Cluster.
pub fn validate_cluster(new: &Value) -> Vec<FieldError> {
    let mut errors = validate_name(object::name(new));
    let spec: ClusterSpec = match super::read(&new["spec"], "spec") {
        Ok(spec) => spec,
        Err(unreadable) => {
            errors.extend(unreadable);
            return errors;
        }
    };
    if !matches!(spec.sync_mode.as_str(), "Pull" | "Push") {
        errors.push(FieldError::not_supported("spec.syncMode", spec.sync_mode.as_str(), &["Pull", "Push"]));
    }
    errors.extend(validate_place(&spec));
    errors.extend(validate_urls(&spec));
    errors.extend(validate_taints(&spec.taints, "spec.taints"));
    errors.extend(validate_models(&spec.resource_models, "spec.resourceModels"));
    errors
}

fn validate_place(spec: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let copied = spec.zones.len() == 1 && spec.zones[0] == spec.zone;
    if !spec.zone.is_empty() && !spec.zones.is_empty() && !copied {
        errors.push(FieldError::invalid(
            "spec.zone",
            spec.zone.as_str(),
            "zone and zones are mutually exclusive",
        ));
    }
    errors.extend(label_value("spec.provider", &spec.provider));
    errors.extend(label_value("spec.region", &spec.region));
    errors.extend(label_value("spec.zone", &spec.zone));
    for (index, zone) in spec.zones.iter().enumerate() {
        errors.extend(label_value(&format!("spec.zones[{index}]"), zone));
    }
    errors
}

/// The pieces of `scheme://authority…` that the rules ask about.
struct Url<'a> {
    scheme: &'a str,
    authority: &'a str,
    rest: &'a str,
}

fn split_url(url: &str) -> Option<Url<'_>> {
    let (scheme, tail) = url.split_once("://")?;
    let end = tail.find(['/', '?', '#']).unwrap_or(tail.len());
    let (authority, rest) = tail.split_at(end);
    let legal = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (legal && !url.contains(char::is_whitespace)).then_some(Url { scheme, authority, rest })
}

fn validate_urls(spec: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !spec.api_endpoint.is_empty() {
        let wrong = match split_url(&spec.api_endpoint) {
            None => Some("must be a URL with a scheme and a host"),
            Some(url) if url.authority.is_empty() => Some("host must be specified"),
            Some(url) if url.authority.contains('@') => Some("user information is not permitted in the URL"),
            Some(url) if url.rest.contains('#') => Some("fragments are not permitted in the URL"),
            Some(url) if url.rest.contains('?') => Some("query parameters are not permitted in the URL"),
            Some(_) => None,
        };
        if let Some(detail) = wrong {
            errors.push(FieldError::invalid("spec.apiEndpoint", spec.api_endpoint.as_str(), detail));
        }
    }
    if !spec.proxy_url.is_empty() {
        let scheme = split_url(&spec.proxy_url).map(|url| url.scheme.to_ascii_lowercase());
        if !matches!(scheme.as_deref(), Some("http" | "https" | "socks5")) {
            errors.push(FieldError::invalid(
                "spec.proxyURL",
                spec.proxy_url.as_str(),
                "unsupported scheme, must be http, https, or socks5",
            ));
        }
    }
    errors
}

/// What is wrong with taints: keys, values, effects, and the same key and effect twice.
pub fn validate_taints(taints: &[Taint], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let value = taint.value.as_deref().unwrap_or("");
        errors.extend(label_key(&format!("{path}.key"), &taint.key));
        errors.extend(label_value(&format!("{path}.value"), value));
        if taint.effect.is_empty() {
            errors.push(FieldError::required(&format!("{path}.effect"), ""));
        } else if !matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.push(FieldError::not_supported(
                &format!("{path}.effect"),
                taint.effect.as_str(),
                &["NoExecute", "NoSchedule", "PreferNoSchedule"],
            ));
        }
        if !seen.insert((taint.key.as_str(), taint.effect.as_str())) {
            errors.push(FieldError::duplicate(&path, format!("{}:{}", taint.key, taint.effect)));
        }
    }
    errors
}

/// What is wrong with grades: they count up from 0, know the same resources, and their ranges join without a gap
/// from nothing to the largest quantity.
pub fn validate_models(models: &[ResourceModel], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let model_path = format!("{path}[{index}]");
        if model.grade != index as u64 {
            errors.push(FieldError::invalid(
                &format!("{model_path}.grade"),
                model.grade,
                "grades must count up from 0, one by one",
            ));
        }
        let mut resources = BTreeSet::new();
        for (position, range) in model.ranges.iter().enumerate() {
            let range_path = format!("{model_path}.ranges[{position}]");
            if !resources.insert(range.name.as_str()) {
                errors.push(FieldError::duplicate(&format!("{range_path}.name"), range.name.as_str()));
            }
            if range.max <= range.min {
                errors.push(FieldError::invalid(
                    &range_path,
                    range.max.to_string(),
                    "max value must be greater than min value",
                ));
            }
            errors.extend(validate_joint(models, index, range.name.as_str(), range.min, &range_path));
            if index + 1 == models.len() && range.max != Quantity::from_units(i64::MAX) {
                errors.push(FieldError::invalid(
                    &format!("{range_path}.max"),
                    range.max.to_string(),
                    "the max value of the last grade must be MaxInt64",
                ));
            }
        }
        let first: BTreeSet<&str> = models[0].ranges.iter().map(|r| r.name.as_str()).collect();
        if resources != first {
            errors.push(FieldError::invalid(
                &format!("{model_path}.ranges"),
                Value::Null,
                "every grade must have the same resources",
            ));
        }
    }
    errors
}

/// A range begins where the grade before ends, and at nothing in the first.
fn validate_joint(
    models: &[ResourceModel],
    index: usize,
    name: &str,
    min: Quantity,
    path: &str,
) -> Vec<FieldError> {
    let wrong = |detail: &str| vec![FieldError::invalid(&format!("{path}.min"), min.to_string(), detail)];
    let Some(before) = index.checked_sub(1) else {
        return if min.is_zero() {
            Vec::new()
        } else {
            wrong("the min value of each resource in the first model should be 0")
        };
    };
    match models[before].ranges.iter().find(|range| range.name == name) {
        Some(range) if range.max != min => {
            wrong("model intervals for resources must be contiguous and non-overlapping")
        }
        _ => Vec::new(),
    }
}
