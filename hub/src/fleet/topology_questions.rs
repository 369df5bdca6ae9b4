//! Provider, region and zones of Clusters that were not told them at the join: Nodes come after it, and their labels after them.
//!
//! In: Clusters that change, agents that come. Out: a note on each Cluster of what its spec says of them; where nobody ever said one, the agent is asked, ever
//! more seldom while it does not know; what it tells twice is written into `spec`, each field once, with an event. Where joins wait for a person, who looks
//! at what a cluster says of itself, this does not run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::events::{EventType, Recorder, Reference};
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_core::registration::topology::{self, Seen, Told};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_fleet::topology_answers::{self, Asked};
use karmada_gateway::{AskError, Gateway};
use karmada_proto::join::{ZONES, is_word};
use karmada_proto::v1::{self, TopologyOf, answer, ask};
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::write_options::write_options;

/// How long an agent may take: it lists the Nodes.
const WITHIN: Duration = Duration::from_secs(10);

/// An agent that has enough to answer is asked again after this.
const BUSY: Duration = Duration::from_secs(60);

/// Asks agents where their clusters are.
pub struct TopologyQuestions {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
    recorder: Arc<Recorder>,
    started: Instant,
    /// Of Clusters with open fields alone, with the uid of each.
    asked: Mutex<BTreeMap<Key, (String, Asked)>>,
}

impl TopologyQuestions {
    /// One that asks through the gateway.
    pub fn new(
        registry: Arc<Registry>,
        gateway: Arc<Gateway>,
        recorder: Arc<Recorder>,
    ) -> Arc<TopologyQuestions> {
        let started = Instant::now();
        Arc::new(TopologyQuestions { registry, gateway, recorder, started, asked: Mutex::default() })
    }

    /// What wakes this controller, beside the news of links ([`FleetQueues::topologies`](super::FleetQueues::topologies)): a Cluster, whose status counts its
    /// Nodes.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }

    fn clusters(&self) -> Result<Arc<ResourceDefinition>, Status> {
        self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")
    }

    /// The Cluster's uid and what matters of it; none of one that is not there, or leaves.
    fn seen(&self, name: &str) -> Result<Option<(String, Seen)>, Status> {
        let Ok(found) = self.registry.get(&*self.clusters()?, "", name) else { return Ok(None) };
        let seen = serde_json::from_slice(&found.json()).ok().filter(|_| !found.deleting);
        Ok(seen.map(|seen| (found.uid().to_owned(), seen)))
    }

