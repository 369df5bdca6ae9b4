//! The Works that come in: what the hub's frames make of what the ledger holds, what is to be written, and what may be
//! acknowledged when it is.
//!
//! Comes in: upserts, tombstones and listings of the epoch spoken in; the word that changes are on disk. Goes out:
//! [`Change`]s for the ledger, answers onto the queue that each call is given (wants, refusals, removals, acks), and the
//! credit that was used up.

mod committing;
mod deltas;
mod listing;
mod tombstones;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::body::{Assembly, BodyError};
use karmada_proto::digest::{Root, Seed};
use karmada_proto::v1::{self, Encoding, NackCode, agent_frame};

use self::deltas::Delta;
use self::listing::Listing;
use super::change::Change;
use super::held::{HeldWork, HeldWorks, Phase};
use super::seen_revisions::SeenBeyond;

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
    /// The hub's start that this session is with.
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
    /// What each frame that was dealt with had cost, until it is given back.
    owed_credit: Vec<u64>,
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
            owed_credit: Vec::new(),
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
    pub(super) fn committed_root(&self) -> Option<(Root, u64)> {
        let waits = self.assembly.partial().is_some() || self.delta.is_some();
        let is_idle = !self.committing && !self.has_changes() && !waits;
        is_idle.then(|| (self.held.root(), self.acked))
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
        // Credit is given back as soon as it is taken in: the window bounds what memory holds.
        self.owed_credit.push(upsert.chunk.len() as u64);
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
        self.note_listed(&upsert.key);
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
        self.note_listed(&upsert.key);
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
        self.note_listed(&upsert.key);
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

    fn moves_to(&mut self, cursor: u64) {
        self.next_cursor = self.next_cursor.max(cursor);
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

    /// Works beyond the last full listing.
    pub(super) fn take_orphans(&mut self) -> Option<Vec<String>> {
        self.orphans.take()
    }
}
