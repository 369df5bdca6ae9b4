//! Scheduler: every binding finds its clusters. `karmada-core` decides; this reads, writes and tells. In: a binding, all clusters, what an
//! estimator answers. Out: its `spec.clusters` and status, events, and whether to look again.
//!
//! Woken by bindings, and for those whom it concerns by a cluster that came, went, or changed in a way that placement can see.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::strings::events;
use karmada_core::cluster_expressions::{ClusterExpressions, Said};
use karmada_core::feature_gates::Gate;
use karmada_core::residency;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_core::scheduler::trigger::{self, SchedulingCause, Trigger};
use karmada_core::scheduler::workload_affinity::AllowedClusters;
use karmada_core::scheduler::{self, Decision, Input, Outcome, Retry, cluster_changes};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::agent_ports::estimator::{self, Estimator};
use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::karmada_metrics::{Measure, Metrics};
use crate::port::{Api, ApiError, Change, Key, Resource};
use crate::runner::{Action, Controller, Error, Source};

mod binding_queue;
mod first_placement;

use self::binding_queue::BindingQueue;

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];

/// How often the status is tried against a newer binding.
const STATUS_TRIES: usize = 16;

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Scheduler {
    shared: Arc<ControllerContext>,
    /// Bindings that found no place the last time: any cluster may be the one.
    unplaced: Mutex<BTreeSet<Key>>,
    estimator: Option<Arc<dyn Estimator>>,
}

impl Scheduler {
    /// A scheduler, which goes by what an estimator says beside what clusters report.
    pub fn new(shared: Arc<ControllerContext>, estimator: Option<Arc<dyn Estimator>>) -> Arc<Self> {
        Arc::new(Scheduler { shared, unplaced: Mutex::default(), estimator })
    }

    /// What wakes this controller: a binding whose spec or marks changed; and where a cluster came, went or changed in a way that
    /// placement can see, those whom it concerns, and those that have no place; a quota, or what is used of it, for those of its namespace that
    /// have no place; a ResidencyRule, for those that have no place, and where it goes for those that it may have covered. One that comes wakes
    /// nobody who has a place: that stays until it is scheduled for another reason.
    pub fn wakes(self: &Arc<Self>) -> Vec<Source<Key>> {
        let own = |kind: &&str| {
            let shared = self.shared.clone();
            Source::own(BINDING_API, kind).but_status().noted(move |change| count(&shared.metrics, change))
        };
        let mut sources: Vec<Source<Key>> = KINDS.iter().map(own).collect();
        let scheduler = self.clone();
        sources.push(self.shared.clusters.wakes(move |transition| {
            if let (Some(before), Some(now)) = (&transition.before, &transition.now)
                && !cluster_changes::matters_to_placement(before, now)
            {
                return Vec::new();
            }
            let mut keys = scheduler.shared.bindings.to_schedule(transition);
            keys.extend(scheduler.unplaced.lock().iter().cloned());
            keys.iter().for_each(|_| scheduler.shared.metrics.count(Measure::ClusterChanged));
            keys.into_iter().collect()
        }));
        if self.shared.gates.enabled(Gate::FederatedQuotaEnforcement) {
            let scheduler = self.clone();
            sources.push(self.shared.quotas.wakes(move |transition| {
                let unplaced = scheduler.unplaced.lock();
                unplaced.iter().filter(|key| key.namespace == transition.key.namespace).cloned().collect()
            }));
        }
        let scheduler = self.clone();
        sources.push(self.shared.residency.wakes(move |transition| {
            let mut keys: BTreeSet<Key> = scheduler.unplaced.lock().clone();
            if let (Some(gone), None) = (&transition.before, &transition.now) {
                let namespaces: Vec<&str> = gone.spec.namespaces.iter().map(String::as_str).collect();
                let bindings = &scheduler.shared.bindings;
                keys.extend(bindings.placing(&gone.spec.resource_selectors, &namespaces, |template| {
                    residency::may_mean(gone, template)
                }));
            }
            keys.into_iter().collect()
        }));
        sources.extend(KINDS.iter().map(|kind| {
            let scheduler = self.clone();
            // It wakes nobody: what has no room is looked at from time to time.
            Source::new(BINDING_API, kind, move |change| {
                scheduler.shared.reservations.hear(change);
                Vec::new()
            })
        }));
        sources
    }

