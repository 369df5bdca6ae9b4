//! The taints that ClusterTaintPolicies give a cluster by its conditions.
//!
//! In: a cluster, all policies, the moment. Out: the cluster's taints. Policies act one after the other, the oldest first, so that of two that
//! contradict each other the younger holds. A taint is known by key and effect; taints that no policy speaks of stay.

use std::borrow::Borrow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::cluster::Cluster;
use karmada_api::selector::affinity_matches;
use karmada_api::taint_policy::{ClusterTaintPolicy, MatchCondition};

use crate::seconds;

/// The taints that a cluster is to have; none if nothing changes.
pub fn taints<P: Borrow<ClusterTaintPolicy>>(
    cluster: &Cluster,
    policies: &[P],
    now: Timestamp,
) -> Option<Vec<Taint>> {
    let mut policies: Vec<&ClusterTaintPolicy> = policies.iter().map(Borrow::borrow).collect();
    policies.sort_by_key(|policy| {
        (policy.metadata.creation_timestamp.as_ref().map(|time| time.0), policy.name().to_owned())
    });
    let mut list = cluster.spec.taints.clone();
    for policy in policies.into_iter().filter(|policy| means(policy, cluster)) {
        let spec = &policy.spec;
        if holds(cluster, &spec.add_on_conditions) {
            spec.taints.iter().for_each(|taint| add(&mut list, taint, now));
        }
        if holds(cluster, &spec.remove_on_conditions) {
            spec.taints.iter().for_each(|taint| remove(&mut list, taint));
        }
    }
    (list != cluster.spec.taints).then_some(list)
}

/// Whether a policy is about a cluster.
pub fn means(policy: &ClusterTaintPolicy, cluster: &Cluster) -> bool {
    policy.spec.target_clusters.as_ref().is_none_or(|affinity| affinity_matches(affinity, cluster))
}

/// Whether all of the conditions hold. Of no conditions none does, and of one that a cluster does not have nothing is known.
fn holds(cluster: &Cluster, conditions: &[MatchCondition]) -> bool {
    let each = |wanted: &MatchCondition| {
        let Some(condition) = cluster.condition(&wanted.condition_type) else { return false };
        let listed = wanted.status_values.contains(&condition.status);
        match wanted.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    };
    !conditions.is_empty() && conditions.iter().all(each)
}

fn same(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

fn add(list: &mut Vec<Taint>, taint: &Taint, now: Timestamp) {
    if !list.iter().any(|known| same(known, taint)) {
        list.push(Taint { time_added: Some(Time(seconds(now))), ..taint.clone() });
    }
}

fn remove(list: &mut Vec<Taint>, taint: &Taint) {
    if let Some(at) = list.iter().position(|known| same(known, taint)) {
        list.remove(at);
    }
}
