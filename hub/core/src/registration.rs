//! Who gets a name in the fleet: what a join or a renewal is to come to.
//!
//! In: the Cluster of the name as it is, the key that asks, whether an agent of that name is connected, the time. Out: what the name is
//! to the asker, the next step of a join, the Cluster that a join makes, and the keys that a renewal leaves.
//!
//! A name is never handed on by who asks for it: a second key waits for a person ([`keys`]), and what a join token allows is judged
//! apart from it. Where a cluster is, its agent tells then or later ([`topology`]).

pub mod keys;
pub mod topology;

use std::time::Duration;

use jiff::Timestamp;
use karmada_api::names;
use karmada_api::strings::labels;
use serde_json::{Value, json};

use keys::KeyState;

/// Who waits for a person asks again after this long.
pub const ASK_PERSON_AGAIN: Duration = Duration::from_secs(15);
/// Who waits for a name that is just given up asks again after this long.
pub const ASK_LEAVING_AGAIN: Duration = Duration::from_secs(5);

/// A cluster that asks to join.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The name that it asks for.
    pub name: &'a str,
    /// The uid of its namespace kube-system.
    pub uid: &'a str,
    /// The fingerprint of its agent's key.
    pub key: &'a str,
    /// `spec.provider`; empty where nobody said.
    pub provider: &'a str,
    /// `spec.region`; empty where nobody said.
    pub region: &'a str,
    /// `spec.zones`.
    pub zones: &'a [String],
}

/// What a name is to who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// No Cluster has it.
    Free,
    /// Its Cluster ends.
    Leaving,
    /// The asker holds it.
    Own,
    /// The asker waits for it.
    Waiting,
    /// The asker is not to have it, or another's agent is connected.
    Taken,
    /// Another key holds it.
    Held,
    /// Another key holds it, and as many wait for it as are kept.
    Full,
}

/// The next step of a join whose token holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinStep {
    /// The key holds the name and is granted it again: an answer may have been lost.
    Grant,
    /// Nothing is written; the asker comes again after this long.
    Wait(Duration),
    /// The same, and people are told that no more keys are kept.
    WaitForRoom,
    /// The name is not for this key.
    Refuse,
    /// Another key holds the name: that this one asks for it is written on its Cluster. Counts as a use of the token.
    WriteRequest,
    /// A Cluster is made. Counts as a use of the token.
    MakeCluster,
}

/// What the name of a Cluster is to who asks with `key`. `connected`: whether an agent of that name is.
pub fn name_state(cluster: Option<&Value>, key: &str, connected: bool) -> NameState {
    let Some(cluster) = cluster else { return NameState::Free };
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return NameState::Leaving;
    }
    match keys::state(cluster, key) {
        KeyState::Holder => NameState::Own,
        KeyState::Waiting => NameState::Waiting,
        KeyState::Refused => NameState::Taken,
        KeyState::Stranger if connected => NameState::Taken,
        KeyState::Stranger if keys::is_full(cluster) => NameState::Full,
        KeyState::Stranger => NameState::Held,
    }
}

/// What is to be done for who asks for a name that is this to it.
pub fn join_step(name: NameState) -> JoinStep {
    match name {
        NameState::Own => JoinStep::Grant,
        NameState::Waiting => JoinStep::Wait(ASK_PERSON_AGAIN),
        NameState::Leaving => JoinStep::Wait(ASK_LEAVING_AGAIN),
        NameState::Full => JoinStep::WaitForRoom,
        NameState::Taken => JoinStep::Refuse,
        NameState::Held => JoinStep::WriteRequest,
        NameState::Free => JoinStep::MakeCluster,
    }
}

/// What is kept on a Cluster of a key that waits for a person.
pub fn key_request(candidate: &Candidate<'_>, now: Timestamp) -> keys::KeyRequest {
    keys::KeyRequest {
        key: candidate.key.to_owned(),
        uid: candidate.uid.to_owned(),
        since: karmada_schema::time::seconds(now),
        refused: false,
    }
}

/// The namespace of a cluster's Works, as it is made where it is missing.
pub fn new_execution_namespace(cluster: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": names::execution_namespace(cluster), "labels": {labels::SYSTEM: "true"}}})
}

/// The Cluster that a join makes; where nobody `approved` it, the key waits on it.
pub fn new_cluster(candidate: &Candidate<'_>, approved: bool, now: Timestamp) -> Value {
    let mut object = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": candidate.name}, "spec": {"syncMode": "Pull", "id": candidate.uid},
    });
    let told = topology::Told {
        provider: candidate.provider.to_owned(),
        region: candidate.region.to_owned(),
        zones: candidate.zones.to_vec(),
    };
    if let Some(told) = topology::filled(&object, &told) {
        object = told;
    }
    if approved {
        keys::give(&mut object, &[candidate.key]);
    } else {
        keys::hold_back(&mut object);
        keys::ask(&mut object, key_request(candidate, now));
    }
    object
}

