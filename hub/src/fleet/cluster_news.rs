//! What people want to hear of a cluster: that its agent fell silent, that it is back, that it leaves, that it is gone.
//!
//! In: Clusters, and what the gateway knows of the links. Out: a line of the log and an event on the Cluster for each of these,
//! once, with when the agent was last seen. A start of the hub is no news.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::{EventType, Reference};
use karmada_controllers::fetch::{self, kinds};
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_fleet::cluster_news::{self, ClusterState, News, Urgency};
use parking_lot::Mutex;

/// The controller.
pub struct ClusterNews {
    shared: Arc<ControllerContext>,
    contacts: Arc<dyn ContactSource>,
    known: Mutex<BTreeMap<Arc<str>, (ClusterState, String)>>,
}

impl ClusterNews {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>, contacts: Arc<dyn ContactSource>) -> Arc<Self> {
        Arc::new(ClusterNews { shared, contacts, known: Mutex::default() })
    }

    /// What wakes this controller: a Cluster.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }

    fn tell(&self, name: &str, uid: &str, news: &News) {
        let kind = match news.urgency {
            Urgency::Warning => {
                tracing::warn!(cluster = name, reason = news.reason, "{}", news.message);
                EventType::Warning
            }
            Urgency::Normal => {
                tracing::info!(cluster = name, reason = news.reason, "{}", news.message);
                EventType::Normal
            }
        };
        let about = Reference::of_cluster(name, uid);
        self.shared.recorder.record(&about, kind, news.reason, &news.message);
    }
}

#[async_trait::async_trait]
impl Controller for ClusterNews {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-news"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api = &*self.shared.api;
        let found: Option<Cluster> = fetch::get(api, &kinds::clusters(api)?, "", &key.name).await?;
        let time = (self.shared.clock)();
        let Some(cluster) = found else {
            if let Some((_, uid)) = self.known.lock().remove(&key.name) {
                let heard = self.contacts.contact(&key.name, time).last_heard;
                self.tell(&key.name, &uid, &cluster_news::removed(&key.name, heard, time));
            }
            return Ok(Action::Done);
        };
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        let heard = self.contacts.contact(&key.name, time).last_heard;
        let now = cluster_news::state(&cluster, heard);
        let before = {
            let mut known = self.known.lock();
            let before = known.get(&key.name).filter(|(_, of)| *of == uid).map(|(state, _)| *state);
            known.insert(key.name.clone(), (cluster_news::kept(before, now), uid.clone()));
            before
        };
        if let Some(news) = before.and_then(|before| cluster_news::news(&key.name, before, now, time)) {
            self.tell(&key.name, &uid, &news);
        }
        Ok(Action::Done)
    }
}
