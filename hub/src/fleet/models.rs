//! The grades by which each agent counts its free nodes: those of its Cluster's `spec.resourceModels`.
//!
//! In: Clusters that change, agents that come and go. Out: where an agent counts by others, it is told. An agent begins with
//! the standard grades, so most are never told anything. Only a digest is kept, in memory.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use karmada_api::defaulting::cluster::standard_models;
use karmada_apiserver::registry::Registry;
use karmada_controllers::port::Key;
use karmada_controllers::queue::Queue;
use karmada_controllers::runner::{Action, Controller, Error};
use karmada_gateway::Gateway;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What an agent was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    digest: u64,
    /// In the session that stands.
    now: bool,
}

/// What each agent was told last, and whom to look at.
#[derive(Default)]
pub struct Counting {
    said: Mutex<BTreeMap<String, Said>>,
    look: Arc<Queue<Key>>,
}

fn digest(models: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    models.to_string().hash(&mut hasher);
    hasher.finish()
}

impl Counting {
    /// The agent's session stands.
    pub fn came(&self, cluster: &str) {
        self.look.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
    }

    /// The agent's session ended. It may come back as another process, which counts by the standard again.
    pub fn left(&self, cluster: &str) {
        if let Some(said) = self.said.lock().get_mut(cluster) {
            said.now = false;
        }
    }

    /// Whether a connected agent is to be told `models`.
    fn is_news(&self, cluster: &str, models: &Value) -> bool {
        let (wanted, standard) = (digest(models), digest(&standard_models()));
        match self.said.lock().get(cluster) {
            Some(said) if said.now => said.digest != wanted,
            Some(said) => wanted != standard || said.digest != standard,
            None => wanted != standard,
        }
    }

    fn told(&self, cluster: &str, models: &Value) {
        self.said.lock().insert(cluster.to_owned(), Said { digest: digest(models), now: true });
    }
}

/// Looks at every Cluster that changes, and whose agent comes.
pub struct Models {
    registry: Arc<Registry>,
    counting: Arc<Counting>,
    gateway: Arc<Gateway>,
}

impl Models {
    /// One that tells through the gateway, and remembers in `counting`.
    pub fn new(registry: Arc<Registry>, counting: Arc<Counting>, gateway: Arc<Gateway>) -> Arc<Models> {
        Arc::new(Models { registry, counting, gateway })
    }

    /// The queue of those to look at.
    pub fn queue(&self) -> Arc<Queue<Key>> {
        self.counting.look.clone()
    }
}

#[async_trait::async_trait]
impl Controller for Models {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-resource-models"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let other = |status: karmada_apiserver::status::Status| Error::Other(status.message);
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(other)?;
        let Ok(cluster) = self.registry.get(&definition, "", &key.name) else { return Ok(Action::Done) };
        let mut models = cluster.value()["spec"]["resourceModels"].take();
        if models.is_null() {
            models = json!([]);
        }
        let news = self.counting.is_news(&key.name, &models);
        if news && self.gateway.count_by(&key.name, Bytes::from(models.to_string())) {
            self.counting.told(&key.name, &models);
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_what_it_does_not_count_by() {
        let counting = Counting::default();
        let own = json!([{"grade": 0, "ranges": []}]);
        let (standard, none) = (standard_models(), json!([]));
        let news = |models: &Value| counting.is_news("north", models);
        assert!(!news(&standard), "it begins with these");
        assert!(news(&own) && news(&none));
        counting.told("north", &own);
        assert!(!news(&own) && news(&standard));
        counting.left("north");
        assert!(news(&own), "it may have begun anew");
        assert!(news(&standard), "or not");
        counting.told("north", &standard);
        counting.left("north");
        assert!(!news(&standard));
    }
}
