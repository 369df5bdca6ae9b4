//! Binding-status controller: what the Works report becomes the binding's and the template's status (behaviour 50–52).

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_core::status;
use serde_json::Value;

use crate::fetch::{self, kinds};
use crate::policies::Shared;
use crate::port::{Api, Key};
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
            binding.status = wanted;
            api.update_status(&resource, fetch::to_value(&binding)?).await?;
        }
        // Before it was ever scheduled there is nothing to tell the template.
        if binding.spec.clusters.is_empty() && works.is_empty() {
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
            Ok(Some(changed)) => {
                api.update_status(&kind, changed).await?;
                Ok(Action::Done)
            }
            Ok(None) => Ok(Action::Done),
            Err(error) => Err(Error::Other(error.to_string())),
        }
    }
}
