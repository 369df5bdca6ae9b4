//! The agent's end of a session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the hub ([`Session::frame`]), time ([`Session::tick`]), the word that changes are on disk
//! ([`Session::committed`]). Goes out, when asked for: changes to commit ([`Session::take_changes`]) before
//! anything is acknowledged (rule R13), frames ([`Session::next_frame`]), and in the end why it ended
//! ([`Session::ended`]). `now` is monotonic time since any fixed start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::body::Assembly;
use karmada_proto::cadence::{Cadence, dead_after};
use karmada_proto::credit::{Ledger as CreditLedger, Purse};
use karmada_proto::v1::{
    self, AgentFrame, CloseCode, Credit, HubFrame, NackCode, RetryClass, TombstoneReason, agent_frame,
    hub_frame,
};
use karmada_proto::{PROTOCOL, frame};

use crate::outbox::Outbox;
use crate::schedule::Advice;

/// What the hub may send before the ledger has it.
const WINDOW: Credit = Credit { messages: 256, bytes: 1 << 20 };
/// A cursor that moves without anything to store is written this seldom: an idle agent writes nothing.
const CURSOR_EVERY: Duration = Duration::from_secs(300);

/// What the ledger holds of one Work, as far as the session must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The Work's uid.
    pub uid: String,
    /// The hub's revision of it.
    pub revision: u64,
    /// Of its body.
    pub hash: Bytes,
    /// How far its life has come.
    pub phase: Phase,
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

/// One change for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new desired state.
    Put {
        /// The Work's name.
        key: String,
        /// Its uid.
        uid: String,
        /// The hub's revision.
        revision: u64,
        /// Of `body`.
        hash: Bytes,
        /// `{"manifests":[…]}`.
        body: Bytes,
        /// Leave the member as it is.
        suspended: bool,
        /// Keep the member's objects once the Work is deleted.
        preserve: bool,
    },
    /// The same body under a newer revision.
    Touch {
        /// The Work's name.
        key: String,
        /// Its uid.
        uid: String,
        /// The hub's revision.
        revision: u64,
        /// Leave the member as it is.
        suspended: bool,
        /// Keep the member's objects once the Work is deleted.
        preserve: bool,
    },
    /// Remove its objects from the member, or (`preserve`) only our marks.
    Delete {
        /// The Work's name.
        key: String,
        /// The uid that the tombstone names: what the removal is confirmed for.
        uid: String,
        /// The revision of the tombstone.
        revision: u64,
        /// Strip instead of delete.
        preserve: bool,
    },
    /// Forget it; the member stays as it is.
    Forget {
        /// The Work's name.
        key: String,
    },
    /// Everything is in this epoch from now on; the cursor begins anew.
    Epoch(u64),
    /// Everything up to here is held.
    Cursor(u64),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// In plain words.
    pub reason: String,
    /// When to dial again.
    pub advice: Advice,
    /// The hub's code, where it gave one.
    pub code: Option<CloseCode>,
    /// Where to dial instead.
    pub relocate: Option<String>,
}

/// What a session begins with.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// From the identity.
    pub cluster_name: String,
    /// Of the member.
    pub cluster_uid: String,
    /// Of the agent's key.
    pub key_fingerprint: String,
    /// Random per process.
    pub boot_id: String,
    /// From the ledger.
    pub epoch: u64,
    /// From the ledger.
    pub cursor: u64,
    /// The agent's wall clock, milliseconds since 1970 UTC.
    pub clock_ms: i64,
    /// From the schedule.
    pub attempt: u32,
}

/// The session.
#[derive(Debug)]
pub struct Session {
    held: BTreeMap<String, Held>,
    epoch: u64,
    cursor: u64,
    welcomed: bool,
    hub_offset_ms: Option<i64>,
    clock_ms: i64,
    retry_hint: Duration,
    out: VecDeque<agent_frame::Body>,
    changes: Vec<Change>,
    committing: bool,
    next_cursor: u64,
    lazy_cursor: u64,
    cursor_written: Duration,
    acked: u64,
    listing: Option<BTreeSet<String>>,
    wanted: BTreeSet<String>,
    orphans: Option<Vec<String>>,
    assembly: Assembly,
    credit: CreditLedger,
    settled: Vec<u64>,
    purse: Purse,
    cadence: Cadence,
    pings: u64,
    awaiting_pong: bool,
    sent: Duration,
    heard: Duration,
    leave_at: Option<Duration>,
    resync: v1::Resync,
    renewed: Option<v1::RenewReply>,
    ended: Option<Ended>,
}

