//! What is still to be sent to one agent: one slot per Work, the newest wins, a tombstone supersedes.
//!
//! What is lost here is derived again from the store.
//!
//! In: Works as the store has them, by revision. Out: the next to send, tombstones first, then by revision; and the oldest revision that
//! waits, below which a cursor is safe to give once everything taken so far has been stored. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ports::Work;
use crate::release_empty::ReleaseEmpty;

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// The Work is being deleted.
    Delete(Work),
    /// The Work is gone from the store.
    Release {
        /// Its uid.
        uid: Arc<str>,
        /// The revision of the deletion.
        revision: u64,
        /// A site that still holds it keeps its objects, without our marks.
        preserve: bool,
    },
    /// The Work as it is now; `resend` where the agent asked for the body again.
    Upsert {
        /// The newest.
        work: Work,
        /// Send the body whatever the agent is thought to hold.
        resend: bool,
    },
}

impl Pending {
    fn revision(&self) -> u64 {
        match self {
            Self::Delete(work) | Self::Upsert { work, .. } => work.revision,
            Self::Release { revision, .. } => *revision,
        }
    }

    /// What was before this is what was before `earlier`, which it takes the place of.
    fn follows(&mut self, earlier: &Self) {
        if let Self::Upsert { work, .. } = self {
            work.former = match earlier {
                Self::Delete(before) | Self::Upsert { work: before, .. } => before.former.clone(),
                Self::Release { .. } => None,
            };
        }
    }

    /// Deletes overtake.
    fn class(&self) -> u8 {
        u8::from(matches!(self, Self::Upsert { .. }))
    }
}

/// The keyed queue.
#[derive(Debug, Default)]
pub struct Queue {
    slots: BTreeMap<Arc<str>, Pending>,
    order: BTreeSet<(u8, u64, Arc<str>)>,
}

impl Queue {
    /// Puts `pending` in the slot of `key`, unless something newer is there. True where it was taken.
    pub fn put(&mut self, key: Arc<str>, mut pending: Pending) -> bool {
        if let Some(old) = self.slots.get(&key) {
            if old.revision() > pending.revision() {
                return false;
            }
            pending.follows(old);
            self.order.remove(&(old.class(), old.revision(), key.clone()));
        }
        self.order.insert((pending.class(), pending.revision(), key.clone()));
        self.slots.insert(key, pending);
        true
    }

    /// Whether anything waits for `key`.
    pub fn holds(&self, key: &str) -> bool {
        self.slots.contains_key(key)
    }

    /// The Works that wait, by name.
    pub fn works(&self) -> impl Iterator<Item = &Work> {
        self.slots.values().filter_map(|pending| match pending {
            Pending::Delete(work) | Pending::Upsert { work, .. } => Some(work),
            Pending::Release { .. } => None,
        })
    }

    /// What waits for `key` at this revision needs to wait no more.
    pub fn discard(&mut self, key: &str, revision: u64) {
        let Some(pending) = self.slots.get(key).filter(|pending| pending.revision() == revision) else {
            return;
        };
        let class = pending.class();
        if let Some((key, _)) = self.slots.remove_entry(key) {
            self.order.remove(&(class, revision, key));
        }
    }

    /// The body that waits for `key` is sent whatever the agent is thought to hold.
    pub fn resend(&mut self, key: &str) {
        if let Some(Pending::Upsert { resend, .. }) = self.slots.get_mut(key) {
            *resend = true;
        }
    }

    /// The next to send.
    pub fn pop(&mut self) -> Option<(Arc<str>, Pending)> {
        let (_, _, key) = self.order.pop_first()?;
        self.slots.remove_entry(&key)
    }

    /// Gives back the memory of what is empty.
    pub(crate) fn release_empty(&mut self) {
        self.slots.release_empty();
        self.order.release_empty();
    }

    /// The oldest revision that waits.
    pub fn oldest(&self) -> Option<u64> {
        let first = |class| self.order.range((class, 0, Arc::from(""))..).next().filter(|e| e.0 == class);
        [0, 1].into_iter().filter_map(first).map(|entry| entry.1).min()
    }

    /// Slots taken.
    pub fn waiting(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn work(key: &str, revision: u64, deleting: bool) -> Work {
        Work {
            key: key.into(),
            uid: "u".into(),
            revision,
            generation: 0,
            retry: "".into(),
            deleting,
            suspended: false,
            preserve: false,
            body: Bytes::new().into(),
            former: None,
        }
    }

    fn upsert(key: &str, revision: u64) -> Pending {
        Pending::Upsert { work: work(key, revision, false), resend: false }
    }

    #[test]
    fn the_newest_wins_and_deletes_overtake() {
        let mut queue = Queue::default();
        for (key, pending) in [
            ("a", upsert("a", 1)),
            ("b", upsert("b", 2)),
            ("a", upsert("a", 3)),
            ("c", upsert("c", 4)),
            ("c", Pending::Delete(work("c", 5, true))),
        ] {
            assert!(queue.put(key.into(), pending));
        }
        assert!(!queue.put("c".into(), upsert("c", 4)), "an older upsert after the delete");
        assert_eq!((queue.waiting(), queue.oldest()), (3, Some(2)));
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|(k, p)| (k.to_string(), p.revision())).collect();
        assert_eq!(order, [("c".into(), 5), ("b".into(), 2), ("a".into(), 3)]);
    }

    proptest! {
        /// Whatever is put: each key comes out once, with its highest revision, and `oldest` never lies.
        #[test]
        fn nothing_is_lost(puts in prop::collection::vec((0..5u8, any::<bool>()), 0..60)) {
            let mut queue = Queue::default();
            let mut newest = BTreeMap::new();
            for (at, (key, delete)) in puts.into_iter().enumerate() {
                let (key, revision) = (format!("k{key}"), at as u64 + 1);
                let pending = if delete { Pending::Delete(work(&key, revision, true)) } else { upsert(&key, revision) };
                newest.insert(key.clone(), pending.clone());
                queue.put(key.into(), pending);
            }
            prop_assert_eq!(queue.oldest(), newest.values().map(Pending::revision).min());
            while let Some((key, pending)) = queue.pop() {
                prop_assert_eq!(newest.remove(key.as_ref()), Some(pending));
                prop_assert_eq!(queue.oldest(), newest.values().map(Pending::revision).min());
            }
            prop_assert!(newest.is_empty());
        }
    }
}
