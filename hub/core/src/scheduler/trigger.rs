//! Whether a binding is to be scheduled now, and why. In: a binding with its status and marks, and all clusters. Out: a [`Trigger`]. No
//! write happens here, and no cluster is chosen. Pure.

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::policy::{ClusterAffinityTerm, Placement, ReplicaSchedulingType};
use karmada_api::strings::{DEFAULT_SCHEDULER, annotations, conditions, labels};

use super::division::Mode;
use super::{cluster_changes, components, expression_scores};

/// What a binding asks of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Nothing: another scheduler's, held back, going away, or of no policy.
    NotOurs,
    /// Nothing changed that matters; at most the observed generation is to be noted.
    UpToDate,
    /// It is to be scheduled.
    Schedule {
        /// Whether the present result counts.
        mode: Mode,
        /// Why.
        cause: SchedulingCause,
    },
}

/// Why a binding is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingCause {
    /// The placement, or an expression beside it, is another than the one applied.
    Placement,
    /// The number of replicas is another than the one placed.
    Replicas,
    /// A person asked for a new division.
    Rebalance,
    /// Every matching cluster gets a copy, so new ones are looked for each time.
    EveryCluster,
    /// A cluster in use goes away.
    Terminating,
    /// It is placed, and its status does not say so: the hub ended between the two writes.
    Untold,
}

/// Decides. `clusters` are sorted by name, `scheduler` is the name that this scheduler goes by.
pub fn trigger(binding: &ResourceBinding, clusters: &[&Cluster], scheduler: &str) -> Trigger {
    let Some(placement) = binding.spec.placement.as_ref().filter(|_| is_ours(binding, scheduler)) else {
        return Trigger::NotOurs;
    };
    // What a person asked for counts whatever else changed beside it.
    let mode = if rebalance_asked(binding) { Mode::Fresh } else { Mode::Steady };
    let schedule = |cause| Trigger::Schedule { mode, cause };
    if placement_changed(binding, placement) || expression_scores::changed(binding) {
        return schedule(SchedulingCause::Placement);
    }
    if replicas_changed(binding, placement) {
        return schedule(SchedulingCause::Replicas);
    }
    if mode == Mode::Fresh {
        return schedule(SchedulingCause::Rebalance);
    }
    if cluster_changes::seeks_clusters(&binding.spec) {
        return schedule(SchedulingCause::EveryCluster);
    }
    let gone = |name: &str| {
        let at = clusters.binary_search_by(|cluster| cluster.name().cmp(name));
        at.map_or(true, |at| clusters[at].deleting())
    };
    if binding.spec.clusters.iter().any(|target| gone(&target.name)) {
        return schedule(SchedulingCause::Terminating);
    }
    let said = binding.status.condition(conditions::SCHEDULED);
    if !binding.spec.clusters.is_empty() && said.is_none_or(|said| said.status != conditions::TRUE) {
        return schedule(SchedulingCause::Untold);
    }
    Trigger::UpToDate
}

/// Whether the scheduler of this name places a binding.
pub fn is_ours(binding: &ResourceBinding, scheduler: &str) -> bool {
    let wanted = &binding.spec.scheduler_name;
    let wanted = if wanted.is_empty() { DEFAULT_SCHEDULER } else { wanted };
    wanted == scheduler && is_placed_by_somebody(binding)
}

/// Whether some scheduler, ours or another, places a binding anew where it lost a cluster: a policy claims it, nobody holds its scheduling back,
/// and it is not going away. What is taken out of a cluster without that runs nowhere afterwards, so nothing takes it out.
pub fn is_placed_by_somebody(binding: &ResourceBinding) -> bool {
    let claimed =
        [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID, labels::BINDING_MANAGED_BY];
    let held_back = binding.spec.suspension.as_ref().is_some_and(|s| s.scheduling == Some(true));
    !held_back
        && binding.metadata.deletion_timestamp.is_none()
        && claimed.iter().any(|key| binding.label(key).is_some())
}

/// Whether the placement differs from the one that was applied. Of several affinity terms only the observed one
/// counts, and beside them what workloads want to be with does not.
fn placement_changed(binding: &ResourceBinding, placement: &Placement) -> bool {
    let Some(applied) = binding.annotation(annotations::APPLIED_PLACEMENT) else { return true };
    let Ok(applied) = serde_json::from_str::<Placement>(applied) else { return true };
    if applied == *placement {
        return false;
    }
    if applied.cluster_affinity != placement.cluster_affinity
        || applied.cluster_tolerations != placement.cluster_tolerations
        || applied.spread_constraints != placement.spread_constraints
        || applied.replica_scheduling != placement.replica_scheduling
    {
        return true;
    }
    let observed = &binding.status.scheduler_observing_affinity_name;
    let term = |placement: &Placement| -> Option<ClusterAffinityTerm> {
        placement.cluster_affinities.iter().find(|term| term.affinity_name == *observed).cloned()
    };
    let neither = placement.cluster_affinities.is_empty() && applied.cluster_affinities.is_empty();
    neither || term(placement).is_none() || term(placement) != term(&applied)
}

/// Whether what was placed is another number than what is wanted.
fn replicas_changed(binding: &ResourceBinding, placement: &Placement) -> bool {
    if components::has_several(&binding.spec) {
        return components::changed(&binding.spec);
    }
    let Some(strategy) = &placement.replica_scheduling else { return false };
    let targets = &binding.spec.clusters;
    let wanted = i64::from(binding.spec.replicas);
    if strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Duplicated) {
        return targets.iter().any(|target| i64::from(target.replicas) != wanted);
    }
    targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != wanted
}

/// Whether a person asked for a new division since the last one.
pub fn rebalance_asked(binding: &ResourceBinding) -> bool {
    match (&binding.spec.reschedule_triggered_at, &binding.status.last_scheduled_time) {
        (Some(asked), Some(scheduled)) => asked.0 > scheduled.0,
        _ => false,
    }
}
