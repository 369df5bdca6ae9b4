//! The agent's end of a session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the hub ([`Session::frame`]), time ([`Session::tick`]), the word that changes are on disk
//! ([`Session::committed`]). Goes out, when asked for: changes to commit ([`Session::take_changes`]) before
//! anything is acknowledged, frames ([`Session::next_frame`]), and in the end why it ended
//! ([`Session::ended`]). `now` is monotonic time since any fixed start. What Works do is in [`intake`].

mod asks;
mod documents;
mod held;
mod intake;
mod seen_revisions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_certs::SealKeys;
use karmada_proto::body::{Assembly, Packing};
use karmada_proto::cadence::{Cadence, dead_after};
use karmada_proto::credit::{CreditWindow, SendCredit};
use karmada_proto::digest::{BUCKETS, Content, Root, Seed};
use karmada_proto::v1::{
    self, AgentFrame, CloseCode, Credit, HubFrame, RetryClass, Table, agent_frame, hub_frame,
};
use karmada_proto::{DIGESTS, FEATURES, PROTOCOL, credit, frame, one_line};

use self::asks::Asks;
use self::documents::Documents;
pub use self::held::{HeldWork, Phase};
pub use self::intake::Change;
use self::intake::Intake;
use crate::outbox::Outbox;
use crate::redial::Advice;

/// What the hub may send before the ledger has it.
const WINDOW: Credit = Credit { messages: 256, bytes: 1 << 20 };
/// Answers that wait to be sent. More than the Works of a window, so that a hub that keeps to it is read on while it is slow.
const ANSWERS: usize = 1024;
/// The longest name, uid or hash of a Work: one is answered with these, and kept by them. A name is of 253 bytes at most, and what it is
/// told apart by of a few more.
const NAME: usize = 512;
/// The longest pause that a hub is granted. Its own are of minutes; and an address that was another's for a day, or a hub that was wrong,
/// finds its agents back within the hour after it is mended, with nobody at the site.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// A hub that does not keep to what it was granted is dialled again after this.
const OVERSPENT: Duration = Duration::from_secs(30);

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
    /// From the ledger: the hub's start that told the cursor.
    pub timeline: u64,
    /// From the ledger: where the cursor was before a listing that is unfinished.
    pub former_cursor: u64,
    /// From the ledger: what it may hold beyond the cursor.
    pub seen: Vec<v1::Seen>,
    /// From the ledger: the hub's proof of the epoch.
    pub epoch_seal: Bytes,
    /// Whose proofs count.
    pub seal_keys: SealKeys,
    /// The agent's wall clock, milliseconds since 1970 UTC.
    pub clock_ms: i64,
    /// From the schedule.
    pub attempt: u32,
    /// What the session's digests are salted with: random, and of this session alone.
    pub seed: Seed,
    /// The root over what the hub was told of Works, over `seed`.
    pub status_root: Root,
    /// Of the cluster's status, as the hub was told it last.
    pub cluster_digest: Option<Content>,
    /// From the ledger: the documents that are held.
    pub holdings: Vec<v1::Holding>,
}

/// The session.
#[derive(Debug)]
pub struct Session {
    intake: Intake,
    seal: Bytes,
    seal_keys: SealKeys,
    welcomed: bool,
    hub_offset_ms: Option<i64>,
    clock_ms: i64,
    retry_hint: Duration,
    out: VecDeque<agent_frame::Body>,
    credit: CreditWindow,
    purse: SendCredit,
    cadence: Cadence,
    pings: u64,
    awaiting_pong: bool,
    sent: Duration,
    heard: Duration,
    leave_at: Option<Duration>,
    resync: v1::Resync,
    /// Whether both ends compare what they hold.
    compares: bool,
    /// What the hub can unpack.
    packing: Packing,
    /// The hub asks for the sums of what it was told.
    sums_asked: bool,
    /// Buckets of what it was told that it has otherwise.
    differing: BTreeSet<u32>,
    /// Asks that are not answered.
    renewals: u32,
    renewed: Option<v1::RenewReply>,
    resource_models: Option<Bytes>,
    trust: Option<u64>,
    asks: Asks,
    documents: Documents,
    ended: Option<Ended>,
}

