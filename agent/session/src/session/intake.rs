//! The Works that come in: what the hub's frames make of what the ledger holds, what is to be written, and what may be
//! acknowledged when it is.
//!
//! Comes in: upserts, tombstones and listings of the epoch spoken in; the word that changes are on disk. Goes out:
//! [`Change`]s for the ledger, answers onto the queue that each call is given (wants, refusals, removals, acks), and the
//! credit that was used up.

mod deltas;
mod listing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::body::{Assembly, BodyError};
use karmada_proto::digest::{Root, Seed};
use karmada_proto::v1::{self, Encoding, NackCode, TombstoneReason, agent_frame};

use self::deltas::Delta;
use self::listing::Listing;
use super::change::Change;
use super::held::{HeldWork, HeldWorks, Phase};
use super::seen_revisions::SeenBeyond;

/// A cursor that moves without anything to store is written this seldom: an idle agent writes nothing.
const CURSOR_EVERY: Duration = Duration::from_secs(300);

/// A body that came this often and was no use is refused; before that, asked for again.
const SPOILT: u32 = 3;

/// What is to be said to the hub.
pub(super) type Out = VecDeque<agent_frame::Body>;

/// What is held and what has come.
#[derive(Debug)]
pub(super) struct Intake {
    held: HeldWorks,
    epoch: u64,
    cursor: u64,
    changes: Vec<Change>,
    /// Bytes of the bodies in them.
    uncommitted: usize,
    committing: bool,
    next_cursor: u64,
    lazy_cursor: u64,
    cursor_written: Duration,
    acked: u64,
    /// The hub's start that told the cursor that is written.
    timeline: u64,
    /// The one that is spoken with.
    speaking: u64,
    seen: SeenBeyond,
    /// Deletes were held back from the last listing: until one without, what was told before it is what the next hello tells.
    withheld: bool,
    listing: Option<Listing>,
    wanted: BTreeSet<String>,
    /// What was to be removed and was not known, by name: the uid.
    unknown: BTreeMap<String, String>,
    /// How often the body of a Work came and was no use.
    spoilt: BTreeMap<String, u32>,
    orphans: Option<Vec<String>>,
    assembly: Assembly,
    /// What came by what differs from a body that the ledger is still asked for.
    delta: Option<Delta>,
    settled: Vec<u64>,
}

impl Intake {
    /// Over what the ledger holds; `assembly` carries a half-received body.
    pub(super) fn new(
        held: BTreeMap<String, HeldWork>,
        (epoch, cursor, timeline): (u64, u64, u64),
        seen: Vec<v1::Seen>,
        seed: Seed,
        (assembly, now): (Assembly, Duration),
    ) -> Self {
        // What was not listed has no revision in the life of the hub that told the cursor.
        let unlisted = |held: &HeldWork| cursor > 0 && held.revision == 0 && held.phase == Phase::Desired;
        let orphans = held.iter().filter(|(_, held)| unlisted(held)).map(|(key, _)| key.clone()).collect();
        Self {
            held: HeldWorks::new(held, orphans, seed),
            epoch,
            cursor,
            changes: Vec::new(),
            uncommitted: 0,
            committing: false,
            next_cursor: 0,
            lazy_cursor: 0,
            cursor_written: now,
            acked: cursor,
            timeline,
            speaking: timeline,
            seen: SeenBeyond::new(seen),
            withheld: false,
            listing: None,
            wanted: BTreeSet::new(),
            unknown: BTreeMap::new(),
            spoilt: BTreeMap::new(),
            orphans: None,
            assembly,
            delta: None,
            settled: Vec::new(),
        }
    }

    /// The epoch spoken in.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The hub speaks in a newer epoch: the cursor begins anew.
    pub(super) fn enter(&mut self, epoch: u64) {
        self.changes.push(Change::Epoch(epoch));
        (self.epoch, self.cursor, self.acked) = (epoch, 0, 0);
        // Revisions of an older epoch say nothing in this one.
        self.held.revisions_begin_anew();
    }

