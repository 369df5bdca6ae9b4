//! Whether a binding may be moved now, and why not.
//!
//! In: a binding with what its clusters report, all clusters, the moment. Out: how it may be moved, or what it stays for. What is about to
//! change anyway, is held by a person, or is not whole where it runs is nobody's to move: its reports are not of what would be decided.

use std::borrow::Borrow;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{AggregatedStatusItem, Health, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::failback;
use karmada_core::scheduler::trigger::{self, Trigger};
use karmada_core::scheduler::{components, filter};

use crate::move_note::{MoveNote, Permit, SETTLES};
use crate::unschedulable;

/// A cluster is trusted with more once it has been ready for this long: one that comes and goes draws nothing.
pub const STEADY: SignedDuration = SignedDuration::from_mins(10);

/// Why a binding stays as it is placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stays {
    /// It is no Deployment that is divided by room.
    #[error("it is no Deployment that is divided by room")]
    NotByRoom,
    /// Moved, it would not run at all for a while.
    #[error("it has one replica alone")]
    Alone,
    /// A person holds back what is sent.
    #[error("it is suspended")]
    Held,
    /// It leaves a cluster, or returns to one.
    #[error("it leaves a cluster already")]
    Leaving,
    /// The scheduler has not seen it as it is, or is to act.
    #[error("the scheduler is to act first")]
    Unscheduled,
    /// Not all replicas of this cluster are ready, or more are there.
    #[error("not all of its replicas in {0} are ready, and no others there")]
    NotReady(String),
    /// It still runs in this cluster, where it is not placed any more.
    #[error("it still runs in {0}, which it left")]
    StillThere(String),
    /// It was placed or moved a short while ago, and rests.
    #[error("it was placed or moved a while ago, and rests for {0:#}")]
    Rests(SignedDuration),
    /// This cluster is not ready for long enough, has a taint that keeps it away, or is being left.
    #[error("the cluster {0} is not well, or tainted")]
    Unwell(String),
    /// It could not be placed in this cluster, where it is.
    #[error("it could not be placed in {0} now")]
    Unfit(String),
    /// How much room this cluster has is not known.
    #[error("how much room {0} has is not known")]
    RoomUnknown(String),
    /// Placed afresh it would go nowhere.
    #[error("placed afresh it would go nowhere")]
    NoPlan,
    /// Placed afresh it would go to another group of its clusters: returning is a policy's own business.
    #[error("placed afresh it would go to another group of clusters")]
    OtherGroup,
    /// Once it were placed so, it would be placed elsewhere again.
    #[error("placed where it would be now, it would be placed elsewhere again")]
    Restless,
    /// It stands where it would be placed, or nearly.
    #[error("it stands about where it would be placed now")]
    Near,
    /// Elsewhere it would be no better off.
    #[error("where it would be placed now is no better")]
    NoBetter,
    /// Halfway it would be spread over other numbers of groups than its policy says.
    #[error("halfway it would be spread otherwise than its policy says")]
    Spread,
    /// Nothing is left of the budget, or too little for a move that can be made at once alone.
    #[error("the budget has too little left")]
    NoBudget,
    /// It would leave this cluster, or enter it and have to leave it where that comes to nothing. What would be left there runs on: its policy
    /// preserves it, and nobody would know of it.
    #[error("what it leaves in {0} would be preserved by its policy, and run on there")]
    Preserved(String),
    /// Something that is to leave this cluster waits for a person, and whatever else leaves it would wait as well.
    #[error("what is to be removed from {0} waits for a person, and so nothing more is")]
    RemovalsHeld(String),
    /// Another workload left this cluster a moment ago, and not many are to leave it at once.
    #[error("something else left {0} a moment ago")]
    LeftLately(String),
    /// The number of its replicas is the members' own.
    #[error("its members decide how many replicas it has")]
    MembersDecide,
}

/// Whether a binding can come to be moved without a change of its spec.
pub fn could_move(binding: &ResourceBinding) -> bool {
    unschedulable::could_consider(binding) && !components::has_several(&binding.spec)
}

