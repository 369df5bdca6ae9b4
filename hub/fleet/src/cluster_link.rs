//! How a cluster's link is shown to people: the object `ClusterLink` of `edge.karmada.io`.
//!
//! In: what is known of the link, of its Cluster and of what waits for it, with the object that was shown before. Out: the object as it is
//! now. Pure. What did not change comes out as it was before, to the byte, so that no watcher is told of it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::strings::annotations;
use karmada_gateway::fleet::{ClusterLink, LinkState, SessionView};
use karmada_schema::condition::put_among;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent_note::AgentNote;
use crate::pending_works::Pending;

/// Two clocks tell when an agent was last heard: what they differ by is no news.
const SAME_MOMENT: SignedDuration = SignedDuration::from_secs(2);

/// What is taken from the Cluster.
#[derive(Debug, Default, Deserialize)]
pub struct ClusterHead {
    metadata: ClusterMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterMetadata {
    name: String,
    uid: String,
    creation_timestamp: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl ClusterHead {
    fn agent(&self) -> Option<AgentNote> {
        serde_json::from_str(self.metadata.annotations.get(annotations::AGENT)?).ok()
    }

    /// The name, labels and birth of the Cluster, by which a link is found and selected as its Cluster is.
    fn metadata(&self) -> Value {
        let of = &self.metadata;
        let mut metadata = json!({"name": of.name});
        if let Ok(uid) = uuid::Uuid::parse_str(&of.uid) {
            metadata["uid"] = json!(link_uid(uid).to_string());
        }
        if let Some(created) = &of.creation_timestamp {
            metadata["creationTimestamp"] = json!(created);
        }
        if !of.labels.is_empty() {
            metadata["labels"] = json!(of.labels);
        }
        metadata
    }
}

/// The link's own uid, the same in each process of the hub for as long as the Cluster lives: the Cluster's with other digits.
fn link_uid(cluster: uuid::Uuid) -> uuid::Uuid {
    // Neither the digit of the version nor that of the variant.
    const OTHER: u128 = 0x6c69_6e6b_0000_0000_0000_6c69_6e6b_6c69;
    uuid::Uuid::from_u128(cluster.as_u128() ^ OTHER)
}

/// The link as people see it. `before`: as it was shown last.
pub fn to_object(
    cluster: &ClusterHead,
    link: &ClusterLink,
    pending: &Pending,
    before: Option<&Value>,
    now: Timestamp,
) -> Value {
    let was = before.map_or(&Value::Null, |before| &before["status"]);
    let note = cluster.agent();
    let mut status = json!({
        "state": state(link.state),
        "pending": waiting(link, pending),
        "conditions": conditions(link, pending, &was["conditions"], now),
    });
    let mut tell = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            status[field] = value;
        }
    };
    tell("since", link.since.map(|since| time(since).into()));
    tell("lastSeen", link.last_frame.map(|heard| last_seen(heard, &was["lastSeen"]).into()));
    // Of one that is away, the version that it had.
    let version = link.session.as_ref().map(|session| session.agent_version.clone());
    let version = version.or_else(|| note.as_ref().map(|note| note.version.clone()));
    tell("agentVersion", version.filter(|version| !version.is_empty()).map(Value::from));
    let ends = link.certificate_ends.or_else(|| note.map(|note| note.certificate_ends));
    tell("certificateEnds", ends.map(|ends| time(ends).into()));
    tell("session", link.session.as_ref().map(session));
    tell(
        "heldDeletes",
        link.hold.map(|hold| json!({"batch": hold.batch.to_string(), "count": hold.deletes})),
    );
    let removals = pending.held.map(|held| json!({"batch": held.batch(), "count": held.count}));
    tell("heldRemovals", removals);
    let metadata = cluster.metadata();
    json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ClusterLink", "metadata": metadata, "status": status})
}

fn time(at: Timestamp) -> String {
    karmada_schema::time::seconds(at)
}

fn state(state: LinkState) -> &'static str {
    match state {
        LinkState::Connected => "Connected",
        LinkState::Late => "Late",
        LinkState::Offline => "Offline",
        LinkState::Lost => "Lost",
    }
}

fn last_seen(heard: Timestamp, before: &Value) -> String {
    let shown = before.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time(shown.filter(|shown| heard.duration_since(*shown).abs() < SAME_MOMENT).unwrap_or(heard))
}

fn waiting(link: &ClusterLink, pending: &Pending) -> Value {
    let mut waiting = json!({"works": pending.count});
    if let Some(session) = &link.session {
        waiting["sending"] = json!(session.progress.backlog);
    }
    if let Some((name, since)) = &pending.oldest {
        waiting["oldestWork"] = json!({"name": name, "since": time(*since)});
    }
    waiting
}

