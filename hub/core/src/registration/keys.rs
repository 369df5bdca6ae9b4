//! Which key holds a cluster's name, and which ask for it: as it is written on the Cluster.
//!
//! Pure. In: a Cluster, a key that asks, or what a person decided. Out: the Cluster changed. A key that holds a name is replaced by a
//! person's decision alone ([`ADOPT`]); the keys that ask wait on the Cluster where people see them ([`REQUESTS`]), a few at most,
//! and none takes another's place until it was decided about.

use karmada_schema::object::meta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which keys the Cluster's identity was given to: the newest, and, after a renewal, the one before it, which an agent that
/// crashed before it stored the new one still holds. Fingerprints, divided by a comma.
pub const KEY: &str = "edge.karmada.io/agent-key";

/// The keys that ask for the name: a JSON list of [`KeyRequest`].
pub const REQUESTS: &str = "edge.karmada.io/key-request";

/// A person's decision: the fingerprint of the key that gets the name.
pub const ADOPT: &str = "edge.karmada.io/adopt-key";

/// A person's decision: the fingerprint of the key that does not, or `*` for all that wait.
pub const REFUSE: &str = "edge.karmada.io/refuse-key";

/// On a Cluster that no key holds yet: nothing is placed there.
pub const UNAPPROVED: &str = "edge.karmada.io/unapproved";

/// Requests that a Cluster holds at most.
const MOST: usize = 4;

/// One key that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRequest {
    /// The key's fingerprint.
    pub key: String,
    /// The uid of the member that it says it is in.
    pub uid: String,
    /// Since when it asks, RFC 3339.
    pub since: String,
    /// Whether a person said no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// What a key is to a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It holds the name.
    Holder,
    /// It waits for a decision.
    Waiting,
    /// A person refused it.
    Refused,
    /// It is not known here.
    Stranger,
}

fn note<'a>(cluster: &'a Value, key: &str) -> &'a str {
    cluster["metadata"]["annotations"][key].as_str().unwrap_or("")
}

/// Whether the key holds the name.
pub fn holds(cluster: &Value, key: &str) -> bool {
    !key.is_empty() && note(cluster, KEY).split(',').any(|held| held == key)
}

/// The keys that ask. What somebody wrote there that is none, is none.
pub fn requests(cluster: &Value) -> Vec<KeyRequest> {
    serde_json::from_str(note(cluster, REQUESTS)).unwrap_or_default()
}

/// What a key is to a Cluster.
pub fn state(cluster: &Value, key: &str) -> KeyState {
    if holds(cluster, key) {
        return KeyState::Holder;
    }
    match requests(cluster).iter().find(|request| request.key == key) {
        Some(request) if request.refused => KeyState::Refused,
        Some(_) => KeyState::Waiting,
        None => KeyState::Stranger,
    }
}

/// Writes down that a key asks. False where there is no room: those that wait are not pushed out, those that were refused are.
pub fn ask(cluster: &mut Value, request: KeyRequest) -> bool {
    let mut all = requests(cluster);
    if all.len() >= MOST {
        let Some(decided) = all.iter().position(|request| request.refused) else { return false };
        all.remove(decided);
    }
    all.push(request);
    write(cluster, &all);
    true
}

/// Whether as many keys ask as are kept, and none of them is decided about.
pub fn is_full(cluster: &Value) -> bool {
    let all = requests(cluster);
    all.len() >= MOST && !all.iter().any(|request| request.refused)
}

/// Gives the name to keys: the newest first.
pub fn give(cluster: &mut Value, keys: &[&str]) {
    annotate(cluster, KEY, Some(keys.join(",")));
}

/// Marks a new Cluster as one that waits for a person.
pub fn hold_back(cluster: &mut Value) {
    cluster["spec"]["taints"] = json!([{"key": UNAPPROVED, "effect": "NoSchedule"}]);
}

/// Carries out what people decided; `None` where nothing is to be. A decision about a key that does not ask is dropped.
pub fn carry_out(cluster: &Value) -> Option<Value> {
    let (adopt, refuse) = (note(cluster, ADOPT).to_owned(), note(cluster, REFUSE).to_owned());
    if adopt.is_empty() && refuse.is_empty() {
        return None;
    }
    let mut changed = cluster.clone();
    let mut all = requests(cluster);
    for request in &mut all {
        request.refused |= refuse == "*" || request.key == refuse;
    }
    if let Some(at) = all.iter().position(|request| request.key == adopt) {
        let adopted = all.remove(at);
        give(&mut changed, &[&adopted.key]);
        changed["spec"]["id"] = json!(adopted.uid);
        if let Some(taints) = changed["spec"]["taints"].as_array_mut() {
            taints.retain(|taint| taint["key"] != UNAPPROVED);
        }
    }
    write(&mut changed, &all);
    annotate(&mut changed, ADOPT, None);
    annotate(&mut changed, REFUSE, None);
    Some(changed)
}

