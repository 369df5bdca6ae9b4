//! What the watches told of objects while their Work was being worked on. Pure.
//!
//! In: what a watch tells meanwhile, and then the member's answer to the write. Out: which of the two is the newer. An answer
//! may come late: a controller of the member can have written its status, and the watch told of it, before the answer is
//! read. Taken for the newest then, it would put back a status that nothing corrects any more.

use std::collections::BTreeMap;

use karmada_api::object;
use serde_json::Value;

use crate::member::ObjectId;

/// The objects that watches told of.
#[derive(Debug, Default)]
pub struct ObservedDuringWrite {
    told: BTreeMap<ObjectId, Observation>,
}

#[derive(Debug)]
enum Observation {
    /// The object's digest and version.
    Here(u64, String),
    Gone,
}

/// What the member's answer is worth beside what the watch told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing newer is known.
    Newest,
    /// The watch told of a newer state that differs in nothing but status.
    Overtaken,
    /// The watch told of a newer state that somebody changed, or of none, or of one that cannot be compared: look again.
    Doubtful,
}

impl ObservedDuringWrite {
    /// Work on the object begins: what was told before is of no account.
    pub fn begins(&mut self, id: &ObjectId) {
        self.told.remove(id);
    }

    /// A watch told of the object.
    pub fn here(&mut self, id: &ObjectId, digest: u64, observed: &Value) {
        let told = Observation::Here(digest, object::resource_version(observed).to_owned());
        self.told.insert(id.clone(), told);
    }

    /// A watch told that the object is no longer there.
    pub fn gone(&mut self, id: &ObjectId) {
        self.told.insert(id.clone(), Observation::Gone);
    }

    /// The member answered with `answer`, whose digest is `digest`.
    pub fn answered(&mut self, id: &ObjectId, digest: u64, answer: &Value) -> Answer {
        match self.told.remove(id) {
            None => Answer::Newest,
            Some(Observation::Gone) => Answer::Doubtful,
            Some(Observation::Here(seen, version)) => {
                let answered = counted(object::resource_version(answer));
                match counted(&version).zip(answered) {
                    Some((seen, answered)) if seen <= answered => Answer::Newest,
                    _ if seen == digest => Answer::Overtaken,
                    _ => Answer::Doubtful,
                }
            }
        }
    }
}

/// Versions of one kind are numbers that grow, as every kube-apiserver makes them (KEP-5504 promises it).
fn counted(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::member_body;
    use serde_json::json;

    #[test]
    fn the_newer_of_watch_and_answer_counts() {
        let config = |version: &str, value: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value},
                "metadata": {"name": "a", "namespace": "d", "resourceVersion": version}})
        };
        let answer = config("100", "ours");
        let id = ObjectId::of(&answer);
        let judged = |told: Option<Value>| {
            let mut meanwhile = ObservedDuringWrite::default();
            match told {
                Some(Value::Null) => meanwhile.gone(&id),
                Some(told) => meanwhile.here(&id, member_body::digest(&told), &told),
                None => {}
            }
            meanwhile.answered(&id, member_body::digest(&answer), &answer)
        };
        assert_eq!(judged(None), Answer::Newest);
        assert_eq!(judged(Some(config("99", "theirs"))), Answer::Newest, "what our write replaced");
        assert_eq!(judged(Some(config("100", "ours"))), Answer::Newest);
        assert_eq!(judged(Some(config("101", "ours"))), Answer::Overtaken);
        assert_eq!(judged(Some(config("101", "theirs"))), Answer::Doubtful);
        assert_eq!(judged(Some(config("opaque", "ours"))), Answer::Overtaken, "the watch tells again");
        assert_eq!(judged(Some(config("opaque", "theirs"))), Answer::Doubtful);
        assert_eq!(judged(Some(Value::Null)), Answer::Doubtful);
        let mut meanwhile = ObservedDuringWrite::default();
        meanwhile.gone(&id);
        meanwhile.begins(&id);
        assert_eq!(meanwhile.answered(&id, member_body::digest(&answer), &answer), Answer::Newest);
    }
}
