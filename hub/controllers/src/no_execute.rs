//! Taint manager: bindings leave clusters that have taints of effect NoExecute, unless they tolerate them, or as long as they do.
//!
//! In: bindings, and Clusters whose taints change. Out: bindings without the cluster, with a task by which they leave it. A cluster is emptied at a
//! pace of its own. How long a taint is tolerated is counted from the time that stands in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_core::eviction::evict;
use karmada_core::eviction::no_execute::{LookError, Rules, Stay, evicts, look};
use karmada_core::eviction::rate_limit::{self, Lane};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::controller_context::ControllerContext;
use crate::eviction_events::{tell_left, tell_refused};
use crate::fetch::{self, kinds};
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};

const BINDING_API: &str = "work.karmada.io/v1alpha2";

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding). It makes tasks whether or not the gate
/// GracefulEviction is on, as Karmada does since its tasks have a purge mode; the gate tells whether anybody ends them.
pub struct NoExecuteTaints {
    shared: Arc<ControllerContext>,
    rules: Rules,
    interval: Duration,
    started: Instant,
    /// Who waits to leave which cluster: no more than there are bindings in it.
    lanes: Mutex<BTreeMap<String, Lane<Key>>>,
}

/// What is to be done about a binding now.
#[derive(Default)]
struct Plan {
    left: Vec<String>,
    refused: Vec<(String, LookError)>,
    wait: Option<Duration>,
}

impl NoExecuteTaints {
    /// A controller; of each cluster so many bindings a second leave.
    pub fn new(shared: Arc<ControllerContext>, rules: Rules, per_second: f32) -> Arc<Self> {
        let (interval, started) = (rate_limit::interval(per_second), Instant::now());
        Arc::new(NoExecuteTaints { shared, rules, interval, started, lanes: Mutex::default() })
    }

    /// What wakes this controller: a binding whose spec or marks changed; a Cluster whose evicting taints changed, for the bindings in it.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let kinds = ["ResourceBinding", "ClusterResourceBinding"];
        let mut sources: Vec<Source<Key>> =
            kinds.iter().map(|kind| Source::own(BINDING_API, kind).but_status()).collect();
        let bindings = shared.bindings.clone();
        sources.push(shared.clusters.wakes(move |transition| {
            let of = |state: &Option<Arc<Cluster>>| state.as_ref().map(|cluster| evicting(cluster));
            let (before, now) =
                (of(&transition.before).unwrap_or_default(), of(&transition.now).unwrap_or_default());
            if before == now { Vec::new() } else { bindings.naming(&transition.key.name) }
        }));
        sources
    }

    /// The taints of a cluster that evict.
    fn taints(&self, cluster: &str) -> Vec<Taint> {
        let clusters = self.shared.clusters.all("");
        let at = clusters.binary_search_by(|known| known.name().cmp(cluster));
        at.map(|at| evicting(&clusters[at])).unwrap_or_default()
    }

    /// Looks at each cluster of a binding, and takes those out that it leaves now.
    fn plan(&self, key: &Key, binding: &mut ResourceBinding) -> Plan {
        let (mut plan, mut leaving, mut tasks) = (Plan::default(), BTreeSet::new(), Vec::new());
        let now = (self.shared.clock)();
        for target in &binding.spec.clusters {
            let taints = self.taints(&target.name);
            match look(binding, &target.name, &taints, self.rules, now) {
                Ok(Stay::Stays) => {}
                Ok(Stay::StaysFor(left)) => plan.wait_for(Duration::try_from(left).unwrap_or_default()),
                Ok(Stay::Leaves(task)) => {
                    leaving.insert(target.name.clone());
                    tasks.push(*task);
                }
                Err(error) => plan.refused.push((target.name.clone(), error)),
            }
        }
        self.give_back(key, &leaving);
        for task in tasks {
            match self.ask(key, &task.from_cluster) {
                Some(wait) => plan.wait_for(wait),
                None => {
                    plan.left.push(task.from_cluster.clone());
                    evict(&mut binding.spec, task);
                }
            }
        }
        plan
    }

    /// How long a binding is to wait for its turn to leave a cluster.
    fn ask(&self, key: &Key, cluster: &str) -> Option<Duration> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(cluster.to_owned()).or_insert_with(|| Lane::new(self.interval));
        lane.ask(key, self.started.elapsed())
    }

    /// Gives back the turns of a binding in clusters that it does not leave, and forgets clusters that nobody leaves.
    fn give_back(&self, key: &Key, leaving: &BTreeSet<String>) {
        let now = self.started.elapsed();
        self.lanes.lock().retain(|cluster, lane| {
            if !leaving.contains(cluster) {
                lane.forget(key);
            }
            !lane.is_idle(now)
        });
    }
}

impl Plan {
    fn wait_for(&mut self, wait: Duration) {
        self.wait = Some(self.wait.map_or(wait, |earlier| earlier.min(wait)));
    }
}

/// The taints of a cluster that evict.
fn evicting(cluster: &Cluster) -> Vec<Taint> {
    cluster.spec.taints.iter().filter(|taint| evicts(taint)).cloned().collect()
}

#[async_trait::async_trait]
impl Controller for NoExecuteTaints {
    type Key = Key;

    fn name(&self) -> &'static str {
        "taint-manager"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let live = |binding: &ResourceBinding| binding.metadata.deletion_timestamp.is_none();
        let Some(mut binding) = found.filter(live) else {
            self.give_back(key, &BTreeSet::new());
            return Ok(Action::Done);
        };
        let plan = self.plan(key, &mut binding);
        if !plan.left.is_empty() {
            api.update(&resource, fetch::to_value(&binding)?).await?;
        }
        for cluster in &plan.left {
            tell_left(&self.shared, &binding, cluster, "it has a taint that is not tolerated");
        }
        for (cluster, why) in &plan.refused {
            tell_refused(&self.shared, &binding, cluster, &why.to_string());
        }
        // Status that is not there yet may come; what stands on the binding itself wakes this when it changes.
        if let Some((_, LookError::Preservation(why))) = plan.refused.last() {
            return Err(Error::Other(why.to_string()));
        }
        Ok(plan.wait.map_or(Action::Done, Action::RequeueAfter))
    }
}

#[cfg(test)]
mod tests;