    /// What its keys wait in: the highest `schedulePriority` is first (gate `PriorityBasedScheduling`); without the gate, who came first.
    pub fn queue(&self) -> Arc<BindingQueue> {
        let by_priority = self.shared.gates.enabled(Gate::PriorityBasedScheduling);
        let bindings = self.shared.bindings.clone();
        Arc::new(BindingQueue::new(move |key| if by_priority { bindings.priority(key) } else { 0 }))
    }

    /// A Cluster that never could be read looks like one that is gone: nobody is taken away from there because of that.
    fn can_tell_who_is_gone(&self, binding: &ResourceBinding) -> Result<(), Error> {
        let unread = self.shared.unread_clusters();
        let names_one = |name: &&Arc<str>| binding.spec.clusters.iter().any(|target| *target.name == ***name);
        unread.iter().find(names_one).map_or(Ok(()), |name| Err(ControllerContext::cannot_be_read(name)))
    }

    fn note(&self, key: &Key, placed: bool) {
        let mut unplaced = self.unplaced.lock();
        if placed {
            unplaced.remove(key);
        } else if !unplaced.contains(key) {
            unplaced.insert(key.clone());
        }
    }

    /// What decides where a binding goes, but for what others have: its neighbours, what is taken, and what agents say.
    async fn input<'a>(
        &'a self,
        binding: &'a ResourceBinding,
        clusters: &'a [Arc<Cluster>],
        expressions: Option<&'a dyn ClusterExpressions>,
    ) -> Result<Input<'a, Arc<Cluster>>, Error> {
        Ok(Input {
            binding,
            clusters,
            scheduler: &self.shared.options.scheduler_name,
            keeps_empty: self.shared.options.empty_workloads,
            neighbours: AllowedClusters::default(),
            taken: Taken::new(),
            exact: Exact::new(),
            residency: self.shared.residency.of(&*self.shared.api, &binding.spec.resource).await?,
            expressions,
        })
    }

    /// Writes where the binding goes, and what came of it; where the hub does not take the first, that is what came of it.
    async fn carry_out(
        &self,
        resource: &Resource,
        binding: ResourceBinding,
        decision: Decision,
    ) -> Result<Decision, Error> {
        let api: &dyn Api = &*self.shared.api;
        let before = binding.spec.clusters.clone();
        let (mut binding, mut decision) = (binding, decision);
        if let Some(wanted) = scheduler::apply(&binding, &decision) {
            match api.update(resource, fetch::to_value(&wanted)?).await {
                Ok(written) => {
                    if let Outcome::Scheduled(targets) = &decision.outcome {
                        self.shared.reservations.placed(&binding, targets);
                    }
                    binding = written.parse()?;
                    // At once, not when the watch tells: the next of its group looks where this one is.
                    self.shared.bindings.observe(&Change::Applied(written));
                }
                Err(ApiError::Forbidden { reason, message }) => {
                    decision = decision.refused(&reason, &message);
                }
                Err(ApiError::Invalid(message)) => decision = decision.refused("Invalid", &message),
                Err(error) => return Err(error.into()),
            }
        }
        self.write_status(resource, binding, &before, &decision).await?;
        Ok(decision)
    }

    /// Writes what was decided into the binding's status. The controller of statuses writes there too: what it wrote meanwhile is
    /// read again and kept, for once the spec is written nothing would decide this a second time.
    async fn write_status(
        &self,
        resource: &Resource,
        mut binding: ResourceBinding,
        before: &[TargetCluster],
        decision: &Decision,
    ) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        let (namespace, name) = (binding.namespace().to_owned(), binding.name().to_owned());
        let decided = binding.clone();
        for _ in 0..STATUS_TRIES {
            let now = (self.shared.clock)();
            let status = scheduler::status_of_changed(&binding, &decided, before, decision, now);
            let Some(status) = status else { return Ok(()) };
            let told = status.conditions != binding.status.conditions || before != binding.spec.clusters;
            let mut wanted = binding.clone();
            wanted.status = status;
            match api.update_status(resource, fetch::to_value(&wanted)?).await {
                Ok(_) => {
                    if told {
                        self.tell(&wanted, decision);
                    }
                    return Ok(());
                }
                Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let Some(fresh) = fetch::get(api, resource, &namespace, &name).await? else { return Ok(()) };
            binding = fresh;
        }
        Err(ApiError::Conflict(format!("the status of {namespace}/{name} keeps changing")).into())
    }

    fn tell(&self, binding: &ResourceBinding, decision: &Decision) {
        let (own, template) = (Reference::of_binding(binding), Reference::of_template(binding));
        for (placed, message) in scheduler::events::events(binding, decision) {
            let (kind, reason) = if placed {
                (EventType::Normal, events::SCHEDULE_BINDING_SUCCEED)
            } else {
                (EventType::Warning, events::SCHEDULE_BINDING_FAILED)
            };
            for about in [&own, &template] {
                self.shared.recorder.record(about, kind, reason, &message);
            }
        }
    }
}

