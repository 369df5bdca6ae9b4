//! Descheduler: replicas that found no node in their cluster for a while are given up there; the scheduler places them anew.
//!
//! In: bindings of Deployments that are divided by room, with what their clusters report; what the agents say of the replicas that wait for a
//! node. Out: `spec.clusters` with fewer replicas. Each binding is looked at once in an interval: what was given up takes a while to leave its
//! cluster, and is not to be given up twice. When it was looked at last is kept in memory: a hub that starts anew waits for one interval.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::strings::events;
use karmada_controllers::agent_ports::estimator::Estimator;
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::{EventType, Reference};
use karmada_controllers::fetch::{self, kinds};
use karmada_controllers::graceful_eviction::again;
use karmada_controllers::port::{Api, Key};
use karmada_controllers::runner::{Action, Controller, Error, Source};

use crate::look_intervals::Turns;
use crate::unschedulable::{self, Unschedulable};

const BINDING: (&str, &str) = ("work.karmada.io/v1alpha2", "ResourceBinding");

/// How often it looks, and at what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descheduling {
    /// A binding is looked at this often.
    pub interval: SignedDuration,
    /// Replicas are given up that wait for a node for longer than this.
    pub threshold: Duration,
}

/// The controller.
pub struct Descheduler {
    shared: Arc<ControllerContext>,
    estimator: Arc<dyn Estimator>,
    options: Descheduling,
    turns: Arc<Turns>,
}

impl Descheduler {
    /// One that asks this estimator.
    pub fn new(
        shared: Arc<ControllerContext>,
        estimator: Arc<dyn Estimator>,
        options: Descheduling,
    ) -> Arc<Self> {
        Arc::new(Descheduler { shared, estimator, options, turns: Turns::every(options.interval) })
    }

    /// What wakes this controller: a binding that is new or placed otherwise; from then on it waits for the clock.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(BINDING.0, BINDING.1).but_status()]
    }

    /// What the agents say of the binding's replicas; of who does not answer nothing is known.
    async fn unschedulable(&self, binding: &ResourceBinding) -> Unschedulable {
        let asked = unschedulable::asked(binding);
        if asked.is_empty() {
            return Unschedulable::new();
        }
        let workload = &binding.spec.resource;
        let answers = self.estimator.unschedulable(&asked, workload, self.options.threshold).await;
        let said = answers.into_iter().filter_map(|(cluster, answer)| match answer {
            Ok(replicas) => Some((cluster, replicas)),
            Err(why) => {
                tracing::debug!(cluster, why, "whether replicas wait for a node there is not known");
                None
            }
        });
        said.collect()
    }

    fn tell(&self, binding: &ResourceBinding, came: Result<&[TargetCluster], &str>) {
        let (kind, reason, message) = match came {
            Ok(before) => (
                EventType::Normal,
                events::DESCHEDULE_BINDING_SUCCEED,
                given_up(before, &binding.spec.clusters),
            ),
            Err(why) => (EventType::Warning, events::DESCHEDULE_BINDING_FAILED, why.to_owned()),
        };
        for about in [Reference::of_binding(binding), Reference::of_template(binding)] {
            self.shared.recorder.record(&about, kind, reason, &message);
        }
    }
}

/// What was given up, in words.
fn given_up(before: &[TargetCluster], after: &[TargetCluster]) -> String {
    let fewer = before.iter().zip(after).filter(|(before, after)| before.replicas != after.replicas);
    let words = fewer.map(|(before, after)| {
        format!("{}: {} of {}", before.name, before.replicas - after.replicas, before.replicas)
    });
    format!("gave up replicas that find no node ({})", words.collect::<Vec<_>>().join(", "))
}

#[async_trait::async_trait]
impl Controller for Descheduler {
    type Key = Key;

    fn name(&self) -> &'static str {
        "descheduler"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(mut binding) = found.filter(unschedulable::could_consider) else {
            self.turns.forget(key);
            return Ok(Action::Done);
        };
        let rests = self.turns.rests(key);
        if rests.is_positive() {
            return Ok(again(rests));
        }
        if unschedulable::considers(&binding, &self.shared.options.scheduler_name) {
            let waiting = self.unschedulable(&binding).await;
            if let Some(wanted) = unschedulable::deschedule(&binding, &waiting) {
                let before = std::mem::replace(&mut binding.spec.clusters, wanted);
                let written = api.update(&resource, fetch::to_value(&binding)?).await;
                match &written {
                    Ok(_) => self.tell(&binding, Ok(&before)),
                    Err(error) => self.tell(&binding, Err(&error.to_string())),
                }
                written?;
            }
        }
        self.turns.looked(key);
        Ok(again(self.options.interval))
    }
}

#[cfg(test)]
mod tests;