/// Whether the key may renew, and which keys hold the name then: the new one, and the one that asked.
///
/// # Errors
/// In words for the asker: the cluster is being removed, or was given to another key.
pub fn renewed(cluster: &Value, held: &str, new: &str) -> Result<Option<Value>, &'static str> {
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return Err("the cluster is being removed from the fleet");
    }
    if !keys::holds(cluster, held) {
        return Err("the cluster was given to another key since");
    }
    if new == held {
        return Ok(None);
    }
    let mut changed = cluster.clone();
    keys::give(&mut changed, &[new, held]);
    Ok(Some(changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(cluster: &Value, key: &str, connected: bool) -> NameState {
        name_state(Some(cluster), key, connected)
    }

    #[test]
    fn a_name_is_never_handed_on_by_who_asks() {
        let mut cluster = json!({"metadata": {"name": "north"}});
        keys::give(&mut cluster, &["k1"]);
        for (key, connected, expected) in [
            ("k1", true, NameState::Own),
            ("k1", false, NameState::Own),
            ("k2", true, NameState::Taken),
            ("k2", false, NameState::Held),
        ] {
            assert_eq!(state(&cluster, key, connected), expected, "{key}, connected: {connected}");
        }
        let ask = |key: &str| keys::KeyRequest {
            key: key.to_owned(),
            uid: String::new(),
            since: String::new(),
            refused: false,
        };
        assert!(keys::ask(&mut cluster, ask("k2")));
        assert_eq!(
            state(&cluster, "k2", true),
            NameState::Waiting,
            "a person decides about it, whoever is connected"
        );
        for further in 3.. {
            if !keys::ask(&mut cluster, ask(&format!("k{further}"))) {
                break;
            }
        }
        assert_eq!(state(&cluster, "one too many", false), NameState::Full);
        cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(state(&cluster, "k1", true), NameState::Leaving, "whoever held it");
        assert_eq!(name_state(None, "k1", false), NameState::Free);
    }

    #[test]
    fn only_a_free_name_makes_a_cluster_and_only_its_holder_is_granted_it_again() {
        let steps = [
            (NameState::Free, JoinStep::MakeCluster),
            (NameState::Own, JoinStep::Grant),
            (NameState::Held, JoinStep::WriteRequest),
            (NameState::Waiting, JoinStep::Wait(ASK_PERSON_AGAIN)),
            (NameState::Leaving, JoinStep::Wait(ASK_LEAVING_AGAIN)),
            (NameState::Full, JoinStep::WaitForRoom),
            (NameState::Taken, JoinStep::Refuse),
        ];
        for (name, step) in steps {
            assert_eq!(join_step(name), step, "{name:?}");
        }
    }

    #[test]
    fn a_new_cluster_says_what_its_agent_said_and_is_held_until_it_is_approved() {
        let zones = ["a".to_owned()];
        let candidate =
            Candidate { name: "north", uid: "u", key: "k", provider: "", region: "eu", zones: &zones };
        let approved = new_cluster(&candidate, true, Timestamp::UNIX_EPOCH);
        assert_eq!(approved["spec"], json!({"syncMode": "Pull", "id": "u", "region": "eu", "zones": ["a"]}));
        let noted = &approved["metadata"]["annotations"][karmada_api::strings::annotations::TOPOLOGY_SAID];
        assert_eq!(noted, "region,zones", "in the one write that makes it");
        assert!(keys::holds(&approved, "k") && keys::requests(&approved).is_empty());
        let waits = new_cluster(&candidate, false, Timestamp::UNIX_EPOCH);
        assert!(!keys::holds(&waits, "k"));
        assert_eq!(keys::requests(&waits), [key_request(&candidate, Timestamp::UNIX_EPOCH)]);
        assert_eq!(waits["spec"]["taints"][0]["key"], keys::UNAPPROVED);
    }

    #[test]
    fn only_the_key_that_holds_renews() {
        let mut cluster = json!({"metadata": {"name": "north"}});
        keys::give(&mut cluster, &["k2", "k1"]);
        let after = |held: &str, new: &str| {
            let changed = renewed(&cluster, held, new)?;
            Ok::<_, &str>(
                changed.map(|c| c["metadata"]["annotations"][keys::KEY].as_str().unwrap().to_owned()),
            )
        };
        assert_eq!(after("k2", "k2"), Ok(None), "the same key: nothing to write");
        assert_eq!(after("k2", "k3"), Ok(Some("k3,k2".to_owned())));
        assert!(after("k0", "k3").is_err() && after("k0", "k0").is_err(), "a stale session renews nothing");
        let mut leaving = cluster.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(renewed(&leaving, "k2", "k2").is_err());
    }
}
