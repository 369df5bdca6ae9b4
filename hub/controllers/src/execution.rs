//! Execution controller: a Work that is held back says so. Sending and applying is the gateway's and the agent's.

use std::sync::Arc;

use karmada_api::strings::{conditions, events};
use karmada_api::work::Work;
use karmada_core::status;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};
use crate::shared::Shared;

/// The controller.
pub struct Execution {
    shared: Arc<Shared>,
}

impl Execution {
    /// A controller.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Execution { shared })
    }

    /// What wakes this controller: a Work, its status aside.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("work.karmada.io/v1alpha1", "Work").but_status()]
    }
}

#[async_trait::async_trait]
impl Controller for Execution {
    type Key = Key;

    fn name(&self) -> &'static str {
        "execution-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::works(api)?;
        let found: Option<Work> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(mut work) = found else { return Ok(Action::Done) };
        let Some(said) = status::dispatching(&work, (self.shared.clock)()) else { return Ok(Action::Done) };
        work.status.conditions = said;
        let value = fetch::to_value(&work)?;
        let about = Reference::of(&value);
        api.update_status(&resource, value).await?;
        if let Some(condition) = work.status.condition(conditions::DISPATCHING) {
            self.shared.recorder.record(
                &about,
                EventType::Normal,
                events::WORK_DISPATCHING,
                &condition.message,
            );
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
