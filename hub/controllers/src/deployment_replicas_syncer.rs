//! Deployment replicas syncer: a divided Deployment whose members decide its replicas says how many it has in all.
//!
//! In: Deployments with the label `retain-replicas`, and their bindings. Out: `spec.replicas`, once all reports agree. Written over the version that
//! was read, so that what somebody else writes at the same moment stands.

use std::sync::Arc;

use karmada_api::binding::{BindingSpec, ObjectReference, ResourceBinding};
use karmada_api::{names, object};
use karmada_core::deployment_replicas_syncer::{Replicas, concerns, replicas};
use serde::Deserialize;
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::fetch::{self, kinds};
use crate::port::{Api, Change, Key};
use crate::runner::{Action, Controller, Error, Source};

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const BINDING: (&str, &str) = ("work.karmada.io/v1alpha2", "ResourceBinding");

/// The controller.
pub struct DeploymentReplicasSyncer {
    shared: Arc<ControllerContext>,
}

impl DeploymentReplicasSyncer {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(DeploymentReplicasSyncer { shared })
    }

    /// What wakes this controller: a Deployment, and any change of its binding, whose status brings the reports.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(DEPLOYMENT.0, DEPLOYMENT.1), Source::new(BINDING.0, BINDING.1, deployment_of)]
    }
}

/// What is read of a binding to know whose it is.
#[derive(Deserialize)]
struct Placing {
    spec: PlacingSpec,
}

#[derive(Deserialize)]
struct PlacingSpec {
    resource: ObjectReference,
}

/// The Deployment that a binding places; none where it places something else.
fn deployment_of(change: &Change) -> Vec<Key> {
    let (Change::Applied(binding) | Change::Deleted(binding)) = change;
    let Ok(Placing { spec: PlacingSpec { resource } }) = serde_json::from_slice(&binding.json()) else {
        return Vec::new();
    };
    if (resource.api_version.as_str(), resource.kind.as_str()) != DEPLOYMENT {
        return Vec::new();
    }
    vec![Key { namespace: binding.key.namespace.clone(), name: resource.name.into() }]
}

#[async_trait::async_trait]
impl Controller for DeploymentReplicasSyncer {
    type Key = Key;

    fn name(&self) -> &'static str {
        "deployment-replicas-syncer"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(resource) = api.resource_of(DEPLOYMENT.0, DEPLOYMENT.1) else { return Ok(Action::Done) };
        let found: Option<Value> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(mut deployment) = found.filter(|found| concerns(found) && !object::deleting(found)) else {
            return Ok(Action::Done);
        };
        let bindings = kinds::bindings(api, &key.namespace)?;
        let name = names::binding_name(DEPLOYMENT.1, &key.name);
        let found: Option<ResourceBinding> = fetch::get(api, &bindings, &key.namespace, &name).await?;
        let Some(binding) = found.filter(|found| places(&found.spec, &deployment)) else {
            return Ok(Action::Done);
        };
        // What is waited for wakes this controller when it comes.
        if let Replicas::Become(replicas) = replicas(&deployment, &binding) {
            object::set(&mut deployment, &["spec", "replicas"], Value::from(replicas));
            api.update(&resource, deployment).await?;
        }
        Ok(Action::Done)
    }
}

/// Whether it is this Deployment that a binding places, not an earlier one of the name.
fn places(spec: &BindingSpec, deployment: &Value) -> bool {
    let resource = &spec.resource;
    (resource.api_version.as_str(), resource.kind.as_str()) == DEPLOYMENT
        && resource.uid == object::uid(deployment)
}

#[cfg(test)]
mod tests;
