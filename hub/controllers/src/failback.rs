//! Failback controller: what had to go to a later group of its clusters returns to an earlier one, where its policy says so.
//!
//! In: bindings that are placed in a group that is not their first; their policies; clusters; what an estimator says. Out: bindings placed in
//! the earlier group, with tasks by which they leave the later one; and back in the later one where nothing comes of it. A group must take
//! them, with all its clusters ready, at every look for as long as the policy says; a hub that starts anew begins to count anew. Not all
//! return at once: they take turns, and so do their namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::strings::{annotations, events};
use karmada_core::failback::{self, Standing};
use karmada_core::feature_gates::Gate;
use karmada_core::round_robin::RoundRobin;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_core::scheduler::{self, Input};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::agent_ports::estimator::{self, Estimator};
use crate::controller_context::ControllerContext;
use crate::events::EventType;
use crate::eviction_options::LifecycleOptions;
use crate::fetch::{self, kinds};
use crate::graceful_eviction::again;
use crate::port::{Api, Change, Key, Resource};
use crate::runner::{Action, Controller, Error, Source, key_of};

const BINDING_API: &str = "work.karmada.io/v1alpha2";

/// A binding that is away is looked at this often: a cluster that was unwell in between shows it by when it became ready.
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// The field by which a binding says in which group it is; one without it has no groups.
const GROUP: &[u8] = b"\"schedulerObservingAffinityName\"";

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Failback {
    shared: Arc<ControllerContext>,
    estimator: Option<Arc<dyn Estimator>>,
    /// How long a return may take until it is taken back.
    patience: SignedDuration,
    started: Instant,
    /// Namespaces take turns, so that one of many bindings does not hold up all others.
    turns: Mutex<RoundRobin<Arc<str>, Arc<str>>>,
    /// Since when an earlier group would take each binding, by a clock that nobody sets.
    wanted: Mutex<BTreeMap<Key, Instant>>,
}

impl Failback {
    /// A controller, which asks an estimator where the scheduler does; of all bindings one returns in each `failback_interval`, and a return that is not
    /// healthy after the `graceful_timeout` is taken back. What they leave is removed at about that pace, with what follows them, and is to stay below
    /// the number of derived deletes in a minute that waits for a person.
    pub fn new(
        shared: Arc<ControllerContext>,
        estimator: Option<Arc<dyn Estimator>>,
        options: &LifecycleOptions,
    ) -> Arc<Self> {
        let (patience, turns) =
            (options.graceful_timeout, Mutex::new(RoundRobin::new(options.failback_interval)));
        Arc::new(Failback {
            shared,
            estimator,
            patience,
            started: Instant::now(),
            turns,
            wanted: Mutex::default(),
        })
    }

    /// What wakes this controller: a binding that is in one of several groups, its status too, which says in which.
    pub fn wakes() -> Vec<Source<Key>> {
        let source = |kind: &&str| Source::new(BINDING_API, kind, keys_of_bindings_in_groups);
        ["ResourceBinding", "ClusterResourceBinding"].iter().map(source).collect()
    }

    /// How long the binding's policy has an earlier group be well first; none where nothing returns.
    fn window(&self, binding: &ResourceBinding) -> Option<SignedDuration> {
        let note = |name: &str| binding.annotation(name).unwrap_or_default();
        let (namespace, name) = match note(annotations::PROPAGATION_POLICY_NAME) {
            "" => ("", note(annotations::CLUSTER_PROPAGATION_POLICY_NAME)),
            name => (note(annotations::PROPAGATION_POLICY_NAMESPACE), name),
        };
        failback::window(&*self.shared.policies.get(namespace, name)?)
    }

    /// Where the scheduler would place the binding now if it began with the first group.
    async fn earlier(
        &self,
        key: &Key,
        binding: &ResourceBinding,
        clusters: &[Arc<Cluster>],
        now: Timestamp,
    ) -> Result<Option<Vec<TargetCluster>>, Error> {
        let asking = failback::asking(binding, now);
        let neighbours = self.shared.neighbours(key, &binding.spec);
        let expressions = self.shared.expressions(binding).await?;
        let mut input = Input {
            binding: &asking,
            clusters,
            scheduler: &self.shared.options.scheduler_name,
            keeps_empty: self.shared.options.empty_workloads,
            neighbours,
            taken: Taken::new(),
            exact: Exact::new(),
            residency: self.shared.residency.of(&*self.shared.api, &binding.spec.resource).await?,
            expressions: expressions.as_deref(),
        };
        // Once it is written there, what it was given counts as room: the scheduler would not find out that there is none.
        input.exact = estimator::exact(self.estimator.as_deref(), &input, &self.shared.gates).await;
        Ok(failback::earlier(binding, &scheduler::schedule(&input)).map(<[TargetCluster]>::to_vec))
    }

