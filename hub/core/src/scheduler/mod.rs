//! Which clusters a binding goes to, with how many replicas, and why.
//!
//! In: the binding and all clusters. Out: a [`Decision`]: what to write, and, where it is asked to explain itself, for every cluster why it was
//! chosen or not. [`apply`] and [`status`] turn it into the binding to write.

pub mod assumptions;
mod cluster_affinities;
pub mod cluster_changes;
pub mod components;
pub mod division;
pub mod estimate;
pub mod estimator_answers;
pub mod events;
mod expression_scores;
pub mod filter;
pub mod queue;
pub mod spread;
pub mod trigger;
pub mod webster;
pub mod workload_affinity;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{BindingStatus, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::strings::{DEFAULT_SCHEDULER, annotations, conditions};

use self::assumptions::Taken;
pub use self::cluster_affinities::Attempt;
use self::cluster_affinities::Explains;
use self::division::Mode;
use self::estimator_answers::Exact;
use self::filter::Unfit;
use self::trigger::{SchedulingCause, Trigger};
use self::workload_affinity::AllowedClusters;
use crate::cluster_expressions::ClusterExpressions;
use crate::residency::Residency;
use crate::{condition, seconds, set_condition};

/// What the scheduler looks at.
pub struct Input<'a, C> {
    /// The binding.
    pub binding: &'a ResourceBinding,
    /// Every cluster, in any order.
    pub clusters: &'a [C],
    /// The name that this scheduler goes by.
    pub scheduler: &'a str,
    /// Whether clusters that are selected and get no replicas are placed in all the same.
    pub keeps_empty: bool,
    /// Where the workloads are that it wants to be with, or apart from.
    pub neighbours: AllowedClusters,
    /// What of the clusters' room is taken, though their reports do not say so yet.
    pub taken: Taken,
    /// What agents said of the room for it.
    pub exact: Exact,
    /// The ResidencyRules that cover its template.
    pub residency: Residency,
    /// Who evaluates the expressions of its policy, where that has some.
    pub expressions: Option<&'a dyn ClusterExpressions>,
}

impl<'a, C> Input<'a, C> {
    /// Of a binding and clusters alone, as the default scheduler looks at them: nothing else is near, taken, told or ruled.
    pub fn plain(binding: &'a ResourceBinding, clusters: &'a [C]) -> Self {
        Input {
            binding,
            clusters,
            scheduler: DEFAULT_SCHEDULER,
            keeps_empty: false,
            neighbours: AllowedClusters::default(),
            taken: Taken::default(),
            exact: Exact::default(),
            residency: Residency::default(),
            expressions: None,
        }
    }
}

/// Times are stored in seconds.
const NEXT_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Why a binding was not scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No cluster passes the filters. Nothing changes until a cluster or the binding does.
    #[error("{0}")]
    NoClusterFit(String),
    /// There is not enough room. Try again from time to time.
    #[error("{0}")]
    Unschedulable(String),
    /// Anything else. Try again with backoff.
    #[error("{0}")]
    Error(String),
    /// It was decided, and the hub does not take it: a quota, a rule of admission. Try again with backoff.
    #[error("{text}")]
    Refused {
        /// The reason of the condition Scheduled.
        reason: &'static str,
        /// What the hub said.
        text: String,
    },
}

impl Failure {
    /// The reason of the condition Scheduled.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoClusterFit(_) => conditions::NO_CLUSTER_FIT,
            Self::Unschedulable(_) => conditions::UNSCHEDULABLE,
            Self::Error(_) => conditions::SCHEDULER_ERROR,
            Self::Refused { reason, .. } => reason,
        }
    }
}

impl Failure {
    /// The same, with more said.
    fn and(self, more: Option<String>) -> Self {
        let Some(more) = more else { return self };
        match self {
            Self::NoClusterFit(text) => Self::NoClusterFit(format!("{text} {more}")),
            Self::Unschedulable(text) => Self::Unschedulable(format!("{text} {more}")),
            Self::Error(text) => Self::Error(format!("{text} {more}")),
            Self::Refused { reason, text } => Self::Refused { reason, text: format!("{text} {more}") },
        }
    }
}

