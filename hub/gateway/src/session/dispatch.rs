//! The Works that go out: what changed in the hub, what the agent is known to hold, what is on its way.
//!
//! Comes in: events of the cluster's Works, the agent's acks and wants. Goes out, when asked for: frames, as far as the
//! agent's credit goes. One slot per Work: what is newer replaces what waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::body;
use karmada_proto::credit::SendCredit;
use karmada_proto::digest::{Root, Seed};
use karmada_proto::v1::{self, Table, hub_frame};
use karmada_proto::{DIGESTS, frame};

use crate::encodings::Encodings;
use crate::inbox::{Inbox, Report};
use crate::ports::{Batch, Work, WorkEvent};
use crate::queue::{Pending, Queue};
use crate::session::comparison::{Comparison, Holds, Row, Step};
use crate::session::packing::Packs;
use crate::session::withheld::{Holding, Withheld};
use crate::work_body;

/// The longest hash that is kept of a peer's.
const HASH: usize = 64;

/// Keys in one frame of what the hub lacks.
const LACKING: usize = 128;

/// Slots taken beyond which a report of what the hub does not hold is not answered.
const RELEASES: usize = 1024;

/// What the agent is known to hold of a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    uid: Arc<str>,
    /// Empty where the last word was a tombstone.
    hash: Bytes,
    /// What was told beside the body, or with the tombstone; `None` where only the agent's word on the hash is known.
    marks: Option<Marks>,
}

/// What a Work says beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    suspended: bool,
    preserve: bool,
    generation: u64,
    retry: Arc<str>,
}

impl Marks {
    fn of(work: &Work) -> Self {
        let Work { suspended, preserve, generation, ref retry, .. } = *work;
        Self { suspended, preserve, generation, retry: retry.clone() }
    }

    /// What a tombstone of `work` says.
    fn of_tombstone(work: &Work) -> Self {
        Self { suspended: false, generation: 0, ..Self::of(work) }
    }
}

/// How far the full listing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// Events of the listing are coming in, and are sent.
    Running,
    /// Events of a listing are coming in of which only the differences are to be sent.
    Gathering,
    /// All of that have come in, up to this revision; the agent is to say what it holds.
    Comparing(u64),
    /// All have come in, up to this revision; the end is to be told once they are sent.
    Ended(u64),
    /// The agent knows the end, or there was no listing.
    Told,
}

/// How the hub answers an agent which says that it never held a Work that it was told to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeverHeld {
    /// It was not told to remove it.
    NotAsked,
    /// It is sent the body, and then told again.
    BodyFollows,
    /// It was sent the body in this session already.
    Again,
}

/// A body on its way.
#[derive(Debug)]
struct Outgoing {
    frame: v1::Upsert,
    encoded: Bytes,
    /// A body of this Work was given up for it.
    is_second: bool,
}

impl Outgoing {
    /// Whether what waits has this very body, under the same marks, and nobody asks for it anew.
    fn is_body_of(&self, pending: &Pending) -> bool {
        match pending {
            Pending::Upsert { work, resend: false } if self.has_marks_of(work) => {
                work_body::body_hash(&work.body.json()).is_some_and(|hash| hash == self.frame.hash)
            }
            _ => false,
        }
    }

    /// Whether `pending`, which has another body, can wait until this one is sent: whoever changes a Work faster than the line takes its body
    /// would else keep the site from ever having any.
    fn is_sent_before(&self, pending: &Pending) -> bool {
        let Pending::Upsert { work, resend: false } = pending else { return false };
        self.is_second && self.has_marks_of(work)
    }

    /// Who suspends a Work while its body is on its way does not want the site to have it enforced before it hears of that.
    fn has_marks_of(&self, work: &Work) -> bool {
        let frame = &self.frame;
        (&*work.uid, &*work.retry, work.suspended, work.preserve)
            == (&*frame.uid, &*frame.retry, frame.suspended, frame.preserve)
    }
}

