//! Which Works belong to which binding.
//!
//! In: changes of Works. Out: for a binding's permanent id, the keys of its Works, and whether any of them changed. Level-triggered like
//! everything: a key may be stale for a moment, and whoever reads it looks the Work up.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use karmada_api::strings::labels;
use parking_lot::RwLock;

use karmada_controller_runtime::port::{Change, Key, Object};

/// The index.
#[derive(Default)]
pub struct WorksIndex(RwLock<Works>);

#[derive(Default)]
struct Works {
    by_binding: BTreeMap<String, BTreeMap<Key, SeenWork>>,
    /// How many changes there were.
    changes: u64,
}

/// What is known of one Work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct SeenWork {
    /// The newest revision that was told of it.
    revision: u64,
    /// The number of that change. Revisions of several Works are not told in order: the index numbers what it is told.
    change: u64,
}

/// The permanent id of the binding that an object says it is, or is for.
pub fn binding_id(object: &Object) -> Option<&str> {
    let label = |name: &str| object.labels.get(name).map(String::as_str);
    label(labels::RESOURCE_BINDING_ID).or_else(|| label(labels::CLUSTER_RESOURCE_BINDING_ID))
}

impl WorksIndex {
    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        let works = &mut *self.0.write();
        match change {
            Change::Applied(work) => works.applied(work),
            Change::Deleted(work) => {
                let forget = |works: &mut BTreeMap<Key, SeenWork>| {
                    works.remove(&work.key);
                    !works.is_empty()
                };
                let index = &mut works.by_binding;
                match binding_id(work) {
                    Some(id) => {
                        if index.get_mut(id).is_some_and(|works| !forget(works)) {
                            index.remove(id);
                        }
                    }
                    // Of a deletion that no watch saw only the key is known.
                    None => index.retain(|_, works| forget(works)),
                }
            }
        }
    }

    /// Takes a Work out that does not exist any more: its last change was told after its deletion. A newer Work of the same name stays in.
    pub fn forget(&self, work: &Object) {
        let Some(id) = binding_id(work) else { return };
        let index = &mut self.0.write().by_binding;
        if let Some(works) = index.get_mut(id)
            && works.get(&work.key).is_some_and(|seen| seen.revision <= work.revision)
        {
            works.remove(&work.key);
            if works.is_empty() {
                index.remove(id);
            }
        }
    }

    /// The Works of a binding.
    pub fn of(&self, binding_id: &str) -> Vec<Key> {
        let index = self.0.read();
        index.by_binding.get(binding_id).map(|works| works.keys().cloned().collect()).unwrap_or_default()
    }

    /// How many Works a binding has.
    pub fn count(&self, binding_id: &str) -> usize {
        self.0.read().by_binding.get(binding_id).map_or(0, BTreeMap::len)
    }

    /// How many changes there were, and the Works of a binding, each with the number of its last: what is changed later has a higher one.
    pub fn seen(&self, binding_id: &str) -> (u64, Vec<(Key, u64)>) {
        let index = self.0.read();
        let works = index.by_binding.get(binding_id).into_iter().flatten();
        (index.changes, works.map(|(key, seen)| (key.clone(), seen.change)).collect())
    }

    /// A digest of the Works of a binding: equal ones mean that none came, changed or went.
    pub fn digest(&self, binding_id: &str) -> u64 {
        let mut digest = DefaultHasher::new();
        self.0.read().by_binding.get(binding_id).hash(&mut digest);
        digest.finish()
    }
}

impl Works {
    fn applied(&mut self, work: &Object) {
        let Some(id) = binding_id(work) else { return };
        if !self.by_binding.contains_key(id) {
            self.by_binding.insert(id.to_owned(), BTreeMap::new());
        }
        let Some(works) = self.by_binding.get_mut(id) else { return };
        let seen = works.entry(work.key.clone()).or_default();
        // Who made the Work tells of it too, perhaps later than the watch tells what became of it since.
        if work.revision > seen.revision || seen.change == 0 {
            self.changes += 1;
            *seen = SeenWork { revision: work.revision, change: self.changes };
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn work(revision: u64) -> std::sync::Arc<Object> {
        named("w", revision)
    }

    fn named(name: &str, revision: u64) -> std::sync::Arc<Object> {
        std::sync::Arc::new(Object {
            key: Key { namespace: "karmada-es-a".into(), name: name.into() },
            uid: "u".into(),
            revision,
            generation: 1,
            deleting: false,
            metadata_digest: 0,
            labels: BTreeMap::from([(labels::RESOURCE_BINDING_ID.to_owned(), "id".to_owned())]),
            json_source: std::sync::Arc::new(Bytes::new()),
        })
    }

    #[test]
    fn what_is_told_late_hides_nothing_newer() {
        let index = WorksIndex::default();
        index.observe(&Change::Applied(work(5)));
        let made = index.digest("id");
        index.observe(&Change::Applied(work(7)));
        let reported = index.digest("id");
        index.observe(&Change::Applied(work(5)));
        assert_eq!(index.digest("id"), reported);
        assert_ne!(made, reported);
        index.forget(&work(5));
        assert_eq!(index.digest("id"), reported);
    }

    /// One's own write is told at once, and the watch comes after it with what was written before.
    #[test]
    fn what_is_told_later_has_a_higher_number_whatever_its_revision() {
        let index = WorksIndex::default();
        index.observe(&Change::Applied(named("late", 80)));
        index.observe(&Change::Applied(named("own", 100)));
        let (told, _) = index.seen("id");
        assert!(index.seen("id").1.iter().all(|(_, change)| *change <= told));
        index.observe(&Change::Applied(named("late", 97)));
        let later: Vec<String> = index
            .seen("id")
            .1
            .into_iter()
            .filter(|(_, n)| *n > told)
            .map(|(key, _)| key.name.to_string())
            .collect();
        assert_eq!(later, ["late"]);
    }

    #[test]
    fn what_was_gone_when_it_was_told_of_is_forgotten() {
        let index = WorksIndex::default();
        index.observe(&Change::Deleted(work(6)));
        index.observe(&Change::Applied(work(5)));
        index.forget(&work(5));
        assert!(index.of("id").is_empty());
    }
}
