//! Collections that are empty again give their memory back.
//!
//! In: a collection. Out: the same, without memory where nothing is in it. A tree keeps the node of its last entry, room for eleven of them, and a
//! queue what it ever held; an agent at rest has a dozen of them on the hub, and there are thousands of agents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A collection that can.
pub(crate) trait ReleaseEmpty {
    /// Gives the memory back where nothing is in it.
    fn release_empty(&mut self);
}

impl<K, V> ReleaseEmpty for BTreeMap<K, V> {
    fn release_empty(&mut self) {
        if self.is_empty() {
            *self = BTreeMap::new();
        }
    }
}

impl<T> ReleaseEmpty for BTreeSet<T> {
    fn release_empty(&mut self) {
        if self.is_empty() {
            *self = BTreeSet::new();
        }
    }
}

impl<T> ReleaseEmpty for VecDeque<T> {
    fn release_empty(&mut self) {
        if self.is_empty() && self.capacity() > 0 {
            *self = VecDeque::new();
        }
    }
}