    /// The start of the hub that is spoken with. It may be one that was put back since it, or another, was told the orphans: they are told
    /// in each session.
    pub(super) fn speaks_with(&mut self, timeline: u64) {
        self.speaking = timeline;
        if self.cursor > 0 && !self.held.orphans().is_empty() {
            self.orphans = Some(self.held.orphans().iter().cloned().collect());
        }
    }

    /// The root over what is held and the newest cursor that was acknowledged, where all of that is on disk and no body is half received.
    pub(super) fn settled(&self) -> Option<(Root, u64)> {
        let waits = self.assembly.partial().is_some() || self.delta.is_some();
        let settled = !self.committing && !self.has_changes() && !waits;
        settled.then(|| (self.held.root(), self.acked))
    }

    /// The root over what is held.
    pub(super) fn root(&self) -> Root {
        self.held.root()
    }

    /// The hub's proof of the epoch that is spoken in.
    pub(super) fn sealed(&mut self, seal: Bytes) {
        self.changes.push(Change::Seal(seal));
    }

    /// A Work, an offer of one, or a piece of one.
    pub(super) fn upsert(&mut self, upsert: &v1::Upsert, out: &mut Out) {
        // What memory holds is not the hub's concern: the window covers it.
        self.settled.push(upsert.chunk.len() as u64);
        if upsert.epoch != self.epoch {
            return;
        }
        self.drop_pending_delta(&upsert.key);
        if upsert.offer {
            self.offer(upsert, out);
            return;
        }
        if upsert.encoding == i32::from(Encoding::ZstdOnBase) {
            self.delta(upsert, out);
            return;
        }
        match self.assembly.take(upsert) {
            Ok(None) => {}
            Ok(Some(body)) => self.whole(upsert, body),
            Err(error) => self.unusable(upsert, &error, out),
        }
    }

    /// A body is there, and it is the right one.
    fn whole(&mut self, upsert: &v1::Upsert, body: Bytes) {
        self.mark(&upsert.key);
        // What is to be removed comes with its body first: it is waited for until it is to be removed again.
        if self.unknown.get(&upsert.key) != Some(&upsert.uid) {
            self.wanted.remove(&upsert.key);
        }
        self.spoilt.remove(&upsert.key);
        self.put(upsert, body);
        self.moves_to(upsert.cursor);
    }

    /// A body that did not come through is asked for again; one that cannot, or does not after several, is refused.
    fn unusable(&mut self, upsert: &v1::Upsert, error: &BodyError, out: &mut Out) {
        let tries = self.spoilt.entry(upsert.key.clone()).or_default();
        *tries += 1;
        let code = match error {
            BodyError::TooLarge(_) => NackCode::TooLarge,
            BodyError::UnknownEncoding(_) => NackCode::Malformed,
            _ if *tries > SPOILT => NackCode::Malformed,
            _ => {
                self.want(upsert, out);
                self.moves_to(upsert.cursor);
                return;
            }
        };
        self.mark(&upsert.key);
        self.spoilt.remove(&upsert.key);
        self.wanted.remove(&upsert.key);
        self.nack(upsert.key.clone(), upsert.revision, code, error.to_string(), out);
        self.moves_to(upsert.cursor);
    }

    fn put(&mut self, upsert: &v1::Upsert, body: Bytes) {
        let stale = self
            .held
            .get(&upsert.key)
            .is_some_and(|held| held.uid == upsert.uid && held.revision > upsert.revision);
        if stale {
            return;
        }
        self.held.put(&upsert.key, HeldWork::desired(upsert));
        self.seen.stored(self.speaking, upsert.revision);
        self.uncommitted += body.len();
        self.changes.push(Change::Put {
            key: upsert.key.clone(),
            uid: upsert.uid.clone(),
            revision: upsert.revision,
            hash: upsert.hash.clone(),
            body,
            suspended: upsert.suspended,
            preserve: upsert.preserve,
            generation: upsert.generation,
            retry: upsert.retry.clone(),
        });
        if upsert.keep_former {
            self.changes.push(Change::KeepFormer { key: upsert.key.clone() });
        }
    }

