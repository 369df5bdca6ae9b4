//! One agent's session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the agent ([`Session::frame`]), events of its Works ([`Session::work`]), orders of the
//! registry ([`Session::control`]), time ([`Session::tick`]), outcomes of report writes
//! ([`Session::report_done`]). Goes out, when asked for: frames ([`Session::next_frame`]), reports to write
//! ([`Session::next_report`]), and [`Effect`]s. `now` is monotonic time since any fixed start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::cadence::{dead_after, late_after};
use karmada_proto::credit::{Ledger, Purse};
use karmada_proto::v1::{self, Close, CloseCode, RetryClass, agent_frame, hub_frame};
use karmada_proto::{CHUNK, body, cadence, frame};

use crate::admission::close;
use crate::inbox::{Inbox, Report};
use crate::options::Options;
use crate::ports::{Applied, LinkState, Work, WorkEvent, WorkNotice, WorkReport};
use crate::queue::{Pending, Queue};
use crate::wire;

/// An agent may announce silences up to this long.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);
/// Reports waiting beyond which the agent gets no new status credit.
const INBOX_ROOM: usize = 128;

/// What the registry wants of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    /// Ask the agent for a sign of life.
    Probe,
    /// Ask the agent to leave after this long, and close it if it has not twice that long after.
    Drain(Duration),
    /// Ask the agent to tell the cluster's status again.
    AskCluster,
    /// Close with this.
    Close(Close),
}

/// What the shell does for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The link's state changed.
    State(LinkState),
    /// The agent stored everything up to this revision.
    Persisted(u64),
    /// Sign this request and give the outcome to [`Session::renewed`].
    Renew(Bytes),
    /// Watch again, from a full listing: the agent misses something that is not at hand any more.
    Relist,
}

/// What the agent is known to hold of a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    uid: Arc<str>,
    /// Empty where the last word was a tombstone.
    hash: Bytes,
    /// Suspended and preserve as told; `None` where only the agent's word on the hash is known.
    flags: Option<(bool, bool)>,
}

/// How far the full listing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// Events of the listing are coming in.
    Running,
    /// All have come in, up to this revision; the end is to be told once they are sent.
    Ended(u64),
    /// The agent knows the end, or there was no listing.
    Told,
}

/// A body on its way.
#[derive(Debug)]
struct Outgoing {
    frame: v1::Upsert,
    encoded: Bytes,
}

/// The session.
#[derive(Debug)]
pub struct Session {
    epoch: u64,
    out: VecDeque<hub_frame::Body>,
    effects: VecDeque<Effect>,
    queue: Queue,
    outgoing: Option<Outgoing>,
    known: BTreeMap<Arc<str>, Known>,
    unacked: BTreeMap<Arc<str>, Work>,
    partial: Option<v1::Partial>,
    purse: Purse,
    credit: Ledger,
    inbox: Inbox,
    reports_held_until: Option<Duration>,
    report_retry: Duration,
    listing: Listing,
    agent_holds_objects: bool,
    seen: u64,
    told: u64,
    acked: u64,
    heard: Duration,
    silence: Duration,
    state: LinkState,
    probes: u64,
    leave_by: Option<Duration>,
    closing: bool,
}

/// What a session begins with.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The protocol version agreed on.
    pub protocol: u32,
    /// This session's number.
    pub session_seq: u64,
    /// The hub's epoch.
    pub epoch: u64,
    /// Where the watch resumes; `None`: a full listing.
    pub resumed: Option<u64>,
    /// See [`crate::admission::retry_hint`].
    pub retry_hint: Duration,
    /// The hub's wall clock, milliseconds since 1970 UTC.
    pub hub_clock_ms: i64,
}

