//! Which Works are of which FederatedResourceQuota, MultiClusterService or ServiceExport, by the labels that tell.
//!
//! In: changes of Works. Out: for an owner, the keys of its Works. A key may be stale for a moment, and whoever reads it looks the Work up.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::strings::labels;
use parking_lot::RwLock;

use karmada_controller_runtime::port::{Change, Key, Object};

/// The index of one kind of owners.
pub struct OwnedWorksIndex {
    owner_of: fn(&Object) -> Option<Key>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    by_owner: BTreeMap<Key, BTreeSet<Key>>,
    /// Of whom each Work is: of a deletion that no watch saw, only the Work's key is told.
    owners: BTreeMap<Key, Key>,
}

fn named_by(work: &Object, namespace: &str, name: &str) -> Option<Key> {
    let label = |name: &str| work.labels.get(name).map(String::as_str);
    let (namespace, name) = (label(namespace)?, label(name)?);
    Some(Key { namespace: namespace.into(), name: name.into() })
}

/// The FederatedResourceQuota that a Work is of.
pub fn quota_of(work: &Object) -> Option<Key> {
    named_by(work, labels::QUOTA_NAMESPACE, labels::QUOTA_NAME)
}

/// The MultiClusterService that a Work is of.
pub fn service_of(work: &Object) -> Option<Key> {
    named_by(work, labels::MULTI_CLUSTER_SERVICE_NAMESPACE, labels::MULTI_CLUSTER_SERVICE_NAME)
}

/// The ServiceExport that a Work asks for.
pub fn export_of(work: &Object) -> Option<Key> {
    named_by(work, labels::SLICE_OF_NAMESPACE, labels::SLICE_OF_NAME)
}

impl State {
    fn forget(&mut self, work: &Key) {
        let Some(owner) = self.owners.remove(work) else { return };
        if let Some(works) = self.by_owner.get_mut(&owner) {
            works.remove(work);
            if works.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
    }
}

impl OwnedWorksIndex {
    /// Of those owners that `owner_of` reads in a Work.
    pub fn new(owner_of: fn(&Object) -> Option<Key>) -> Self {
        OwnedWorksIndex { owner_of, state: RwLock::default() }
    }

    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        let (Change::Applied(work) | Change::Deleted(work)) = change;
        let owner = (self.owner_of)(work).filter(|_| matches!(change, Change::Applied(_)));
        if self.state.read().owners.get(&work.key) == owner.as_ref() {
            return;
        }
        let mut state = self.state.write();
        state.forget(&work.key);
        if let Some(owner) = owner {
            state.owners.insert(work.key.clone(), owner.clone());
            state.by_owner.entry(owner).or_default().insert(work.key.clone());
        }
    }

    /// The Works of an owner.
    pub fn of(&self, owner: &Key) -> Vec<Key> {
        let state = self.state.read();
        state.by_owner.get(owner).map(|works| works.iter().cloned().collect()).unwrap_or_default()
    }

    /// The owners that have a Work of which this holds.
    pub fn owners_of(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Key> {
        let state = self.state.read();
        let has = |works: &BTreeSet<Key>| works.iter().any(&is_meant);
        state.by_owner.iter().filter(|(_, works)| has(works)).map(|(owner, _)| owner.clone()).collect()
    }
}
