//! Which placements may be stored.
//!
//! In: a placement, or a set of clusters, and the path of its field. Out: what is wrong with it. Whether such clusters exist is not asked.
//! Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;

use super::at;
use super::labels::{label_key, label_value, validate_label_selector};
use crate::policy::{
    ClusterAffinity, ClusterAffinityTerm, DynamicWeight, Placement, ReplicaDivisionPreference,
    ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadConstraint, WorkloadAffinity,
};
use karmada_field::FieldError;

/// What is wrong with a placement.
pub fn validate_placement(placement: &Placement, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        errors.push(FieldError::invalid(
            path,
            serde_json::Value::Null,
            "clusterAffinities cannot co-exist with clusterAffinity",
        ));
    }
    if let Some(affinity) = &placement.cluster_affinity {
        errors.extend(validate_affinity(affinity, &format!("{path}.clusterAffinity")));
    }
    errors.extend(validate_affinity_terms(placement, &format!("{path}.clusterAffinities")));
    errors
        .extend(validate_tolerations(&placement.cluster_tolerations, &format!("{path}.clusterTolerations")));
    errors.extend(validate_spread_constraints(
        &placement.spread_constraints,
        &format!("{path}.spreadConstraints"),
    ));
    if let Some(strategy) = &placement.replica_scheduling {
        errors.extend(validate_strategy(strategy, &format!("{path}.replicaScheduling")));
    }
    if let Some(affinity) = &placement.workload_affinity {
        errors.extend(validate_workload_affinity(affinity, &format!("{path}.workloadAffinity")));
    }
    errors
}

/// What is wrong with a set of clusters.
pub fn validate_affinity(affinity: &ClusterAffinity, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(selector) = &affinity.label_selector {
        errors.extend(validate_label_selector(selector, &format!("{path}.labelSelector")));
    }
    let expressions = affinity.field_selector.iter().flat_map(|selector| &selector.match_expressions);
    for (index, expression) in expressions.enumerate() {
        let path = format!("{path}.fieldSelector.matchExpressions[{index}]");
        if !matches!(expression.key.as_str(), "provider" | "region" | "zone") {
            errors.push(FieldError::not_supported(
                &format!("{path}.key"),
                expression.key.as_str(),
                &["provider", "region", "zone"],
            ));
        }
        if !matches!(expression.operator.as_str(), "In" | "NotIn") {
            errors.push(FieldError::not_supported(
                &format!("{path}.operator"),
                expression.operator.as_str(),
                &["In", "NotIn"],
            ));
        }
    }
    errors
}

fn validate_affinity_terms(placement: &Placement, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    let mut name = |name: &str, path: String, errors: &mut Vec<FieldError>| {
        let before = errors.len();
        errors.extend(label_key(&path, name));
        if errors.len() == before && !names.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(&path, name));
        }
    };
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        let path = at(path, index);
        name(&term.affinity_name, format!("{path}.affinityName"), &mut errors);
        errors.extend(validate_affinity(&term.affinity, &path));
        for (index, overflow) in term.overflow_affinities.iter().enumerate() {
            let path = format!("{path}.overflowAffinities[{index}]");
            name(&overflow.affinity_name, format!("{path}.affinityName"), &mut errors);
            errors.extend(validate_affinity(&overflow.affinity, &path));
        }
        errors.extend(validate_overflow(term, placement, &path));
    }
    errors
}

/// Overflow has a meaning only where capacity decides, and only beyond a set that is not every cluster.
fn validate_overflow(term: &ClusterAffinityTerm, placement: &Placement, path: &str) -> Vec<FieldError> {
    if term.overflow_affinities.is_empty() {
        return Vec::new();
    }
    let path = format!("{path}.overflowAffinities");
    let mut errors = Vec::new();
    if !placement.replica_scheduling.as_ref().is_some_and(divides_by_capacity) {
        errors.push(FieldError::forbidden(
            &path,
            "only allowed when replicas are divided as Aggregated or by dynamicWeight",
        ));
    }
    if term.affinity == ClusterAffinity::default() {
        errors.push(FieldError::forbidden(&path, "the affinity group itself must not be empty"));
    }
    errors
}

