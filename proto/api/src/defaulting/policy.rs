//! PropagationPolicy, ClusterPropagationPolicy and OverridePolicy, completed.
//!
//! In: the JSON that is written, whether it is created, what draws uids. Out: the same JSON completed; ids and finalizers come on creation
//! alone. Pure but for the uids.

use serde_json::Value;

use super::permanent_id;
use crate::object;
use crate::strings::{finalizers, labels};

/// Seconds that a graceful move may take where nothing is said.
const GRACE_PERIOD_SECONDS: i64 = 600;

/// Completes a PropagationPolicy: what a ClusterPropagationPolicy gets, and selectors without a namespace mean
/// the policy's own.
pub fn default_propagation_policy(policy: &mut Value, creating: bool, new_uid: &dyn Fn() -> String) {
    default_selector_namespaces(policy);
    default_spec(policy);
    if creating {
        permanent_id(policy, labels::PROPAGATION_POLICY_ID, new_uid);
        object::add_finalizer(policy, finalizers::PROPAGATION_POLICY);
    }
}

/// Completes a ClusterPropagationPolicy.
pub fn default_cluster_propagation_policy(policy: &mut Value, creating: bool, new_uid: &dyn Fn() -> String) {
    default_spec(policy);
    if creating {
        permanent_id(policy, labels::CLUSTER_PROPAGATION_POLICY_ID, new_uid);
        object::add_finalizer(policy, finalizers::CLUSTER_PROPAGATION_POLICY);
    }
}

/// Completes an OverridePolicy: selectors without a namespace mean the policy's own.
pub fn default_override_policy(policy: &mut Value) {
    default_selector_namespaces(policy);
}

fn default_selector_namespaces(policy: &mut Value) {
    let namespace = object::namespace(policy).to_owned();
    let Some(selectors) = policy.pointer_mut("/spec/resourceSelectors").and_then(Value::as_array_mut) else {
        return;
    };
    for selector in selectors.iter_mut().filter_map(Value::as_object_mut) {
        if selector.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) {
            selector.insert("namespace".to_owned(), Value::from(namespace.as_str()));
        }
    }
}

fn default_spec(policy: &mut Value) {
    default_spread_constraints(policy);
    default_division(policy);
    default_failover(policy);
    let selects_import =
        policy.pointer("/spec/resourceSelectors").and_then(Value::as_array).is_some_and(|list| {
            list.iter().any(|s| s.get("kind").and_then(Value::as_str) == Some("ServiceImport"))
        });
    if selects_import {
        // A ServiceImport is nothing without its slices.
        object::set(policy, &["spec", "propagateDeps"], Value::Bool(true));
    }
}

fn default_spread_constraints(policy: &mut Value) {
    let constraints = policy.pointer_mut("/spec/placement/spreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        let empty = |key: &str| constraint.get(key).and_then(Value::as_str).is_none_or(str::is_empty);
        if empty("spreadByField") && empty("spreadByLabel") {
            constraint.insert("spreadByField".to_owned(), Value::from("cluster"));
        }
        if constraint.get("minGroups").and_then(Value::as_i64).unwrap_or(0) == 0 {
            constraint.insert("minGroups".to_owned(), Value::from(1));
        }
    }
}

fn default_division(policy: &mut Value) {
    let Some(strategy) =
        policy.pointer_mut("/spec/placement/replicaScheduling").and_then(Value::as_object_mut)
    else {
        return;
    };
    let divided = strategy.get("replicaSchedulingType").and_then(Value::as_str) == Some("Divided");
    let named =
        strategy.get("replicaDivisionPreference").and_then(Value::as_str).is_some_and(|p| !p.is_empty());
    if divided && !named {
        strategy.insert("replicaDivisionPreference".to_owned(), Value::from("Weighted"));
    }
}

fn default_failover(policy: &mut Value) {
    let Some(application) = policy.pointer_mut("/spec/failover/application").and_then(Value::as_object_mut)
    else {
        return;
    };
    let gracefully = application.get("purgeMode").and_then(Value::as_str) == Some("Gracefully");
    if gracefully && application.get("gracePeriodSeconds").is_none_or(Value::is_null) {
        application.insert("gracePeriodSeconds".to_owned(), Value::from(GRACE_PERIOD_SECONDS));
    }
}