/// What a change of a binding is counted as, which brings it to be scheduled: its generation tells whether it is new.
fn count(metrics: &Metrics, change: &Change) {
    let Change::Applied(binding) = change else { return };
    let is_new = binding.generation <= 1;
    metrics.count(if is_new { Measure::BindingAdded } else { Measure::BindingUpdated });
}

/// As what a decision is counted; not at all where nothing was to be decided.
fn measure(input: &Input<'_, Arc<Cluster>>, decision: &Decision) -> Option<Measure> {
    if matches!(decision.outcome, Outcome::NotOurs | Outcome::UpToDate) {
        return None;
    }
    let clusters: Vec<&Cluster> = input.clusters.iter().map(|cluster| &**cluster).collect();
    match trigger::trigger(input.binding, &clusters, input.scheduler) {
        Trigger::Schedule { cause: SchedulingCause::Replicas, .. } => Some(Measure::ScaleSchedule),
        _ => Some(Measure::ReconcileSchedule),
    }
}

#[async_trait::async_trait]
impl Controller for Scheduler {
    type Key = Key;

    fn name(&self) -> &'static str {
        "scheduler"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found.filter(|b| b.metadata.deletion_timestamp.is_none()) else {
            self.note(key, true);
            self.shared.reservations.remove(key);
            return Ok(Action::Done);
        };
        self.can_tell_who_is_gone(&binding)?;
        let (clusters, expressions) =
            (self.shared.clusters.all(""), self.shared.expressions(&binding).await?);
        let mut input = self.input(&binding, &clusters, expressions.as_deref()).await?;
        if self.estimator.is_some() {
            // Whom to ask, these tell as well.
            input.neighbours = self.shared.neighbours(key, &binding.spec);
            input.taken = self.shared.reservations.taken();
            input.exact = estimator::exact(self.estimator.as_deref(), &input, &self.shared.gates).await;
        }
        // Until what is decided is written, nobody else of its group looks.
        let turn = self.shared.group_turn(key, &binding.spec).await;
        // What others placed while agents were asked, or their turn came first, counts.
        input.neighbours = self.shared.neighbours(key, &binding.spec);
        input.taken = self.shared.reservations.taken();
        let begun = Instant::now();
        let decision = scheduler::schedule(&input);
        let measure = measure(&input, &decision);
        if measure.is_some() {
            self.shared.metrics.note(Measure::Decide, true, begun.elapsed());
        }
        tracing::debug!(namespace = &*key.namespace, binding = &*key.name, outcome = ?decision.outcome, "scheduling decided");
        // Of its group, and of what an expression looks at in a cluster's status, nobody tells when they change.
        let by_what_is_untold = (self.shared.looks_at_groups()
            && binding.spec.workload_affinity_groups.is_some())
            || !Said::of(&binding.metadata).is_none();
        self.note(key, !matches!(decision.outcome, Outcome::Failed(_)));
        let carried_out = self.carry_out(&resource, binding, decision).await;
        drop(turn);
        if let Some(measure) = measure {
            let succeeded =
                carried_out.as_ref().is_ok_and(|done| !matches!(done.outcome, Outcome::Failed(_)));
            self.shared.metrics.note(measure, succeeded, begun.elapsed());
        }
        let decision = carried_out?;
        let (retry, outcome) = (decision.retry(), decision.outcome);
        // Also where the hub did not take what was decided: a quota that is raised then wakes it.
        self.note(key, !matches!(outcome, Outcome::Failed(_)));
        if retry != Retry::Never {
            self.shared.metrics.count(Measure::ScheduleFailed);
        }
        match (retry, &outcome) {
            (Retry::ForRoom, _) => Ok(Action::AwaitRoom),
            (Retry::Never, Outcome::Failed(_)) if by_what_is_untold => Ok(Action::AwaitRoom),
            (Retry::Soon, Outcome::Failed(failure)) => Err(Error::Other(failure.to_string())),
            _ => Ok(Action::Done),
        }
    }
}

#[cfg(test)]
mod tests;
