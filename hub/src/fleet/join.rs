//! What a join or a renewal is to come to. Pure, but for who writes it.
//!
//! In: what an agent asks, the Cluster of that name as it is, whether its agent is connected, the time. Out: what the name is to
//! the asker, the Cluster that a join makes, the keys that a renewal leaves.

use jiff::Timestamp;
use karmada_gateway::ports::JoinAsk;
use karmada_registry::{Origin, User, WriteOptions};
use serde_json::{Value, json};

use super::keys::{self, KeyState};

/// What a name is to who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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

/// What the name of a Cluster is to who asks with `key`. `connected`: whether an agent of that name is.
pub(super) fn place(cluster: &Value, key: &str, connected: bool) -> Place {
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return Place::Leaving;
    }
    match keys::state(cluster, key) {
        KeyState::Holder => Place::Own,
        KeyState::Waiting => Place::Waiting,
        KeyState::Refused => Place::Taken,
        KeyState::Stranger if connected => Place::Taken,
        KeyState::Stranger if keys::is_full(cluster) => Place::Full,
        KeyState::Stranger => Place::Held,
    }
}

/// What is kept on a Cluster of a key that waits for a person.
pub(super) fn request(ask: &JoinAsk, now: Timestamp) -> keys::Request {
    keys::Request {
        key: ask.request.key_fingerprint.clone(),
        uid: ask.cluster_uid.clone(),
        since: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        refused: false,
    }
}

/// The Cluster that a join makes; where nobody `approved` it, the key waits on it.
pub(super) fn new_cluster(ask: &JoinAsk, approved: bool, now: Timestamp) -> Value {
    let mut object = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": ask.cluster_name}, "spec": {"syncMode": "Pull", "id": ask.cluster_uid},
    });
    for (field, value) in [("provider", &ask.provider), ("region", &ask.region)] {
        if !value.is_empty() {
            object["spec"][field] = json!(value);
        }
    }
    if !ask.zones.is_empty() {
        object["spec"]["zones"] = json!(ask.zones);
    }
    if approved {
        keys::give(&mut object, &[&ask.request.key_fingerprint]);
    } else {
        keys::hold_back(&mut object);
        keys::ask(&mut object, request(ask, now));
    }
    object
}

/// Whether the key may renew, and which keys hold the name then: the new one, and the one that asked.
pub(super) fn renewed(cluster: &Value, held: &str, new: &str) -> Result<Option<Value>, &'static str> {
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

/// As whom joins, renewals and uses of tokens are written.
pub(super) fn write_options() -> WriteOptions {
    let user = User {
        name: "system:karmada:registrar".to_owned(),
        groups: vec!["system:masters".to_owned()],
        origin: Origin::Hub,
        ..User::default()
    };
    WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_handed_on_by_who_asks() {
        let mut cluster = json!({"metadata": {"name": "north"}});
        keys::give(&mut cluster, &["k1"]);
        for (key, connected, expected) in [
            ("k1", true, Place::Own),
            ("k1", false, Place::Own),
            ("k2", true, Place::Taken),
            ("k2", false, Place::Held),
        ] {
            assert_eq!(place(&cluster, key, connected), expected, "{key}, connected: {connected}");
        }
        let ask = |key: &str| keys::Request {
            key: key.to_owned(),
            uid: String::new(),
            since: String::new(),
            refused: false,
        };
        assert!(keys::ask(&mut cluster, ask("k2")));
        assert_eq!(
            place(&cluster, "k2", true),
            Place::Waiting,
            "a person decides about it, whoever is connected"
        );
        for further in 3.. {
            if !keys::ask(&mut cluster, ask(&format!("k{further}"))) {
                break;
            }
        }
        assert_eq!(place(&cluster, "one too many", false), Place::Full);
        cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(place(&cluster, "k1", true), Place::Leaving, "whoever held it");
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
