//! Failback controller: what had to go to a later group of its clusters returns to an earlier one, where its policy says so.
//!
//! In: bindings that are placed in a group that is not their first; their policies; clusters. Out: bindings placed in the earlier group, with tasks
//! by which they leave the later one. A group must take them, with all its clusters ready, at every look for as long as the policy says; a
//! hub that starts anew begins to count anew. Not all return at once: they take turns, at the pace at which clusters are emptied.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::{DEFAULT_SCHEDULER, annotations, events};
use karmada_core::eviction::pace::{self, Lane};
use karmada_core::failback;
use karmada_core::gates::Gate;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_core::scheduler::neighbours::Neighbours;
use karmada_core::scheduler::{self, Input};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::graceful_eviction::again;
use crate::port::{Api, Change, Key};
use crate::runner::{Action, Controller, Error, Source, key_of};
use crate::shared::Shared;

const BINDING_API: &str = "work.karmada.io/v1alpha2";

/// A binding that is away is looked at this often: a cluster that was unwell in between shows it by when it became ready.
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// The field by which a binding says in which group it is; one without it has no groups.
const GROUP: &[u8] = b"\"schedulerObservingAffinityName\"";

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Failback {
    shared: Arc<Shared>,
    started: Instant,
    turns: Mutex<Lane<Key>>,
    /// Since when an earlier group would take each binding.
    wanted: Mutex<BTreeMap<Key, Timestamp>>,
}

impl Failback {
    /// A controller; so many bindings a second return.
    pub fn new(shared: Arc<Shared>, per_second: f32) -> Arc<Self> {
        let turns = Mutex::new(Lane::new(pace::interval(per_second)));
        Arc::new(Failback { shared, started: Instant::now(), turns, wanted: Mutex::default() })
    }

    /// What wakes this controller: a binding that is in one of several groups, its status too, which says in which.
    pub fn wakes() -> Vec<Source<Key>> {
        let source = |kind: &&str| Source::new(BINDING_API, kind, is_in_a_group);
        ["ResourceBinding", "ClusterResourceBinding"].iter().map(source).collect()
    }

    /// How long the binding's policy has an earlier group be well first; none where nothing returns.
    fn window(&self, binding: &ResourceBinding) -> Option<SignedDuration> {
        let note = |name: &str| binding.annotation(name).unwrap_or_default();
        let (namespace, name) = match note(annotations::PROPAGATION_POLICY_NAME) {
            "" => ("", note(annotations::CLUSTER_PROPAGATION_POLICY_NAME)),
            name => (note(annotations::PROPAGATION_POLICY_NAMESPACE), name),
        };
        let policies = self.shared.policies.all(namespace);
        let found: Option<&Arc<PropagationPolicy>> = policies.iter().find(|policy| policy.name() == name);
        failback::window(found?)
    }

    /// Where the scheduler would place the binding now if it began with the first group.
    fn earlier(
        &self,
        key: &Key,
        binding: &ResourceBinding,
        clusters: &[Arc<Cluster>],
        now: Timestamp,
    ) -> Option<Vec<TargetCluster>> {
        let asking = failback::asking(binding, now);
        let neighbours = match self.shared.gates.enabled(Gate::WorkloadAffinity) {
            true => self.shared.bindings.neighbours(key, &binding.spec),
            false => Neighbours::default(),
        };
        let (taken, exact) = (Taken::new(), Exact::new());
        let input =
            Input { binding: &asking, clusters, scheduler: DEFAULT_SCHEDULER, neighbours, taken, exact };
        failback::earlier(binding, &scheduler::schedule(&input)).map(<[TargetCluster]>::to_vec)
    }

    /// How long an earlier group is still to be watched before the binding returns to it.
    fn rests(
        &self,
        key: &Key,
        (window, well_since): (SignedDuration, Timestamp),
        now: Timestamp,
    ) -> SignedDuration {
        let seen = *self.wanted.lock().entry(key.clone()).or_insert(now);
        // A clock that was set back has nobody wait for longer than the window.
        window - now.duration_since(seen.max(well_since)).max(SignedDuration::ZERO)
    }

    fn forget(&self, key: &Key) {
        self.wanted.lock().remove(key);
        self.turns.lock().forget(key);
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
        for about in [Reference::of_binding(binding), Reference::of_template(binding)] {
            self.shared.recorder.record(&about, EventType::Normal, events::FAILBACK, &message);
        }
    }
}

/// A binding that may be in a later group: it says in which.
fn is_in_a_group(change: &Change) -> Vec<Key> {
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
        let Some(binding) = found.filter(failback::is_away) else {
            self.forget(key);
            return Ok(Action::Done);
        };
        // Whoever says later that it is to return is not heard here: it is looked at again.
        let Some(window) = self.window(&binding) else {
            self.forget(key);
            return Ok(again(LOOK));
        };
        let clusters = self.shared.clusters.all("");
        let find = |name: &str| clusters.iter().map(|known| &**known).find(|known| known.name() == name);
        let earlier = self.earlier(key, &binding, &clusters, now);
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
        if let Some(wait) = self.turns.lock().ask(key, self.started.elapsed()) {
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