/// The Works of one session.
#[derive(Debug)]
pub(super) struct Dispatch {
    epoch: u64,
    queue: Queue,
    outgoing: Option<Outgoing>,
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
    withheld: Withheld,
    /// The revision of the listing that ended last.
    listed: u64,
    agent_holds_objects: bool,
    seen: u64,
    told: u64,
    acked: u64,
}

impl Dispatch {
    /// For what `hello` says that the agent holds; `resumed`: where the watch resumes; `holding`: which deletes of listings wait.
    pub(super) fn new(epoch: u64, hello: v1::Hello, resumed: Option<u64>, holding: Option<Holding>) -> Self {
        let at = resumed.unwrap_or(0);
        let compares = holding.is_none() && hello.features.iter().any(|feature| feature == DIGESTS);
        Self {
            epoch,
            queue: Queue::default(),
            outgoing: None,
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
            withheld: Withheld::new(holding),
            listed: 0,
            agent_holds_objects: hello.objects > 0,
            seen: at,
            told: at,
            acked: at,
        }
    }

    /// What is packed for other sessions as well is packed here.
    pub(super) fn packs_with(&mut self, encodings: Arc<Encodings>) {
        self.packs.share(encodings);
    }

    /// What the agent holds is of this hub's history.
    pub(super) fn of_our_history(&mut self) {
        self.is_anew = false;
    }

    /// A full listing begins. Where the agent holds something and compares, its differences alone are told.
    pub(super) fn listing_starts(&mut self) {
        self.withheld.listing_starts();
        self.comparison = None;
        // A body that was sent for a removal and did not come through is sent once more.
        self.never_held.clear();
        self.agent_holds_objects |= !self.known.is_empty();
        self.listing = if self.seed.is_some() && self.agent_holds_objects {
            Listing::Gathering
        } else {
            let start = v1::SnapshotStart { epoch: self.epoch, ..v1::SnapshotStart::default() };
            self.said.push_back(hub_frame::Body::SnapshotStart(start));
            Listing::Running
        };
    }

    /// Whether what the agent holds is compared with what it is to hold: not while deletes are held back from it.
    pub(super) fn compares(&self) -> bool {
        self.seed.is_some()
    }

    /// Counts what changed of the Works in this session.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the agent is asked what it holds.
    pub(super) fn is_comparing(&self) -> bool {
        matches!(self.listing, Listing::Comparing(_))
    }

    /// Whether nothing waits to be sent or to be answered.
    pub(super) fn is_idle(&self) -> bool {
        self.drained() && self.said.is_empty()
    }

    /// Whether the agent has all that was sent.
    pub(super) fn is_acked(&self) -> bool {
        self.unacked.is_empty()
    }

    /// A person let the deletes up to `revision` go out. True where such may have been held back from this agent.
    pub(super) fn confirm_deletes(&mut self, revision: u64) -> bool {
        self.withheld.confirm(revision)
    }

    /// What the listing that just ended held back, and how many deletes; `None` where that were none, or it is said already.
    pub(super) fn take_held(&mut self) -> Option<(Batch, u64)> {
        if self.listing == Listing::Told { self.withheld.take_told(self.epoch, self.listed) } else { None }
    }

    /// What was held is over with this `ack`, where it is.
    pub(super) fn hold_ends(&mut self, ack: &v1::Ack) -> Option<Batch> {
        let is_heard = ack.epoch == self.epoch && self.listing == Listing::Told;
        if is_heard { self.withheld.ends(ack) } else { None }
    }

    /// Whether the site was told that deletes wait, and none does any more: it writes no cursor before it is listed everything once more.
    pub(super) fn is_to_be_listed_anew(&self) -> bool {
        self.listing == Listing::Told && self.withheld.is_to_be_listed_anew()
    }

    /// Where a new watch may resume; `None` while a listing is unfinished.
    pub(super) fn resume_point(&self) -> Option<u64> {
        (!self.is_listing() && self.seen > 0).then_some(self.seen)
    }

