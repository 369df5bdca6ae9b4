//! Which Works belong to which binding.
//!
//! In: changes of Works. Out: for a binding's permanent id, the keys of its Works, and whether any of them changed. Level-triggered like
//! everything: a key may be stale for a moment, and whoever reads it looks the Work up.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use karmada_api::strings::labels;
use parking_lot::RwLock;

use crate::port::{Change, Key, Object};

/// The index.
#[derive(Default)]
pub struct WorksIndex {
    /// By binding: each Work with the revision that it was seen at.
    by_binding: RwLock<BTreeMap<String, BTreeMap<Key, u64>>>,
}

/// The permanent id of the binding that an object says it is, or is for.
pub fn binding_id(object: &Object) -> Option<&str> {
    let label = |name: &str| object.labels.get(name).map(String::as_str);
    label(labels::RESOURCE_BINDING_ID).or_else(|| label(labels::CLUSTER_RESOURCE_BINDING_ID))
}

impl WorksIndex {
    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        match change {
            Change::Applied(work) => {
                let Some(id) = binding_id(work) else { return };
                let mut index = self.by_binding.write();
                if !index.contains_key(id) {
                    index.insert(id.to_owned(), BTreeMap::new());
                }
                if let Some(works) = index.get_mut(id) {
                    // Who made the Work tells of it too, perhaps later than the watch tells what became of it since.
                    let seen = works.entry(work.key.clone()).or_default();
                    *seen = work.revision.max(*seen);
                }
            }
            Change::Deleted(work) => {
                let mut index = self.by_binding.write();
                let forget = |works: &mut BTreeMap<Key, u64>| {
                    works.remove(&work.key);
                    !works.is_empty()
                };
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

    /// A Work that was told of late was gone by then. One of its name that came since stays.
    pub fn forget(&self, work: &Object) {
        let Some(id) = binding_id(work) else { return };
        let mut index = self.by_binding.write();
        if let Some(works) = index.get_mut(id)
            && works.get(&work.key).is_some_and(|seen| *seen <= work.revision)
        {
            works.remove(&work.key);
            if works.is_empty() {
                index.remove(id);
            }
        }
    }

    /// The Works of a binding.
    pub fn of(&self, binding_id: &str) -> Vec<Key> {
        let index = self.by_binding.read();
        index.get(binding_id).map(|works| works.keys().cloned().collect()).unwrap_or_default()
    }

    /// The Works of a binding, each with the revision that it was seen at.
    pub fn seen(&self, binding_id: &str) -> Vec<(Key, u64)> {
        let index = self.by_binding.read();
        let works = index.get(binding_id).into_iter().flatten();
        works.map(|(key, revision)| (key.clone(), *revision)).collect()
    }

    /// A digest of the Works of a binding: equal ones mean that none came, changed or went.
    pub fn digest(&self, binding_id: &str) -> u64 {
        let mut digest = DefaultHasher::new();
        self.by_binding.read().get(binding_id).hash(&mut digest);
        digest.finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn work(revision: u64) -> std::sync::Arc<Object> {
        std::sync::Arc::new(Object {
            key: Key { namespace: "karmada-es-a".into(), name: "w".into() },
            uid: "u".into(),
            revision,
            generation: 1,
            deleting: false,
            marks: 0,
            labels: BTreeMap::from([(labels::RESOURCE_BINDING_ID.to_owned(), "id".to_owned())]),
            source: std::sync::Arc::new(Bytes::new()),
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

    #[test]
    fn what_was_gone_when_it_was_told_of_is_forgotten() {
        let index = WorksIndex::default();
        index.observe(&Change::Deleted(work(6)));
        index.observe(&Change::Applied(work(5)));
        index.forget(&work(5));
        assert!(index.of("id").is_empty());
    }
}
