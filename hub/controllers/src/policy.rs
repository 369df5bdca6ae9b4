//! Policy controller: a PropagationPolicy that comes, changes or goes wakes the templates that it concerns; one that goes lets go of what
//! it claimed first. In: a policy. Out: keys in the detector's queue; of a policy that goes, templates and bindings without its marks, and
//! the policy without its finalizer.

use std::borrow::Cow;
use std::sync::Arc;

use karmada_api::object;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::finalizers;
use karmada_core::detector::{self, Rank, Subject};
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::fetch::{self, kinds};
use crate::indexes::claims;
use crate::port::{Api, Change, Key, Resource, TemplateKey};
use crate::queue::Queue;
use crate::runner::{Action, Controller, Error, Source};

const POLICY_API: &str = "policy.karmada.io/v1alpha1";

/// The controller of both kinds of policies: the namespace tells which (empty: ClusterPropagationPolicy).
pub struct Policy {
    shared: Arc<ControllerContext>,
    templates: Arc<Queue<TemplateKey>>,
}

impl Policy {
    /// A controller that wakes the detector through `templates`.
    pub fn new(shared: Arc<ControllerContext>, templates: Arc<Queue<TemplateKey>>) -> Arc<Self> {
        Arc::new(Policy { shared, templates })
    }

    /// What wakes this controller: policies that changed, and from the start those that are to be let go.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let leaving = |kind| {
            Source::new(POLICY_API, kind, |change| match change {
                Change::Applied(policy) if policy.deleting => vec![policy.key.clone()],
                _ => Vec::new(),
            })
        };
        vec![
            shared.policies.wakes(|transition| vec![transition.key.clone()]),
            leaving("PropagationPolicy"),
            leaving("ClusterPropagationPolicy"),
        ]
    }

    /// Wakes every template that the policy selects or has claimed. Only objects of its kinds are looked at, and only their labels.
    async fn wake(&self, policy: &PropagationPolicy) -> Result<(), Error> {
        let api = &*self.shared.api;
        self.shared.claims.of(policy).into_iter().for_each(|template| self.templates.add(template));
        let selectors = &policy.spec.resource_selectors;
        for resource in api.resources().iter() {
            let api_version = resource.api_version();
            if !selectors.iter().any(|s| s.kind == *resource.kind && s.api_version == api_version) {
                continue;
            }
            for object in api.list(resource, policy.namespace()).await? {
                let subject = Subject {
                    api_version: Cow::Borrowed(&api_version),
                    kind: &resource.kind,
                    namespace: &object.key.namespace,
                    name: &object.key.name,
                    labels: Cow::Borrowed(&object.labels),
                };
                if detector::rank(&subject, selectors) != Rank::None {
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
        let Some((key, id)) = claims::claim_label_of(policy) else {
            return self.let_go(resource, &mut whole).await;
        };
        // Which kind of bindings, the namespace of one says: a policy for the whole fleet has claimed some of both.
        let all: &[&str] = if policy.namespace().is_empty() { &["default", ""] } else { &["default"] };
        for of_namespace in all {
            let bindings = kinds::bindings(api, of_namespace)?;
            for object in api.list(&bindings, policy.namespace()).await? {
                if object.labels.get(key) == Some(&id) {
                    self.unclaim(&bindings, policy, object.value()?).await?;
                }
            }
        }
        for template in self.shared.claims.of(policy) {
            let at = &template.key;
            let found = fetch::get::<Value>(api, &template.resource, &at.namespace, &at.name).await?;
            if let Some(value) = found {
                self.unclaim(&template.resource, policy, value).await?;
            }
            self.templates.add(template);
        }
        self.let_go(resource, &mut whole).await
    }

    /// What bears the id of this policy, but the name of another with that id, is the other's.
    async fn unclaim(
        &self,
        resource: &Resource,
        policy: &PropagationPolicy,
        mut value: Value,
    ) -> Result<(), Error> {
        if detector::is_claimed_by(&value, policy) && detector::unclaim(&mut value) {
            self.shared.api.update(resource, value).await?;
        }
        Ok(())
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

#[cfg(test)]
mod tests;