/// What comes of scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The binding is not this scheduler's business now.
    NotOurs,
    /// What is placed stands.
    UpToDate,
    /// These clusters, sorted by name.
    Scheduled(Vec<TargetCluster>),
    /// None.
    Failed(Failure),
}

/// When a binding is looked at again without anything that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    Never,
    /// Soon, and later each time that it fails.
    Soon,
    /// When there may be room.
    ForRoom,
}

impl Outcome {
    /// When it is looked at again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Failed(Failure::Unschedulable(_)) => Retry::ForRoom,
            Self::Failed(Failure::Error(_) | Failure::Refused { .. }) => Retry::Soon,
            _ => Retry::Never,
        }
    }
}

/// Why a cluster was chosen or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterVerdict {
    /// It is a target, with so many replicas.
    Chosen(i32),
    /// It could be one, but was not selected, or got no replica.
    Passed,
    /// It cannot be one.
    Unfit(Unfit),
    /// It is going away.
    Deleting,
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub outcome: Outcome,
    /// The affinity term that was tried last: where the outcome is good, the one that holds from now on.
    pub affinity_name: String,
    /// Every group of clusters that was tried, in order, and what came of it; one without a name where there are no groups.
    pub tried: Vec<Attempt>,
    /// Of the clusters in which the binding is placed, those on their way out: what is there is lost. Nobody asks where what is placed stands.
    pub going: Vec<String>,
    /// Why, by cluster; empty of a decision that was not asked to explain itself.
    pub report: BTreeMap<String, ClusterVerdict>,
}

impl Decision {
    /// When the binding is looked at again. Where no cluster fits the first group of several, but a later one may have room some day, that is waited for.
    /// (Karmada waits for a change of the clusters that fit.)
    pub fn retry(&self) -> Retry {
        let waits =
            |attempt: &Attempt| matches!(attempt.result, Err(Failure::Unschedulable(_) | Failure::Error(_)));
        match &self.outcome {
            Outcome::Failed(Failure::NoClusterFit(_)) if self.tried.iter().any(waits) => Retry::ForRoom,
            outcome => outcome.retry(),
        }
    }

    /// The same where the hub refuses to take what was decided: `reason` is that of its answer, `message` its words.
    #[must_use]
    pub fn refused(self, reason: &str, message: &str) -> Self {
        let quota = reason == conditions::QUOTA_EXCEEDED;
        let (reason, text) = match &self.outcome {
            Outcome::Failed(Failure::NoClusterFit(text)) => {
                (conditions::NO_CLUSTER_FIT, format!("[{text}, {message}]"))
            }
            _ if quota => (conditions::QUOTA_EXCEEDED, message.to_owned()),
            _ => (conditions::SCHEDULER_ERROR, message.to_owned()),
        };
        Self { outcome: Outcome::Failed(Failure::Refused { reason, text }), ..self }
    }

    fn plain(outcome: Outcome) -> Self {
        Self {
            outcome,
            affinity_name: String::new(),
            tried: Vec::new(),
            going: Vec::new(),
            report: BTreeMap::new(),
        }
    }
}

/// Schedules a binding. Deterministic: the order of clusters does not matter.
pub fn schedule<C: Borrow<Cluster>>(input: &Input<'_, C>) -> Decision {
    decide(input, Explains::Nothing)
}

/// The same, with why each cluster was chosen or not.
pub fn explained<C: Borrow<Cluster>>(input: &Input<'_, C>) -> Decision {
    decide(input, Explains::EachCluster)
}

