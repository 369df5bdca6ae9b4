//! Which clusters a binding goes to, with how many replicas, and why (features: Scheduler).
//!
//! In: the binding and all clusters. Out: a [`Decision`]: what to write, and for every cluster why it was chosen or
//! not. [`apply`] and [`status`] turn it into the binding to write.

pub mod concern;
pub mod division;
pub mod estimate;
pub mod filter;
pub mod queue;
pub mod spread;
pub mod trigger;
pub mod webster;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{BindingStatus, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::policy::Placement;
use karmada_api::strings::{annotations, conditions};

use self::division::{Candidate, Division, DivisionError, Mode};
use self::filter::Unfit;
use self::trigger::Trigger;
use crate::{condition, seconds, set_condition};

/// What the scheduler looks at.
pub struct Input<'a, C> {
    /// The binding.
    pub binding: &'a ResourceBinding,
    /// Every cluster, in any order.
    pub clusters: &'a [C],
    /// The name that this scheduler goes by.
    pub scheduler: &'a str,
}

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
}

impl Failure {
    /// The reason of the condition Scheduled.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoClusterFit(_) => conditions::NO_CLUSTER_FIT,
            Self::Unschedulable(_) => conditions::UNSCHEDULABLE,
            Self::Error(_) => conditions::SCHEDULER_ERROR,
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

/// Why a cluster was chosen or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
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
    /// Why, by cluster.
    pub report: BTreeMap<String, Verdict>,
}

impl Decision {
    fn plain(outcome: Outcome) -> Self {
        Self { outcome, affinity_name: String::new(), report: BTreeMap::new() }
    }
}

/// Schedules a binding. Deterministic: the order of clusters does not matter.
pub fn schedule<C: Borrow<Cluster>>(input: &Input<'_, C>) -> Decision {
    let mut clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    let mode = match trigger::trigger(input.binding, &clusters, input.scheduler) {
        Trigger::NotOurs => {
            return Decision { report: going(&clusters), ..Decision::plain(Outcome::NotOurs) };
        }
        Trigger::UpToDate => return Decision::plain(Outcome::UpToDate),
        Trigger::Schedule { mode, .. } => mode,
    };
    let Some(placement) = &input.binding.spec.placement else { return Decision::plain(Outcome::NotOurs) };
    place(input.binding, &clusters, placement, mode)
}

/// The clusters on their way out: whoever placed something there, it is lost.
fn going(clusters: &[&Cluster]) -> BTreeMap<String, Verdict> {
    let going = clusters.iter().filter(|cluster| cluster.deleting());
    going.map(|cluster| (cluster.name().to_owned(), Verdict::Deleting)).collect()
}

/// Places a binding, whatever triggered it. `clusters` are sorted by name.
fn place(binding: &ResourceBinding, clusters: &[&Cluster], placement: &Placement, mode: Mode) -> Decision {
    if placement.cluster_affinities.is_empty() {
        return attempt(binding, clusters, placement, "", mode);
    }
    // From the term that holds now to the first that fits. Where everything is divided anew, and where nothing is
    // placed that could stay, no term holds: the first is tried first.
    let observed = &binding.status.scheduler_observing_affinity_name;
    let position = placement.cluster_affinities.iter().position(|term| term.affinity_name == *observed);
    let holds = mode == Mode::Steady && !binding.spec.clusters.is_empty();
    let start = position.filter(|_| holds).unwrap_or(0);
    let mut first: Option<Decision> = None;
    for term in &placement.cluster_affinities[start..] {
        let decision = attempt(binding, clusters, placement, &term.affinity_name, mode);
        if matches!(decision.outcome, Outcome::Scheduled(_)) {
            return decision;
        }
        first.get_or_insert(decision);
    }
    let last = placement.cluster_affinities.last().map(|term| term.affinity_name.clone());
    let mut decision = first.unwrap_or_else(|| Decision::plain(Outcome::UpToDate));
    decision.affinity_name = last.unwrap_or_default();
    decision
}