impl Session {
    /// Opens a session over what the ledger holds, and queues the hello. `assembly` carries a half-received body
    /// over from the session before; `cadence` what was learned of the path.
    pub fn open(
        opening: Opening,
        held: BTreeMap<String, Held>,
        assembly: Assembly,
        cadence: Cadence,
        now: Duration,
    ) -> Self {
        let credit = CreditLedger::new(WINDOW);
        let partial = assembly.partial().map(|(key, hash, received)| v1::Partial {
            key: key.to_owned(),
            hash: hash.clone(),
            received,
        });
        let hello = v1::Hello {
            protocol_min: PROTOCOL.0,
            protocol_max: PROTOCOL.1,
            cluster_name: opening.cluster_name,
            cluster_uid: opening.cluster_uid,
            key_fingerprint: opening.key_fingerprint,
            boot_id: opening.boot_id,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            features: Vec::new(),
            epoch: opening.epoch,
            cursor: opening.cursor,
            objects: held.len() as u32,
            ledger_root: Bytes::new(),
            clock_ms: opening.clock_ms,
            credit: Some(credit.window()),
            partial,
            attempt: opening.attempt,
        };
        Self {
            held,
            epoch: opening.epoch,
            cursor: opening.cursor,
            welcomed: false,
            hub_offset_ms: None,
            clock_ms: opening.clock_ms,
            retry_hint: Duration::ZERO,
            out: [agent_frame::Body::Hello(hello)].into(),
            changes: Vec::new(),
            committing: false,
            next_cursor: 0,
            lazy_cursor: 0,
            cursor_written: now,
            acked: opening.cursor,
            listing: None,
            wanted: BTreeSet::new(),
            orphans: None,
            assembly,
            credit,
            settled: Vec::new(),
            purse: Purse::default(),
            cadence,
            pings: 0,
            awaiting_pong: false,
            sent: now,
            heard: now,
            leave_at: None,
            resync: v1::Resync::default(),
            renewed: None,
            ended: None,
        }
    }

    // -------------------------------------------------------------------------------------- coming in