fn decide<C: Borrow<Cluster>>(input: &Input<'_, C>, explains: Explains) -> Decision {
    let mut clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    let (mode, cause) = match trigger::trigger(input.binding, &clusters, input.scheduler) {
        Trigger::NotOurs => return undecided(input.binding, &clusters, Outcome::NotOurs, explains),
        Trigger::UpToDate => return Decision::plain(Outcome::UpToDate),
        Trigger::Schedule { mode, cause } => (mode, cause),
    };
    let Some(placement) = &input.binding.spec.placement else { return Decision::plain(Outcome::NotOurs) };
    let mut decision = cluster_affinities::place(input, &clusters, placement, (mode, explains));
    // It was decided and written already: no report tells yet what that took, and what is placed would count as room once more. Where it is
    // stays, whatever its clusters have become since, as it would had it been told.
    let is_decided =
        matches!(decision.outcome, Outcome::Scheduled(_) | Outcome::Failed(Failure::NoClusterFit(_)));
    if cause == SchedulingCause::Untold && is_decided {
        let spec = &input.binding.spec;
        let is_placed =
            |cluster: &&&Cluster| spec.clusters.iter().any(|target| target.name == cluster.name());
        let placed: Vec<&Cluster> = clusters.iter().filter(is_placed).copied().collect();
        if let Some(group) = cluster_affinities::group_of(placement, spec.is_workload(), &placed) {
            group.clone_into(&mut decision.affinity_name);
        }
        decision.outcome = Outcome::Scheduled(spec.clusters.clone());
    }
    decision
}

/// What scheduling a binding comes to and why, whether or not anything asks for it now: [`schedule`] leaves alone what stands.
pub fn preview<C: Borrow<Cluster>>(input: &Input<'_, C>) -> Decision {
    let mut clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    let mode = match trigger::trigger(input.binding, &clusters, input.scheduler) {
        Trigger::NotOurs => return explained(input),
        Trigger::UpToDate => Mode::Steady,
        Trigger::Schedule { mode, .. } => mode,
    };
    match &input.binding.spec.placement {
        Some(placement) => {
            cluster_affinities::place(input, &clusters, placement, (mode, Explains::EachCluster))
        }
        None => explained(input),
    }
}

/// The clusters that a binding may go to, in any of its groups, and how many replicas more each has room for, beside those that it has there.
pub fn room<C: Borrow<Cluster>>(input: &Input<'_, C>) -> BTreeMap<String, i64> {
    let Some(placement) = &input.binding.spec.placement else { return BTreeMap::new() };
    let clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    let rooms = cluster_affinities::eligible(input, &clusters, placement).into_iter();
    rooms.map(|(name, free)| (name.to_owned(), free)).collect()
}

/// How much each cluster that a binding could go to is preferred, where that is anything: for having the template already, and by its policy's expression.
pub fn scores<C: Borrow<Cluster>>(input: &Input<'_, C>) -> BTreeMap<String, i64> {
    let Some(placement) = &input.binding.spec.placement else { return BTreeMap::new() };
    let clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    cluster_affinities::scores(input, &clusters, placement)
}

/// The clusters in which a binding is placed that are on their way out: what is there is lost. `clusters` are sorted by name.
fn going(binding: &ResourceBinding, clusters: &[&Cluster]) -> Vec<String> {
    let is_going = |name: &&str| {
        let at = clusters.binary_search_by(|cluster| cluster.name().cmp(name));
        at.is_ok_and(|at| clusters[at].deleting())
    };
    let placed = binding.spec.clusters.iter().map(|target| &*target.name);
    placed.filter(is_going).map(str::to_owned).collect()
}

/// An outcome by which nothing is placed anew: no more is said of clusters than which are on their way out.
fn undecided(
    binding: &ResourceBinding,
    clusters: &[&Cluster],
    outcome: Outcome,
    explains: Explains,
) -> Decision {
    let all = clusters.iter().filter(|cluster| explains == Explains::EachCluster && cluster.deleting());
    let report = all.map(|cluster| (cluster.name().to_owned(), ClusterVerdict::Deleting)).collect();
    Decision { going: going(binding, clusters), report, ..Decision::plain(outcome) }
}

