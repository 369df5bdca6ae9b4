//! The grades by which each agent counts its free nodes: those of its Cluster's `spec.resourceModels`.
//!
//! In: Clusters that change, agents that come. Out: where an agent counts by others, as the fleet's state finds, it is told.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use karmada_api::defaulting::cluster::standard_models;
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_gateway::Gateway;
use karmada_registry::Registry;
use serde_json::{Value, json};

fn digest(models: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    models.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Looks at every Cluster that changes, and whose agent comes.
pub struct Models {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
    grades_count: bool,
}

impl Models {
    /// One that tells through the gateway; where grades do not count (gate `CustomizedClusterResourceModeling`), that there are none.
    pub fn new(registry: Arc<Registry>, gateway: Arc<Gateway>, grades_count: bool) -> Arc<Models> {
        Arc::new(Models { registry, gateway, grades_count })
    }

    /// What wakes this controller, beside the news of links ([`FleetQueues::models`](super::FleetQueues::models)): a Cluster that is to be
    /// otherwise.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster").but_status()]
    }
}

#[async_trait::async_trait]
impl Controller for Models {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-resource-models"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let other = |status: karmada_definitions::status::Status| Error::Other(status.message);
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(other)?;
        let Ok(cluster) = self.registry.get(&definition, "", &key.name) else { return Ok(Action::Done) };
        let mut models = cluster.value()["spec"]["resourceModels"].take();
        if models.is_null() || !self.grades_count {
            models = json!([]);
        }
        let (wanted, fleet) = (digest(&models), self.gateway.fleet());
        if fleet.counts_otherwise(&key.name, wanted, digest(&standard_models()))
            && self.gateway.count_by(&key.name, Bytes::from(models.to_string()))
        {
            fleet.told_resource_models(&key.name, wanted);
        }
        Ok(Action::Done)
    }
}
