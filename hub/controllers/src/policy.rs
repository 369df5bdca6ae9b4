//! Policy controller: a PropagationPolicy that comes, changes or goes wakes the templates that it concerns; one that goes lets
//! go of what it claimed first (behaviour 18, 19).

use std::sync::Arc;

use karmada_api::object;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::{finalizers, labels};
use karmada_core::detector::{self, Rank};
use serde_json::Value;

use crate::detector::TemplateKey;
use crate::fetch::{self, kinds};
use crate::policies::Shared;
use crate::port::{Api, Key, Resource};
use crate::queue::Queue;
use crate::runner::{Action, Controller, Error};

/// The controller of both kinds of policies: the namespace tells which (empty: ClusterPropagationPolicy).
pub struct Policy {
    shared: Arc<Shared>,
    templates: Arc<Queue<TemplateKey>>,
}

impl Policy {
    /// A controller that wakes the detector through `templates`.
    pub fn new(shared: Arc<Shared>, templates: Arc<Queue<TemplateKey>>) -> Arc<Self> {
        Arc::new(Policy { shared, templates })
    }

    /// Wakes every template that the policy means, or has.
    async fn wake(&self, policy: &PropagationPolicy) -> Result<(), Error> {
        let api = &*self.shared.api;
        let mark = claim_label(policy);
        for resource in api.resources().iter() {
            let named = policy
                .spec
                .resource_selectors
                .iter()
                .any(|s| s.kind == *resource.kind && s.api_version == resource.api_version());
            for object in api.list(resource, policy.namespace()).await? {
                let claimed = mark.as_ref().is_some_and(|(key, id)| object.labels.get(*key) == Some(id));
                let meant = || {
                    let value = object.value().unwrap_or_default();
                    detector::rank(&value, &policy.spec.resource_selectors) != Rank::None
                };
                if claimed || (named && meant()) {
                    self.templates.add(TemplateKey { resource: resource.clone(), key: object.key.clone() });
                }
            }
        }
        Ok(())
    }

    /// Takes the policy's marks off bindings, then templates, then lets it go. What it placed stays.
    async fn release(
        &self,
        resource: &Resource,
        policy: &PropagationPolicy,
        mut whole: Value,
    ) -> Result<(), Error> {
        let api = &*self.shared.api;
        let Some((key, id)) = claim_label(policy) else { return self.let_go(resource, &mut whole).await };
        let mut kinds: Vec<Resource> = vec![kinds::bindings(api, "any")?, kinds::bindings(api, "")?];
        kinds.extend(api.resources().iter().filter(|r| &*r.group != "work.karmada.io").cloned());
        for kind in &kinds {
            for object in api.list(kind, "").await? {
                if object.labels.get(key) != Some(&id) {
                    continue;
                }
                let mut value = object.value()?;
                if detector::unclaim(&mut value) {
                    api.update(kind, value).await?;
                }
                if &*kind.group != "work.karmada.io" {
                    self.templates.add(TemplateKey { resource: kind.clone(), key: object.key.clone() });
                }
            }
        }
        self.let_go(resource, &mut whole).await
    }

    async fn let_go(&self, resource: &Resource, policy: &mut Value) -> Result<(), Error> {
        let mut changed = object::remove_finalizer(policy, finalizers::PROPAGATION_POLICY);
        changed |= object::remove_finalizer(policy, finalizers::CLUSTER_PROPAGATION_POLICY);
        if changed {
            self.shared.api.update(resource, policy.clone()).await?;
        }
        Ok(())
    }
}

/// The label by which a policy's claims are found, and its value.
fn claim_label(policy: &PropagationPolicy) -> Option<(&'static str, String)> {
    let key = if policy.namespace().is_empty() {
        labels::CLUSTER_PROPAGATION_POLICY_ID
    } else {
        labels::PROPAGATION_POLICY_ID
    };
    policy.label(key).filter(|id| !id.is_empty()).map(|id| (key, id.to_owned()))
}

#[async_trait::async_trait]
impl Controller for Policy {
    type Key = Key;

    fn name(&self) -> &'static str {
        "propagation-policy-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::policies(api, &key.namespace)?;
        let Some(whole) = fetch::get::<Value>(api, &resource, &key.namespace, &key.name).await? else {
            return Ok(Action::Done);
        };
        let policy: PropagationPolicy =
            serde_json::from_value(whole.clone()).map_err(|error| Error::Other(error.to_string()))?;
        if policy.deleting() {
            self.release(&resource, &policy, whole).await?;
        } else {
            self.wake(&policy).await?;
        }
        Ok(Action::Done)
    }
}
