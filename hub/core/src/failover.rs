//! Workloads that are unhealthy where they are move elsewhere, and take of their status along what their policy names.
//!
//! In: a binding with its aggregated status, the moment. Out: since when it is unhealthy in each cluster, which is kept on the binding, so that a
//! hub that is started anew forgets nothing; the tasks by which it leaves; when to look again.

mod json_path;
pub mod preservation;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{BindingSpec, GracefulEvictionTask, Health, ResourceBinding};
use karmada_api::policy::{ApplicationFailoverBehavior, PurgeMode};
use karmada_api::strings::{annotations, eviction};
use karmada_interpreter::{Interpreter, Operation};

use crate::eviction::evict;
use crate::scheduler::trigger::is_placed_by_somebody;
use crate::seconds;

use self::preservation::PreservationError;

/// How long a workload may be unhealthy where its policy says nothing.
const TOLERATED_SECONDS: i32 = 300;

/// Looks again after this long where a wait ends in this very second.
const NEXT_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// What the hub's gates say of moving workloads.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether status that is to be preserved goes along.
    pub preserves_state: bool,
    /// Whether anything leaves gracefully.
    pub evicts_gracefully: bool,
}

/// What comes of a look at a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailoverDecision {
    /// The binding as it is to be written; none where nothing changes.
    pub wanted: Option<Box<ResourceBinding>>,
    /// The clusters that it leaves.
    pub left: Vec<String>,
    /// After how long it is to be looked at, whatever changes.
    pub look_again: Option<SignedDuration>,
    /// A cluster that it should leave and does not, and why.
    pub refused: Option<(String, LookError)>,
}

/// Why a workload does not leave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// It is to leave gracefully, which is switched off.
    #[error("it leaves no cluster gracefully: the feature gate GracefulEviction is off")]
    GateOff,
    /// Status that is to go along is not there.
    #[error(transparent)]
    Preservation(#[from] PreservationError),
}

/// Whether a binding's workload moves at all when it is unhealthy: its policy says so, its dependencies move along, somebody can tell its
/// health, and somebody places it elsewhere.
pub fn watches<'a>(
    binding: &'a ResourceBinding,
    interpreter: &dyn Interpreter,
) -> Option<&'a ApplicationFailoverBehavior> {
    let resource = &binding.spec.resource;
    let failover = binding.spec.failover.as_ref()?.application.as_ref()?;
    let known = interpreter.enabled(&resource.api_version, &resource.kind, Operation::InterpretHealth);
    (binding.spec.propagate_deps && known && is_placed_by_somebody(binding)).then_some(failover)
}

/// Looks at a binding, whatever brought it.
pub fn look(
    binding: &ResourceBinding,
    interpreter: &dyn Interpreter,
    rules: Rules,
    now: Timestamp,
) -> FailoverDecision {
    let before = unhealthy_since(binding);
    let Some(failover) = watches(binding, interpreter) else {
        return FailoverDecision {
            wanted: noted(binding.clone(), binding, &BTreeMap::new()),
            ..FailoverDecision::default()
        };
    };
    let since = since(binding, before, now);
    let tolerated = failover.decision_conditions.toleration_seconds.unwrap_or(TOLERATED_SECONDS);
    let tolerated = SignedDuration::from_secs(i64::from(tolerated));
    let (mut look, mut after, mut kept) = (FailoverDecision::default(), binding.clone(), since.clone());
    for (cluster, begun) in since.iter().filter(|(cluster, _)| is_unhealthy(binding, cluster)) {
        let left = tolerated - now.duration_since(*begun);
        if !left.is_negative() {
            look.wait(left);
            continue;
        }
        match task(binding, cluster, failover, rules) {
            Ok(task) => {
                evict(&mut after.spec, task);
                look.left.push(cluster.clone());
                kept.remove(cluster);
            }
            Err(error) => {
                let wanted = noted(binding.clone(), binding, &since);
                return FailoverDecision {
                    wanted,
                    refused: Some((cluster.clone(), error)),
                    ..FailoverDecision::default()
                };
            }
        }
    }
    look.wanted = noted(after, binding, &kept);
    look
}

