//! Provider, region and zones of Clusters that were not told them at the join: Nodes come after it, and their labels after them.
//!
//! In: Clusters that change. Out: where nobody has said one of these fields, the agent is asked, ever more seldom while it does not know; what it tells is
//! written into `spec`, each field once. Where joins wait for a person, who looks at what a cluster says of itself, this does not run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_core::registration::topology::{self, Asked, Told};
use karmada_definitions::status::Status;
use karmada_gateway::{AskError, Gateway};
use karmada_proto::join::{ZONES, is_word};
use karmada_proto::v1::{self, TopologyOf, answer, ask};
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::write_options::write_options;

/// How long an agent may take: it lists the Nodes.
const WITHIN: Duration = Duration::from_secs(10);

/// An agent that is away is asked once it is back: nothing wakes anybody where its cluster's status is what it was.
const AWAY: Duration = Duration::from_secs(60);

/// Asks agents where their clusters are.
pub struct TopologyQuestions {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
    started: Instant,
    /// Of Clusters with open fields alone.
    asked: Mutex<BTreeMap<Key, Asked>>,
}

impl TopologyQuestions {
    /// One that asks through the gateway.
    pub fn new(registry: Arc<Registry>, gateway: Arc<Gateway>) -> Arc<TopologyQuestions> {
        Arc::new(TopologyQuestions { registry, gateway, started: Instant::now(), asked: Mutex::default() })
    }

    /// What wakes this controller: a Cluster.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }

    /// What the agent tells; an error where it cannot be asked now, nothing where it does not say, or says what cannot be kept.
    async fn ask(&self, cluster: &str) -> Result<Option<Told>, AskError> {
        let question = ask::Question::TopologyOf(TopologyOf {});
        match self.gateway.ask(cluster, question, WITHIN).await {
            Ok(answer::Result::Topology(told)) => Ok(kept(told)),
            Err(error @ (AskError::NotConnected | AskError::Busy | AskError::Gone)) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Writes what is told of fields that are open still.
    async fn write(&self, name: &str, told: &Told) -> Result<(), Status> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(&definition, name))?;
            Ok(topology::filled(live, told).unwrap_or_else(|| live.clone()))
        };
        self.registry.update(&definition, &ObjectKey::new("", name), &write_options(), &mut change).await?;
        tracing::info!(cluster = name, ?told, "its agent tells where the cluster is");
        Ok(())
    }
}

/// What an agent says, where a join could say it too.
fn kept(told: v1::Topology) -> Option<Told> {
    let v1::Topology { provider, region, zones } = told;
    let words = [&provider, &region];
    let is_fine = zones.len() <= ZONES
        && words.into_iter().all(|word| is_word(word))
        && zones.iter().all(|zone| !zone.is_empty() && is_word(zone));
    is_fine.then_some(Told { provider, region, zones })
}

#[async_trait::async_trait]
impl Controller for TopologyQuestions {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-topology"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let other = |status: Status| Error::Other(status.message);
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(other)?;
        let found = self.registry.get(&definition, "", &key.name).ok().filter(|found| !found.deleting);
        let cluster =
            found.map(|found| found.value()).filter(|cluster| !topology::open_fields(cluster).is_empty());
        let Some(cluster) = cluster else {
            self.asked.lock().remove(key);
            return Ok(Action::Done);
        };
        let nodes = cluster["status"]["nodeSummary"]["totalNum"].as_i64().unwrap_or_default();
        let last = self.asked.lock().get(key).copied();
        let asked = match topology::question(last, nodes, self.started.elapsed()) {
            None => return Ok(Action::Done),
            Some(Err(wait)) => return Ok(Action::RequeueAfter(wait)),
            Some(Ok(asked)) => asked,
        };
        let Ok(told) = self.ask(&key.name).await else { return Ok(Action::RequeueAfter(AWAY)) };
        self.asked.lock().insert(key.clone(), asked);
        if let Some(told) = told.filter(|told| topology::filled(&cluster, told).is_some()) {
            self.write(&key.name, &told).await.map_err(other)?;
        }
        let next = topology::question(Some(asked), nodes, self.started.elapsed());
        Ok(next.and_then(Result::err).map_or(Action::Done, Action::RequeueAfter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_join_could_say_is_not_kept() {
        let told = |region: &str, zones: usize| v1::Topology {
            region: region.to_owned(),
            zones: (0..zones).map(|at| format!("z{at}")).collect(),
            ..v1::Topology::default()
        };
        assert_eq!(kept(told("eu", ZONES)).unwrap().zones.len(), ZONES);
        assert_eq!(kept(told("", 0)), Some(Told::default()));
        for wrong in [told("eu", ZONES + 1), told("e u", 1), told(&"a".repeat(64), 0)] {
            assert_eq!(kept(wrong), None);
        }
        let nameless = v1::Topology { zones: vec![String::new()], ..v1::Topology::default() };
        assert_eq!(kept(nameless), None);
    }
}