impl Session {
    /// Opens a session for `hello` and queues the welcome.
    pub fn open(hello: v1::Hello, opening: &Opening, options: &Options, now: Duration) -> Self {
        let credit = Ledger::new(options.status_window);
        let mut purse = Purse::default();
        purse.add(&hello.credit.unwrap_or_default());
        let welcome = v1::Welcome {
            protocol: opening.protocol,
            session_seq: opening.session_seq,
            epoch: opening.epoch,
            ping_min_ms: options.ping_min.as_millis() as u64,
            ping_max_ms: options.ping_max.as_millis() as u64,
            retry_hint_ms: opening.retry_hint.as_millis() as u64,
            credit: Some(credit.window()),
            hub_clock_ms: opening.hub_clock_ms,
            frame_limit: CHUNK as u32,
            ..v1::Welcome::default()
        };
        let mut session = Self {
            epoch: opening.epoch,
            out: [hub_frame::Body::Welcome(welcome)].into(),
            effects: [Effect::State(LinkState::Connected)].into(),
            queue: Queue::default(),
            outgoing: None,
            known: BTreeMap::new(),
            unacked: BTreeMap::new(),
            partial: hello.partial,
            purse,
            credit,
            inbox: Inbox::default(),
            reports_held_until: None,
            report_retry: options.report_retry,
            listing: Listing::Told,
            agent_holds_objects: hello.objects > 0,
            seen: 0,
            told: 0,
            acked: 0,
            heard: now,
            silence: cadence::FIRST.max(options.ping_min),
            state: LinkState::Connected,
            probes: 0,
            leave_by: None,
            closing: false,
        };
        match opening.resumed {
            Some(revision) => (session.seen, session.told, session.acked) = (revision, revision, revision),
            None => session.listing_starts(),
        }
        session
    }

    /// A full listing begins: at the start, or where a watch could not be resumed.
    pub fn listing_starts(&mut self) {
        self.listing = Listing::Running;
        self.out.push_back(hub_frame::Body::SnapshotStart(v1::SnapshotStart { epoch: self.epoch }));
    }

    /// Where a new watch may resume; `None` while a listing is unfinished.
    pub fn resume_point(&self) -> Option<u64> {
        (self.listing != Listing::Running && self.seen > 0).then_some(self.seen)
    }

    // ------------------------------------------------------------------------------------------ Works

    /// Takes one event of the cluster's Works.
    pub fn work(&mut self, event: WorkEvent) {
        match event {
            WorkEvent::Upsert(work) => {
                self.seen = self.seen.max(work.revision);
                let key = work.key.clone();
                let pending = if work.deleting {
                    Pending::Delete(work)
                } else {
                    Pending::Upsert { work, resend: false }
                };
                self.put(key, pending);
            }
            WorkEvent::Deleted { key, uid, revision } => {
                self.seen = self.seen.max(revision);
                self.put(key, Pending::Release { uid, revision });
            }
            WorkEvent::Synced { revision } => {
                self.seen = self.seen.max(revision);
                if self.listing == Listing::Running {
                    self.listing = Listing::Ended(revision);
                }
            }
        }
    }

    fn put(&mut self, key: Arc<str>, pending: Pending) {
        // What is being sent of an older state is not worth finishing.
        if self.outgoing.as_ref().is_some_and(|out| out.frame.key == *key) {
            self.outgoing = None;
        }
        self.queue.put(key, pending);
    }

    /// Slots waiting to be sent.
    pub fn backlog(&self) -> usize {
        self.queue.waiting()
    }

    /// Reports waiting to be written.
    pub fn reports(&self) -> usize {
        self.inbox.waiting()
    }

    /// The newest revision that the agent has stored.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    // ----------------------------------------------------------------------------------------- frames