    /// The hub names a body by its hash: kept where it is the one held, asked for where it is not.
    fn offer(&mut self, upsert: &v1::Upsert, out: &mut Out) {
        self.mark(&upsert.key);
        match self.held.get(&upsert.key) {
            Some(held) if held.hash == upsert.hash && held.phase == Phase::Desired => {
                self.held.put(&upsert.key, HeldWork::desired(upsert));
                self.seen.stored(self.speaking, upsert.revision);
                self.changes.push(Change::Touch {
                    key: upsert.key.clone(),
                    uid: upsert.uid.clone(),
                    revision: upsert.revision,
                    suspended: upsert.suspended,
                    preserve: upsert.preserve,
                    generation: upsert.generation,
                    retry: upsert.retry.clone(),
                });
            }
            _ => self.want(upsert, out),
        }
        self.moves_to(upsert.cursor);
    }

    fn want(&mut self, upsert: &v1::Upsert, out: &mut Out) {
        self.wanted.insert(upsert.key.clone());
        let want = v1::Want { key: upsert.key.clone(), hash: upsert.hash.clone() };
        out.push_back(agent_frame::Body::Want(want));
    }

    fn nack(&mut self, key: String, revision: u64, code: NackCode, message: String, out: &mut Out) {
        out.push_back(agent_frame::Body::Nack(v1::Nack {
            key,
            epoch: self.epoch,
            revision,
            code: code.into(),
            retriable: false,
            message,
        }));
    }

    /// A Work is to be removed, or forgotten.
    pub(super) fn tombstone(&mut self, tombstone: v1::Tombstone, out: &mut Out) {
        self.settled.push(0);
        if tombstone.epoch != self.epoch {
            return;
        }
        self.drop_pending_delta(&tombstone.key);
        self.mark(&tombstone.key);
        let released = match TombstoneReason::try_from(tombstone.reason) {
            Ok(TombstoneReason::Deleted) => false,
            Ok(TombstoneReason::Released) => true,
            // A newer hub means something by it that this agent cannot know: the one thing it must not do is remove.
            Ok(TombstoneReason::TombstoneUnspecified) | Err(_) => {
                let message = format!("the tombstone's reason {} is unknown here", tombstone.reason);
                let v1::Tombstone { key, revision, cursor, .. } = tombstone;
                self.nack(key, revision, NackCode::UnknownReason, message, out);
                self.moves_to(cursor);
                return;
            }
        };
        self.wanted.remove(&tombstone.key);
        if !released {
            self.held.is_known(&tombstone.key);
        }
        match self.held.get(&tombstone.key) {
            // Bound to its uid, or newer than what is held under this name: what is older removes nothing.
            Some(held) if held.uid != tombstone.uid && held.revision >= tombstone.revision => {}
            Some(held) if released && held.phase == Phase::Removed => {
                self.held.remove(&tombstone.key);
                self.seen.stored(self.speaking, tombstone.revision);
                self.changes.push(Change::Forget { key: tombstone.key });
            }
            // Released and still held, this ledger is an older copy of one that knew of the deletion, or the hub went on without this
            // agent's word: it is carried out all the same.
            Some(_) => {
                self.held.change(&tombstone.key, |held| held.buried(&tombstone));
                self.seen.stored(self.speaking, tombstone.revision);
                let v1::Tombstone { key, uid, revision, preserve, retry, .. } = tombstone;
                self.changes.push(Change::Delete { key, uid, revision, preserve, retry });
            }
            None if released => {}
            None => self.never_held(&tombstone, out),
        }
        self.moves_to(tombstone.cursor);
    }

    /// Nothing is known of what is to be removed. The hub sends its body then, and the tombstone again, and the cursor waits for both: a
    /// session that is cut before must not leave the tombstone behind. A body that came and was no use is waited for no more.
    fn never_held(&mut self, tombstone: &v1::Tombstone, out: &mut Out) {
        let before = self.unknown.insert(tombstone.key.clone(), tombstone.uid.clone());
        if before.is_none_or(|uid| uid != tombstone.uid) {
            self.wanted.insert(tombstone.key.clone());
        }
        out.push_back(agent_frame::Body::Removed(v1::Removed {
            key: tombstone.key.clone(),
            uid: tombstone.uid.clone(),
            revision: tombstone.revision,
            never_held: true,
            ..v1::Removed::default()
        }));
    }

