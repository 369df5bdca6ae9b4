//! The agent's end of a session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the hub ([`Session::frame`]), time ([`Session::tick`]), the word that changes are on disk
//! ([`Session::committed`]). Goes out, when asked for: changes to commit ([`Session::take_changes`]) before
//! anything is acknowledged, frames ([`Session::next_frame`]), and in the end why it ended
//! ([`Session::ended`]). `now` is monotonic time since any fixed start. What becomes of frames is in [`incoming`], what Works do in
//! [`intake`], what is told next in [`outgoing`], whether the hub is there in [`liveness`].

mod asks;
mod change;
mod documents;
mod held;
mod hub_questions;
mod incoming;
mod intake;
mod liveness;
mod opening;
mod outgoing;
mod seen_revisions;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_certs::SealKeys;
use karmada_proto::body::Packing;
use karmada_proto::credit::{CreditWindow, SendCredit};
use karmada_proto::keepalive::Cadence;
use karmada_proto::v1::{self, CloseCode, Credit, agent_frame};

use self::asks::Asks;
pub use self::change::Change;
use self::documents::Documents;
pub use self::held::{HeldWork, Phase};
use self::hub_questions::HubQuestions;
use self::intake::Intake;
use self::liveness::Liveness;
pub use self::opening::Opening;
pub use self::unfinished::Unfinished;
use crate::redial::Advice;

/// What the hub may send before the ledger has it.
const WINDOW: Credit = Credit { messages: 256, bytes: 1 << 20 };
/// Answers that wait to be sent. More than the Works of a window, so that a hub that keeps to it is read on while it is slow.
const ANSWERS: usize = 1024;

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
    send_credit: SendCredit,
    line: Liveness,
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
    hub_questions: HubQuestions,
    documents: Documents,
    ended: Option<Ended>,
}

impl Session {
    /// Opens a session over what the ledger holds, and queues the hello. `unfinished`: what the session before
    /// had received in part; `cadence` what was learned of the path.
    pub fn open(
        opening: Opening,
        held: BTreeMap<String, HeldWork>,
        unfinished: Unfinished,
        cadence: Cadence,
        now: Duration,
    ) -> Self {
        let credit = CreditWindow::new(WINDOW);
        let partial = (unfinished.partial(), unfinished.partial_documents());
        let Unfinished { body, documents } = unfinished;
        let objects = held.len();
        let position = (opening.epoch, opening.cursor, opening.timeline);
        let intake = Intake::new(held, position, opening.seen.clone(), opening.seed, (body, now));
        let hello = opening.hello(objects, &intake.root(), partial, credit.window());
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
            send_credit: SendCredit::default(),
            line: Liveness::new(cadence, now),
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
            hub_questions: HubQuestions::default(),
            documents: Documents::continuing(documents),
            ended: None,
        }
    }

    /// Whether anything more is to be read of the hub: one that takes no answers is not listened to, so that they cannot pile up.
    pub fn listens(&self) -> bool {
        self.out.len() < ANSWERS
    }

    /// The hub takes nothing more: what waits for it is of no use. Why, it may be about to say.
    pub fn discard_outgoing(&mut self) {
        self.out.clear();
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
            self.credit.return_credit(cost);
        }
    }

    /// What [`Session::take_changes`] gave is held, though not on disk: there is room for more, and nothing is acknowledged.
    pub fn held_for_now(&mut self) {
        for cost in self.intake.held_for_now() {
            self.credit.return_credit(cost);
        }
    }

    /// Whether something is held that was never acknowledged; [`Session::committed`] makes up for it.
    pub fn owes_ack(&self) -> bool {
        self.intake.owes_ack()
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

    /// Whether the hub may be asked something now: an older one answers nothing, and not too much at once is asked.
    pub fn may_ask_hub(&self) -> bool {
        self.welcomed && self.ended.is_none() && self.hub_questions.has_room()
    }

    /// Asks the hub. The id by which its answer comes from [`Session::take_hub_answer`].
    ///
    /// # Errors
    /// It is longer than a question may be.
    pub fn ask_hub(&mut self, question: v1::ask_hub::Question) -> Result<u64, v1::AskRefusal> {
        let ask = self.hub_questions.put(question)?;
        let id = ask.id;
        self.out.push_back(agent_frame::Body::AskHub(ask));
        Ok(id)
    }

    /// The next answer of the hub.
    pub fn take_hub_answer(&mut self) -> Option<v1::HubAnswer> {
        self.hub_questions.take()
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

    /// Bytes of the hub came at `at`, though perhaps no whole frame: it is alive.
    pub fn heard_bytes(&mut self, at: Duration) {
        self.line.heard_bytes(at);
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Duration) {
        if self.ended.is_some() {
            return;
        }
        if self.line.is_dead(now) {
            self.line.cadence.cut();
            self.end("the hub is silent".into(), Advice::Lost(self.retry_hint));
        } else if self.leave_at.is_some_and(|at| now >= at) {
            self.out.push_back(agent_frame::Body::Bye(v1::Bye { reason: "drained".into() }));
            self.end("the hub goes down for a while".into(), Advice::Lost(Duration::from_secs(1)));
        } else if let Some(ping) = self.line.ping(now) {
            self.out.push_back(agent_frame::Body::Ping(ping));
        }
        self.intake.tick(now);
    }

    /// When [`Session::tick`] has something to do next.
    pub fn deadline(&self) -> Duration {
        let due = self.line.deadline();
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

    /// What was learned of the path, the last cursor worth writing (as changes), and what was received in part: for the next
    /// session. What the ledger holds is to be read again: changes may have stayed uncommitted.
    pub fn into_parts(self) -> (Cadence, Vec<Change>, Unfinished) {
        let (cursor, body) = self.intake.into_parts();
        (self.line.cadence, cursor, Unfinished { body, documents: self.documents.into_parts() })
    }
}

#[cfg(test)]
mod tests;
