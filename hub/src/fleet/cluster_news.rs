//! What people want to hear of a cluster: that its agent fell silent, that it is back, that it leaves, that it is gone.
//!
//! In: Clusters, and what the gateway knows of the links. Out: a line of the log and an event on the Cluster for each of these,
//! once, with when the agent was last seen. A start of the hub is no news.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_api::strings::{annotations, conditions};
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::{EventType, Reference};
use karmada_controllers::fetch::{self, kinds};
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_schema::time;
use parking_lot::Mutex;

/// The state of a cluster, as far as there is news in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterState {
    /// In contact, or not long enough out of it to count.
    Present,
    /// The hub gave up waiting for its agent, which it had last heard then.
    Lost(Option<Timestamp>),
    /// Being deleted; true where what was placed there stays.
    Leaving(bool),
}

/// What to tell.
#[derive(Debug, PartialEq, Eq)]
struct News {
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// How the Cluster stands. `heard`: when its agent was last.
fn state(cluster: &Cluster, heard: Option<Timestamp>) -> ClusterState {
    if cluster.deleting() {
        let marks = cluster.metadata.annotations.as_ref();
        return ClusterState::Leaving(marks.is_some_and(|marks| {
            marks.get(annotations::KEEP_WORKLOADS).is_some_and(|keeps| keeps == "true")
        }));
    }
    match cluster.condition(conditions::READY) {
        Some(ready) if ready.status == conditions::UNKNOWN => ClusterState::Lost(heard),
        _ => ClusterState::Present,
    }
}

fn last_seen(heard: Option<Timestamp>, now: Timestamp) -> String {
    match heard {
        Some(heard) => {
            let ago = now.duration_since(heard).as_secs().max(0);
            format!("last seen {} ({ago} s ago)", time::seconds(heard))
        }
        None => "not seen since the hub started".to_owned(),
    }
}

/// What there is to tell of a change.
fn news(name: &str, before: ClusterState, now: ClusterState, time: Timestamp) -> Option<News> {
    let told = |kind, reason, message| Some(News { kind, reason, message });
    match (before, now) {
        (ClusterState::Lost(_), ClusterState::Lost(_)) | (ClusterState::Present, ClusterState::Present) => {
            None
        }
        (ClusterState::Leaving(before), ClusterState::Leaving(now)) if before == now => None,
        (_, ClusterState::Lost(heard)) => {
            let message = format!("the agent of {name} fell silent: {}", last_seen(heard, time));
            told(EventType::Warning, "ClusterLost", message)
        }
        (_, ClusterState::Leaving(keeps)) => {
            let fate = if keeps { "stays there" } else { "is removed from it" };
            told(
                EventType::Normal,
                "ClusterLeaving",
                format!("{name} is being deleted: what was placed there {fate}"),
            )
        }
        (ClusterState::Lost(heard), ClusterState::Present) => told(
            EventType::Normal,
            "ClusterBack",
            format!("the agent of {name} is back: {}", last_seen(heard, time)),
        ),
        (ClusterState::Leaving(_), ClusterState::Present) => None,
    }
}

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
        match news.kind {
            EventType::Warning => tracing::warn!(cluster = name, reason = news.reason, "{}", news.message),
            EventType::Normal => tracing::info!(cluster = name, reason = news.reason, "{}", news.message),
        }
        let about = Reference::of_cluster(name, uid);
        self.shared.recorder.record(&about, news.kind, news.reason, &news.message);
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
                let message =
                    format!("{} is removed from the hub: its agent was {}", key.name, last_seen(heard, time));
                self.tell(
                    &key.name,
                    &uid,
                    &News { kind: EventType::Normal, reason: "ClusterRemoved", message },
                );
            }
            return Ok(Action::Done);
        };
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        let heard = self.contacts.contact(&key.name, time).last_heard;
        let now = state(&cluster, heard);
        let before = {
            let mut known = self.known.lock();
            let before = known.get(&key.name).filter(|(_, of)| *of == uid).map(|(state, _)| *state);
            // When it was last heard is kept from the moment it was lost.
            if !matches!((before, now), (Some(ClusterState::Lost(_)), ClusterState::Lost(_))) {
                known.insert(key.name.clone(), (now, uid.clone()));
            }
            before
        };
        if let Some(news) = before.and_then(|before| news(&key.name, before, now, time)) {
            self.tell(&key.name, &uid, &news);
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_told_once_with_when_the_agent_was_last_seen() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let (present, lost) = (ClusterState::Present, ClusterState::Lost(Some(at(1000))));
        let told = |before, now| news("north", before, now, at(1046)).map(|news| (news.reason, news.message));
        let (reason, message) = told(present, lost).unwrap();
        assert_eq!(reason, "ClusterLost");
        assert_eq!(message, "the agent of north fell silent: last seen 1970-01-01T00:16:40Z (46 s ago)");
        assert_eq!(told(lost, present).unwrap().0, "ClusterBack");
        assert!(
            told(present, ClusterState::Lost(None)).unwrap().1.contains("not seen since the hub started")
        );
        assert!(told(lost, ClusterState::Leaving(false)).unwrap().1.contains("is removed from it"));
        assert!(told(present, ClusterState::Leaving(true)).unwrap().1.contains("stays there"));
        for same in [present, lost, ClusterState::Leaving(true)] {
            assert_eq!(told(same, same), None);
        }
        // Somebody saw the mistake in time.
        assert!(told(ClusterState::Leaving(false), ClusterState::Leaving(true)).is_some());
    }

    #[test]
    fn a_cluster_stands_as_its_conditions_and_marks_say() {
        let cluster = |value: serde_json::Value| serde_json::from_value::<Cluster>(value).unwrap();
        let ready = |status: &str| {
            let condition = serde_json::json!({"type": "Ready", "status": status, "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            cluster(
                serde_json::json!({"metadata": {"name": "n"}, "spec": {"syncMode": "Pull"}, "status": {"conditions": [condition]}}),
            )
        };
        assert_eq!(state(&ready("True"), None), ClusterState::Present);
        assert_eq!(state(&ready("False"), None), ClusterState::Present);
        assert_eq!(state(&ready("Unknown"), None), ClusterState::Lost(None));
        let leaving = |keeps: &str| {
            cluster(
                serde_json::json!({"spec": {"syncMode": "Pull"}, "metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"edge.karmada.io/keep-workloads": keeps}}}),
            )
        };
        assert_eq!(state(&leaving("true"), None), ClusterState::Leaving(true));
        assert_eq!(state(&leaving("no"), None), ClusterState::Leaving(false));
    }
}
