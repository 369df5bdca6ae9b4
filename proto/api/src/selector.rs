//! Whether selectors match: labels of anything, fields of a cluster, resources; and whether tolerations cover taints.
//!
//! In: a selector, and labels or a cluster. Out: whether it matches; a label selector that is malformed is an error, an affinity with such
//! a one matches no cluster. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use karmada_field::names::{is_label_value, is_qualified_name};

use crate::cluster::Cluster;
use crate::policy::{ClusterAffinity, FieldSelector, FieldSelectorRequirement};

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none of In, NotIn, Exists, DoesNotExist.
    #[error("{0:?} is not a valid selector operator")]
    Operator(String),
    /// In and NotIn need values.
    #[error("for 'in', 'notin' operators, values set can't be empty (key {0:?})")]
    ValuesMissing(String),
    /// Exists and DoesNotExist take none.
    #[error("values set must be empty for exists and does not exist (key {0:?})")]
    ValuesForbidden(String),
    /// The key is no label key.
    #[error("{0:?} is not a valid label key")]
    Key(String),
    /// The value is no label value.
    #[error("{0:?} is not a valid label value")]
    Value(String),
}

/// Whether a toleration covers a taint, of a node or of a cluster. One with an unknown operator covers none.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match text(&toleration.operator) {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// One requirement on a set of labels.
fn requirement_matches(
    requirement: &LabelSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Result<bool, SelectorError> {
    let key = &requirement.key;
    if !is_qualified_name(key) {
        return Err(SelectorError::Key(key.clone()));
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    if let Some(value) = values.iter().find(|v| !is_label_value(v)) {
        return Err(SelectorError::Value(value.clone()));
    }
    let found = labels.get(key);
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Err(SelectorError::ValuesMissing(key.clone())),
        "In" => Ok(found.is_some_and(|v| values.contains(v))),
        "NotIn" => Ok(!found.is_some_and(|v| values.contains(v))),
        "Exists" | "DoesNotExist" if !values.is_empty() => Err(SelectorError::ValuesForbidden(key.clone())),
        "Exists" => Ok(found.is_some()),
        "DoesNotExist" => Ok(found.is_none()),
        other => Err(SelectorError::Operator(other.to_owned())),
    }
}

/// Whether `labels` satisfy every part of `selector`; an empty selector matches everything.
///
/// # Errors
/// The selector itself is wrong, even where an earlier part already failed to match.
pub fn labels_match(
    selector: &LabelSelector,
    labels: &BTreeMap<String, String>,
) -> Result<bool, SelectorError> {
    let mut matches = true;
    for (key, value) in selector.match_labels.iter().flatten() {
        if !is_qualified_name(key) {
            return Err(SelectorError::Key(key.clone()));
        }
        if !is_label_value(value) {
            return Err(SelectorError::Value(value.clone()));
        }
        matches &= labels.get(key) == Some(value);
    }
    for requirement in selector.match_expressions.iter().flatten() {
        matches &= requirement_matches(requirement, labels)?;
    }
    Ok(matches)
}

/// The values that a cluster has for a field selector's key; `None` for an unknown key.
fn cluster_field<'a>(cluster: &'a Cluster, key: &str) -> Option<Vec<&'a str>> {
    let one = |value: &'a str| if value.is_empty() { Vec::new() } else { vec![value] };
    match key {
        "provider" => Some(one(&cluster.spec.provider)),
        "region" => Some(one(&cluster.spec.region)),
        "zone" => Some(cluster.spec.zones.iter().map(String::as_str).collect()),
        _ => None,
    }
}

/// One requirement on the fields of a cluster. A zone requirement looks at all zones of the cluster: `In` holds
/// when one of them is listed, `NotIn` when none is.
fn field_matches(requirement: &FieldSelectorRequirement, cluster: &Cluster) -> bool {
    let found = cluster_field(cluster, &requirement.key).unwrap_or_default();
    let listed = |value: &&str| requirement.values.iter().any(|v| v == *value);
    match requirement.operator.as_str() {
        "In" => found.iter().any(listed),
        "NotIn" => !found.iter().any(listed),
        "Exists" => !found.is_empty(),
        "DoesNotExist" => found.is_empty(),
        _ => false,
    }
}

/// Whether a cluster's fields satisfy every requirement.
pub fn fields_match(selector: &FieldSelector, cluster: &Cluster) -> bool {
    selector.match_expressions.iter().all(|requirement| field_matches(requirement, cluster))
}

/// Whether `cluster` is one that `affinity` means: labels and fields and names, less the excluded.
/// An empty affinity means every cluster; a label selector that cannot be read means none.
pub fn affinity_matches(affinity: &ClusterAffinity, cluster: &Cluster) -> bool {
    let name = cluster.metadata.name.as_deref().unwrap_or("");
    if affinity.exclude.iter().any(|excluded| excluded == name) {
        return false;
    }
    if let Some(selector) = &affinity.label_selector {
        let none = BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&none);
        if !labels_match(selector, labels).unwrap_or(false) {
            return false;
        }
    }
    if affinity.field_selector.as_ref().is_some_and(|selector| !fields_match(selector, cluster)) {
        return false;
    }
    affinity.cluster_names.is_empty() || affinity.cluster_names.iter().any(|n| n == name)
}