    /// Takes one frame of the agent.
    pub fn frame(&mut self, frame: v1::AgentFrame, now: Duration) {
        self.heard = now;
        if self.state == LinkState::Late {
            self.enter(LinkState::Connected);
        }
        let Some(body) = frame.body else {
            self.out.push_back(hub_frame::Body::Unsupported(v1::Unsupported { kind: frame.kind }));
            return;
        };
        use agent_frame::Body as B;
        match body {
            B::Hello(_) => self.close(close(
                CloseCode::Protocol,
                RetryClass::RetryAfter,
                Duration::from_secs(5),
                "a second hello".into(),
            )),
            B::Ping(ping) => self.ping(ping),
            B::Pong(_) => {}
            B::Ack(ack) => self.ack(ack),
            B::WorkStatus(status) => self.work_status(status),
            B::ClusterStatus(status) => {
                self.credit.settle(status.body.len() as u64);
                if let Ok(body) = body::decode(status.encoding, &status.body, status.decoded_size) {
                    self.inbox.put(Report::Cluster(body));
                }
            }
            B::Event(event) => self.inbox.put(Report::Notice(WorkNotice {
                key: event.key,
                uid: event.uid,
                warning: event.r#type == "Warning",
                reason: event.reason,
                message: event.message,
            })),
            B::Credit(credit) => self.purse.add(&credit),
            B::Unsupported(_) => {}
            B::Want(want) => self.want(&want),
            B::Removed(removed) => {
                self.known.remove(removed.key.as_str());
                self.inbox.put(Report::Finalize { key: removed.key, uid: removed.uid });
            }
            B::Orphans(orphans) => self.inbox.put(Report::Orphans(orphans.keys)),
            B::Renew(renew) => self.effects.push_back(Effect::Renew(renew.csr)),
            B::Bye(_) => self.closing = true,
            B::Nack(nack) => self.nack(nack),
        }
    }