    /// Whether a listing is coming in.
    pub(super) fn is_listing(&self) -> bool {
        matches!(self.listing, Listing::Running | Listing::Gathering)
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
                if self.is_listing() {
                    self.listed = revision;
                }
                match self.listing {
                    Listing::Running => self.listing = Listing::Ended(revision),
                    Listing::Gathering => self.gathered(revision),
                    _ => {}
                }
            }
        }
    }

    // ------------------------------------------------------------------------------------- comparison

    /// All that the agent is to hold is at hand.
    fn gathered(&mut self, revision: u64) {
        let Some(seed) = self.seed else { return };
        let start = v1::SnapshotStart { epoch: self.epoch, differences: true, anew: self.is_anew };
        self.said.push_back(hub_frame::Body::SnapshotStart(start));
        self.listing = Listing::Comparing(revision);
        let mut comparison = Comparison::new(seed, self.queue.works().filter_map(row_of).collect());
        let step = comparison.begin(self.theirs.take());
        self.comparison = Some(comparison);
        self.compared(step);
    }

    /// The agent tells the sums of its buckets. False where nobody asked for them.
    pub(super) fn sums(&mut self, sums: &[u8]) -> bool {
        let step = self.comparison.as_mut().map(|comparison| comparison.sums(sums));
        step.is_some_and(|step| self.compared(step))
    }

    /// The agent tells rows. False where nobody asked for them.
    pub(super) fn rows(&mut self, rows: v1::Rows) -> bool {
        let step = self.comparison.as_mut().map(|comparison| comparison.rows(rows));
        step.is_some_and(|step| self.compared(step))
    }

    /// The agent did not answer: it is asked from the beginning.
    pub(super) fn compare_again(&mut self) {
        if let Some(comparison) = &mut self.comparison {
            let step = comparison.begin(None);
            self.compared(step);
        }
    }

    fn compared(&mut self, step: Step) -> bool {
        let table = Table::Works as u32;
        match step {
            Step::AskSums => self.said.push_back(hub_frame::Body::Compare(v1::Compare { table })),
            Step::AskRows(buckets) => {
                self.said.push_back(hub_frame::Body::Differing(v1::Differing { table, buckets }));
            }
            Step::Wait => {}
            Step::Equal | Step::Known => self.differences_known(),
            Step::Nonsense => return false,
        }
        true
    }

    /// What the agent holds as it should is sent no more; what it holds otherwise is offered, what it lacks sent.
    fn differences_known(&mut self) {
        let (Listing::Comparing(revision), Some(mut comparison)) = (self.listing, self.comparison.take())
        else {
            return;
        };
        for (Row { work, hash, .. }, holds) in comparison.outcome() {
            if holds == Holds::Same {
                self.holds_already(work, hash);
                continue;
            }
            // What was sent of it in this session did not come through.
            self.known.remove(&work.key);
            self.never_held.remove(&work.key);
            if holds != Holds::Marks {
                self.queue.resend(&work.key);
            }
        }
        let lacking = comparison.beyond().into_iter().filter(|key| !self.queue.holds(key));
        let lacking: Vec<String> = lacking.collect();
        for keys in lacking.chunks(LACKING) {
            self.said.push_back(hub_frame::Body::Lacking(v1::Lacking { keys: keys.to_vec() }));
        }
        self.listing = Listing::Ended(revision);
    }

    /// The agent holds what is listed of a Work. What changed of it since is sent all the same.
    fn holds_already(&mut self, work: Work, hash: Bytes) {
        self.queue.settle(&work.key, work.revision);
        let marks = Some(if work.deleting { Marks::of_tombstone(&work) } else { Marks::of(&work) });
        self.known.insert(work.key.clone(), Known { uid: work.uid.clone(), hash, marks });
        if work.deleting {
            self.deleting.insert(work.key.clone(), work);
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
                self.withheld.acked(key);
                false
            }
        });
        Some(ack.cursor)
    }

    /// The agent misses a body. False where it is not at hand any more.
    pub(super) fn want(&mut self, want: &v1::Want) -> bool {
        self.known.remove(want.key.as_str());
        if self.partial.as_ref().is_some_and(|partial| partial.key == want.key) {
            self.partial = None;
        }
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

    /// The agent holds `key` no more. Where its deletion was held back, the site had it already, and is to hear that it may forget it.
    pub(super) fn removed(&mut self, key: &str) {
        self.withheld.drops(key);
        self.known.remove(key);
        self.deleting.remove(key);
    }

    /// The agent removed what the hub does not hold, or no more: it may forget it. Where much waits already it is told in its next session,
    /// in which it says so again.
    pub(super) fn release(&mut self, removed: v1::Removed) {
        if self.queue.waiting() < RELEASES {
            let (uid, revision) = (removed.uid.into(), removed.revision);
            self.put(removed.key.into(), Pending::Release { uid, revision, preserve: true });
        }
    }

    /// The agent names these as orphans: what was decided of them is told again, as it may not have known of them before.
    pub(super) fn names(&mut self, orphans: &[String]) {
        let told = orphans.iter().filter_map(|key| self.let_go.get(key.as_str()));
        self.named_again.extend(told.cloned());
    }

    /// A person decided what becomes of `key`, which the agent enforces and the hub knows nothing of. Told once in a session, and again when
    /// the agent names it.
    pub(super) fn let_go(&mut self, key: &str, preserve: bool) {
        let key: Arc<str> = key.into();
        // A Work of that name which came meanwhile is no orphan.
        let came = self.known.contains_key(&key) || self.queue.holds(&key);
        if came || self.let_go.contains(&key) && !self.named_again.remove(&key) {
            return;
        }
        // Of which life of the hub its revision is, nobody knows: this word is newer.
        let release = Pending::Release { uid: "".into(), revision: i64::MAX as u64, preserve };
        if self.queue.waiting() < RELEASES {
            self.let_go.insert(key.clone());
            self.put(key, release);
        }
    }

    /// Whether the agent was told to let go of `key`.
    pub(super) fn has_let_go(&self, key: &str) -> bool {
        self.let_go.contains(key)
    }

    /// The agent was told to remove `key` and knows nothing of it. It is sent what to look for and remove; an agent that
    /// says the same again is not asked again in this session.
    pub(super) fn never_held(&mut self, key: &str, uid: &str) -> NeverHeld {
        let Some(work) = self.deleting.get(key).filter(|work| *work.uid == *uid).cloned() else {
            return NeverHeld::NotAsked;
        };
        if !self.never_held.insert(work.key.clone()) {
            return NeverHeld::Again;
        }
        self.known.remove(key);
        self.put(work.key.clone(), Pending::Delete(work));
        NeverHeld::BodyFollows
    }

    /// The hash of the body that a report is about. One of a Work that nothing was sent of yet tells what the agent holds.
    pub(super) fn reported(&mut self, status: &v1::WorkStatus) -> Bytes {
        // A copy: a slice would keep the whole frame.
        let hash = Bytes::copy_from_slice(&status.hash[..status.hash.len().min(HASH)]);
        self.known.entry(status.key.as_str().into()).or_insert_with(|| Known {
            uid: status.uid.as_str().into(),
            hash: hash.clone(),
            marks: None,
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
    pub(super) fn idle_cursor(&mut self) -> u64 {
        if self.drained() { self.tell_cursor() } else { 0 }
    }

    /// The next frame, if there is one and `purse` pays for it. A Work that cannot be sent is reported to `inbox`.
    pub(super) fn next_frame(&mut self, purse: &mut SendCredit, inbox: &mut Inbox) -> Option<v1::HubFrame> {
        loop {
            if let Some(body) = self.said.pop_front() {
                return Some(frame::hub(body));
            }
            if self.outgoing.is_some() {
                return self.next_chunk(purse);
            }
            // What of the slots is to be sent, the agent has still to say.
            if matches!(self.listing, Listing::Gathering | Listing::Comparing(_)) {
                return None;
            }
            if let Some(end) = self.snapshot_end() {
                return Some(end);
            }
            if purse.room() == 0 {
                return None;
            }
            let (key, pending) = self.queue.pop()?;
            if let Some(frame) = self.start(key, pending, purse, inbox) {
                return Some(frame);
            }
        }
    }

    /// Begins to send what a slot held. `None` where the agent holds it already, or its body comes in chunks.
    fn start(
        &mut self,
        key: Arc<str>,
        pending: Pending,
        purse: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        match pending {
            Pending::Upsert { work, resend } => self.start_upsert(work, resend, purse, inbox),
            Pending::Delete(work) if self.withheld.holds(&work, self.listing != Listing::Told) => None,
            // Nobody let it go out: what the site still has of it is an orphan in its next listing.
            Pending::Release { .. } if self.withheld.drops(&key) => None,
            Pending::Delete(work)
                if self.needs_body_first(&key) && work_body::manifests(&work.body.json()).is_ok() =>
            {
                // The agent may have lost its ledger: it must know what to remove. Suspended, so that it does
                // not create it first.
                self.queue.put(key, Pending::Delete(work.clone()));
                self.start_upsert(Work { suspended: true, ..work }, true, purse, inbox)
            }
            Pending::Delete(work) => {
                let marks = Some(Marks::of_tombstone(&work));
                let told = Known { uid: work.uid.clone(), hash: Bytes::new(), marks };
                if self.listing == Listing::Told && self.known.get(&key) == Some(&told) {
                    return None;
                }
                self.unacked.remove(&key);
                self.given_up.remove(&key);
                self.known.insert(key.clone(), told);
                self.deleting.insert(key.clone(), work.clone());
                purse.spend(0);
                Some(self.tombstone(v1::Tombstone {
                    key: key.to_string(),
                    uid: work.uid.to_string(),
                    revision: work.revision,
                    reason: v1::TombstoneReason::Deleted.into(),
                    preserve: work.preserve,
                    retry: work.retry.to_string(),
                    ..v1::Tombstone::default()
                }))
            }
            Pending::Release { uid, revision, preserve } => {
                self.unacked.remove(&key);
                self.given_up.remove(&key);
                self.known.remove(&key);
                self.deleting.remove(&key);
                self.never_held.remove(&key);
                purse.spend(0);
                Some(self.tombstone(v1::Tombstone {
                    key: key.to_string(),
                    uid: uid.to_string(),
                    revision,
                    reason: v1::TombstoneReason::Released.into(),
                    preserve,
                    ..v1::Tombstone::default()
                }))
            }
        }
    }

    /// In a listing the agent's ledger may be an older one, or none; and where it said that it is.
    fn needs_body_first(&self, key: &Arc<str>) -> bool {
        let doubtful = self.listing != Listing::Told || self.never_held.contains(key);
        doubtful && !self.known.contains_key(key)
    }

    /// `tombstone`, of this epoch and with the cursor that it moves to.
    fn tombstone(&mut self, tombstone: v1::Tombstone) -> v1::HubFrame {
        let (epoch, cursor) = (self.epoch, self.tell_cursor());
        frame::hub(hub_frame::Body::Tombstone(v1::Tombstone { epoch, cursor, ..tombstone }))
    }

    fn start_upsert(
        &mut self,
        work: Work,
        resend: bool,
        purse: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        let manifests = match work_body::manifests(&work.body.json()) {
            Ok(manifests) => manifests,
            Err(error) => {
                // The API validates Works; one that slipped through is said to be broken, not sent.
                inbox.put(Report::Work(work_body::malformed(&work, &error), None));
                return None;
            }
        };
        let hash = body::hash(&manifests);
        let marks = Marks::of(&work);
        let held = self.known.get(&work.key);
        let same_body = held.is_some_and(|held| held.hash == hash);
        let same =
            same_body && held.is_some_and(|held| held.uid == work.uid && held.marks.as_ref() == Some(&marks));
        if same && !resend && self.listing == Listing::Told {
            return None;
        }
        let listed_blind = self.listing != Listing::Told && self.agent_holds_objects && held.is_none();
        let offer = !resend && (same_body || listed_blind);
        if self.listing != Listing::Told {
            self.withheld.lists(&work);
        }
        let mut frame = v1::Upsert {
            key: work.key.to_string(),
            uid: work.uid.to_string(),
            epoch: self.epoch,
            revision: work.revision,
            hash: hash.clone(),
            suspended: work.suspended,
            preserve: work.preserve,
            generation: work.generation,
            retry: work.retry.to_string(),
            offer,
            keep_former: self.withheld.keeps(&work.key),
            ..v1::Upsert::default()
        };
        let base = if resend || offer { None } else { self.base_of(&work) };
        let known = Known { uid: work.uid.clone(), hash, marks: Some(marks) };
        self.known.insert(work.key.clone(), known);
        self.unacked.insert(work.key.clone(), Work { former: None, ..work });
        if offer {
            purse.spend(0);
            frame.cursor = self.tell_cursor();
            return Some(frame::hub(hub_frame::Body::Upsert(frame)));
        }
        let is_begun = self.partial.as_ref().is_some_and(|partial| partial.hash == frame.hash);
        let telling = self.packs.pack(&manifests, base.filter(|_| !is_begun));
        let encoded = telling.put_in(&mut frame);
        if frame.base.is_empty() {
            frame.offset = self.held_of(&frame);
        }
        let is_second = self.given_up.remove(frame.key.as_str());
        self.outgoing = Some(Outgoing { frame, encoded, is_second });
        None
    }

    /// The body that the agent holds of a Work, on its disk, where it is at hand: what `work` was before, if that is what was told last and
    /// acknowledged; where nothing was told in this session, if the agent had acknowledged it before.
    fn base_of(&self, work: &Work) -> Option<Bytes> {
        let former = work.former.as_ref().filter(|_| self.packs.tells_difference(&work.key))?;
        if self.listing != Listing::Told || self.unacked.contains_key(&work.key) {
            return None;
        }
        let known = self.known.get(&work.key);
        if known.is_none() && !self.packs.was_held_before(former.revision) {
            return None;
        }
        let base = work_body::manifests(&former.body.json()).ok()?;
        known.is_none_or(|known| known.hash == body::hash(&base)).then_some(base)
    }

    /// How much of this very body the agent holds from a session that was cut.
    fn held_of(&mut self, frame: &v1::Upsert) -> u64 {
        match &self.partial {
            Some(p) if p.key == frame.key && p.hash == frame.hash && p.received < frame.encoded_size => {
                let received = p.received;
                self.partial = None;
                received
            }
            _ => 0,
        }
    }

    fn next_chunk(&mut self, purse: &mut SendCredit) -> Option<v1::HubFrame> {
        let room = purse.room();
        if room == 0 {
            return None;
        }
        let mut out = self.outgoing.take()?;
        let chunk = body::chunk(&out.encoded, out.frame.offset, room);
        let end = out.frame.offset + chunk.len() as u64;
        purse.spend(chunk.len() as u64);
        let mut frame = out.frame.clone();
        frame.chunk = chunk;
        if end < out.frame.encoded_size {
            out.frame.offset = end;
            self.outgoing = Some(out);
        } else {
            frame.cursor = self.tell_cursor();
        }
        Some(frame::hub(hub_frame::Body::Upsert(frame)))
    }

    fn snapshot_end(&mut self) -> Option<v1::HubFrame> {
        let Listing::Ended(revision) = self.listing else { return None };
        if self.queue.oldest().is_some_and(|oldest| oldest <= revision) {
            return None;
        }
        self.listing = Listing::Told;
        self.is_anew = false;
        let cursor = self.tell_cursor();
        self.withheld.listing_ends(cursor);
        let end = v1::SnapshotEnd { epoch: self.epoch, cursor, withheld: self.withheld.any_waits() };
        Some(frame::hub(hub_frame::Body::SnapshotEnd(end)))
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

    fn tell_cursor(&mut self) -> u64 {
        let cursor = self.safe_cursor();
        self.told = self.told.max(cursor);
        cursor
    }
}

/// What an agent is to hold of a Work that waits; `None` where that cannot be told.
fn row_of(work: &Work) -> Option<(Arc<str>, Row)> {
    Some((work.key.clone(), Row::of(work)?))
}
