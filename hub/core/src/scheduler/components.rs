//! Workloads of several parts, each with a pod template of its own: they go to a cluster whole or not at all.
//!
//! In: the parts, what a cluster reports of itself; answers of several who estimate room. Out: how many whole sets fit. The cluster counts as
//! one big node; amounts are compared as amounts, however they are written. The work is one pass over what the parts request.

use std::collections::BTreeMap;

use karmada_api::binding::Component;
use karmada_api::cluster::Cluster;
use karmada_api::policy::SpreadConstraint;
use karmada_quantity::Quantity;

use super::estimate;

/// Whether a workload is placed by whole sets: it has parts, and its placement asks for exactly one cluster.
pub fn by_sets(parts: usize, constraints: &[SpreadConstraint]) -> bool {
    let one = |constraint: &SpreadConstraint| {
        constraint.spread_by_field == "cluster" && constraint.min_groups == 1 && constraint.max_groups == 1
    };
    parts > 0 && constraints.iter().any(one)
}

/// How many whole sets fit into what is free of a cluster; 0 where it reports no resources.
pub fn max_sets(cluster: &Cluster, parts: &[Component]) -> i64 {
    let Some(summary) = &cluster.status.resource_summary else { return 0 };
    let places = estimate::left(summary, "pods").units().max(0);
    let pods: i64 = parts.iter().map(|part| i64::from(part.replicas.max(0))).sum();
    if pods == 0 {
        return places;
    }
    let wanted = total(parts);
    let fits = wanted.iter().filter(|(_, amount)| !amount.is_zero());
    let fits = fits.map(|(name, amount)| estimate::times(name, estimate::left(summary, name), *amount));
    fits.min().unwrap_or(i64::MAX).min(places / pods).min(i64::from(i32::MAX))
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
