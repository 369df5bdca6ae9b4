//! What was told of one resource so far, and what of a change is news.
//!
//! In: changes as a watch brings them, and lists. Out: what there is to tell. Only keys, uids and digests are remembered: objects live in
//! the hub's cache, not here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::port::{Change, Key, Object, Resource};

/// What a handler wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Every change.
    All,
    /// No change of nothing but the status. Of kinds without a generation, every change.
    ButStatus,
    /// Changes of nothing but the status alone. Of kinds without a generation, none.
    OnlyStatus,
}

impl Notice {
    /// Whether a change is one of those; `is_status_only` where nothing but the status may differ.
    pub fn wants(self, is_status_only: bool) -> bool {
        match self {
            Notice::All => true,
            Notice::ButStatus => !is_status_only,
            Notice::OnlyStatus => is_status_only,
        }
    }
}

/// One change, and how much of the object it may have changed.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) change: Change,
    /// Nothing but the status may differ.
    pub(super) is_status_only: bool,
}

impl Delta {
    fn whole(change: Change) -> Delta {
        Delta { change, is_status_only: false }
    }
}

/// What was told of a resource so far: keys, and how each object stood.
#[derive(Default)]
pub(super) struct Known(BTreeMap<Key, Seen>);

/// An object as it was last told.
struct Seen {
    uid: Arc<str>,
    revision: u64,
    generation: i64,
    metadata_digest: u64,
    deleting: bool,
}

impl Seen {
    fn of(object: &Object) -> Seen {
        let Object { uid, revision, generation, metadata_digest: marks, deleting, .. } = object;
        Seen {
            uid: uid.clone(),
            revision: *revision,
            generation: *generation,
            metadata_digest: *marks,
            deleting: *deleting,
        }
    }

    /// Whether nothing but the status may differ.
    fn differs_in_status_only(&self, object: &Object) -> bool {
        self.generation != 0
            && (self.generation, self.metadata_digest, self.deleting)
                == (object.generation, object.metadata_digest, object.deleting)
    }
}

impl Known {
    /// Takes one change in; returns what there is to tell, in order. An object that came back under another uid was deleted in
    /// between; one that was told as it is is not told again.
    pub(super) fn take(&mut self, resource: &Resource, change: Change) -> [Option<Delta>; 2] {
        match change {
            Change::Applied(object) => {
                let before = self.0.insert(object.key.clone(), Seen::of(&object));
                match before {
                    Some(before) if before.uid == object.uid => {
                        let again = before.revision != 0 && before.revision == object.revision;
                        let is_status_only = before.differs_in_status_only(&object);
                        [None, (!again).then_some(Delta { change: Change::Applied(object), is_status_only })]
                    }
                    before => {
                        let gone = before.map(|before| tombstone(resource, &object.key, &before.uid));
                        [gone.map(Delta::whole), Some(Delta::whole(Change::Applied(object)))]
                    }
                }
            }
            Change::Deleted(object) => {
                let known = self.0.remove(&object.key).is_some();
                [None, known.then(|| Delta::whole(Change::Deleted(object)))]
            }
        }
    }

    /// A deletion of every object that is known.
    pub(super) fn tombstones(&self, resource: &Resource) -> Vec<Delta> {
        self.0.iter().map(|(key, seen)| Delta::whole(tombstone(resource, key, &seen.uid))).collect()
    }

    /// Forgets every key that `present` lacks; returns tombstones for them.
    pub(super) fn lost(&mut self, resource: &Resource, present: &[Arc<Object>]) -> Vec<Delta> {
        let mut gone = std::mem::take(&mut self.0);
        for object in present {
            if let Some(seen) = gone.remove(&object.key) {
                self.0.insert(object.key.clone(), seen);
            }
        }
        gone.iter().map(|(key, seen)| Delta::whole(tombstone(resource, key, &seen.uid))).collect()
    }
}