impl Session {
    /// Opens a session over what the ledger holds, and queues the hello. `assembly` carries a half-received body
    /// over from the session before; `cadence` what was learned of the path.
    pub fn open(
        opening: Opening,
        held: BTreeMap<String, HeldWork>,
        assembly: Assembly,
        cadence: Cadence,
        now: Duration,
    ) -> Self {
        let credit = CreditWindow::new(WINDOW);
        let partial = assembly.partial().map(|(key, hash, received)| v1::Partial {
            key: key.to_owned(),
            hash: hash.clone(),
            received,
        });
        let mut hello = v1::Hello {
            protocol_min: PROTOCOL.0,
            protocol_max: PROTOCOL.1,
            cluster_name: opening.cluster_name,
            cluster_uid: opening.cluster_uid,
            key_fingerprint: opening.key_fingerprint,
            boot_id: opening.boot_id,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            features: FEATURES.map(str::to_owned).to_vec(),
            epoch: opening.epoch,
            cursor: opening.cursor,
            objects: held.len() as u32,
            ledger_root: Bytes::new(),
            digest_seed: opening.seed.bytes(),
            status_root: opening.status_root.bytes(),
            cluster_digest: opening
                .cluster_digest
                .map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest)),
            holdings: opening.holdings,
            clock_ms: opening.clock_ms,
            credit: Some(credit.window()),
            partial,
            attempt: opening.attempt,
            timeline: opening.timeline,
            former_cursor: opening.former_cursor,
            epoch_seal: opening.epoch_seal.clone(),
            seen: opening.seen.clone(),
        };
        let position = (opening.epoch, opening.cursor, opening.timeline);
        let intake = Intake::new(held, position, opening.seen, opening.seed, (assembly, now));
        hello.ledger_root = intake.root().bytes();
        Self {
            intake,
            seal: opening.epoch_seal,
            seal_keys: opening.seal_keys,
            welcomed: false,
            hub_offset_ms: None,
            clock_ms: opening.clock_ms,
            retry_hint: Duration::ZERO,
            out: [agent_frame::Body::Hello(hello)].into(),
            credit,
            purse: SendCredit::default(),
            cadence,
            pings: 0,
            awaiting_pong: false,
            sent: now,
            heard: now,
            leave_at: None,
            resync: v1::Resync::default(),
            compares: false,
            packing: Packing::default(),
            sums_asked: false,
            differing: BTreeSet::new(),
            renewals: 0,
            renewed: None,
            resource_models: None,
            trust: None,
            asks: Asks::default(),
            documents: Documents::default(),
            ended: None,
        }
    }

    // -------------------------------------------------------------------------------------- coming in

    /// Whether anything more is to be read of the hub: one that takes no answers is not listened to, so that they cannot pile up.
    pub fn listens(&self) -> bool {
        self.out.len() < ANSWERS
    }

    /// The hub takes nothing more: what waits for it is of no use. Why, it may be about to say.
    pub fn discard_outgoing(&mut self) {
        self.out.clear();
    }

    /// Takes one frame of the hub.
    pub fn frame(&mut self, frame: HubFrame, now: Duration) {
        self.heard = now;
        let Some(body) = frame.body else {
            return self.unsupported(frame.kind, 0);
        };
        if !is_named_briefly(&body) {
            let reason = "the hub sent a Work with a name, a uid or a hash that is longer than any".into();
            self.end(reason, Advice::After(OVERSPENT));
            return;
        }
        if self.overspends(&body) {
            self.end("the hub sent more than it was granted".into(), Advice::After(OVERSPENT));
            return;
        }
        use hub_frame::Body as B;
        match body {
            B::Welcome(welcome) => self.welcome(&welcome),
            B::Close(close) => self.close(close),
            B::Drain(drain) => self.leave_at = Some(now + asked_for(drain.after_ms)),
            B::Ping(ping) => {
                self.out.push_back(agent_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor: 0 }));
            }
            B::Pong(pong) => self.pong(pong),
            B::Credit(credit) => self.purse.add(&credit),
            B::Unsupported(_) => {}
            // One answer to each ask: what comes unasked would be written down as often as the hub likes.
            B::Renewed(reply) => {
                let granted = self.renewed.take().filter(|before| before.refusal.is_empty());
                let is_asked = self.renewals > 0;
                self.renewals = self.renewals.saturating_sub(1);
                self.renewed = granted.or(is_asked.then_some(reply));
            }
            B::Resync(again) => {
                self.resync.statuses |= again.statuses;
                self.resync.cluster |= again.cluster;
                self.is_to_trust(again.trust_bundle_revision);
                if !again.resource_models.is_empty() {
                    self.resource_models = Some(again.resource_models);
                }
            }
            _ if !self.welcomed => {
                self.end("the hub sent Works before its welcome".into(), Advice::Lost(self.retry_hint));
            }
            B::SnapshotStart(start) => self.intake.listing_starts(&start),
            B::Compare(compare) => match Table::try_from(compare.table as i32) {
                Ok(Table::Works) => self.intake.compare(&mut self.out),
                Ok(Table::Statuses) => self.sums_asked = true,
                Ok(Table::Customizations) | Err(_) => self.unsupported(frame.kind, compare.table),
            },
            B::Differing(differing) => match Table::try_from(differing.table as i32) {
                Ok(Table::Works) => {
                    self.intake.differing(&differing.buckets.into_iter().collect(), &mut self.out);
                }
                Ok(Table::Statuses) => {
                    let named = differing.buckets.into_iter().filter(|bucket| *bucket < BUCKETS as u32);
                    self.differing.extend(named);
                }
                Ok(Table::Customizations) | Err(_) => self.unsupported(frame.kind, differing.table),
            },
            B::Document(document) => {
                let table = document.table;
                if self.documents.take(document).is_err() {
                    self.unsupported(frame.kind, table);
                }
            }
            B::Ask(ask) => {
                let refusal = self.asks.takes(ask);
                self.out.extend(refusal.map(agent_frame::Body::Answer));
            }
            B::Lacking(lacking) => self.intake.lacking(lacking.keys),
            B::SnapshotEnd(end) => self.intake.snapshot_end(end),
            B::Bookmark(bookmark) => self.intake.lazily(bookmark.cursor),
            B::Upsert(upsert) => self.intake.upsert(&upsert, &mut self.out),
            B::Tombstone(tombstone) => self.intake.tombstone(tombstone, &mut self.out),
        }
    }

    /// What is not known here is named, and changes nothing.
    fn unsupported(&mut self, kind: u32, table: u32) {
        self.out.push_back(agent_frame::Body::Unsupported(v1::Unsupported { kind, table }));
    }

    /// Works and tombstones are what the hub pays for.
    fn overspends(&mut self, body: &hub_frame::Body) -> bool {
        match body {
            hub_frame::Body::Upsert(upsert) => self.credit.receive(upsert.chunk.len() as u64).is_err(),
            hub_frame::Body::Tombstone(_) => self.credit.receive(0).is_err(),
            _ => false,
        }
    }

    fn welcome(&mut self, welcome: &v1::Welcome) {
        let epoch = self.intake.epoch();
        let proved = self.seal_keys.verify(welcome.epoch, &welcome.epoch_seal);
        let ours_is_proved = self.seal_keys.verify(epoch, &self.seal);
        if welcome.epoch < epoch && (ours_is_proved || !proved) {
            // The hub mints above what our hello proved; one that does not is not to be obeyed. An epoch of ours
            // that nobody ever handed out gives way to one that is proved.
            let reason = format!("the hub is in epoch {}, this site has seen {}", welcome.epoch, epoch);
            self.end(reason, Advice::After(Duration::from_secs(60)));
            return;
        }
        if welcome.epoch != epoch {
            self.intake.enter(welcome.epoch);
        }
        let seal = if proved { welcome.epoch_seal.clone() } else { Bytes::new() };
        // A signature differs each time it is made: one proof of an epoch is enough, unless ours is by a CA that is on its way out.
        let signs = self.seal_keys.first();
        let proved_for_longer =
            !signs.verify(epoch, &self.seal) && signs.verify(welcome.epoch, &welcome.epoch_seal);
        if welcome.epoch != epoch || proved && !ours_is_proved || proved_for_longer {
            self.intake.sealed(seal);
        }
        self.intake.speaks_with(welcome.timeline);
        self.welcomed = true;
        self.compares = welcome.features.iter().any(|feature| feature == DIGESTS);
        self.packing = Packing::of(&welcome.features);
        // A hub that does not compare is told everything in each session.
        self.resync.statuses |= !self.compares;
        self.is_to_trust(welcome.trust_bundle_revision);
        self.purse.add(&welcome.credit.unwrap_or_default());
        self.retry_hint = asked_for(welcome.retry_hint_ms);
        self.cadence
            .bound(Duration::from_millis(welcome.ping_min_ms), Duration::from_millis(welcome.ping_max_ms));
        self.hub_offset_ms = Some(welcome.hub_clock_ms.saturating_sub(self.clock_ms));
    }

    fn is_to_trust(&mut self, revision: u64) {
        if revision != 0 {
            self.trust = Some(revision);
        }
    }

    fn close(&mut self, close: v1::Close) {
        let after = asked_for(close.after_ms);
        let advice = match close.retry() {
            RetryClass::RetryNow | RetryClass::Relocate if after.is_zero() => Advice::Now,
            RetryClass::RetryNow | RetryClass::Relocate | RetryClass::RetryAfter => Advice::After(after),
            RetryClass::RetryUnspecified => Advice::Lost(self.retry_hint),
            // Never for ever: a hub that is mended must find its agents back.
            RetryClass::Rejoin | RetryClass::Fatal => Advice::After(after.max(Duration::from_secs(60))),
        };
        let (code, relocate) = (close.code(), Some(close.endpoint).filter(|e| !e.is_empty()));
        self.ended.get_or_insert(Ended {
            reason: one_line(&close.message),
            advice,
            code: Some(code),
            relocate,
        });
    }

    fn pong(&mut self, pong: v1::Pong) {
        if self.awaiting_pong && pong.seq == self.pings {
            self.awaiting_pong = false;
            self.cadence.proved();
        }
        self.intake.lazily(pong.cursor);
    }

    /// The Work and the hash of the body that the ledger is to give before the next frame is taken: what just came says what differs from
    /// it. To be answered by [`Session::base`].
    pub fn base_wanted(&self) -> Option<(&str, &Bytes)> {
        self.intake.base_wanted()
    }

    /// The body that was wanted, or that it is not there.
    pub fn base(&mut self, body: Option<&Bytes>) {
        self.intake.base(body, &mut self.out);
    }

    // --------------------------------------------------------------------------------- to be committed

    /// What is to be written before anything is acknowledged; empty where nothing is. To be followed by
    /// [`Session::committed`], or by the end of the session.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = self.intake.take_changes();
        while let Some((table, hash, body)) = self.documents.next() {
            changes.push(Change::Document { table, hash, body });
        }
        changes
    }

    /// Bytes of bodies, as they are unpacked, that [`Session::take_changes`] would give.
    pub fn uncommitted(&self) -> usize {
        self.intake.uncommitted()
    }

    /// Whether there is anything to write.
    pub fn has_changes(&self) -> bool {
        self.intake.has_changes() || self.documents.is_there()
    }

    /// What [`Session::take_changes`] gave is on disk.
    pub fn committed(&mut self, now: Duration) {
        for cost in self.intake.committed(now, &mut self.out) {
            self.credit.settle(cost);
        }
    }

    /// What [`Session::take_changes`] gave is held, though not on disk: there is room for more, and nothing is acknowledged.
    pub fn held_for_now(&mut self) {
        for cost in self.intake.held_for_now() {
            self.credit.settle(cost);
        }
    }

    /// Whether something is held that was never acknowledged; [`Session::committed`] makes up for it.
    pub fn owes_ack(&self) -> bool {
        self.intake.owes_ack()
    }

    // ---------------------------------------------------------------------------------------- going out

    /// The next frame to send.
    pub fn next_frame(&mut self, outbox: &mut Outbox, now: Duration) -> Option<AgentFrame> {
        let body = self.next_body(outbox, now)?;
        self.sent = now;
        Some(frame::agent(body))
    }

    fn next_body(&mut self, outbox: &mut Outbox, now: Duration) -> Option<agent_frame::Body> {
        if !self.intake.is_committing()
            && let Some(credit) = self.settle_idle()
        {
            return Some(agent_frame::Body::Credit(credit));
        }
        if let Some(body) = self.out.pop_front() {
            return Some(self.with_roots(body, outbox));
        }
        if !self.welcomed || self.ended.is_some() {
            return None;
        }
        self.tell_again(outbox);
        if std::mem::take(&mut self.sums_asked) {
            let sums = outbox.told_buckets().bytes();
            return Some(agent_frame::Body::Buckets(v1::Buckets { table: Table::Statuses as u32, sums }));
        }
        if let Some(keys) = self.intake.take_orphans() {
            outbox.orphans(keys);
        }
        if self.purse.room() == 0 {
            return None;
        }
        if let Some(body) = outbox.next_prompt() {
            match &body {
                agent_frame::Body::Removed(removed) => self.intake.removed(&removed.key),
                agent_frame::Body::Orphans(orphans) => self.intake.found(&orphans.keys),
                _ => {}
            }
            self.purse.spend(credit::cost(&body));
            return Some(body);
        }
        let (body, cost) = outbox.next_report(self.packing, now)?;
        self.purse.spend(cost);
        Some(body)
    }

    /// Whether the hub takes a report now. Where it does not, none is due before it grants more.
    pub fn takes_reports(&self) -> bool {
        self.welcomed && self.ended.is_none() && self.purse.room() > 0
    }

    /// A ping tells what is held, where nothing is on its way that would change it.
    fn with_roots(&self, body: agent_frame::Body, outbox: &Outbox) -> agent_frame::Body {
        match body {
            agent_frame::Body::Ping(ping) if self.compares => {
                let told = |root: Option<Root>| root.map_or_else(Bytes::new, |root| root.bytes());
                let settled = self.intake.settled();
                agent_frame::Body::Ping(v1::Ping {
                    ledger_root: told(settled.map(|(root, _)| root)),
                    status_root: told(outbox.settled_root()),
                    cursor: settled.map_or(0, |(_, cursor)| cursor),
                    ..ping
                })
            }
            body => body,
        }
    }

    /// What the hub wants to hear again is due again.
    fn tell_again(&mut self, outbox: &mut Outbox) {
        let again = std::mem::take(&mut self.resync);
        if again.statuses {
            outbox.all_again();
        } else if again.cluster {
            outbox.cluster_again();
        }
        if !self.differing.is_empty() {
            outbox.again(&std::mem::take(&mut self.differing));
        }
    }

    /// Credit for what needed no commit goes back too.
    fn settle_idle(&mut self) -> Option<Credit> {
        for cost in self.intake.take_settled() {
            self.credit.settle(cost);
        }
        self.credit.grant()
    }

    /// Asks for a new certificate.
    pub fn renew(&mut self, csr: Bytes) {
        self.renewals = self.renewals.saturating_add(1);
        self.out.push_back(agent_frame::Body::Renew(v1::RenewRequest { csr }));
    }

    /// The grades by which the hub wants free nodes counted from now on: JSON of `spec.resourceModels`.
    pub fn take_resource_models(&mut self) -> Option<Bytes> {
        self.resource_models.take()
    }

    /// What tells the CAs that the hub wants trusted from others, where it said so since this was asked.
    pub fn take_trust(&mut self) -> Option<u64> {
        self.trust.take()
    }

    /// The next question of the hub; to be answered by [`Session::answer`].
    pub fn take_ask(&mut self) -> Option<v1::Ask> {
        self.asks.next()
    }

    /// Answers a question, once.
    pub fn answer(&mut self, answer: v1::Answer) {
        if self.asks.answers(answer.id) && self.ended.is_none() {
            self.out.push_back(agent_frame::Body::Answer(answer));
        }
    }

    /// Leaves to come back at once with a certificate of another CA, which thereby proves to be of use while the old one still is.
    pub fn return_renewed(&mut self) {
        let reason = "the certificate was renewed";
        self.out.push_back(agent_frame::Body::Bye(v1::Bye { reason: reason.to_owned() }));
        self.end(reason.to_owned(), Advice::Now);
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

    /// Bytes of the hub came at `at`, though perhaps no whole frame: it is alive.
    pub fn heard_bytes(&mut self, at: Duration) {
        self.heard = self.heard.max(at);
    }

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
            self.out.push_back(agent_frame::Body::Ping(v1::Ping {
                seq: self.pings,
                next_ms,
                ..v1::Ping::default()
            }));
        }
        self.intake.tick(now);
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
        self.intake.epoch()
    }

    /// Whether the hub has welcomed us.
    pub fn welcomed(&self) -> bool {
        self.welcomed
    }

    /// The hub's wall clock minus ours, where known.
    pub fn hub_offset_ms(&self) -> Option<i64> {
        self.hub_offset_ms
    }

    /// What was learned of the path, the last cursor worth writing (as changes), and the half-received body: for the next
    /// session. What the ledger holds is to be read again: changes may have stayed uncommitted.
    pub fn into_parts(self) -> (Cadence, Vec<Change>, Assembly) {
        let (cursor, assembly) = self.intake.into_parts();
        (self.cadence, cursor, assembly)
    }
}

/// A pause that the hub asks for, as far as it is granted.
fn asked_for(ms: u64) -> Duration {
    Duration::from_millis(ms).min(LONGEST_PAUSE)
}

/// Whether a Work's name, uid and hash may be such.
fn is_named_briefly(body: &hub_frame::Body) -> bool {
    let names = match body {
        hub_frame::Body::Upsert(work) => [work.key.len(), work.uid.len(), work.hash.len()],
        hub_frame::Body::Tombstone(work) => [work.key.len(), work.uid.len(), 0],
        _ => return true,
    };
    names.iter().all(|length| *length <= NAME)
}

#[cfg(test)]
mod tests;
