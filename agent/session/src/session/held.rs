//! The Works that the ledger holds, as far as the session must know them, and the root over them. Pure.
//!
//! In: rows as the ledger has them and as frames change them; the session's seed. Out: rows by key, the root, the buckets' sums and the rows
//! in some of them, for the hub to compare with what it wants.
//!
//! What no Work of the hub's can be equal to does not count: what was found in the member without a Work, and orphans, of which the hub
//! was told and knows nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use karmada_proto::digest::{self, Buckets, Content, Root, Seed, WorkHeader, bucket};
use karmada_proto::v1::{Tombstone, Upsert};

/// What the ledger holds of one Work, as far as the session must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldWork {
    /// The Work's uid.
    pub uid: String,
    /// The hub's revision of it.
    pub revision: u64,
    /// The hash of its body.
    pub hash: Bytes,
    /// How far its life has come.
    pub phase: Phase,
    /// Of all that the hub said of it last.
    pub content: Content,
}

/// How far a Work's life on this member has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// To be enforced.
    Desired,
    /// A tombstone came; the member's objects are to be removed.
    Deleting,
    /// They are removed; the hub has not released the Work yet.
    Removed,
}

impl HeldWork {
    /// What is to be enforced as `upsert` says.
    pub(super) fn desired(upsert: &Upsert) -> Self {
        let Upsert { uid, hash, suspended, preserve, generation, retry, .. } = upsert;
        let header =
            WorkHeader { uid, suspended: *suspended, preserve: *preserve, generation: *generation, retry };
        Self {
            uid: uid.clone(),
            revision: upsert.revision,
            hash: hash.clone(),
            phase: Phase::Desired,
            content: digest::work_row(header, hash),
        }
    }

    /// What was found in the member without a Work.
    pub(super) fn found() -> Self {
        let (uid, hash) = (String::new(), Bytes::new());
        Self { uid, revision: 0, hash, phase: Phase::Desired, content: Content::default() }
    }

    /// It is to be removed as `tombstone` says, unless it is removed already.
    pub(super) fn buried(&mut self, tombstone: &Tombstone) {
        self.phase = self.phase.max(Phase::Deleting);
        self.uid.clone_from(&tombstone.uid);
        self.revision = tombstone.revision;
        self.content = digest::deleting(&tombstone.uid, tombstone.preserve, &tombstone.retry);
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct HeldWorks {
    rows: BTreeMap<String, HeldWork>,
    /// What the hub was told of as orphans, and knows nothing of.
    orphans: BTreeSet<String>,
    seed: Seed,
    root: Root,
}

impl HeldWorks {
    /// As the ledger has them; `orphans` of them count for nothing.
    pub(super) fn new(rows: BTreeMap<String, HeldWork>, orphans: BTreeSet<String>, seed: Seed) -> Self {
        let mut works = Self { rows, orphans, seed, root: Root::default() };
        works.root = Root::of(&seed, works.counting());
        works
    }

    pub(super) fn get(&self, key: &str) -> Option<&HeldWork> {
        self.rows.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &HeldWork)> {
        self.rows.iter()
    }

    /// A Work of the hub's is held so.
    pub(super) fn put(&mut self, key: &str, held: HeldWork) {
        self.uncount(key);
        self.orphans.remove(key);
        self.rows.insert(key.to_owned(), held);
        self.count(key);
    }

    /// What is held of a Work changes.
    pub(super) fn change(&mut self, key: &str, change: impl FnOnce(&mut HeldWork)) {
        self.uncount(key);
        if let Some(held) = self.rows.get_mut(key) {
            change(held);
        }
        self.count(key);
    }

    /// Nothing is held of it any more.
    pub(super) fn remove(&mut self, key: &str) {
        self.uncount(key);
        self.orphans.remove(key);
        self.rows.remove(key);
    }

    /// The hub knows nothing of these, which are all there are of such.
    pub(super) fn set_orphans(&mut self, orphans: BTreeSet<String>) {
        self.orphans = orphans;
        self.root = Root::of(&self.seed, self.counting());
    }

    /// The hub knows of it again.
    pub(super) fn is_known(&mut self, key: &str) {
        self.uncount(key);
        self.orphans.remove(key);
        self.count(key);
    }

    pub(super) fn orphans(&self) -> &BTreeSet<String> {
        &self.orphans
    }

    /// No revision that was told before counts.
    pub(super) fn revisions_begin_anew(&mut self) {
        self.rows.values_mut().for_each(|held| held.revision = 0);
    }

    /// What has no revision, and is no orphan, was listed at this one. Out: the keys of these.
    pub(super) fn listed_at(&mut self, revision: u64) -> Vec<String> {
        let orphans = &self.orphans;
        let unlisted = |(key, held): &(&String, &mut HeldWork)| {
            held.revision == 0 && !held.uid.is_empty() && !orphans.contains(*key)
        };
        let listed = self.rows.iter_mut().filter(unlisted).map(|(key, held)| {
            held.revision = revision;
            key.clone()
        });
        listed.collect()
    }

    /// The root.
    pub(super) fn root(&self) -> Root {
        self.root
    }

    /// The buckets' sums.
    pub(super) fn buckets(&self) -> Buckets {
        Buckets::of(&self.seed, self.counting())
    }

    /// The rows of some buckets.
    pub(super) fn rows_in(&self, buckets: &BTreeSet<u32>) -> impl Iterator<Item = (&String, &HeldWork)> {
        self.all_counting().filter(|(key, _)| buckets.contains(&(bucket(key) as u32)))
    }

    fn all_counting(&self) -> impl Iterator<Item = (&String, &HeldWork)> {
        self.rows.iter().filter(|(key, held)| !held.uid.is_empty() && !self.orphans.contains(*key))
    }

    fn counting(&self) -> impl Iterator<Item = (&str, Content)> {
        self.all_counting().map(|(key, held)| (key.as_str(), held.content))
    }

    fn counts(&self, key: &str) -> Option<Content> {
        let held = self.rows.get(key).filter(|held| !held.uid.is_empty())?;
        (!self.orphans.contains(key)).then_some(held.content)
    }

    fn count(&mut self, key: &str) {
        if let Some(content) = self.counts(key) {
            self.root.add(&self.seed, key, &content);
        }
    }

    fn uncount(&mut self, key: &str) {
        if let Some(content) = self.counts(key) {
            self.root.remove(&self.seed, key, &content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However it came, the root is that of what is held now.
        #[test]
        fn the_root_follows_every_change(steps in prop::collection::vec((0..6u8, 0..7u8, 0..4u8), 0..60)) {
            let seed = Seed::new([3; 16]);
            let mut works = HeldWorks::new(BTreeMap::new(), BTreeSet::new(), seed);
            for (what, key, content) in steps {
                let key = format!("w{key}");
                let uid = format!("u{content}");
                let (upsert, tombstone) = (
                    Upsert { uid: uid.clone(), retry: content.to_string(), ..Upsert::default() },
                    Tombstone { uid, ..Tombstone::default() },
                );
                match what {
                    0 | 1 => works.put(&key, HeldWork::desired(&upsert)),
                    2 => works.change(&key, |held| held.buried(&tombstone)),
                    3 => works.remove(&key),
                    4 => works.set_orphans([key].into()),
                    _ => works.is_known(&key),
                }
                let fresh = HeldWorks::new(works.rows.clone(), works.orphans.clone(), seed);
                prop_assert_eq!(works.root(), fresh.root());
            }
        }
    }
}
