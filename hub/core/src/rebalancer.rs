//! A WorkloadRebalancer asks for workloads to be placed anew.
//!
//! In: the rebalancer; then, for each workload that is to be asked for, what came of it; the moment. Out: which bindings are to be asked, the
//! status, when the rebalancer goes. What was asked for is asked at the hour of the rebalancer's creation, so that asking twice is asking once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::ResourceBinding;
use karmada_api::names;
use karmada_api::rebalancer::{
    ObservedWorkload, REFERENCED_BINDING_NOT_FOUND, RebalanceResult, RebalancerStatus, WorkloadRebalancer,
    WorkloadReference,
};

use crate::{failback, object_size, seconds};

/// What came of asking for one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescheduleOutcome {
    /// It is asked for.
    Done,
    /// No binding places it.
    NoBinding,
    /// It could not be asked for now.
    NotYet,
}

/// What came of it before, for each workload that counts: those of the spec, and those that were done and are no longer there.
pub fn observed(rebalancer: &WorkloadRebalancer) -> BTreeMap<WorkloadReference, ObservedWorkload> {
    let before = rebalancer.status.observed_workloads.iter();
    let named: BTreeSet<&WorkloadReference> = rebalancer.spec.workloads.iter().collect();
    let stays = |seen: &&ObservedWorkload| {
        seen.result == Some(RebalanceResult::Successful) || named.contains(&seen.workload)
    };
    let mut all: BTreeMap<WorkloadReference, ObservedWorkload> =
        before.filter(stays).map(|seen| (seen.workload.clone(), seen.clone())).collect();
    for workload in &rebalancer.spec.workloads {
        let fresh = || ObservedWorkload { workload: workload.clone(), ..ObservedWorkload::default() };
        all.entry(workload.clone()).or_insert_with(fresh);
    }
    all
}

/// The workloads that are still to be asked for.
pub fn open(observed: &BTreeMap<WorkloadReference, ObservedWorkload>) -> Vec<WorkloadReference> {
    observed.values().filter(|seen| seen.result.is_none()).map(|seen| seen.workload.clone()).collect()
}

/// Namespace and name of the binding of a workload.
pub fn binding_of(workload: &WorkloadReference) -> (String, String) {
    (workload.namespace.clone(), names::binding_name(&workload.kind, &workload.name))
}

/// The binding that asks to be placed anew at `when`; none where it asks for that already, or for later. Where it was scheduled since, or in that very second,
/// it asks later than that, or nobody would hear it.
pub fn asking(binding: &ResourceBinding, when: Timestamp) -> Option<ResourceBinding> {
    let asked = binding.spec.reschedule_triggered_at.as_ref().is_some_and(|asked| asked.0 >= when);
    (!asked).then(|| failback::asking(binding, when))
}

/// The status once `asked` came of what was open. The hour of the end is the first one of a generation.
pub fn status(
    rebalancer: &WorkloadRebalancer,
    mut observed: BTreeMap<WorkloadReference, ObservedWorkload>,
    asked: &BTreeMap<WorkloadReference, RescheduleOutcome>,
    now: Timestamp,
) -> RebalancerStatus {
    for (workload, came) in asked {
        let Some(seen) = observed.get_mut(workload) else { continue };
        match came {
            RescheduleOutcome::Done => seen.result = Some(RebalanceResult::Successful),
            RescheduleOutcome::NoBinding => {
                seen.result = Some(RebalanceResult::Failed);
                REFERENCED_BINDING_NOT_FOUND.clone_into(&mut seen.reason);
            }
            RescheduleOutcome::NotYet => {}
        }
    }
    let generation = rebalancer.metadata.generation.unwrap_or(0);
    let before = &rebalancer.status;
    let same = before.finish_time.clone().filter(|_| before.observed_generation == generation);
    let finished = observed.values().all(|seen| seen.result.is_some());
    RebalancerStatus {
        observed_workloads: observed.into_values().collect(),
        observed_generation: generation,
        finish_time: same.or_else(|| finished.then(|| Time(seconds(now)))).filter(|_| finished),
    }
}

/// As much of the status as fits into the object, and of how many workloads it tells nothing: of some that were asked for, as what is in the way of the
/// others is for somebody to read. Whoever is left out is asked for again at the next look, which changes nothing.
pub fn fitting(rebalancer: &WorkloadRebalancer, mut status: RebalancerStatus) -> (RebalancerStatus, usize) {
    let room = object_size::room_for_status(&rebalancer.metadata, &rebalancer.spec);
    if object_size::bytes(&status) <= room {
        return (status, 0);
    }
    let all = std::mem::take(&mut status.observed_workloads);
    let is_done = |seen: &ObservedWorkload| seen.result == Some(RebalanceResult::Successful);
    let (done, others): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|at| is_done(&all[*at]));
    let mut left = room.saturating_sub(object_size::bytes(&status));
    let mut fits = vec![false; all.len()];
    for at in others.into_iter().chain(done) {
        // With the comma behind it, or what is around the list.
        let more = object_size::bytes(&all[at]) + 1;
        fits[at] = more <= left;
        left -= if fits[at] { more } else { 0 };
    }
    let count = all.len();
    status.observed_workloads =
        all.into_iter().zip(fits).filter(|(_, fits)| *fits).map(|(seen, _)| seen).collect();
    let untold = count - status.observed_workloads.len();
    (status, untold)
}

/// What is told of a status that leaves out this many workloads.
pub fn untold(workloads: usize) -> String {
    format!(
        "the status does not tell of {workloads} workloads, as it would not fit into the object: they were asked for as the others were; name fewer in one WorkloadRebalancer"
    )
}

/// How long a rebalancer of this status stays: none where it stays for good, or is not finished.
pub fn stays(
    rebalancer: &WorkloadRebalancer,
    status: &RebalancerStatus,
    now: Timestamp,
) -> Option<SignedDuration> {
    let seconds = i64::from(rebalancer.spec.ttl_seconds_after_finished?.max(0));
    let age = now.duration_since(status.finish_time.as_ref()?.0);
    Some((SignedDuration::from_secs(seconds) - age).max(SignedDuration::ZERO))
}