fn tombstone(resource: &Resource, key: &Key, uid: &Arc<str>) -> Change {
    let mut metadata = json!({"name": &*key.name, "uid": &**uid});
    if !key.namespace.is_empty() {
        metadata["namespace"] = json!(&*key.namespace);
    }
    let json = json!({"apiVersion": resource.api_version(), "kind": &*resource.kind, "metadata": metadata});
    Change::Deleted(Arc::new(Object {
        key: key.clone(),
        uid: uid.clone(),
        revision: 0,
        generation: 0,
        deleting: true,
        metadata_digest: 0,
        labels: BTreeMap::new(),
        json_source: Arc::new(Bytes::from(json.to_string())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        Resource {
            group: "".into(),
            version: "v1".into(),
            plural: "pods".into(),
            kind: "Pod".into(),
            namespaced: true,
        }
    }

    fn pod(name: &str, uid: &str) -> Arc<Object> {
        let key = Key { namespace: "n".into(), name: name.into() };
        match tombstone(&resource(), &key, &uid.into()) {
            Change::Applied(object) | Change::Deleted(object) => object,
        }
    }

    fn words(told: &Delta) -> String {
        match &told.change {
            Change::Applied(o) => format!("+{}/{}", o.key.name, o.uid),
            Change::Deleted(o) => format!("-{}/{}", o.key.name, o.uid),
        }
    }

    #[test]
    fn deletions_that_no_watch_saw_are_told_by_key_and_uid() {
        let mut known = Known::default();
        let mut heard = Vec::new();
        let take = |known: &mut Known, heard: &mut Vec<String>, change| {
            heard.extend(known.take(&resource(), change).iter().flatten().map(words));
        };
        for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
            take(&mut known, &mut heard, Change::Applied(pod(name, uid)));
        }
        // The watch ended; a is gone, b came back as another object.
        let present = [pod("b", "9"), pod("c", "3")];
        heard.extend(known.lost(&resource(), &present).iter().map(words));
        for object in present {
            take(&mut known, &mut heard, Change::Applied(object));
        }
        take(&mut known, &mut heard, Change::Deleted(pod("c", "3")));
        take(&mut known, &mut heard, Change::Deleted(pod("c", "3")));
        assert_eq!(heard, ["+a/1", "+b/2", "+c/3", "-a/1", "-b/2", "+b/9", "+c/3", "-c/3"]);
    }

    fn object(generation: i64, marks: u64, uid: &str, revision: u64) -> Change {
        let mut object = Arc::into_inner(pod("a", uid)).unwrap();
        (object.generation, object.metadata_digest, object.revision) = (generation, marks, revision);
        object.deleting = false;
        Change::Applied(Arc::new(object))
    }

    #[test]
    fn a_change_of_the_status_alone_is_told_to_those_who_want_it() {
        let told = |before: Change, after: Change| {
            let mut known = Known::default();
            known.take(&resource(), before);
            let [_, told] = known.take(&resource(), after);
            let is_status_only = told.unwrap().is_status_only;
            [Notice::All, Notice::ButStatus, Notice::OnlyStatus].map(|notice| notice.wants(is_status_only))
        };
        assert_eq!(told(object(1, 7, "1", 1), object(1, 7, "1", 2)), [true, false, true], "status");
        for (what, after) in [
            ("spec", object(2, 7, "1", 2)),
            ("labels", object(1, 8, "1", 2)),
            ("another object", object(1, 7, "2", 2)),
        ] {
            assert_eq!(told(object(1, 7, "1", 1), after), [true, true, false], "{what}");
        }
        let without = told(object(0, 7, "1", 1), object(0, 7, "1", 2));
        assert_eq!(without, [true, true, false], "a kind without generation");
    }

    #[test]
    fn what_was_told_as_it_is_is_not_told_again() {
        let mut known = Known::default();
        known.take(&resource(), object(1, 7, "1", 5));
        assert!(known.take(&resource(), object(1, 7, "1", 5)).iter().all(Option::is_none));
        assert!(known.take(&resource(), object(1, 7, "1", 6))[1].is_some());
    }
}