fn divides_by_capacity(strategy: &ReplicaSchedulingStrategy) -> bool {
    if strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Duplicated) {
        return false;
    }
    match strategy.replica_division_preference {
        Some(ReplicaDivisionPreference::Aggregated) => true,
        Some(ReplicaDivisionPreference::Weighted) => {
            strategy.weight_preference.as_ref().and_then(|p| p.dynamic_weight)
                == Some(DynamicWeight::AvailableReplicas)
        }
        None => false,
    }
}

fn validate_tolerations(tolerations: &[Toleration], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = at(path, index);
        let key = toleration.key.as_deref().unwrap_or("");
        let operator = toleration.operator.as_deref().unwrap_or("");
        let value = toleration.value.as_deref().unwrap_or("");
        let effect = toleration.effect.as_deref().unwrap_or("");
        if !key.is_empty() {
            errors.extend(label_key(&format!("{path}.key"), key));
        }
        if key.is_empty() && operator != "Exists" {
            errors.push(FieldError::invalid(
                &format!("{path}.operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        match operator {
            "" | "Equal" => errors.extend(label_value(&format!("{path}.value"), value)),
            "Exists" if !value.is_empty() => errors.push(FieldError::invalid(
                &format!("{path}.operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            )),
            "Exists" => {}
            other => errors.push(FieldError::not_supported(
                &format!("{path}.operator"),
                other,
                &["Equal", "Exists"],
            )),
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            errors.push(FieldError::invalid(
                &format!("{path}.effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.push(FieldError::not_supported(
                &format!("{path}.effect"),
                effect,
                &["NoExecute", "NoSchedule", "PreferNoSchedule"],
            ));
        }
    }
    errors
}

fn validate_spread_constraints(constraints: &[SpreadConstraint], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut fields = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = at(path, index);
        if !constraint.spread_by_field.is_empty() && !constraint.spread_by_label.is_empty() {
            errors.push(FieldError::invalid(
                &format!("{path}.spreadByLabel"),
                constraint.spread_by_label.as_str(),
                "spreadByLabel should not co-exist with spreadByField",
            ));
        }
        let name = if constraint.spread_by_field.is_empty() {
            &constraint.spread_by_label
        } else {
            &constraint.spread_by_field
        };
        if !name.is_empty() && !fields.insert((constraint.spread_by_field.is_empty(), name.clone())) {
            errors.push(FieldError::duplicate(&path, name.as_str()));
        }
        let (min, max) = (constraint.min_groups, constraint.max_groups);
        if max < 0 {
            errors.push(FieldError::invalid(&format!("{path}.maxGroups"), max, "maxGroups lower than 0"));
        }
        if min < 0 {
            errors.push(FieldError::invalid(&format!("{path}.minGroups"), min, "minGroups lower than 0"));
        }
        if max > 0 && max < min {
            errors.push(FieldError::invalid(
                &format!("{path}.maxGroups"),
                max,
                "maxGroups lower than minGroups is not allowed",
            ));
        }
    }
    let by_field = constraints.iter().any(|c| !c.spread_by_field.is_empty());
    if by_field && !constraints.iter().any(|c| c.spread_by_field == "cluster") {
        errors.push(FieldError::invalid(
            path,
            serde_json::Value::Null,
            "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled",
        ));
    }
    errors
}

fn validate_strategy(strategy: &ReplicaSchedulingStrategy, path: &str) -> Vec<FieldError> {
    let weights = strategy.weight_preference.iter().flat_map(|preference| &preference.static_weight_list);
    weights
        .enumerate()
        .flat_map(|(index, weight)| {
            let path = format!("{path}.weightPreference.staticWeightList[{index}].targetCluster");
            validate_affinity(&weight.target_cluster, &path)
        })
        .collect()
}

fn validate_workload_affinity(affinity: &WorkloadAffinity, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut keys = Vec::new();
    for (name, term) in [("affinity", &affinity.affinity), ("antiAffinity", &affinity.anti_affinity)] {
        let Some(term) = term else { continue };
        let path = format!("{path}.{name}.groupByLabelKey");
        errors.extend(label_key(&path, &term.group_by_label_key));
        keys.push(&term.group_by_label_key);
    }
    if keys.len() == 2 && keys[0] == keys[1] {
        errors.push(FieldError::invalid(
            path,
            keys[0].as_str(),
            "affinity and antiAffinity must not use the same groupByLabelKey",
        ));
    }
    errors
}