    fn moves_to(&mut self, cursor: u64) {
        self.next_cursor = self.next_cursor.max(cursor);
    }

    /// What is to be written before anything is acknowledged; empty where nothing is. To be followed by
    /// [`Intake::committed`], or by the end of the session.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        // A cursor must not pass a body that is still wanted.
        if self.wanted.is_empty() && self.next_cursor > self.cursor {
            self.cursor = self.next_cursor;
            if !self.withheld {
                self.write_cursor();
            }
        }
        if let Some(seen) = self.seen.take_changed() {
            self.changes.push(Change::Seen(seen));
        }
        self.committing = !self.changes.is_empty();
        self.uncommitted = 0;
        std::mem::take(&mut self.changes)
    }

    fn write_cursor(&mut self) {
        if self.timeline != self.speaking {
            self.timeline = self.speaking;
            self.changes.push(Change::Timeline(self.timeline));
        }
        self.seen.covered(self.speaking, self.cursor);
        self.changes.push(Change::Cursor(self.cursor));
    }

    /// Bytes of bodies that wait to be written.
    pub(super) fn uncommitted(&self) -> usize {
        self.uncommitted
    }

    /// Whether there is anything to write.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty() || (self.wanted.is_empty() && self.next_cursor > self.cursor)
    }

    /// What [`Intake::take_changes`] gave is on disk.
    /// The credit that it used up is free again.
    pub(super) fn committed(&mut self, now: Duration, out: &mut Out) -> Vec<u64> {
        self.committing = false;
        self.cursor_written = now;
        if self.cursor > self.acked {
            self.acked = self.cursor;
            let ack = v1::Ack { epoch: self.epoch, cursor: self.cursor };
            out.push_back(agent_frame::Body::Ack(ack));
        }
        std::mem::take(&mut self.settled)
    }

    /// What [`Intake::take_changes`] gave is held, though not on disk: the credit that it used up is free again.
    pub(super) fn held_for_now(&mut self) -> Vec<u64> {
        self.committing = false;
        std::mem::take(&mut self.settled)
    }

    /// Whether more was taken than was acknowledged.
    pub(super) fn owes_ack(&self) -> bool {
        !self.committing && self.cursor > self.acked
    }

    /// The member's objects of `key` are removed.
    pub(super) fn removed(&mut self, key: &str) {
        self.held.change(key, |held| held.phase = Phase::Removed);
    }

    /// These are told as orphans: what the ledger noted since the session began is held, so that a word on it is carried out.
    pub(super) fn found(&mut self, keys: &[String]) {
        for key in keys {
            if self.held.get(key).is_none() {
                self.held.put(key, HeldWork::found());
            }
        }
    }

    /// Up to here nothing of ours has changed: worth writing now and then.
    pub(super) fn lazily(&mut self, cursor: u64) {
        self.lazy_cursor = self.lazy_cursor.max(cursor);
    }

    /// Looks at the clock.
    pub(super) fn tick(&mut self, now: Duration) {
        if self.lazy_cursor > self.cursor && now >= self.cursor_written + CURSOR_EVERY {
            self.next_cursor = self.next_cursor.max(self.lazy_cursor);
        }
    }

    /// Credit that was used up by what needed no writing.
    pub(super) fn take_settled(&mut self) -> Vec<u64> {
        if self.has_changes() { Vec::new() } else { std::mem::take(&mut self.settled) }
    }

    /// Whether changes that were taken are not known to be on disk.
    pub(super) fn is_committing(&self) -> bool {
        self.committing
    }

    /// Works beyond the last full listing.
    pub(super) fn take_orphans(&mut self) -> Option<Vec<String>> {
        self.orphans.take()
    }

    /// The last cursor worth writing, and the half-received body.
    pub(super) fn into_parts(self) -> (Vec<Change>, Assembly) {
        let settled = self.wanted.is_empty() && self.changes.is_empty() && !self.committing && !self.withheld;
        let cursor = settled.then_some(self.lazy_cursor).filter(|lazy| *lazy > self.cursor);
        let changes = cursor.map(|cursor| vec![Change::Timeline(self.speaking), Change::Cursor(cursor)]);
        (changes.unwrap_or_default(), self.assembly.carried_over())
    }
}