fn write(cluster: &mut Value, all: &[KeyRequest]) {
    let text = (!all.is_empty()).then(|| json!(all).to_string());
    annotate(cluster, REQUESTS, text);
}

fn annotate(cluster: &mut Value, key: &str, text: Option<String>) {
    let annotations = meta::of(cluster).entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    match text {
        Some(text) => annotations[key] = json!(text),
        None => {
            annotations.as_object_mut().and_then(|all| all.remove(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(key: &str) -> Value {
        json!({"metadata": {"name": "north", "annotations": {KEY: key}}, "spec": {"id": "u1"}})
    }

    fn request(key: &str) -> KeyRequest {
        KeyRequest { key: key.into(), uid: format!("u-{key}"), since: "t".into(), refused: false }
    }

    fn decided(cluster: &Value, what: &str, key: &str) -> Value {
        let mut cluster = cluster.clone();
        cluster["metadata"]["annotations"][what] = json!(key);
        carry_out(&cluster).unwrap()
    }

    #[test]
    fn a_name_changes_hands_by_a_decision_alone() {
        let mut held = cluster("k1,k0");
        assert!(holds(&held, "k1") && holds(&held, "k0") && !holds(&held, "k2") && !holds(&held, ""));
        assert!(!holds(&json!({}), "") && !holds(&cluster(""), ""), "nobody is no key");
        assert!(ask(&mut held, request("k2")));
        assert_eq!((state(&held, "k2"), state(&held, "k1")), (KeyState::Waiting, KeyState::Holder));
        assert_eq!(carry_out(&held), None, "nothing is decided");
        let given = decided(&held, ADOPT, "k2");
        assert_eq!((state(&given, "k2"), state(&given, "k1")), (KeyState::Holder, KeyState::Stranger));
        assert_eq!(
            (&given["spec"]["id"], note(&given, KEY), note(&given, REQUESTS)),
            (&json!("u-k2"), "k2", "")
        );
        assert_eq!(carry_out(&given), None, "a decision is carried out once");
        let refused = decided(&held, REFUSE, "k2");
        assert_eq!((state(&refused, "k2"), holds(&refused, "k1")), (KeyState::Refused, true));
        assert_eq!(
            state(&decided(&refused, ADOPT, "k2"), "k2"),
            KeyState::Holder,
            "people change their minds"
        );
        let other = decided(&held, ADOPT, "k9");
        assert_eq!((note(&other, KEY), state(&other, "k2")), ("k1,k0", KeyState::Waiting), "k9 does not ask");
    }

    #[test]
    fn few_wait_and_none_is_pushed_out() {
        let mut held = cluster("k1");
        for key in ["a", "b", "c", "d"] {
            assert!(ask(&mut held, request(key)));
        }
        assert!(!ask(&mut held, request("e")));
        assert_eq!(requests(&held).len(), MOST);
        held = decided(&held, REFUSE, "b");
        assert!(ask(&mut held, request("e")) && !ask(&mut held, request("f")));
        assert_eq!(state(&held, "a"), KeyState::Waiting);
        held = decided(&held, REFUSE, "*");
        assert!(requests(&held).iter().all(|request| request.refused));
        held["metadata"]["annotations"][REQUESTS] = json!("no list");
        assert!(requests(&held).is_empty() && ask(&mut held, request("a")));
    }

    #[test]
    fn an_unapproved_cluster_is_held_back_until_its_key_is_adopted() {
        let mut new = json!({"metadata": {"name": "north"}, "spec": {"id": "u"}});
        hold_back(&mut new);
        assert!(ask(&mut new, request("k1")) && !holds(&new, "k1"));
        assert_eq!(new["spec"]["taints"][0]["key"], UNAPPROVED);
        let given = decided(&new, ADOPT, "k1");
        assert!(holds(&given, "k1"));
        assert_eq!(given["spec"]["taints"], json!([]));
    }
}