/// How a binding may be moved now, where the scheduler goes by this name.
///
/// # Errors
/// Why it may not.
pub fn permit<C: Borrow<Cluster>>(
    binding: &ResourceBinding,
    clusters: &[C],
    scheduler: &str,
    now: Timestamp,
) -> Result<Permit, Stays> {
    if !could_move(binding) {
        return Err(Stays::NotByRoom);
    }
    if binding.spec.replicas < 2 {
        return Err(Stays::Alone);
    }
    if is_held(binding) {
        return Err(Stays::Held);
    }
    if !binding.spec.graceful_eviction_tasks.is_empty() {
        return Err(Stays::Leaving);
    }
    if !is_scheduled(binding, clusters, scheduler) {
        return Err(Stays::Unscheduled);
    }
    if let Some(target) = binding.spec.clusters.iter().find(|target| !is_ready(binding, target)) {
        return Err(Stays::NotReady(target.name.clone()));
    }
    if let Some(left) = still_there(binding) {
        return Err(Stays::StillThere(left.to_owned()));
    }
    if let Some(rests) = settles(binding, now) {
        return Err(Stays::Rests(rests));
    }
    MoveNote::permit(MoveNote::of(binding), now).map_err(Stays::Rests)
}

/// Whether a person holds back what is sent to any cluster, or where it is placed.
pub(crate) fn is_held(binding: &ResourceBinding) -> bool {
    binding.spec.suspension.as_ref().is_some_and(|suspension| {
        let some = suspension.dispatching_on_clusters.as_ref();
        suspension.scheduling == Some(true)
            || suspension.dispatching == Some(true)
            || some.is_some_and(|some| !some.cluster_names.is_empty())
    })
}

/// Whether the scheduler of this name has seen it as it is, and lets it stand.
pub(crate) fn is_scheduled<C: Borrow<Cluster>>(
    binding: &ResourceBinding,
    clusters: &[C],
    scheduler: &str,
) -> bool {
    let mut clusters: Vec<&Cluster> = clusters.iter().map(Borrow::borrow).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    let seen = binding.status.scheduler_observed_generation;
    binding.metadata.generation.is_none_or(|generation| generation == seen)
        && trigger::trigger(binding, &clusters, scheduler) == Trigger::UpToDate
}

/// Whether a cluster has as many replicas as it is to have, no others, and all of them ready.
pub(crate) fn is_ready(binding: &ResourceBinding, target: &TargetCluster) -> bool {
    let wanted = i64::from(target.replicas);
    let is_whole = |item: &AggregatedStatusItem| {
        let Some(status) = &item.status else { return false };
        let number = |field: &str| status[field].as_i64();
        item.applied
            && item.health == Some(Health::Healthy)
            && number("readyReplicas") == Some(wanted)
            && number("replicas").is_none_or(|replicas| replicas == wanted)
    };
    let mut items = binding.status.aggregated_status.iter();
    items.find(|item| item.cluster_name == target.name).is_some_and(is_whole)
}

/// A cluster that tells of it, though it is not placed there.
fn still_there(binding: &ResourceBinding) -> Option<&str> {
    let is_placed = |name: &str| binding.spec.clusters.iter().any(|target| target.name == name);
    let mut told = binding.status.aggregated_status.iter().map(|item| &*item.cluster_name);
    told.find(|name| !is_placed(name))
}

/// How long what the scheduler placed last still settles; none where it has.
fn settles(binding: &ResourceBinding, now: Timestamp) -> Option<SignedDuration> {
    let last = binding.status.last_scheduled_time.as_ref()?.0;
    Some(SETTLES - now.duration_since(last)).filter(|rests| rests.is_positive() && last <= now)
}

/// The first of these clusters that is not well: not there, not ready for long, or with a taint for which the binding would not be placed there
/// or would leave it again.
pub fn unwell<'a>(
    binding: &ResourceBinding,
    targets: &[TargetCluster],
    cluster: impl Fn(&str) -> Option<&'a Cluster>,
    now: Timestamp,
) -> Option<String> {
    let placement = binding.spec.placement.as_ref();
    let tolerations = placement.map(|placement| &placement.cluster_tolerations[..]).unwrap_or_default();
    let is_well = |target: &TargetCluster| {
        let since = failback::well_since(binding, std::slice::from_ref(target), &cluster);
        let admits = |cluster: &Cluster| {
            !cluster.deleting() && filter::taints(&cluster.spec.taints, tolerations, false).is_ok()
        };
        since.is_some_and(|since| now.duration_since(since) >= STEADY)
            && cluster(&target.name).is_some_and(admits)
    };
    targets.iter().find(|target| !is_well(target)).map(|target| target.name.clone())
}
