//! Objects in the order of their keys, each key kept once: in its object.
//!
//! In: objects. Out: the same by key. A map would hold every key a second time.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use karmada_schema::object::{ObjectKey, Stored};

/// A live object, ordered by its key.
pub(super) struct KeyOrdered(pub(super) Arc<Stored>);

/// What has a key, so that a key alone finds the object.
pub(super) trait Keyed {
    fn key(&self) -> &ObjectKey;
}

impl Keyed for KeyOrdered {
    fn key(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl Keyed for ObjectKey {
    fn key(&self) -> &ObjectKey {
        self
    }
}

impl<'a> Borrow<dyn Keyed + 'a> for KeyOrdered {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Keyed + '_ {}

impl Ord for KeyOrdered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for KeyOrdered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyOrdered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for KeyOrdered {}