    fn ping(&mut self, ping: v1::Ping) {
        self.silence = Duration::from_millis(ping.next_ms).clamp(Duration::from_secs(1), LONGEST_SILENCE);
        let cursor = if self.drained() { self.safe_cursor() } else { 0 };
        self.told = self.told.max(cursor);
        self.out.push_back(hub_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor }));
    }

    fn ack(&mut self, ack: v1::Ack) {
        if ack.epoch != self.epoch || ack.cursor <= self.acked {
            return;
        }
        self.acked = ack.cursor;
        self.unacked.retain(|_, work| work.revision > ack.cursor);
        self.effects.push_back(Effect::Persisted(ack.cursor));
    }

    fn want(&mut self, want: &v1::Want) {
        self.known.remove(want.key.as_str());
        if self.partial.as_ref().is_some_and(|partial| partial.key == want.key) {
            self.partial = None;
        }
        match self.unacked.get(want.key.as_str()).cloned() {
            Some(work) if work.deleting => self.put(work.key.clone(), Pending::Delete(work)),
            Some(work) => self.put(work.key.clone(), Pending::Upsert { work, resend: true }),
            None => self.effects.push_back(Effect::Relist),
        }
    }

    fn work_status(&mut self, status: v1::WorkStatus) {
        self.credit.settle(status.manifest_statuses.len() as u64);
        let manifest_statuses = if status.decoded_size == 0 {
            None
        } else {
            match body::decode(status.encoding, &status.manifest_statuses, status.decoded_size) {
                Ok(body) => Some(body),
                Err(_) => return,
            }
        };
        let held = self.known.entry(status.key.as_str().into()).or_insert_with(|| Known {
            uid: status.uid.as_str().into(),
            hash: status.hash.clone(),
            flags: None,
        });
        let outdated = held.hash != status.hash;
        self.inbox.put(Report::Work(WorkReport {
            key: status.key,
            uid: status.uid,
            revision: status.revision,
            outdated,
            applied: status.applied.map(|a| Applied { ok: a.ok, reason: a.reason, message: a.message }),
            manifest_statuses,
        }));
    }

    fn nack(&mut self, nack: v1::Nack) {
        let uid = self.known.get(nack.key.as_str()).map(|k| k.uid.to_string()).unwrap_or_default();
        self.inbox.put(Report::Work(WorkReport {
            key: nack.key,
            uid,
            revision: nack.revision,
            outdated: false,
            applied: Some(Applied { ok: false, reason: "AppliedFailed".into(), message: nack.message }),
            manifest_statuses: None,
        }));
    }

    /// The outcome of [`Effect::Renew`].
    pub fn renewed(&mut self, reply: v1::RenewReply) {
        self.out.push_back(hub_frame::Body::Renewed(reply));
    }

    // ---------------------------------------------------------------------------------------- sending

    /// The next frame to send, if there is one and the agent takes it.
    pub fn next_frame(&mut self) -> Option<v1::HubFrame> {
        if self.inbox.waiting() < INBOX_ROOM
            && !self.closing
            && let Some(credit) = self.credit.grant()
        {
            self.out.push_back(hub_frame::Body::Credit(credit));
        }
        if let Some(body) = self.out.pop_front() {
            return Some(frame::hub(body));
        }
        if self.closing {
            return None;
        }
        loop {
            if self.outgoing.is_some() {
                return self.next_chunk();
            }
            if let Some(end) = self.snapshot_end() {
                return Some(end);
            }
            if self.purse.room() == 0 {
                return None;
            }
            let (key, pending) = self.queue.pop()?;
            if let Some(frame) = self.start(key, pending) {
                return Some(frame);
            }
        }
    }

    /// Begins to send what a slot held. `None` where the agent holds it already, or its body comes in chunks.
    fn start(&mut self, key: Arc<str>, pending: Pending) -> Option<v1::HubFrame> {
        match pending {
            Pending::Upsert { work, resend } => self.start_upsert(work, resend),
            Pending::Delete(work) if self.listing != Listing::Told && !self.known.contains_key(&key) => {
                // The agent may have lost its ledger: it must know what to remove. Suspended, so that it does
                // not create it first.
                self.queue.put(key, Pending::Delete(work.clone()));
                self.start_upsert(Work { suspended: true, ..work }, true)
            }
            Pending::Delete(work) => {
                let told = Known { uid: work.uid.clone(), hash: Bytes::new(), flags: None };
                if self.listing == Listing::Told && self.known.get(&key) == Some(&told) {
                    return None;
                }
                self.unacked.remove(&key);
                self.known.insert(key.clone(), told);
                let preserve = work.preserve;
                Some(self.tombstone(&key, &work.uid, work.revision, v1::TombstoneReason::Deleted, preserve))
            }
            Pending::Release { uid, revision } => {
                self.unacked.remove(&key);
                self.known.remove(&key);
                Some(self.tombstone(&key, &uid, revision, v1::TombstoneReason::Released, false))
            }
        }
    }

    fn tombstone(
        &mut self,
        key: &str,
        uid: &str,
        revision: u64,
        reason: v1::TombstoneReason,
        preserve: bool,
    ) -> v1::HubFrame {
        self.purse.spend(0);
        let cursor = self.tell_cursor();
        frame::hub(hub_frame::Body::Tombstone(v1::Tombstone {
            key: key.to_owned(),
            uid: uid.to_owned(),
            epoch: self.epoch,
            revision,
            reason: reason.into(),
            preserve,
            cursor,
        }))
    }

    fn start_upsert(&mut self, work: Work, resend: bool) -> Option<v1::HubFrame> {
        let manifests = match wire::manifests(&work.body) {
            Ok(manifests) => manifests,
            Err(error) => {
                // The API validates Works; one that slipped through is said to be broken, not sent.
                self.inbox.put(Report::Work(wire::malformed(&work, &error)));
                return None;
            }
        };
        let hash = body::hash(&manifests);
        let flags = (work.suspended, work.preserve);
        let held = self.known.get(&work.key);
        let same_body = held.is_some_and(|held| held.hash == hash);
        let same = same_body && held.is_some_and(|held| held.uid == work.uid && held.flags == Some(flags));
        if same && !resend && self.listing == Listing::Told {
            return None;
        }
        let listed_blind = self.listing != Listing::Told && self.agent_holds_objects && held.is_none();
        let offer = !resend && (same_body || listed_blind);
        let mut frame = v1::Upsert {
            key: work.key.to_string(),
            uid: work.uid.to_string(),
            epoch: self.epoch,
            revision: work.revision,
            hash: hash.clone(),
            suspended: work.suspended,
            preserve: work.preserve,
            offer,
            ..v1::Upsert::default()
        };
        let known = Known { uid: work.uid.clone(), hash, flags: Some(flags) };
        self.known.insert(work.key.clone(), known);
        self.unacked.insert(work.key.clone(), work);
        if offer {
            self.purse.spend(0);
            frame.cursor = self.tell_cursor();
            return Some(frame::hub(hub_frame::Body::Upsert(frame)));
        }
        let encoded = body::encode(&manifests);
        frame.encoding = encoded.encoding.into();
        frame.encoded_size = encoded.bytes.len() as u64;
        frame.decoded_size = encoded.decoded_size;
        frame.offset = self.held_of(&frame);
        self.outgoing = Some(Outgoing { frame, encoded: encoded.bytes });
        None
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

    fn next_chunk(&mut self) -> Option<v1::HubFrame> {
        let room = self.purse.room();
        if room == 0 {
            return None;
        }
        let mut out = self.outgoing.take()?;
        let chunk = body::chunk(&out.encoded, out.frame.offset, room);
        let end = out.frame.offset + chunk.len() as u64;
        self.purse.spend(chunk.len() as u64);
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
        let cursor = self.tell_cursor();
        let end = v1::SnapshotEnd { epoch: self.epoch, cursor };
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

    // ---------------------------------------------------------------------------------------- reports

    /// The next report to write.
    pub fn next_report(&mut self, now: Duration) -> Option<Report> {
        if self.reports_held_until.is_some_and(|until| now < until) {
            return None;
        }
        self.reports_held_until = None;
        self.inbox.take()
    }

    /// `report` was written (`again` false), or failed and is to be offered again after a pause.
    pub fn report_done(&mut self, report: Report, again: bool, now: Duration) {
        if again {
            self.reports_held_until = Some(now + self.report_retry);
        }
        self.inbox.done(report, again);
    }

    // ------------------------------------------------------------------------------- time and control

    /// The next thing for the shell to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Duration) {
        let silent = now.saturating_sub(self.heard);
        if silent >= dead_after(self.silence) {
            let message = format!("nothing heard for {} s", silent.as_secs());
            self.close(close(CloseCode::Dead, RetryClass::RetryNow, Duration::ZERO, message));
        } else if silent >= late_after(self.silence) && self.state == LinkState::Connected {
            self.enter(LinkState::Late);
            self.probe();
        }
        if self.leave_by.is_some_and(|by| now >= by) {
            self.leave_by = None;
            self.close(close(
                CloseCode::Draining,
                RetryClass::RetryAfter,
                Duration::from_secs(1),
                "the hub goes down for a while".into(),
            ));
        }
    }

    /// When [`Session::tick`] has something to do next.
    pub fn deadline(&self) -> Duration {
        let after = if self.state == LinkState::Connected { late_after } else { dead_after };
        let silence = self.heard + after(self.silence);
        [self.leave_by, self.reports_held_until].into_iter().flatten().fold(silence, Duration::min)
    }

    /// Does what the registry wants.
    pub fn control(&mut self, control: Control, now: Duration) {
        match control {
            Control::Probe => self.probe(),
            Control::Drain(after) => {
                self.leave_by = Some(now + after + after + Duration::from_secs(1));
                self.out.push_back(hub_frame::Body::Drain(v1::Drain { after_ms: after.as_millis() as u64 }));
            }
            Control::AskCluster => {
                let again = v1::Resync { statuses: false, cluster: true };
                self.out.push_back(hub_frame::Body::Resync(again));
            }
            Control::Close(close) => self.close(close),
        }
    }

    /// When a frame was last heard.
    pub fn heard(&self) -> Duration {
        self.heard
    }

    /// From when on silence is death.
    pub fn dead_at(&self) -> Duration {
        self.heard + dead_after(self.silence)
    }

    /// The link's state.
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// True once everything that is still to be said has been said.
    pub fn finished(&self) -> bool {
        self.closing && self.out.is_empty()
    }

    fn probe(&mut self) {
        self.probes += 1;
        let ping = v1::Ping { seq: self.probes, next_ms: self.silence.as_millis() as u64 };
        self.out.push_back(hub_frame::Body::Ping(ping));
    }

    fn enter(&mut self, state: LinkState) {
        self.state = state;
        self.effects.push_back(Effect::State(state));
    }

    fn close(&mut self, close: Close) {
        if !self.closing {
            self.closing = true;
            self.out.clear();
            self.out.push_back(hub_frame::Body::Close(close));
        }
    }
}

#[cfg(test)]
mod tests;