impl FailoverDecision {
    fn wait(&mut self, left: SignedDuration) {
        let left = left.max(NEXT_SECOND);
        self.look_again = Some(self.look_again.map_or(left, |earlier| earlier.min(left)));
    }
}

fn is_unhealthy(binding: &ResourceBinding, cluster: &str) -> bool {
    let mut items = binding.status.aggregated_status.iter();
    items.any(|item| item.cluster_name == cluster && item.health == Some(Health::Unhealthy))
}

/// Since when the workload is unhealthy, by cluster that it is meant for. What is healthy, or unknown, counts from the beginning again; a
/// cluster that says nothing goes on as it was. Without any status there is nothing to go on with. What was noted by a clock that was ahead began now.
fn since(
    binding: &ResourceBinding,
    before: BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let (spec, items) = (&binding.spec, &binding.status.aggregated_status);
    let leaving: BTreeSet<&str> =
        spec.graceful_eviction_tasks.iter().map(|task| &*task.from_cluster).collect();
    let placed: BTreeSet<&str> = spec.clusters.iter().map(|target| &*target.name).collect();
    let stands_in = |cluster: &str| placed.contains(cluster) && !leaving.contains(cluster);
    let mut since = if items.is_empty() { BTreeMap::new() } else { before };
    for item in items {
        match item.health {
            Some(Health::Unhealthy) => {
                since.entry(item.cluster_name.clone()).or_insert(seconds(now));
            }
            Some(Health::Healthy | Health::Unknown) => drop(since.remove(&item.cluster_name)),
            None => {}
        }
    }
    since.retain(|cluster, _| stands_in(cluster));
    since.values_mut().for_each(|begun| *begun = (*begun).min(seconds(now)));
    since
}

/// What the binding has noted of it.
pub fn unhealthy_since(binding: &ResourceBinding) -> BTreeMap<String, Timestamp> {
    let text = binding.annotation(annotations::UNHEALTHY_SINCE);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// `wanted` with the note in it; none where that is the binding as it is.
fn noted(
    mut wanted: ResourceBinding,
    binding: &ResourceBinding,
    since: &BTreeMap<String, Timestamp>,
) -> Option<Box<ResourceBinding>> {
    let text = serde_json::to_string(since).ok().filter(|_| !since.is_empty());
    if text.as_deref() != binding.annotation(annotations::UNHEALTHY_SINCE) {
        let notes = wanted.metadata.annotations.get_or_insert_default();
        match text {
            Some(text) => drop(notes.insert(annotations::UNHEALTHY_SINCE.to_owned(), text)),
            None => drop(notes.remove(annotations::UNHEALTHY_SINCE)),
        }
    }
    (wanted != *binding).then(|| Box::new(wanted))
}

fn task(
    binding: &ResourceBinding,
    cluster: &str,
    failover: &ApplicationFailoverBehavior,
    rules: Rules,
) -> Result<GracefulEvictionTask, LookError> {
    let mut task = GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: failover.purge_mode,
        reason: eviction::APPLICATION_FAILURE.to_owned(),
        producer: producer(binding).to_owned(),
        ..GracefulEvictionTask::default()
    };
    match failover.purge_mode {
        Some(PurgeMode::Gracefully) if !rules.evicts_gracefully => return Err(LookError::GateOff),
        Some(PurgeMode::Gracefully) => task.grace_period_seconds = failover.grace_period_seconds,
        Some(PurgeMode::Never) => task.suppress_deletion = Some(true),
        Some(PurgeMode::Directly) | None => {}
    }
    if let Some(wanted) = failover.state_preservation.as_ref().filter(|_| rules.preserves_state) {
        task.preserved_label_state = preservation::labels(wanted, binding, cluster)?;
        task.clusters_before_failover = names(&binding.spec);
    }
    Ok(task)
}

fn names(spec: &BindingSpec) -> Vec<String> {
    spec.clusters.iter().map(|target| target.name.clone()).collect()
}

fn producer(binding: &ResourceBinding) -> &'static str {
    if binding.namespace().is_empty() {
        eviction::CLUSTER_BINDING_FAILOVER
    } else {
        eviction::BINDING_FAILOVER
    }
}