/// The binding's metadata and spec with the decision in it; none if nothing changes. Where no cluster fits, what was
/// placed is taken back; any other outcome leaves it where it is, except in clusters on their way out.
pub fn apply(binding: &ResourceBinding, decision: &Decision) -> Option<ResourceBinding> {
    let mut wanted = binding.clone();
    match &decision.outcome {
        Outcome::Scheduled(targets) => wanted.spec.clusters.clone_from(targets),
        Outcome::Failed(Failure::NoClusterFit(_)) => wanted.spec.clusters.clear(),
        _ => {
            wanted.spec.clusters.retain(|target| !decision.going.contains(&target.name));
            return (wanted != *binding).then_some(wanted);
        }
    }
    if let Ok(text) = serde_json::to_string(&binding.spec.placement) {
        let notes = wanted.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::APPLIED_PLACEMENT.to_owned(), text);
    }
    expression_scores::note_applied(&mut wanted);
    (wanted != *binding).then_some(wanted)
}

/// The hour that counts as that of a decision made now: that for which it was asked, where that is later, or it would be asked for ever. Times are stored in
/// seconds, so that whoever asks in the second of a decision asks for the next; and clocks are set back.
fn scheduled_at(binding: &ResourceBinding, now: Timestamp) -> Timestamp {
    let now = seconds(now);
    binding.spec.reschedule_triggered_at.as_ref().map_or(now, |asked| asked.0.max(now))
}

/// The same of a binding that somebody changed between the two writes of `decided`: what it says now is still to be looked at, and what was asked of it
/// meanwhile too.
pub fn status_of_changed(
    binding: &ResourceBinding,
    decided: &ResourceBinding,
    placed_before: &[TargetCluster],
    decision: &Decision,
    now: Timestamp,
) -> Option<BindingStatus> {
    let mut status = status(binding, placed_before, decision, now)?;
    if binding.metadata.generation != decided.metadata.generation && decision.outcome != Outcome::NotOurs {
        status.scheduler_observed_generation = decided.metadata.generation.unwrap_or(0);
        let asked = binding.spec.reschedule_triggered_at.as_ref().map(|asked| asked.0);
        let is_unheard = trigger::rebalance_asked(binding) && !trigger::rebalance_asked(decided);
        let before = asked.filter(|_| is_unheard).and_then(|asked| asked.checked_sub(NEXT_SECOND).ok());
        if let (Some(before), Some(time)) = (before, &mut status.last_scheduled_time) {
            time.0 = time.0.min(before);
        }
    }
    (status != binding.status).then_some(status)
}

/// The binding's status after the decision; none if nothing changes. `binding` is the binding as [`apply`] left it in
/// the store (its generation counts), `placed_before` what it had before.
pub fn status(
    binding: &ResourceBinding,
    placed_before: &[TargetCluster],
    decision: &Decision,
    now: Timestamp,
) -> Option<BindingStatus> {
    let mut status = binding.status.clone();
    let generation = binding.metadata.generation.unwrap_or(0);
    match &decision.outcome {
        Outcome::NotOurs => return None,
        Outcome::UpToDate => status.scheduler_observed_generation = generation,
        Outcome::Scheduled(targets) => {
            let message = conditions::SCHEDULED_SUCCESS_MESSAGE;
            let said = condition(
                conditions::SCHEDULED,
                conditions::TRUE,
                conditions::SCHEDULED_SUCCESS,
                message,
                now,
            );
            let news = set_condition(&mut status.conditions, said);
            // A look at what nobody changed is no schedule, where it comes to the same: each cluster's change and each start of a hub would else be
            // written to every binding that goes everywhere.
            let changed = status.scheduler_observed_generation != generation || *targets != placed_before;
            status.scheduler_observed_generation = generation;
            status.scheduler_observing_affinity_name.clone_from(&decision.affinity_name);
            let asked = trigger::rebalance_asked(binding);
            if news || asked || changed || status.last_scheduled_time.is_none() {
                status.last_scheduled_time = Some(Time(scheduled_at(binding, now)));
            }
        }
        Outcome::Failed(failure) => {
            let text = failure.to_string();
            let said = condition(conditions::SCHEDULED, conditions::FALSE, failure.reason(), &text, now);
            set_condition(&mut status.conditions, said);
        }
    }
    (status != binding.status).then_some(status)
}