    /// How long an earlier group is still to be watched before the binding returns to it. That it is well since a time that is still to come
    /// counts for nothing: the clock was ahead.
    fn rests(
        &self,
        key: &Key,
        (window, well_since): (SignedDuration, Timestamp),
        now: Timestamp,
    ) -> SignedDuration {
        let seen = *self.wanted.lock().entry(key.clone()).or_insert_with(Instant::now);
        let watched = SignedDuration::try_from(seen.elapsed()).unwrap_or(SignedDuration::MAX);
        let well = if well_since > now { watched } else { now.duration_since(well_since) };
        window - watched.min(well)
    }

    /// Takes back a return that comes to nothing, and tells the scheduler in which group the binding is again.
    async fn take_back(
        &self,
        resource: &Resource,
        binding: &ResourceBinding,
        now: Timestamp,
    ) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        if let Some(wanted) = failback::given_up(binding, self.patience, now) {
            api.update(resource, fetch::to_value(&wanted)?).await?;
            let why = "What it returned to did not become healthy: it stays where it was.".to_owned();
            self.shared.recorder.record_of_binding(&wanted, EventType::Warning, events::FAILBACK, &why);
        } else if let Some(status) = failback::status_after_giving_up(binding) {
            let wanted = ResourceBinding { status, ..binding.clone() };
            api.update_status(resource, fetch::to_value(&wanted)?).await?;
        }
        Ok(())
    }

    fn forget(&self, key: &Key) {
        self.wanted.lock().remove(key);
        self.turns.lock().forget(&key.namespace, &key.name);
    }

    fn tell(&self, binding: &ResourceBinding, from: &[TargetCluster]) {
        let names = |targets: &[TargetCluster]| {
            targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let message = format!(
            "Returns from {} to {}, which its policy prefers.",
            names(from),
            names(&binding.spec.clusters)
        );
        self.shared.recorder.record_of_binding(binding, EventType::Normal, events::FAILBACK, &message);
    }
}

/// A binding that may be in a later group: it says in which.
fn keys_of_bindings_in_groups(change: &Change) -> Vec<Key> {
    let says = |json: &[u8]| json.windows(GROUP.len()).any(|part| part == GROUP);
    match change {
        Change::Applied(binding) if !says(&binding.json()) => Vec::new(),
        _ => vec![key_of(change)],
    }
}

#[async_trait::async_trait]
impl Controller for Failback {
    type Key = Key;

    fn name(&self) -> &'static str {
        "failback-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let (api, now): (&dyn Api, _) = (&*self.shared.api, (self.shared.clock)());
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found else {
            self.forget(key);
            return Ok(Action::Done);
        };
        self.take_back(&resource, &binding, now).await?;
        match failback::standing(&binding) {
            Standing::Away => {}
            // Its new generation says nothing of where it would return to.
            Standing::Unsettled => return Ok(again(LOOK)),
            standing => {
                self.forget(key);
                let is_watched = standing == Standing::Returning;
                return Ok(if is_watched { again(LOOK) } else { Action::Done });
            }
        }
        // Whoever says later that it is to return is not heard here: it is looked at again.
        let Some(window) = self.window(&binding) else {
            self.forget(key);
            return Ok(again(LOOK));
        };
        let clusters = self.shared.clusters.all("");
        // They are sorted by name.
        let find = |name: &str| {
            let at = clusters.binary_search_by(|known| known.name().cmp(name)).ok()?;
            Some(&*clusters[at])
        };
        let rests = failback::rests_after_giving_up(&binding, window, now);
        if rests.is_positive() {
            self.forget(key);
            return Ok(again(rests.min(LOOK)));
        }
        let earlier = self.earlier(key, &binding, &clusters, now).await?;
        let well = earlier
            .and_then(|targets| failback::well_since(&binding, &targets, find).map(|since| (targets, since)));
        let Some((targets, since)) = well else {
            self.forget(key);
            return Ok(again(LOOK));
        };
        let rests = self.rests(key, (window, since), now);
        if rests.is_positive() {
            return Ok(again(rests.min(LOOK)));
        }
        let wait = self.turns.lock().ask(&key.namespace, &key.name, self.started.elapsed());
        if let Some(wait) = wait {
            return Ok(Action::RequeueAfter(wait));
        }
        let gracefully = self.shared.gates.enabled(Gate::GracefulEviction);
        let wanted = failback::returned(&binding, &targets, gracefully, now);
        api.update(&resource, fetch::to_value(&wanted)?).await?;
        self.tell(&wanted, &binding.spec.clusters);
        self.forget(key);
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