fn session(session: &SessionView) -> Value {
    let offset = Duration::from_millis(session.clock_offset_ms.unsigned_abs());
    let sign = if session.clock_offset_ms < 0 { "-" } else { "" };
    let mut shown = json!({
        "number": session.seq,
        "epoch": session.epoch,
        "since": time(session.since),
        "bootID": session.boot_id,
        "transport": session.transport,
        "clockOffset": format!("{sign}{offset:?}"),
        "acknowledgedRevision": session.progress.acked,
        "receivedBytes": session.progress.received,
        "sentBytes": session.progress.sent,
    });
    if let Some(address) = session.address {
        shown["address"] = json!(address.to_string());
    }
    if let Some(took) = session.progress.round_trip {
        shown["roundTrip"] = json!(format!("{:?}", Duration::from_millis(took.as_millis() as u64)));
    }
    shown
}

/// Each condition with the moment since when it is so: that of the one before, where its status is the same.
fn conditions(link: &ClusterLink, pending: &Pending, before: &Value, now: Timestamp) -> Vec<Value> {
    let condition = |kind: &str, status: &str, (reason, message): (&str, String), since: Timestamp| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time(since)});
    let (connected, why) = connected(link);
    let (applied, behind) = match pending.count {
        0 => ("True", ("UpToDate", "everything is applied as it is now".to_owned())),
        count => (
            "False",
            ("WorksPending", format!("{count} Works are not applied as they are now, or not removed yet")),
        ),
    };
    let wait = |count: u64, what: &str, batch: String| {
        format!("{count} {what} wait: karmadactl confirm {} --batch {batch}", link.cluster)
    };
    let restored = link.hold.map(|hold| wait(hold.deletes, "deletes", hold.batch.to_string()));
    let placed = pending.held.map(|held| wait(held.count as u64, "removals", held.batch()));
    let (held, waits) = match restored.into_iter().chain(placed).collect::<Vec<_>>() {
        none if none.is_empty() => ("False", ("NoneHeld", "no deletes wait for a person's word".to_owned())),
        some => ("True", ("WaitingForConfirmation", some.join("; "))),
    };
    let told = [
        condition("Connected", connected, why, link.since.unwrap_or(now)),
        condition("WorksApplied", applied, behind, pending.oldest.as_ref().map_or(now, |(_, since)| *since)),
        condition("DeletesHeld", held, waits, now),
    ];
    let mut all = before.as_array().cloned().unwrap_or_default();
    told.into_iter().for_each(|one| put_among(&mut all, one));
    all
}

