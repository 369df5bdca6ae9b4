//! Up to which generation of a binding its Works were made, of those alone that leave clusters.
//!
//! In: bindings whose Works were just written. Out: whether a binding's Works say what it says now. It lives in memory: a hub that starts makes
//! the Works of all bindings once.

use std::collections::BTreeMap;

use karmada_api::binding::ResourceBinding;
use parking_lot::Mutex;

use crate::port::Key;

/// Which life of a binding, and its generation.
type Generation = (Option<String>, Option<i64>);

/// What is known of each.
#[derive(Default)]
pub struct RenderedGenerations(Mutex<BTreeMap<Key, Generation>>);

fn generation(binding: &ResourceBinding) -> Generation {
    (binding.metadata.uid.clone(), binding.metadata.generation)
}

impl RenderedGenerations {
    /// The Works of a binding were made as it says.
    pub fn note(&self, key: &Key, binding: &ResourceBinding) {
        let mut known = self.0.lock();
        match binding.spec.graceful_eviction_tasks.is_empty() {
            true => known.remove(key),
            false => known.insert(key.clone(), generation(binding)),
        };
    }

    /// The binding is gone.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Whether its Works are as it says now.
    pub fn is_at(&self, key: &Key, binding: &ResourceBinding) -> bool {
        self.0.lock().get(key) == Some(&generation(binding))
    }
}
