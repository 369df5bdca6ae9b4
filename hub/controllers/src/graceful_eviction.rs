//! Graceful eviction controller: what leaves a cluster is let go of there once its replacement is healthy, or took too long.
//!
//! In: bindings with tasks of evictions. Out: the tasks that stay. With the task the binding controller drops the Work. Times stand in the
//! tasks, so that a hub that is started anew goes on where it was.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karmada_api::binding::ResourceBinding;
use karmada_core::eviction::assess;

use crate::controller_context::ControllerContext;
use crate::eviction_events::tell_left;
use crate::fetch::{self, kinds};
use crate::indexes::bindings::BindingsIndex;
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};

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

    /// What wakes this controller: any change of a binding that has tasks, its status too, as that tells of health. Others cost a look at the index.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        shared.bindings.wakes(BindingsIndex::is_leaving)
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
        let assessed = assess(&binding, self.timeout, (self.shared.clock)());
        if assessed.tasks != binding.spec.graceful_eviction_tasks {
            binding.spec.graceful_eviction_tasks = assessed.tasks;
            api.update(&resource, fetch::to_value(&binding)?).await?;
            for cluster in &assessed.ended {
                tell_left(&self.shared, &binding, cluster, "what was left there is removed");
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
