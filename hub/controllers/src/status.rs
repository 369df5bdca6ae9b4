//! Binding-status controller: what the Works report becomes the binding's and the template's status (behaviour 50–52).

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::strings::events;
use karmada_core::status;
use serde_json::Value;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::policies::Shared;
use crate::port::{Api, ApiError, Key};
use crate::runner::{Action, Controller, Error};

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct BindingStatus {
    shared: Arc<Shared>,
}

impl BindingStatus {
    /// A controller.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(BindingStatus { shared })
    }

    fn warn(&self, template: &Reference, why: &str) {
        self.shared.recorder.record(template, EventType::Warning, events::AGGREGATE_STATUS_FAILED, why);
    }
}

fn template_of(binding: &ResourceBinding) -> Reference {
    let template = &binding.spec.resource;
    Reference {
        api_version: template.api_version.clone(),
        kind: template.kind.clone(),
        namespace: template.namespace.clone(),
        name: template.name.clone(),
        uid: template.uid.clone(),
    }
}

#[async_trait::async_trait]
impl Controller for BindingStatus {
    type Key = Key;

    fn name(&self) -> &'static str {
        "binding-status-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(mut binding) = found.filter(|b| b.metadata.deletion_timestamp.is_none()) else {
            return Ok(Action::Done);
        };
        let works = self.shared.works_of(&binding).await?;
        let now = (self.shared.clock)();
        if let Some(wanted) = status::binding_status(&binding, &works, now) {
            let left_out = status::newly_left_out(&binding.status, &wanted);
            binding.status = wanted;
            api.update_status(&resource, fetch::to_value(&binding)?).await?;
            left_out.iter().for_each(|why| self.warn(&template_of(&binding), why));
        }
        if !status::tells_the_template(&binding, &works) {
            return Ok(Action::Done);
        }
        let reference = &binding.spec.resource;
        let Some(kind) = api.resource_of(&reference.api_version, &reference.kind) else {
            return Ok(Action::Done);
        };
        let template: Option<Value> = fetch::get(api, &kind, &reference.namespace, &reference.name).await?;
        let Some(template) = template else { return Ok(Action::Done) };
        let items = &binding.status.aggregated_status;
        let changed = status::template_status(&template, items, &*self.shared.interpreter, now);
        match changed {
            Ok(Some(changed)) => match api.update_status(&kind, changed).await {
                Ok(_) => Ok(Action::Done),
                Err(error) => {
                    if matches!(error, ApiError::Invalid(_)) {
                        self.warn(&template_of(&binding), &error.to_string());
                    }
                    Err(error.into())
                }
            },
            Ok(None) => Ok(Action::Done),
            Err(error) => {
                self.warn(&template_of(&binding), &error.to_string());
                Err(Error::Other(error.to_string()))
            }
        }
    }
}