    /// Takes one frame of the hub.
    pub fn frame(&mut self, frame: HubFrame, now: Duration) {
        self.heard = now;
        let Some(body) = frame.body else {
            self.out.push_back(agent_frame::Body::Unsupported(v1::Unsupported { kind: frame.kind }));
            return;
        };
        use hub_frame::Body as B;
        match body {
            B::Welcome(welcome) => self.welcome(&welcome),
            B::Close(close) => self.close(close),
            B::Drain(drain) => self.leave_at = Some(now + Duration::from_millis(drain.after_ms)),
            B::Ping(ping) => {
                self.out.push_back(agent_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor: 0 }));
            }
            B::Pong(pong) => self.pong(pong),
            B::Credit(credit) => self.purse.add(&credit),
            B::Unsupported(_) => {}
            B::Renewed(reply) => self.renewed = Some(reply),
            B::Resync(again) => {
                self.resync.statuses |= again.statuses;
                self.resync.cluster |= again.cluster;
            }
            _ if !self.welcomed => {
                self.end("the hub sent Works before its welcome".into(), Advice::Lost(self.retry_hint));
            }
            B::SnapshotStart(_) => self.listing = Some(BTreeSet::new()),
            B::SnapshotEnd(end) => self.snapshot_end(end),
            B::Bookmark(bookmark) => self.lazy_cursor = self.lazy_cursor.max(bookmark.cursor),
            B::Upsert(upsert) => self.upsert(&upsert),
            B::Tombstone(tombstone) => self.tombstone(tombstone),
        }
    }

    fn welcome(&mut self, welcome: &v1::Welcome) {
        if welcome.epoch < self.epoch {
            // Rule R12. The hub mints above what our hello said; one that does not is not to be obeyed.
            let reason = format!("the hub is in epoch {}, this site has seen {}", welcome.epoch, self.epoch);
            self.end(reason, Advice::After(Duration::from_secs(60)));
            return;
        }
        if welcome.epoch > self.epoch {
            self.changes.push(Change::Epoch(welcome.epoch));
            (self.epoch, self.cursor, self.acked) = (welcome.epoch, 0, 0);
            // Revisions of an older epoch say nothing in this one.
            for held in self.held.values_mut() {
                held.revision = 0;
            }
        }
        self.welcomed = true;
        self.purse.add(&welcome.credit.unwrap_or_default());
        self.retry_hint = Duration::from_millis(welcome.retry_hint_ms);
        self.cadence
            .bound(Duration::from_millis(welcome.ping_min_ms), Duration::from_millis(welcome.ping_max_ms));
        self.hub_offset_ms = Some(welcome.hub_clock_ms.saturating_sub(self.clock_ms));
    }

    fn close(&mut self, close: v1::Close) {
        let after = Duration::from_millis(close.after_ms);
        let advice = match close.retry() {
            RetryClass::RetryNow | RetryClass::Relocate => Advice::Now,
            RetryClass::RetryAfter => Advice::After(after),
            RetryClass::RetryUnspecified => Advice::Lost(self.retry_hint),
            // Never for ever: a hub that is mended must find its agents back.
            RetryClass::Rejoin | RetryClass::Fatal => Advice::After(after.max(Duration::from_secs(60))),
        };
        let (code, relocate) = (close.code(), Some(close.endpoint).filter(|e| !e.is_empty()));
        self.ended.get_or_insert(Ended { reason: close.message, advice, code: Some(code), relocate });
    }

    fn pong(&mut self, pong: v1::Pong) {
        if self.awaiting_pong && pong.seq == self.pings {
            self.awaiting_pong = false;
            self.cadence.proved();
        }
        self.lazy_cursor = self.lazy_cursor.max(pong.cursor);
    }

    fn upsert(&mut self, upsert: &v1::Upsert) {
        let cost = upsert.chunk.len() as u64;
        if upsert.epoch != self.epoch {
            self.settled.push(cost);
            return;
        }
        if upsert.offer {
            self.settled.push(cost);
            self.offer(upsert);
            return;
        }
        match self.assembly.take(upsert) {
            // What memory holds is not the hub's concern: the window covers it.
            Ok(None) => self.settled.push(cost),
            Ok(Some(body)) => {
                self.settled.push(cost);
                self.mark(&upsert.key);
                self.wanted.remove(&upsert.key);
                self.put(upsert, body);
                self.moves_to(upsert.cursor);
            }
            Err(error) => {
                self.settled.push(cost);
                if let karmada_proto::body::BodyError::TooLarge(_) = error {
                    self.nack(upsert, NackCode::TooLarge, error.to_string());
                    return;
                }
                self.want(upsert);
                self.moves_to(upsert.cursor);
            }
        }
    }

    fn put(&mut self, upsert: &v1::Upsert, body: Bytes) {
        let stale = self
            .held
            .get(&upsert.key)
            .is_some_and(|held| held.uid == upsert.uid && held.revision > upsert.revision);
        if stale {
            return;
        }
        let held = Held {
            uid: upsert.uid.clone(),
            revision: upsert.revision,
            hash: upsert.hash.clone(),
            phase: Phase::Desired,
        };
        self.held.insert(upsert.key.clone(), held);
        self.changes.push(Change::Put {
            key: upsert.key.clone(),
            uid: upsert.uid.clone(),
            revision: upsert.revision,
            hash: upsert.hash.clone(),
            body,
            suspended: upsert.suspended,
            preserve: upsert.preserve,
        });
    }

    /// The hub names a body by its hash: kept where it is the one held, asked for where it is not.
    fn offer(&mut self, upsert: &v1::Upsert) {
        self.mark(&upsert.key);
        match self.held.get_mut(&upsert.key) {
            Some(held) if held.hash == upsert.hash && held.phase == Phase::Desired => {
                held.uid.clone_from(&upsert.uid);
                held.revision = upsert.revision;
                self.changes.push(Change::Touch {
                    key: upsert.key.clone(),
                    uid: upsert.uid.clone(),
                    revision: upsert.revision,
                    suspended: upsert.suspended,
                    preserve: upsert.preserve,
                });
            }
            _ => self.want(upsert),
        }
        self.moves_to(upsert.cursor);
    }

    fn want(&mut self, upsert: &v1::Upsert) {
        self.wanted.insert(upsert.key.clone());
        let want = v1::Want { key: upsert.key.clone(), hash: upsert.hash.clone() };
        self.out.push_back(agent_frame::Body::Want(want));
    }

    fn nack(&mut self, upsert: &v1::Upsert, code: NackCode, message: String) {
        self.out.push_back(agent_frame::Body::Nack(v1::Nack {
            key: upsert.key.clone(),
            epoch: upsert.epoch,
            revision: upsert.revision,
            code: code.into(),
            retriable: false,
            message,
        }));
        self.moves_to(upsert.cursor);
    }

    fn tombstone(&mut self, tombstone: v1::Tombstone) {
        self.settled.push(0);
        if tombstone.epoch != self.epoch {
            return;
        }
        self.mark(&tombstone.key);
        self.wanted.remove(&tombstone.key);
        let released = tombstone.reason() == TombstoneReason::Released;
        match self.held.get_mut(&tombstone.key) {
            // Bound to its uid, or newer than what is held under this name: what is older removes nothing.
            Some(held) if held.uid != tombstone.uid && held.revision >= tombstone.revision => {}
            Some(_) if released => {
                self.held.remove(&tombstone.key);
                self.changes.push(Change::Forget { key: tombstone.key });
            }
            Some(held) => {
                if held.phase == Phase::Desired {
                    held.phase = Phase::Deleting;
                }
                held.uid.clone_from(&tombstone.uid);
                held.revision = tombstone.revision;
                let v1::Tombstone { key, uid, revision, preserve, .. } = tombstone;
                self.changes.push(Change::Delete { key, uid, revision, preserve });
            }
            None if released => {}
            None => self.out.push_back(agent_frame::Body::Removed(v1::Removed {
                key: tombstone.key,
                uid: tombstone.uid,
                revision: tombstone.revision,
            })),
        }
        self.moves_to(tombstone.cursor);
    }

    /// What is held beyond a full listing is an orphan suspect, reported and never removed; what was removed
    /// already needs no more word of the hub.
    fn snapshot_end(&mut self, end: v1::SnapshotEnd) {
        let Some(listed) = self.listing.take() else { return };
        let absent = |held: &Held, phase| held.phase == phase;
        let mut orphans = Vec::new();
        let mut done = Vec::new();
        for (key, held) in self.held.iter().filter(|(key, _)| !listed.contains(*key)) {
            if absent(held, Phase::Desired) {
                orphans.push(key.clone());
            } else if absent(held, Phase::Removed) {
                done.push(key.clone());
            }
        }
        for key in done {
            self.held.remove(&key);
            self.changes.push(Change::Forget { key });
        }
        if !orphans.is_empty() {
            self.orphans = Some(orphans);
        }
        self.moves_to(end.cursor);
    }

    fn mark(&mut self, key: &str) {
        if let Some(listed) = &mut self.listing {
            listed.insert(key.to_owned());
        }
    }

    fn moves_to(&mut self, cursor: u64) {
        self.next_cursor = self.next_cursor.max(cursor);
    }

    // --------------------------------------------------------------------------------- to be committed

    /// What is to be written before anything is acknowledged; empty where nothing is. To be followed by
    /// [`Session::committed`], or by the end of the session.
    pub fn take_changes(&mut self) -> Vec<Change> {
        // A cursor must not pass a body that is still wanted.
        if self.wanted.is_empty() && self.next_cursor > self.cursor {
            self.cursor = self.next_cursor;
            self.changes.push(Change::Cursor(self.cursor));
        }
        self.committing = !self.changes.is_empty();
        std::mem::take(&mut self.changes)
    }

    /// Whether there is anything to write.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty() || (self.wanted.is_empty() && self.next_cursor > self.cursor)
    }

    /// What [`Session::take_changes`] gave is on disk.
    pub fn committed(&mut self, now: Duration) {
        self.committing = false;
        self.cursor_written = now;
        for cost in self.settled.drain(..) {
            self.credit.settle(cost);
        }
        if self.cursor > self.acked {
            self.acked = self.cursor;
            let ack = v1::Ack { epoch: self.epoch, cursor: self.cursor };
            self.out.push_back(agent_frame::Body::Ack(ack));
        }
    }

    /// The member's objects of `key` are removed.
    fn removed(&mut self, key: &str) {
        if let Some(held) = self.held.get_mut(key) {
            held.phase = Phase::Removed;
        }
    }

    // ---------------------------------------------------------------------------------------- going out

    /// The next frame to send.
    pub fn next_frame(&mut self, outbox: &mut Outbox, now: Duration) -> Option<AgentFrame> {
        let body = self.next_body(outbox, now)?;
        self.sent = now;
        Some(frame::agent(body))
    }

    fn next_body(&mut self, outbox: &mut Outbox, now: Duration) -> Option<agent_frame::Body> {
        if !self.committing
            && let Some(credit) = self.settle_idle()
        {
            return Some(agent_frame::Body::Credit(credit));
        }
        if let Some(body) = self.out.pop_front() {
            return Some(body);
        }
        if !self.welcomed || self.ended.is_some() {
            return None;
        }
        let again = std::mem::take(&mut self.resync);
        if again.statuses {
            outbox.session_begins();
        } else if again.cluster {
            outbox.cluster_again();
        }
        if let Some(keys) = self.orphans.take() {
            outbox.orphans(keys);
        }
        if let Some(body) = outbox.next_free() {
            if let agent_frame::Body::Removed(removed) = &body {
                self.removed(&removed.key);
            }
            return Some(body);
        }
        if self.purse.room() == 0 {
            return None;
        }
        let (body, cost) = outbox.next_report(now)?;
        self.purse.spend(cost);
        Some(body)
    }

    /// Credit for what needed no commit goes back too.
    fn settle_idle(&mut self) -> Option<Credit> {
        if !self.has_changes() {
            for cost in self.settled.drain(..) {
                self.credit.settle(cost);
            }
        }
        self.credit.grant()
    }

    /// Asks for a new certificate.
    pub fn renew(&mut self, csr: Bytes) {
        self.out.push_back(agent_frame::Body::Renew(v1::RenewRequest { csr }));
    }

    /// The hub's answer to [`Session::renew`].
    pub fn take_renewed(&mut self) -> Option<v1::RenewReply> {
        self.renewed.take()
    }

    /// Leaves on purpose.
    pub fn leave(&mut self, reason: &str) {
        self.out.push_back(agent_frame::Body::Bye(v1::Bye { reason: reason.to_owned() }));
        self.end(reason.to_owned(), Advice::Lost(Duration::ZERO));
    }

    // --------------------------------------------------------------------------------------------- time

    /// Looks at the clock.
    pub fn tick(&mut self, now: Duration) {
        if self.ended.is_some() {
            return;
        }
        if now.saturating_sub(self.heard) >= dead_after(self.cadence.interval) {
            self.cadence.cut();
            self.end("the hub is silent".into(), Advice::Lost(self.retry_hint));
        } else if self.leave_at.is_some_and(|at| now >= at) {
            self.out.push_back(agent_frame::Body::Bye(v1::Bye { reason: "drained".into() }));
            self.end("the hub goes down for a while".into(), Advice::Lost(Duration::from_secs(1)));
        } else if self.ping_due() <= now {
            self.pings += 1;
            self.awaiting_pong = true;
            self.sent = now;
            let next_ms = self.cadence.interval.as_millis() as u64;
            self.out.push_back(agent_frame::Body::Ping(v1::Ping { seq: self.pings, next_ms }));
        }
        if self.lazy_cursor > self.cursor && now >= self.cursor_written + CURSOR_EVERY {
            self.next_cursor = self.next_cursor.max(self.lazy_cursor);
        }
    }

    fn ping_due(&self) -> Duration {
        // Either direction idle for an interval; while a pong is awaited, no second ping before another.
        let quiet_since = if self.awaiting_pong { self.sent } else { self.sent.min(self.heard) };
        quiet_since + self.cadence.interval
    }

    /// When [`Session::tick`] has something to do next.
    pub fn deadline(&self) -> Duration {
        let dead = self.heard + dead_after(self.cadence.interval);
        let due = self.ping_due().min(dead);
        self.leave_at.map_or(due, |at| at.min(due))
    }

    fn end(&mut self, reason: String, advice: Advice) {
        self.ended.get_or_insert(Ended { reason, advice, code: None, relocate: None });
    }

    /// The transport was lost.
    pub fn lost(&mut self, reason: String) {
        self.end(reason, Advice::Lost(self.retry_hint));
    }

    /// Why it is over, once it is. Frames may still be waiting (a farewell).
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The epoch spoken in.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the hub has welcomed us.
    pub fn welcomed(&self) -> bool {
        self.welcomed
    }

    /// The hub's wall clock minus ours, where known.
    pub fn hub_offset_ms(&self) -> Option<i64> {
        self.hub_offset_ms
    }

    /// What was learned of the path, the last cursor worth writing, and the half-received body: for the next
    /// session. What the ledger holds is to be read again: changes may have stayed uncommitted.
    pub fn into_parts(self) -> (Cadence, Option<u64>, Assembly) {
        let settled = self.wanted.is_empty() && self.changes.is_empty() && !self.committing;
        let cursor = settled.then_some(self.lazy_cursor).filter(|lazy| *lazy > self.cursor);
        (self.cadence, cursor, self.assembly)
    }
}

#[cfg(test)]
mod tests;
