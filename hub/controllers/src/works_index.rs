//! Which Works belong to which binding: kept by whoever watches Works, read by the controllers of bindings.
//!
//! In: changes of Works. Out: for a binding's permanent id, the keys of its Works. Level-triggered like everything: a key may be
//! stale for a moment, and whoever reads it looks the Work up.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::strings::labels;
use parking_lot::RwLock;

use crate::port::{Change, Key, Object};

/// The index.
#[derive(Default)]
pub struct WorksIndex {
    by_binding: RwLock<BTreeMap<String, BTreeSet<Key>>>,
}

/// The permanent id of the binding that a Work is for.
pub fn binding_id(work: &Object) -> Option<&str> {
    let label = |name: &str| work.labels.get(name).map(String::as_str);
    label(labels::RESOURCE_BINDING_ID).or_else(|| label(labels::CLUSTER_RESOURCE_BINDING_ID))
}

impl WorksIndex {
    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        match change {
            Change::Applied(work) => {
                let Some(id) = binding_id(work) else { return };
                self.by_binding.write().entry(id.to_owned()).or_default().insert(work.key.clone());
            }
            Change::Deleted(work) => {
                let mut index = self.by_binding.write();
                let forget = |keys: &mut BTreeSet<Key>| {
                    keys.remove(&work.key);
                    !keys.is_empty()
                };
                match binding_id(work) {
                    Some(id) => {
                        if index.get_mut(id).is_some_and(|keys| !forget(keys)) {
                            index.remove(id);
                        }
                    }
                    // Of a deletion that no watch saw only the key is known.
                    None => index.retain(|_, keys| forget(keys)),
                }
            }
        }
    }

    /// The Works of a binding.
    pub fn of(&self, binding_id: &str) -> Vec<Key> {
        self.by_binding.read().get(binding_id).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }
}
