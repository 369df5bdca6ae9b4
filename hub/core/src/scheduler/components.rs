//! Workloads of several parts, each with a pod template of its own: they go to a cluster whole or not at all.
//!
//! In: the parts, what a cluster reports of itself; answers of several who estimate room; the clusters that were selected. Out: how many whole
//! sets fit; the clusters with what is placed there. A cluster that does not tell its nodes by grades counts
//! as one big node; amounts are compared as amounts, however they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::binding::{BindingSpec, Component, TargetCluster, TargetComponent};
use karmada_api::cluster::Cluster;
use karmada_api::policy::{Placement, SpreadConstraint};
use karmada_quantity::Quantity;

use super::assumptions::Assumed;
use super::estimate;

/// Sets that are counted node by node: a workload goes to a cluster once, so that more tells nothing but which cluster is the emptier.
const MOST_SETS: i64 = 1_000;

/// Whether a workload is placed by whole sets: it has parts, and its placement asks for exactly one cluster.
pub fn by_sets(parts: usize, constraints: &[SpreadConstraint]) -> bool {
    let one = |constraint: &SpreadConstraint| {
        constraint.spread_by_field == "cluster" && constraint.min_groups == 1 && constraint.max_groups == 1
    };
    parts > 0 && constraints.iter().any(one)
}

/// Whether a binding is of several parts. One part alone is placed by its replicas.
pub fn has_several(spec: &BindingSpec) -> bool {
    spec.components.len() > 1
}

/// Whether a binding is placed by whole sets of several parts.
pub fn goes_by_sets(spec: &BindingSpec, placement: &Placement) -> bool {
    has_several(spec) && by_sets(spec.components.len(), &placement.spread_constraints)
}

/// The selected clusters with what is placed there: all parts, where the workload goes by sets; otherwise each gets it as it is, and no numbers
/// are told, as nobody divides parts.
pub fn placed(spec: &BindingSpec, placement: &Placement, mut clusters: Vec<String>) -> Vec<TargetCluster> {
    clusters.sort_unstable();
    let components = if goes_by_sets(spec, placement) { set(&spec.components) } else { Vec::new() };
    let target = |name| TargetCluster { name, components: components.clone(), ..TargetCluster::default() };
    clusters.into_iter().map(target).collect()
}

fn set(parts: &[Component]) -> Vec<TargetComponent> {
    let part = |part: &Component| TargetComponent { name: part.name.clone(), replicas: part.replicas };
    parts.iter().map(part).collect()
}

/// Whether the parts of a binding are other than those that were placed (Karmada does not notice), or nowhere.
pub fn changed(spec: &BindingSpec) -> bool {
    let wanted = set(&spec.components);
    spec.clusters.is_empty()
        || spec.clusters.iter().any(|target| !target.components.is_empty() && target.components != wanted)
}

/// How many whole sets fit into what is free of a cluster beside what is taken of it and not in its report yet, in sum and, where it tells them,
/// by its grades of nodes; 0 where it reports no resources.
pub fn max_sets(cluster: &Cluster, parts: &[Component], taken: &[Arc<Assumed>]) -> i64 {
    let Some(summary) = &cluster.status.resource_summary else { return 0 };
    let summary = &*estimate::beside(summary, taken);
    let places = estimate::left(summary, "pods").units().max(0);
    // A part of no replicas asks for nothing; there may be many of them.
    let parts: Vec<Component> = parts.iter().filter(|part| part.replicas > 0).cloned().collect();
    let pods = parts.iter().map(|part| i64::from(part.replicas)).fold(0, i64::saturating_add);
    if pods == 0 {
        return places;
    }
    let wanted = total(&parts);
    let fits = wanted.iter().filter(|(_, amount)| !amount.is_zero());
    let fits = fits.map(|(name, amount)| estimate::times(name, estimate::left(summary, name), *amount));
    let by_sums = fits.min().unwrap_or(i64::MAX).min(places / pods).min(i64::from(i32::MAX));
    estimate::sets_by_grades(cluster, &parts, taken, by_sums.min(MOST_SETS)).unwrap_or(by_sums)
}

/// What one set asks for.
fn total(parts: &[Component]) -> BTreeMap<&str, Quantity> {
    let mut total: BTreeMap<&str, Quantity> = BTreeMap::new();
    for part in parts {
        for (name, amount) in part.replica_requirements.iter().flat_map(|wanted| &wanted.resource_request) {
            let sum = total.entry(name.as_str()).or_default();
            *sum = sum.plus(amount.times(i64::from(part.replicas.max(0))));
        }
    }
    total
}

/// What several who estimate a cluster's room say together: the least of those that have an answer. One that fails, or answers below
/// nothing, has none; that others of the fleet fail is no matter. Without any bound the room is `wanted`.
pub fn together(answers: &[Option<i64>], wanted: i64) -> i64 {
    let known = answers.iter().flatten().copied().filter(|answer| *answer >= 0);
    known.min().filter(|least| *least < i64::from(i32::MAX)).unwrap_or(wanted)
}
