//! Graceful eviction controller: what leaves a cluster is let go of there once its replacement is healthy, or took too long.
//!
//! In: bindings with tasks of evictions. Out: the tasks that stay. With the task the binding controller drops the Work. Times stand in the
//! tasks, so that a hub that is started anew goes on where it was.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karmada_api::binding::ResourceBinding;
use karmada_api::names;
use karmada_core::eviction::{self, Facts, assess};
use karmada_core::status;
use karmada_interpreter::Operation;

use crate::controller_context::ControllerContext;
use crate::eviction_events::tell_left;
use crate::fetch::{self, kinds};
use crate::indexes::bindings::BindingsIndex;
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};
use crate::status::Report;

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct GracefulEviction {
    shared: Arc<ControllerContext>,
    timeout: SignedDuration,
}

impl GracefulEviction {
    /// A controller; a task without a grace period of its own takes no longer than `timeout`.
    pub fn new(shared: Arc<ControllerContext>, timeout: SignedDuration) -> Arc<Self> {
        Arc::new(GracefulEviction { shared, timeout })
    }

    /// What wakes this controller: any change of a binding that has tasks, its status too, as that tells of health, and a cluster that is gone, for those that
    /// were leaving it. Others cost a look at the index.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let mut sources = shared.bindings.wakes(BindingsIndex::is_leaving);
        let bindings = shared.bindings.clone();
        sources.push(shared.clusters.wakes(move |transition| match &transition.now {
            Some(_) => Vec::new(),
            None => {
                let naming = bindings.naming(&transition.key.name).into_iter();
                naming.filter(|key| bindings.is_leaving(key)).collect()
            }
        }));
        sources
    }
}

impl GracefulEviction {
    /// Whether the clusters that were chosen tell of what the binding says by now. What it says of their health may be of what ran before: their Works
    /// follow it a moment later, and its status follows those after another.
    async fn are_reports_current(&self, key: &Key, binding: &ResourceBinding) -> Result<bool, Error> {
        if !self.shared.rendered.is_at(key, binding) {
            return Ok(false);
        }
        let (api, of) = (&*self.shared.api, &binding.spec.resource);
        let resource = kinds::works(api)?;
        let is_judged_here =
            self.shared.customized.asks_webhook(&of.api_version, &of.kind, Operation::InterpretHealth);
        let id = self.shared.bindings.id_of(key);
        let mut awaited: BTreeSet<&str> =
            binding.spec.clusters.iter().map(|target| target.name.as_str()).collect();
        for at in id.map(|id| self.shared.works.of(&id)).unwrap_or_default() {
            let cluster = names::cluster_of_execution_namespace(&at.namespace);
            if cluster.is_none_or(|cluster| !awaited.remove(cluster)) {
                continue;
            }
            let found = fetch::get_object(api, &resource, &at.namespace, &at.name).await?;
            let Some(work) = found else { return Ok(false) };
            if !status::is_reported_healthy(binding, &work.parse::<Report>()?.into(), is_judged_here) {
                return Ok(false);
            }
        }
        Ok(awaited.is_empty())
    }
}

#[async_trait::async_trait]
impl Controller for GracefulEviction {
    type Key = Key;

    fn name(&self) -> &'static str {
        "graceful-eviction-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let live = |binding: &ResourceBinding| binding.metadata.deletion_timestamp.is_none();
        let Some(mut binding) = found.filter(live) else { return Ok(Action::Done) };
        let is_current = eviction::is_replaced(&binding) && self.are_reports_current(key, &binding).await?;
        let unread = self.shared.unread_clusters();
        let is_gone = |cluster: &str| {
            self.shared.clusters.get("", cluster).is_none() && !unread.iter().any(|name| **name == *cluster)
        };
        let facts = Facts { is_current, is_gone: &is_gone };
        let assessed = assess(&binding, facts, self.timeout, (self.shared.clock)());
        if assessed.tasks != binding.spec.graceful_eviction_tasks {
            binding.spec.graceful_eviction_tasks = assessed.tasks;
            api.update(&resource, fetch::to_value(&binding)?).await?;
            for cluster in &assessed.ended {
                tell_left(&self.shared, &binding, cluster, "it is not waited for there any longer");
            }
        }
        Ok(assessed.look_again.map_or(Action::Done, again))
    }
}

/// Once more after this long.
pub fn again(wait: SignedDuration) -> Action {
    Action::RequeueAfter(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests;
