//! The Works that go out: what changed in the hub, what the agent is known to hold, what is on its way.
//!
//! Comes in: events of the cluster's Works, the agent's acks and wants. Goes out, when asked for: frames, as far as the
//! agent's credit goes. One slot per Work: what is newer replaces what waits.

mod known;
mod listing;
mod listing_diff;
mod outgoing;
mod removals;
mod sending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::DIGESTS;
use karmada_proto::digest::{Root, Seed};
use karmada_proto::v1::{self, hub_frame};

use self::known::Known;
use self::listing::Listing;
use self::outgoing::Outgoing;
pub(super) use self::removals::NeverHeld;
use crate::encodings::Encodings;
use crate::ports::{Work, WorkEvent};
use crate::queue::{Pending, Queue};
use crate::release_empty::ReleaseEmpty;
use crate::session::chunk_size::ChunkSize;
use crate::session::listing_diff::Comparison;
use crate::session::packing::Packs;
use crate::session::restore_hold::{SessionHold, WithheldDeletes};

/// The longest hash that is kept of a peer's.
const HASH: usize = 64;

/// The Works of one session.
#[derive(Debug)]
pub(super) struct Dispatch {
    epoch: u64,
    queue: Queue,
    outgoing: Option<Outgoing>,
    chunk_size: ChunkSize,
    known: BTreeMap<Arc<str>, Known>,
    unacked: BTreeMap<Arc<str>, Work>,
    /// Those whose tombstone was sent and whose removal is not confirmed.
    deleting: BTreeMap<Arc<str>, Work>,
    /// Those that the agent said it never held: their body goes before their tombstone, once.
    never_held: BTreeSet<Arc<str>>,
    /// Orphans that the agent was told to let go of.
    let_go: BTreeSet<Arc<str>>,
    /// Of those, the ones that the agent named as orphans since: it is to be told again.
    named_again: BTreeSet<Arc<str>>,
    /// Those of which a body was given up half sent, for a newer one: the next is sent to its end.
    given_up: BTreeSet<Arc<str>>,
    /// How bodies are packed for this agent.
    packs: Packs,
    partial: Option<v1::Partial>,
    listing: Listing,
    /// What the session's digests are salted with, where Works are compared.
    seed: Option<Seed>,
    /// The root that the agent told in its hello, for the session's first listing.
    theirs: Option<Root>,
    comparison: Option<Comparison>,
    /// What the comparison has to say.
    said: VecDeque<hub_frame::Body>,
    /// What the agent holds may be of a history that this hub has not, until a listing has ended.
    is_anew: bool,
    /// Counts what changed of the Works.
    changes: u64,
    restore_hold: WithheldDeletes,
    /// The revision of the listing that ended last.
    listed: u64,
    agent_holds_objects: bool,
    seen: u64,
    acked: u64,
}

impl Dispatch {
    /// For what `hello` says that the agent holds; `resumed`: where the watch resumes; `holding`: which deletes of listings wait.
    pub(super) fn new(
        epoch: u64,
        hello: v1::Hello,
        resumed: Option<u64>,
        holding: Option<SessionHold>,
    ) -> Self {
        let at = resumed.unwrap_or(0);
        let compares = holding.is_none() && hello.features.iter().any(|feature| feature == DIGESTS);
        Self {
            epoch,
            queue: Queue::default(),
            outgoing: None,
            chunk_size: ChunkSize::default(),
            known: BTreeMap::new(),
            unacked: BTreeMap::new(),
            deleting: BTreeMap::new(),
            never_held: BTreeSet::new(),
            let_go: BTreeSet::new(),
            named_again: BTreeSet::new(),
            given_up: BTreeSet::new(),
            packs: Packs::new(&hello.features, resumed),
            partial: hello.partial,
            listing: Listing::Told,
            seed: Seed::read(&hello.digest_seed).filter(|_| compares),
            theirs: Root::read(&hello.ledger_root),
            comparison: None,
            said: VecDeque::new(),
            is_anew: true,
            changes: 0,
            restore_hold: WithheldDeletes::new(holding),
            listed: 0,
            agent_holds_objects: hello.objects > 0,
            seen: at,
            acked: at,
        }
    }

    /// Gives back the memory of what is empty.
    pub(super) fn release_empty(&mut self) {
        self.queue.release_empty();
        self.unacked.release_empty();
        self.deleting.release_empty();
        for keys in [&mut self.never_held, &mut self.let_go, &mut self.named_again, &mut self.given_up] {
            keys.release_empty();
        }
        self.said.release_empty();
    }

    /// What is packed for other sessions as well is packed here.
    pub(super) fn packs_with(&mut self, encodings: Arc<Encodings>) {
        self.packs.share(encodings);
    }

    /// What the agent holds is of this hub's history.
    pub(super) fn of_our_history(&mut self) {
        self.is_anew = false;
    }

    /// Counts what changed of the Works in this session.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether nothing waits to be sent or to be answered.
    pub(super) fn is_idle(&self) -> bool {
        self.drained() && self.said.is_empty()
    }

