//! What is held back from a site after a restore of the hub: deletes that a full listing finds are not sent before a person confirms
//! them; until the site has them, bodies that are listed remove no objects either. Pure.
//!
//! In: listings and their ends, acks, a person's confirmation. Out: what waits, what is to be said of it, and when it is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_proto::v1;

use crate::ports::{Batch, Work};

/// Deletes of listings that wait for a person's word, until the site has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionHold {
    /// The batch held back. `karmadactl confirm` of this revision or a later one releases all of it.
    pub held: Batch,
    /// The hub's start that lists them now.
    pub start: u64,
    /// Up to this revision there was a word already.
    pub passed: u64,
}

impl SessionHold {
    /// There was a word for all.
    pub const ALL: u64 = u64::MAX;

    /// Whether what is listed of this revision waits.
    fn holds(self, revision: u64) -> bool {
        revision > self.passed
    }
}

/// What one session holds back.
#[derive(Debug)]
pub(super) struct WithheldDeletes {
    holding: Option<SessionHold>,
    /// Works whose deletion waits.
    deletes: BTreeSet<Arc<str>>,
    /// Whether it was said how many.
    is_told: bool,
    /// Works that were listed meanwhile and are not acknowledged.
    keeping: BTreeSet<Arc<str>>,
    /// The cursor that the end of the listing told.
    end: Option<u64>,
    /// That end said that deletes wait: the site writes no cursor until a listing ends without.
    is_said_to_wait: bool,
    listings: u32,
}

impl WithheldDeletes {
    pub(super) fn new(holding: Option<SessionHold>) -> Self {
        Self {
            holding,
            deletes: BTreeSet::new(),
            is_told: true,
            keeping: BTreeSet::new(),
            end: None,
            is_said_to_wait: false,
            listings: 0,
        }
    }

    /// A full listing begins: all of it is looked at anew.
    pub(super) fn listing_starts(&mut self) {
        self.deletes.clear();
        self.is_told = false;
        self.end = None;
        self.listings = self.listings.saturating_add(1);
    }

    /// The agent is told that the listing ended, with this cursor.
    pub(super) fn listing_ends(&mut self, cursor: u64) {
        self.end = Some(cursor);
        self.is_said_to_wait = self.any_waits();
    }

    /// Whether the site was told that deletes wait, and none does any more.
    pub(super) fn is_to_be_listed_anew(&self) -> bool {
        self.is_said_to_wait && !self.any_waits()
    }

    /// A person let the deletes up to `revision` go out. True where such may have been held back.
    pub(super) fn confirm(&mut self, revision: u64) -> bool {
        let Some(hold) = self.holding.as_mut().filter(|hold| hold.holds(revision)) else { return false };
        hold.passed = if revision < hold.held.revision { revision } else { SessionHold::ALL };
        true
    }

    /// Whether the deletion of `work` waits, which is noted: it is listed while something is held, or was, and whatever changes it since is
    /// no person's word.
    pub(super) fn holds(&mut self, work: &Work, is_listed: bool) -> bool {
        let was_listed = is_listed || self.deletes.contains(&work.key);
        let waits = was_listed && self.holding.is_some_and(|hold| hold.holds(work.revision));
        if waits {
            self.deletes.insert(work.key.clone());
        }
        waits
    }

    /// Whether any deletion waits.
    pub(super) fn any_waits(&self) -> bool {
        !self.deletes.is_empty()
    }

    /// The deletion of `key` waits no more, as the hub has no such Work any more. True where it did.
    pub(super) fn drops(&mut self, key: &str) -> bool {
        self.deletes.remove(key)
    }

    /// The body of `work` is listed.
    pub(super) fn lists(&mut self, work: &Work) {
        if self.holding.is_some_and(|hold| hold.holds(work.revision)) {
            self.keeping.insert(work.key.clone());
        }
    }

    /// Whether a body of `key` takes nothing away: until the site has one, whoever wrote it may have seen the backup's alone.
    pub(super) fn keeps(&self, key: &str) -> bool {
        self.keeping.contains(key)
    }

    /// The site has the body of `key`.
    pub(super) fn acked(&mut self, key: &str) {
        self.keeping.remove(key);
    }

    /// How many deletes the listing at `revision` of `epoch` held back, in which batch; `None` where that were none, or it is said already.
    pub(super) fn take_told(&mut self, epoch: u64, revision: u64) -> Option<(Batch, u64)> {
        if std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let hold = self.holding.filter(|_| !self.deletes.is_empty())?;
        Some((Batch { epoch, revision, timeline: hold.start }, self.deletes.len() as u64))
    }

    /// What was held is over with this `ack`, where it is: the site has all of a listing that held nothing back. It is the session's first
    /// one, as an ack of an earlier one may still be on its way.
    pub(super) fn ends(&mut self, ack: &v1::Ack) -> Option<Batch> {
        let has_all = self.end.is_some_and(|end| ack.cursor >= end);
        let ends = has_all && self.listings == 1 && self.deletes.is_empty();
        if ends { self.holding.take().map(|hold| hold.held) } else { None }
    }
}