    /// Asks, where it is due, and writes what counts. How the Cluster's key goes on.
    async fn ask_when_due(&self, key: &Key, uid: &str, seen: &Seen) -> Result<Action, Status> {
        let last = self.asked.lock().get(key).filter(|(of, _)| of == uid).map(|(_, asked)| asked.clone());
        let now = self.started.elapsed();
        if let Some(wait) = topology_answers::wait(last.as_ref(), seen.nodes(), now) {
            return Ok(Action::RequeueAfter(wait));
        }
        let told = match self.ask(&key.name).await {
            Ok(told) => told.unwrap_or_default(),
            Err(AskError::Busy) => return Ok(Action::RequeueAfter(BUSY)),
            // Its next session wakes this loop.
            Err(_) => return Ok(Action::Done),
        };
        let (asked, counts) = topology_answers::answered(last.as_ref(), seen, now, told);
        self.asked.lock().insert(key.clone(), (uid.to_owned(), asked.clone()));
        if counts {
            self.write(&key.name, uid, asked.told()).await?;
        }
        let next = topology_answers::wait(Some(&asked), seen.nodes(), self.started.elapsed());
        Ok(Action::RequeueAfter(next.unwrap_or_default()))
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

    /// Notes what is said, and writes what is told of fields that are open still, on the Cluster of that uid: another one of its name may be another cluster.
    async fn write(&self, name: &str, uid: &str, told: &Told) -> Result<(), Status> {
        let definition = self.clusters()?;
        let mut news = Vec::new();
        let mut change = |live: Option<&Value>| {
            let live = live.filter(|live| live["metadata"]["uid"] == *uid);
            let live = live.ok_or_else(|| Status::not_found(&definition, name))?;
            news = Seen::deserialize(live).map(|seen| seen.news(told)).unwrap_or_default();
            Ok(topology::filled(live, told).unwrap_or_else(|| live.clone()))
        };
        let written =
            self.registry.update(&definition, &ObjectKey::new("", name), &write_options(), &mut change).await;
        match written {
            // Whatever there is now wakes this loop.
            Err(status) if status.reason == "NotFound" => return Ok(()),
            written => written?,
        };
        if !news.is_empty() {
            self.tell(name, uid, &news);
        }
        Ok(())
    }

    /// People see why placement changed.
    fn tell(&self, name: &str, uid: &str, news: &[(&'static str, Value)]) {
        let said: Vec<_> = news.iter().map(|(field, value)| format!("{field} {value}")).collect();
        let said = said.join(", ");
        tracing::info!(cluster = name, said, "its agent tells where the cluster is");
        let message = format!(
            "the agent told where the cluster is, as nobody had said it: {said}; placement and rules go by it from now on"
        );
        self.recorder.record(&Reference::of_cluster(name, uid), EventType::Normal, "TopologyTold", &message);
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
        let seen = self.seen(&key.name).map_err(other)?;
        if let Some((uid, _)) = seen.as_ref().filter(|(_, seen)| seen.is_unnoted()) {
            self.write(&key.name, uid, &Told::default()).await.map_err(other)?;
        }
        match seen.filter(|(_, seen)| !seen.open_fields().is_empty()) {
            Some((uid, seen)) => self.ask_when_due(key, &uid, &seen).await.map_err(other),
            None => {
                self.asked.lock().remove(key);
                Ok(Action::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_controllers::port::Api;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fleet::testing::{NORTH, Rig};
    use crate::registry_api::RegistryApi;

    const SAID: &str = karmada_api::strings::annotations::TOPOLOGY_SAID;

    fn loop_of(rig: &Rig) -> (Arc<TopologyQuestions>, Arc<dyn Api>) {
        let api: Arc<dyn Api> = Arc::new(RegistryApi::new(rig.registry.clone(), "tests", Arc::default()));
        let clock = rig.registry.clone();
        let recorder = Recorder::new(api.clone(), "tests", Arc::new(move || clock.now()));
        let recording = recorder.clone();
        tokio::spawn(async move { recording.run(CancellationToken::new()).await });
        (TopologyQuestions::new(rig.registry.clone(), rig.gateway.clone(), recorder), api)
    }

    fn told(region: &str) -> Told {
        Told { region: region.to_owned(), ..Told::default() }
    }

    async fn cluster(rig: &Rig) -> String {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": NORTH}, "spec": {"syncMode": "Pull", "id": "u", "provider": "acme"}});
        rig.create("clusters", "", cluster).await.uid().to_owned()
    }

    #[tokio::test]
    async fn what_is_said_is_noted_once_and_nobody_looks_at_an_agent_that_is_away() {
        let rig = Rig::start().await;
        let (questions, _) = loop_of(&rig);
        cluster(&rig).await;
        let key = Key { namespace: Arc::from(""), name: Arc::from(NORTH) };
        assert_eq!(questions.reconcile(&key).await.unwrap(), Action::Done, "its session wakes the loop");
        let noted = rig.cluster();
        assert_eq!(noted["metadata"]["annotations"][SAID], "provider");
        assert_eq!(questions.reconcile(&key).await.unwrap(), Action::Done);
        assert_eq!(rig.cluster(), noted, "nothing is written where nothing changed");
    }

    #[tokio::test]
    async fn what_is_told_is_written_on_the_cluster_that_was_asked_about_and_people_hear_of_it() {
        let rig = Rig::start().await;
        let (questions, api) = loop_of(&rig);
        let uid = cluster(&rig).await;
        questions.write(NORTH, "another", &told("eu")).await.unwrap();
        assert_eq!(rig.cluster()["spec"]["region"], Value::Null, "another Cluster had that name");
        questions.write(NORTH, &uid, &told("eu")).await.unwrap();
        let filled = rig.cluster();
        assert_eq!(
            (&filled["spec"]["region"], &filled["metadata"]["annotations"][SAID]),
            (&json!("eu"), &json!("provider,region"))
        );
        let kind = api.resource_of("v1", "Event").unwrap();
        let events = loop {
            let all = api.list(&kind, "").await.unwrap();
            if !all.is_empty() {
                break all;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let event = events[0].value().unwrap();
        assert_eq!(
            (events.len(), &event["reason"], &event["involvedObject"]["uid"]),
            (1, &json!("TopologyTold"), &json!(uid))
        );
        assert!(event["message"].as_str().unwrap().contains("region \"eu\""), "{event}");
    }

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