    /// Whether the agent has all that was sent.
    pub(super) fn is_acked(&self) -> bool {
        self.unacked.is_empty()
    }

    /// Takes one event of the cluster's Works.
    pub(super) fn work(&mut self, event: WorkEvent) {
        self.changes += u64::from(!matches!(event, WorkEvent::Synced { .. }));
        match event {
            WorkEvent::Upsert(work) => {
                self.seen = self.seen.max(work.revision);
                let key = work.key.clone();
                let work = self.packs.bounded(work, self.queue.waiting());
                let pending = if work.deleting {
                    Pending::Delete(work)
                } else {
                    Pending::Upsert { work, resend: false }
                };
                self.put(key, pending);
            }
            WorkEvent::Deleted { key, uid, revision, preserve } => {
                self.seen = self.seen.max(revision);
                self.put(key, Pending::Release { uid, revision, preserve });
            }
            WorkEvent::Synced { revision } => {
                self.seen = self.seen.max(revision);
                self.synced(revision);
            }
        }
    }

    fn put(&mut self, key: Arc<str>, pending: Pending) {
        // What is being sent of an older state is not worth finishing, the first time: the agent does not come to hold it, nor to acknowledge
        // it. A write of the Work's status alone leaves the body what it is.
        let is_outdated = |out: &Outgoing| {
            *out.frame.key == *key && !out.is_body_of(&pending) && !out.is_sent_before(&pending)
        };
        if self.outgoing.take_if(|out| is_outdated(out)).is_some() {
            self.known.remove(&key);
            self.unacked.remove(&key);
            self.given_up.insert(key.clone());
        }
        self.queue.put(key, pending);
    }

    /// Slots waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.queue.waiting()
    }

    /// Whether there is room for more events: for a listing of which the differences are to be found, always.
    pub(super) fn takes_works(&self, most: usize) -> bool {
        self.listing == Listing::Gathering || self.queue.waiting() < most
    }

    /// The newest revision that the agent has stored.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// The agent stored everything up to a revision, which is returned where it is news.
    pub(super) fn ack(&mut self, ack: v1::Ack) -> Option<u64> {
        if ack.epoch != self.epoch || ack.cursor <= self.acked {
            return None;
        }
        self.acked = ack.cursor;
        self.unacked.retain(|key, work| {
            let is_open = work.revision > ack.cursor;
            is_open || {
                self.restore_hold.acked(key);
                false
            }
        });
        Some(ack.cursor)
    }

    /// The agent misses a body. False where it is not at hand any more.
    pub(super) fn want(&mut self, want: &v1::Want) -> bool {
        self.known.remove(want.key.as_str());
        // Of the body that it misses, the agent goes on with what it holds from a session that was cut.
        self.partial = self.partial.take().filter(|held| held.key != want.key || held.hash == want.hash);
        match self.unacked.get(want.key.as_str()).cloned() {
            Some(work) if work.deleting => self.put(work.key.clone(), Pending::Delete(work)),
            Some(work) => {
                self.packs.whole_from_now_on(&work.key);
                self.put(work.key.clone(), Pending::Upsert { work, resend: true });
            }
            // What is to be sent of it waits already.
            None if self.queue.holds(&want.key) => self.queue.resend(&want.key),
            None => return false,
        }
        true
    }

    /// The hash of the body that a report is about. One of a Work that nothing was sent of yet tells what the agent holds.
    pub(super) fn reported(&mut self, status: &v1::WorkStatus) -> Bytes {
        // A copy: a slice would keep the whole frame.
        let hash = Bytes::copy_from_slice(&status.hash[..status.hash.len().min(HASH)]);
        self.known.entry(status.key.as_str().into()).or_insert_with(|| Known {
            uid: status.uid.as_str().into(),
            hash: hash.clone(),
            header: None,
        });
        hash
    }

    /// The uid and generation under which the agent was sent `key` at `revision`; `None` where it was sent another since,
    /// or nothing.
    pub(super) fn sent_at(&self, key: &str, revision: u64) -> Option<(String, u64)> {
        let work = self.unacked.get(key).or_else(|| self.deleting.get(key))?;
        (work.revision == revision).then(|| (work.uid.to_string(), work.generation))
    }

    /// Whether anything was sent of `key` in this session.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.known.contains_key(key) || self.deleting.contains_key(key)
    }

    /// What a pong may say of the cursor; zero while anything is on its way.
    pub(super) fn idle_cursor(&self) -> u64 {
        if self.drained() { self.safe_cursor() } else { 0 }
    }

    /// Nothing waits and nothing is on its way.
    fn drained(&self) -> bool {
        self.listing == Listing::Told && self.queue.waiting() == 0 && self.outgoing.is_none()
    }

    /// Up to here everything taken from the watch has been sent; zero while a listing runs.
    fn safe_cursor(&self) -> u64 {
        if self.listing != Listing::Told {
            return 0;
        }
        self.queue.oldest().map_or(self.seen, |oldest| oldest.saturating_sub(1).min(self.seen))
    }
}
