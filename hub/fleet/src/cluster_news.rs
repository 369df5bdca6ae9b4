//! What people want to hear of a cluster: that its agent fell silent, that it is back, that it leaves, that it is gone.
//!
//! In: a Cluster, when its agent was last heard, and how it stood before. Out: what to tell, if anything, once for each of these. Pure.

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_api::strings::{annotations, conditions};
use karmada_schema::time;

/// The state of a cluster, as far as there is news in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// In contact, or not long enough out of it to count.
    Present,
    /// The hub gave up waiting for its agent, which it had last heard then.
    Lost(Option<Timestamp>),
    /// Being deleted; true where what was placed there stays.
    Leaving(bool),
}

/// What to tell.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// Whether somebody may have to do something.
    pub urgency: Urgency,
    /// The event's reason.
    pub reason: &'static str,
    /// In plain words.
    pub message: String,
}

/// Whether somebody may have to do something about news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nobody has to.
    Normal,
    /// Perhaps somebody has to.
    Warning,
}

/// How the Cluster stands. `heard`: when its agent was last.
pub fn state(cluster: &Cluster, heard: Option<Timestamp>) -> ClusterState {
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
pub fn news(name: &str, before: ClusterState, now: ClusterState, time: Timestamp) -> Option<News> {
    let told = |urgency, reason, message| Some(News { urgency, reason, message });
    match (before, now) {
        (ClusterState::Lost(_), ClusterState::Lost(_)) | (ClusterState::Present, ClusterState::Present) => {
            None
        }
        (ClusterState::Leaving(before), ClusterState::Leaving(now)) if before == now => None,
        (_, ClusterState::Lost(heard)) => {
            let message = format!("the agent of {name} fell silent: {}", last_seen(heard, time));
            told(Urgency::Warning, "ClusterLost", message)
        }
        (_, ClusterState::Leaving(keeps)) => {
            let fate = if keeps { "stays there" } else { "is removed from it" };
            told(
                Urgency::Normal,
                "ClusterLeaving",
                format!("{name} is being deleted: what was placed there {fate}"),
            )
        }
        (ClusterState::Lost(heard), ClusterState::Present) => told(
            Urgency::Normal,
            "ClusterBack",
            format!("the agent of {name} is back: {}", last_seen(heard, time)),
        ),
        (ClusterState::Leaving(_), ClusterState::Present) => None,
    }
}

/// What there is to tell of one that is gone.
pub fn removed(name: &str, heard: Option<Timestamp>, time: Timestamp) -> News {
    let message = format!("{name} is removed from the hub: its agent was {}", last_seen(heard, time));
    News { urgency: Urgency::Normal, reason: "ClusterRemoved", message }
}

/// What is kept of a state for the next look: when a cluster was last heard stays as it was the moment it was lost.
pub fn kept(before: Option<ClusterState>, now: ClusterState) -> ClusterState {
    match (before, now) {
        (Some(lost @ ClusterState::Lost(_)), ClusterState::Lost(_)) => lost,
        _ => now,
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

    #[test]
    fn when_a_cluster_was_last_heard_stays_as_it_was_the_moment_it_was_lost() {
        let at = |seconds: i64| Some(Timestamp::from_second(seconds).unwrap());
        let (lost, longer) = (ClusterState::Lost(at(10)), ClusterState::Lost(at(20)));
        assert_eq!(kept(Some(lost), longer), lost);
        assert_eq!(kept(Some(ClusterState::Present), lost), lost);
        assert_eq!(kept(None, longer), longer);
        assert_eq!(kept(Some(lost), ClusterState::Present), ClusterState::Present);
        assert_eq!(
            removed("north", at(10), Timestamp::from_second(15).unwrap()).message,
            "north is removed from the hub: its agent was last seen 1970-01-01T00:00:10Z (5 s ago)"
        );
    }
}