fn connected(link: &ClusterLink) -> (&'static str, (&'static str, String)) {
    let told = |reason, message: &str| (reason, message.to_owned());
    match (link.state, link.since) {
        (LinkState::Connected, _) => ("True", told("SessionOpen", "the agent has a session")),
        (LinkState::Late, _) => (
            "Unknown",
            told("AgentSilent", "the agent has a session, and has been silent for longer than it should be"),
        ),
        (LinkState::Offline | LinkState::Lost, None) => {
            ("False", told("NeverSeen", "the agent was not heard since the hub listens for it"))
        }
        (LinkState::Offline, Some(_)) => ("False", told("NoSession", "the agent has no session")),
        (LinkState::Lost, Some(_)) => {
            ("False", told("AgentLost", "the agent has had no session for longer than a link may be away"))
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_gateway::fleet::{HoldView, Progress};
    use karmada_gateway::ports::Batch;

    use super::*;
    use crate::pending_works::WaitingDeletes;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn cluster() -> ClusterHead {
        serde_json::from_value(json!({"metadata": {
            "name": "north", "uid": "9f6ae9a6-49d6-4d3c-8b8a-1d2f3a4b5c6d", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"region": "eu"},
            "annotations": {annotations::AGENT: r#"{"version":"0.9","authority":"CN=ca","certificateEnds":"2027-01-01T00:00:00Z"}"#}}}))
        .unwrap()
    }

    fn away() -> ClusterLink {
        ClusterLink {
            cluster: "north".into(),
            state: LinkState::Offline,
            since: Some(at(100)),
            lost_at: None,
            last_frame: Some(at(100)),
            hold: None,
            certificate_ends: None,
            session: None,
        }
    }

    fn live() -> ClusterLink {
        let progress = Progress {
            acked: 12,
            backlog: 3,
            received: 400,
            sent: 5000,
            round_trip: Some(Duration::from_micros(80_400)),
            ..Progress::default()
        };
        let session = SessionView {
            seq: 7,
            boot_id: "b".into(),
            agent_version: "1.0".into(),
            transport: "grpc",
            address: Some([192, 0, 2, 1].into()),
            epoch: 4,
            clock_offset_ms: -20,
            since: at(100),
            silent: Duration::ZERO,
            progress,
        };
        ClusterLink { state: LinkState::Connected, session: Some(session), ..away() }
    }

    #[test]
    fn a_live_link_tells_all_that_is_known() {
        let hold = Some(HoldView { batch: Batch { epoch: 4, revision: 9, timeline: 1 }, deletes: 30 });
        let pending = Pending {
            count: 2,
            oldest: Some(("web".into(), at(90))),
            held: Some(WaitingDeletes { count: 7, last: at(1_700_000_000) }),
        };
        let shown = to_object(&cluster(), &ClusterLink { hold, ..live() }, &pending, None, at(200));
        let expected = json!({
            "apiVersion": "edge.karmada.io/v1alpha1", "kind": "ClusterLink",
            "metadata": {"name": "north", "uid": "f30387cd-49d6-4d3c-8b8a-714654203004",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"region": "eu"}},
            "status": {
                "state": "Connected", "since": "1970-01-01T00:01:40Z", "lastSeen": "1970-01-01T00:01:40Z",
                "agentVersion": "1.0", "certificateEnds": "2027-01-01T00:00:00Z",
                "session": {"number": 7, "epoch": 4, "since": "1970-01-01T00:01:40Z", "bootID": "b", "transport": "grpc",
                    "address": "192.0.2.1", "clockOffset": "-20ms", "roundTrip": "80ms", "acknowledgedRevision": 12,
                    "receivedBytes": 400, "sentBytes": 5000},
                "pending": {"works": 2, "sending": 3, "oldestWork": {"name": "web", "since": "1970-01-01T00:01:30Z"}},
                "heldDeletes": {"batch": "4/9/1", "count": 30},
                "heldRemovals": {"batch": "20231114T221320Z", "count": 7},
                "conditions": [
                    {"type": "Connected", "status": "True", "reason": "SessionOpen", "message": "the agent has a session",
                        "lastTransitionTime": "1970-01-01T00:01:40Z"},
                    {"type": "WorksApplied", "status": "False", "reason": "WorksPending",
                        "message": "2 Works are not applied as they are now, or not removed yet", "lastTransitionTime": "1970-01-01T00:01:30Z"},
                    {"type": "DeletesHeld", "status": "True", "reason": "WaitingForConfirmation",
                        "message": "30 deletes wait: karmadactl confirm north --batch 4/9/1; 7 removals wait: karmadactl confirm north --batch 20231114T221320Z", "lastTransitionTime": "1970-01-01T00:03:20Z"},
                ],
            },
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn one_that_is_away_keeps_the_version_that_it_had_and_says_why_it_is() {
        for (state, since, status, reason) in [
            (LinkState::Late, Some(100), "Unknown", "AgentSilent"),
            (LinkState::Offline, Some(100), "False", "NoSession"),
            (LinkState::Lost, Some(100), "False", "AgentLost"),
            (LinkState::Offline, None, "False", "NeverSeen"),
        ] {
            let link = ClusterLink { state, since: since.map(at), ..away() };
            let shown = to_object(&cluster(), &link, &Pending::default(), None, at(200));
            let connected = &shown["status"]["conditions"][0];
            assert_eq!(
                (connected["status"].as_str(), connected["reason"].as_str()),
                (Some(status), Some(reason))
            );
            assert_eq!(shown["status"]["agentVersion"], "0.9");
            assert!(shown["status"].get("session").is_none());
        }
    }

    #[test]
    fn what_did_not_change_comes_out_as_it_was() {
        let first = to_object(&cluster(), &live(), &Pending::default(), None, at(200));
        let same = ClusterLink { last_frame: Some(at(101)), ..live() };
        assert_eq!(to_object(&cluster(), &same, &Pending::default(), Some(&first), at(260)), first);
        let heard = ClusterLink { last_frame: Some(at(130)), ..live() };
        let later = to_object(&cluster(), &heard, &Pending::default(), Some(&first), at(260));
        assert_eq!(later["status"]["lastSeen"], "1970-01-01T00:02:10Z");
        assert_eq!(later["status"]["conditions"], first["status"]["conditions"]);
        let behind = Pending { count: 1, oldest: Some(("web".into(), at(250))), held: None };
        let waits = to_object(&cluster(), &heard, &behind, Some(&later), at(260));
        assert_eq!(waits["status"]["conditions"][1]["lastTransitionTime"], "1970-01-01T00:04:10Z");
    }
}
