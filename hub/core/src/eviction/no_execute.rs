//! Whether a binding stays in a cluster that has taints of effect NoExecute, and how it leaves.
//!
//! In: the binding, the cluster's taints, what the hub is told to do by default, the moment. Out: it stays, it stays for a while, or the task by
//! which it leaves. What a binding tolerates is what the placement says by which it was placed, not a newer one.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Taint, Toleration};
use karmada_api::binding::{GracefulEvictionTask, ResourceBinding};
use karmada_api::policy::{Placement, PurgeMode};
use karmada_api::selector::tolerates;
use karmada_api::strings::{annotations, eviction, taints};

use crate::failover::preservation::{self, PreservationError};
use crate::scheduler::trigger::is_placed_by_somebody;

/// For how long taints are borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borne {
    /// Without end.
    Forever,
    /// So long from now.
    For(SignedDuration),
    /// Not any more, or never.
    NotAtAll,
}

/// For how long `tolerations` bear the taints that evict. The first toleration that covers a taint holds for it, and its time runs for every
/// taint that it covers, from when that was added; without that time it does not run.
pub fn borne(taints: &[Taint], tolerations: &[Toleration], now: Timestamp) -> Borne {
    let evicting: Vec<&Taint> = taints.iter().filter(|taint| evicts(taint)).collect();
    let mut used: Vec<&Toleration> = Vec::new();
    for taint in &evicting {
        match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
            Some(first) => used.push(first),
            None => return Borne::NotAtAll,
        }
    }
    let timed = used.into_iter().flat_map(|toleration| {
        let covered = evicting.iter().filter(move |taint| tolerates(toleration, taint));
        covered.filter_map(move |taint| {
            let seconds = toleration.toleration_seconds?.max(0);
            let end = taint.time_added.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds));
            // What ends after the last moment that there is does not end.
            Some(end.map_or(SignedDuration::MAX, |end| end.duration_since(now)))
        })
    });
    match timed.min() {
        None | Some(SignedDuration::MAX) => Borne::Forever,
        Some(left) if left > SignedDuration::ZERO => Borne::For(left),
        Some(_) => Borne::NotAtAll,
    }
}

/// Whether `tolerations` bear a taint without end: it does not evict, or the first that covers it has no time.
pub fn is_borne_for_good(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let first = tolerations.iter().find(|toleration| tolerates(toleration, taint));
    !evicts(taint) || first.is_some_and(|toleration| toleration.toleration_seconds.is_none())
}

/// Whether a taint makes those leave who do not tolerate it.
pub fn evicts(taint: &Taint) -> bool {
    taint.effect == taints::NO_EXECUTE
}

/// What the hub does where a policy says nothing, and which status goes along.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How workloads leave whose policy does not say it.
    pub purge_mode: PurgeMode,
    /// Whether status that is to be preserved goes along.
    pub preserves_state: bool,
}

/// What becomes of a binding in a tainted cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Stay {
    /// It stays until something changes.
    Stays,
    /// It stays for so long.
    StaysFor(SignedDuration),
    /// It leaves by this task.
    Leaves(Box<GracefulEvictionTask>),
}

/// Why nothing can be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// By which placement it was placed is not known.
    #[error(
        "what it tolerates is not known: annotation {} is absent, as nothing was scheduled by a placement",
        annotations::APPLIED_PLACEMENT
    )]
    NotPlaced,
    /// The note of it cannot be read.
    #[error("what it tolerates is not known: annotation {note} cannot be read: {0}", note = annotations::APPLIED_PLACEMENT)]
    Unreadable(String),
    /// Status that is to go along is not there.
    #[error(transparent)]
    Preservation(#[from] PreservationError),
}

/// Looks at a binding in a cluster that has `taints`.
///
/// # Errors
/// What it tolerates, or what of its status is to go along, is not known.
pub fn look(
    binding: &ResourceBinding,
    cluster: &str,
    taints: &[Taint],
    rules: Rules,
    now: Timestamp,
) -> Result<Stay, LookError> {
    let is_target = binding.spec.clusters.iter().any(|target| target.name == cluster);
    // Karmada evicts what nobody places anew, too: it would run nowhere until a person comes.
    if !is_placed_by_somebody(binding) || !is_target || !taints.iter().any(evicts) {
        return Ok(Stay::Stays);
    }
    match borne(taints, &tolerations(binding)?, now) {
        Borne::Forever => Ok(Stay::Stays),
        Borne::For(left) => Ok(Stay::StaysFor(left)),
        Borne::NotAtAll => Ok(Stay::Leaves(Box::new(task(binding, cluster, rules)?))),
    }
}

/// What the placement bears by which a binding was placed.
fn tolerations(binding: &ResourceBinding) -> Result<Vec<Toleration>, LookError> {
    let text = binding.annotation(annotations::APPLIED_PLACEMENT).filter(|text| !text.is_empty());
    let placement: Placement = serde_json::from_str(text.ok_or(LookError::NotPlaced)?)
        .map_err(|error| LookError::Unreadable(error.to_string()))?;
    Ok(placement.cluster_tolerations)
}

fn task(
    binding: &ResourceBinding,
    cluster: &str,
    rules: Rules,
) -> Result<GracefulEvictionTask, PreservationError> {
    let failover = binding.spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
    let purge_mode = match failover {
        Some(failover) => failover.purge_mode.unwrap_or(PurgeMode::Gracefully),
        None => rules.purge_mode,
    };
    let preserved = failover.and_then(|failover| failover.state_preservation.as_ref());
    let preserved_label_state = match preserved.filter(|_| rules.preserves_state) {
        Some(wanted) => preservation::labels(wanted, binding, cluster)?,
        None => Default::default(),
    };
    Ok(GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: Some(purge_mode),
        reason: eviction::TAINT_UNTOLERATED.to_owned(),
        producer: eviction::TAINT_MANAGER.to_owned(),
        // What is never purged waits for a person.
        suppress_deletion: (purge_mode == PurgeMode::Never).then_some(true),
        preserved_label_state,
        ..GracefulEvictionTask::default()
    })
}