/// One attempt with one affinity term.
fn attempt(
    binding: &ResourceBinding,
    clusters: &[&Cluster],
    placement: &Placement,
    term: &str,
    mode: Mode,
) -> Decision {
    let spec = &binding.spec;
    let tiers = filter::affinity_tiers(placement, term, spec.is_workload());
    let mut report = BTreeMap::new();
    let mut unfit = BTreeMap::new();
    let mut candidates = Vec::new();
    for cluster in clusters.iter().copied() {
        if cluster.deleting() {
            report.insert(cluster.name().to_owned(), Verdict::Deleting);
            continue;
        }
        match filter::check(cluster, spec, placement, &tiers) {
            Ok(tier) => {
                report.insert(cluster.name().to_owned(), Verdict::Passed);
                let score = spread::locality_score(&spec.clusters, cluster.name());
                candidates.push(Candidate { cluster, free: free(binding, cluster), tier, score });
            }
            Err(reason) => {
                report.insert(cluster.name().to_owned(), Verdict::Unfit(reason.clone()));
                unfit.insert(cluster.name().to_owned(), reason);
            }
        }
    }
    let result = if candidates.is_empty() {
        Err(Failure::NoClusterFit(filter::explain(clusters.len(), &unfit)))
    } else {
        select_and_divide(binding, placement, candidates, tiers.len() > 1, mode)
    };
    let outcome = match result {
        Ok(targets) => {
            for target in &targets {
                report.insert(target.name.clone(), Verdict::Chosen(target.replicas));
            }
            Outcome::Scheduled(targets)
        }
        Err(failure) => Outcome::Failed(failure),
    };
    Decision { outcome, affinity_name: term.to_owned(), report }
}

fn select_and_divide(
    binding: &ResourceBinding,
    placement: &Placement,
    mut candidates: Vec<Candidate<'_>>,
    tiers: bool,
    mode: Mode,
) -> Result<Vec<TargetCluster>, Failure> {
    spread::order(&mut candidates, &binding.spec.clusters);
    let selected =
        spread::select(&candidates, placement, i64::from(binding.spec.replicas), &binding.spec.clusters)
            .map_err(|error| Failure::Error(error.to_string()))?;
    let division = Division {
        candidates: &selected,
        replicas: i64::from(binding.spec.replicas),
        strategy: placement.replica_scheduling.as_ref(),
        previous: &binding.spec.clusters,
        uid: &binding.spec.resource.uid,
        mode,
        tiers,
        workload: binding.spec.is_workload(),
    };
    division::divide(&division).map_err(|error| match error {
        DivisionError::Unschedulable(text) => {
            Failure::Unschedulable(format!("failed to assign replicas: {text}"))
        }
        DivisionError::Impossible(text) => Failure::Error(format!("failed to assign replicas: {text}")),
    })
}

/// The room for more replicas in a cluster.
fn free(binding: &ResourceBinding, cluster: &Cluster) -> i64 {
    if !binding.spec.is_workload() {
        return i64::from(i32::MAX);
    }
    let room = estimate::max_available(cluster, binding.spec.replica_requirements.as_ref());
    room.min(i64::from(i32::MAX))
}

/// The binding's metadata and spec with the decision in it; none if nothing changes. Where no cluster fits, what was
/// placed is taken back; any other outcome leaves it where it is, except in clusters on their way out.
pub fn apply(binding: &ResourceBinding, decision: &Decision) -> Option<ResourceBinding> {
    let mut wanted = binding.clone();
    match &decision.outcome {
        Outcome::Scheduled(targets) => wanted.spec.clusters.clone_from(targets),
        Outcome::Failed(Failure::NoClusterFit(_)) => wanted.spec.clusters.clear(),
        _ => {
            let going = |name: &str| decision.report.get(name) == Some(&Verdict::Deleting);
            wanted.spec.clusters.retain(|target| !going(&target.name));
            return (wanted != *binding).then_some(wanted);
        }
    }
    if let Ok(text) = serde_json::to_string(&binding.spec.placement) {
        let notes = wanted.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::APPLIED_PLACEMENT.to_owned(), text);
    }
    (wanted != *binding).then_some(wanted)
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
            status.scheduler_observed_generation = generation;
            status.scheduler_observing_affinity_name.clone_from(&decision.affinity_name);
            // Scheduling again with the same result is no news, unless it was asked for.
            let asked = trigger::rebalance_asked(binding);
            if news || asked || status.last_scheduled_time.is_none() || *targets != placed_before {
                status.last_scheduled_time = Some(Time(seconds(now)));
            }
        }
        Outcome::Failed(failure) => {
            let text = failure.to_string();
            let said = condition(conditions::SCHEDULED, conditions::FALSE, failure.reason(), &text, now);
            set_condition(&mut status.conditions, said);
            if matches!(failure, Failure::NoClusterFit(_)) {
                status.scheduler_observed_generation = generation;
            }
        }
    }
    (status != binding.status).then_some(status)
}

/// The text of the event on binding and template.
pub fn event_message(targets: &[TargetCluster]) -> String {
    let list: Vec<String> = targets.iter().map(|t| format!("{}:{}", t.name, t.replicas)).collect();
    format!("{} Result: {{{}}}", conditions::SCHEDULED_SUCCESS_MESSAGE, list.join(", "))
}
