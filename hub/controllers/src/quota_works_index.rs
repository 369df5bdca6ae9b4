//! Which Works are of which FederatedResourceQuota, by the labels that tell.
//!
//! In: changes of Works. Out: for a quota, the keys of its Works. A key may be stale for a moment, and whoever reads it looks the Work up.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::strings::labels;
use parking_lot::RwLock;

use crate::port::{Change, Key, Object};

/// The index.
#[derive(Default)]
pub struct QuotaWorksIndex {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    by_quota: BTreeMap<Key, BTreeSet<Key>>,
    /// Of whom each Work is: of a deletion that no watch saw, only the Work's key is told.
    quotas: BTreeMap<Key, Key>,
}

/// The quota that a Work is of.
pub fn quota_of(work: &Object) -> Option<Key> {
    let label = |name: &str| work.labels.get(name).map(String::as_str);
    let (namespace, name) = (label(labels::QUOTA_NAMESPACE)?, label(labels::QUOTA_NAME)?);
    Some(Key { namespace: namespace.into(), name: name.into() })
}

impl State {
    fn forget(&mut self, work: &Key) {
        let Some(quota) = self.quotas.remove(work) else { return };
        if let Some(works) = self.by_quota.get_mut(&quota) {
            works.remove(work);
            if works.is_empty() {
                self.by_quota.remove(&quota);
            }
        }
    }
}

impl QuotaWorksIndex {
    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        let (Change::Applied(work) | Change::Deleted(work)) = change;
        let quota = quota_of(work).filter(|_| matches!(change, Change::Applied(_)));
        if self.state.read().quotas.get(&work.key) == quota.as_ref() {
            return;
        }
        let mut state = self.state.write();
        state.forget(&work.key);
        if let Some(quota) = quota {
            state.quotas.insert(work.key.clone(), quota.clone());
            state.by_quota.entry(quota).or_default().insert(work.key.clone());
        }
    }

    /// The Works of a quota.
    pub fn of(&self, quota: &Key) -> Vec<Key> {
        let state = self.state.read();
        state.by_quota.get(quota).map(|works| works.iter().cloned().collect()).unwrap_or_default()
    }
}
