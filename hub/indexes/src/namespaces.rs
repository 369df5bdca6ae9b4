//! The names of the hub's namespaces, without those that hold Works: what goes along to a cluster that joins.
//!
//! In: changes of Namespaces. Out: keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_api::names;
use parking_lot::RwLock;

use karmada_controller_runtime::port::Change;

/// The index.
#[derive(Default)]
pub struct Names(RwLock<BTreeSet<Arc<str>>>);

impl Names {
    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        match change {
            Change::Applied(namespace) => {
                let name = &namespace.key.name;
                if names::cluster_of_execution_namespace(name).is_none() && !self.0.read().contains(name) {
                    self.0.write().insert(name.clone());
                }
            }
            Change::Deleted(namespace) => drop(self.0.write().remove(&namespace.key.name)),
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<str>> {
        self.0.read().iter().cloned().collect()
    }
}
