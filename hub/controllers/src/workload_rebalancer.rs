//! Workload rebalancer controller: the workloads that a WorkloadRebalancer names are asked to be placed anew, each once.
//!
//! In: WorkloadRebalancers. Out: `spec.rescheduleTriggeredAt` of the bindings of their workloads, their status, and at last, where they say so,
//! their own deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::ResourceBinding;
use karmada_api::rebalancer::{WorkloadRebalancer, WorkloadReference};
use karmada_api::strings::events;
use karmada_core::rebalancer::{self, RescheduleOutcome};

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::graceful_eviction::again;
use crate::port::{Api, ApiError, DeletionPropagation, Key, Resource};
use crate::runner::{Action, Controller, Error, Source};

const REBALANCER: (&str, &str) = ("apps.karmada.io/v1alpha1", "WorkloadRebalancer");

/// The controller.
pub struct Rebalancers {
    shared: Arc<ControllerContext>,
}

fn about(rebalancer: &WorkloadRebalancer) -> Reference {
    Reference {
        api_version: REBALANCER.0.to_owned(),
        kind: REBALANCER.1.to_owned(),
        namespace: String::new(),
        name: rebalancer.name().to_owned(),
        uid: rebalancer.metadata.uid.clone().unwrap_or_default(),
    }
}

impl Rebalancers {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(Rebalancers { shared })
    }

    /// What wakes this controller: a WorkloadRebalancer, its status aside. A binding that comes later is not asked, as in Karmada.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(REBALANCER.0, REBALANCER.1).but_status()]
    }

    /// Asks for one workload. What stands in the way of a write comes again.
    async fn ask(&self, workload: &WorkloadReference, when: Timestamp) -> Result<RescheduleOutcome, Error> {
        let api: &dyn Api = &*self.shared.api;
        let (namespace, name) = rebalancer::binding_of(workload);
        let bindings = kinds::bindings(api, &namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &bindings, &namespace, &name).await?;
        let Some(binding) = found else { return Ok(RescheduleOutcome::NoBinding) };
        let Some(wanted) = rebalancer::asking(&binding, when) else { return Ok(RescheduleOutcome::Done) };
        match api.update(&bindings, fetch::to_value(&wanted)?).await {
            Ok(_) => Ok(RescheduleOutcome::Done),
            Err(ApiError::NotFound(_)) => Ok(RescheduleOutcome::NoBinding),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for all that are open, tells what came of it, and returns the first that stood in the way.
    async fn carry_out(
        &self,
        resource: &Resource,
        mut rebalancer: WorkloadRebalancer,
    ) -> Result<(WorkloadRebalancer, Option<Error>), Error> {
        let created = rebalancer.metadata.creation_timestamp.as_ref().map(|created| created.0);
        let when = created.unwrap_or_else(|| (self.shared.clock)());
        let observed = rebalancer::observed(&rebalancer);
        let (mut asked, mut failed) = (BTreeMap::new(), None);
        for workload in rebalancer::open(&observed) {
            let came = self.ask(&workload, when).await.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                RescheduleOutcome::NotYet
            });
            asked.insert(workload, came);
        }
        let status = rebalancer::status(&rebalancer, observed, &asked, (self.shared.clock)());
        let (status, untold) = rebalancer::fitting(&rebalancer, status);
        if status != rebalancer.status {
            if untold > 0 {
                let words = rebalancer::untold(untold);
                self.shared.recorder.record(
                    &about(&rebalancer),
                    EventType::Warning,
                    events::STATUS_TRUNCATED,
                    &words,
                );
            }
            rebalancer.status = status;
            self.shared.api.update_status(resource, fetch::to_value(&rebalancer)?).await?;
        }
        Ok((rebalancer, failed))
    }
}

#[async_trait::async_trait]
impl Controller for Rebalancers {
    type Key = Key;

    fn name(&self) -> &'static str {
        "workload-rebalancer"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(resource) = api.resource_of(REBALANCER.0, REBALANCER.1) else { return Ok(Action::Done) };
        let found: Option<WorkloadRebalancer> = fetch::get(api, &resource, "", &key.name).await?;
        let live = |one: &WorkloadRebalancer| one.metadata.deletion_timestamp.is_none();
        let Some(rebalancer) = found.filter(live) else { return Ok(Action::Done) };
        let (rebalancer, failed) = self.carry_out(&resource, rebalancer).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        match rebalancer::stays(&rebalancer, &rebalancer.status, (self.shared.clock)()) {
            None => Ok(Action::Done),
            Some(left) if !left.is_zero() => Ok(again(left)),
            Some(_) => {
                let uid = rebalancer.metadata.uid.as_deref().unwrap_or("");
                match api.delete(&resource, key, uid, DeletionPropagation::Background).await {
                    Ok(()) | Err(ApiError::NotFound(_)) => Ok(Action::Done),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
