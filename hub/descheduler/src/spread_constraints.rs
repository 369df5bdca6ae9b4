//! Whether a step keeps to over how many groups of clusters a policy spreads a workload.
//!
//! In: the policy's spread constraints; the clusters before and after a step. Out: whether the step breaks one of them.
//!
//! A plan is the scheduler's own, and keeps to them. What is only a part of the way to it may not: with as few groups as there are, or as many,
//! a step may leave one before it enters another, or the other way round.

use std::collections::BTreeSet;

use karmada_api::binding::TargetCluster;
use karmada_api::cluster::Cluster;
use karmada_api::policy::SpreadConstraint;
use karmada_core::scheduler::spread::values_of;

/// Whether a step ends in more groups than there may be, or in fewer than there must be, and not only because it began so.
pub(crate) fn breaks<'a>(
    constraints: &[SpreadConstraint],
    (before, after): (&[TargetCluster], &[TargetCluster]),
    cluster: impl Fn(&str) -> Option<&'a Cluster>,
) -> bool {
    constraints.iter().any(|constraint| {
        let count = |targets: &[TargetCluster]| {
            let groups = targets.iter().filter_map(|target| cluster(&target.name));
            let groups: BTreeSet<&str> = groups.flat_map(|cluster| groups_of(constraint, cluster)).collect();
            i64::try_from(groups.len()).unwrap_or(i64::MAX)
        };
        let (was, is) = (count(before), count(after));
        let is_too_many = constraint.max_groups > 0 && is > constraint.max_groups;
        (is_too_many && is > was) || (is < constraint.min_groups && is < was)
    })
}

fn groups_of<'a>(constraint: &SpreadConstraint, cluster: &'a Cluster) -> Vec<&'a str> {
    if constraint.spread_by_field == "cluster" {
        vec![cluster.name()]
    } else {
        values_of(constraint, cluster)
    }
}
