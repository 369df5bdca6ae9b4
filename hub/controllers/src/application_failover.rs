//! Application failover controller: a workload that is unhealthy in a cluster for longer than its policy bears leaves it.
//!
//! In: bindings whose policy says so, with their statuses. Out: on the binding since when it is unhealthy where; the binding without the cluster,
//! with a task by which it leaves it.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_core::failover::{Rules, look};
use karmada_core::feature_gates::Gate;

use crate::controller_context::ControllerContext;
use crate::eviction_events::{tell_left, tell_refused};
use crate::fetch::{self, kinds};
use crate::graceful_eviction::again;
use crate::indexes::bindings::BindingsIndex;
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct ApplicationFailover {
    shared: Arc<ControllerContext>,
}

impl ApplicationFailover {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(ApplicationFailover { shared })
    }

    /// What wakes this controller: any change of a binding that is to leave where it is unhealthy, its status too, and the change by which that is
    /// said no more. Others cost a look at the index.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        shared.bindings.wakes(BindingsIndex::fails_over)
    }
}

#[async_trait::async_trait]
impl Controller for ApplicationFailover {
    type Key = Key;

    fn name(&self) -> &'static str {
        "application-failover-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let (api, gates): (&dyn Api, _) = (&*self.shared.api, &self.shared.gates);
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let live = |binding: &ResourceBinding| binding.metadata.deletion_timestamp.is_none();
        let Some(binding) = found.filter(live) else { return Ok(Action::Done) };
        let rules = Rules {
            preserves_state: gates.enabled(Gate::StatefulFailoverInjection),
            evicts_gracefully: gates.enabled(Gate::GracefulEviction),
        };
        let look = look(&binding, &*self.shared.interpreter, rules, (self.shared.clock)());
        if let Some(wanted) = &look.wanted {
            api.update(&resource, fetch::to_value(wanted)?).await?;
        }
        for cluster in &look.left {
            tell_left(
                &self.shared,
                &binding,
                cluster,
                "it is unhealthy there for longer than its policy bears",
            );
        }
        if let Some((cluster, why)) = look.refused {
            tell_refused(&self.shared, &binding, &cluster, &why.to_string());
            return Err(Error::Other(format!("it does not leave cluster {cluster}: {why}")));
        }
        Ok(look.look_again.map_or(Action::Done, again))
    }
}

#[cfg(test)]
mod tests;
