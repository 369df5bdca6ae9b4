//! One agent's session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the agent ([`Session::frame`]), events of its Works ([`Session::work`]), orders of the
//! gateway ([`Session::obey`]), time ([`Session::tick`]), outcomes of report writes
//! ([`Session::report_done`]). Goes out, when asked for: frames ([`Session::next_frame`]), reports to write
//! ([`Session::next_report`]), and [`Effect`]s. `now` is monotonic time since any fixed start. What Works do is in
//! [`dispatch`], what becomes of frames in [`frames`].

mod agent_questions;
mod bounds;
mod chunk_size;
mod digests;
mod dispatch;
mod documents;
mod frames;
mod listing_diff;
mod liveness;
mod opening;
mod orders;
mod packing;
mod restore_hold;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::credit::{CreditWindow, SendCredit};
use karmada_proto::digest::Seed;
use karmada_proto::v1::{self, Close, CloseCode, RetryClass, Table, hub_frame};
use karmada_proto::{ASK, frame, keepalive};

use self::agent_questions::AgentQuestions;
pub use self::agent_questions::refusal;
use self::digests::Digests;
use self::dispatch::Dispatch;
pub use self::documents::Document;
use self::documents::Documents;
pub use self::listing_diff::root as wanted_root;
use self::liveness::{Liveness, Silence};
pub use self::opening::Opening;
pub use self::orders::SessionOrder;
pub use self::restore_hold::SessionHold;
use crate::encodings::Encodings;
use crate::fleet::Progress;
use crate::inbox::{Inbox, Report};
use crate::options::Options;
use crate::ports::{Batch, WorkEvent};
use crate::release_empty::ReleaseEmpty;
use crate::session_admission::{close, expired};

/// Answers that wait to be taken, beyond which nothing more is read.
const ANSWERS: usize = 64;
/// Between two listings that the agent asks for by wanting what is not at hand.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(30);
/// Reports waiting beyond which the agent gets no new status credit.
const INBOX_ROOM: usize = 128;

/// What the shell does for the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The agent is there (false), or late (true).
    Stands(bool),
    /// The agent stored everything up to this revision.
    Persisted(u64),
    /// Sign this request and give the outcome to [`Session::renewed`].
    Renew(Bytes),
    /// So many deletes wait for a person's word, all of them in this batch.
    DeletesHeld(Batch, u64),
    /// The agent answered what it was asked.
    Answered(v1::Answer),
    /// Answer this by [`Session::answer_agent`].
    Asked(v1::AskHub),
    /// A frame was dropped, and why: to be logged.
    Refused(String),
    /// Watch again, from a full listing: the agent misses something that is not at hand any more.
    Relist,
    /// Tell [`Session::root`] the root of this table as the hub has it, over this seed.
    Root(Table, Seed),
    /// Tell [`Session::sums`] the sums of the buckets of statuses as the hub has them, over this seed.
    Sums(Seed),
}

/// The session.
#[derive(Debug)]
pub struct Session {
    epoch: u64,
    dispatch: Dispatch,
    out: VecDeque<hub_frame::Body>,
    effects: VecDeque<Effect>,
    send_credit: SendCredit,
    credit: CreditWindow,
    refused: u64,
    inbox: Inbox,
    reports_held_until: Option<Duration>,
    report_retry: Duration,
    line: Liveness,
    leave_by: Option<Duration>,
    /// The agent misses what only a listing brings.
    is_to_relist: bool,
    /// Before this the agent gets no listing for that.
    no_relist_before: Duration,
    digests: Digests,
    documents: Documents,
    is_documents_turn: bool,
    identity_ends: Duration,
    /// Whether the agent takes questions.
    is_asked: bool,
    agent_questions: AgentQuestions,
    closing: bool,
}

impl Session {
    /// Opens a session for `hello` and queues the welcome.
    pub fn open(hello: v1::Hello, opening: &Opening, options: &Options, now: Duration) -> Self {
        let credit = CreditWindow::new(options.status_window);
        let mut send_credit = SendCredit::default();
        send_credit.add(&hello.credit.unwrap_or_default());
        let welcome = opening.welcome(&hello.features, credit.window(), options);
        let digests = Digests::new(&hello);
        let documents = Documents::new(&hello);
        let is_asked = hello.features.iter().any(|feature| feature == ASK);
        let mut session = Self {
            epoch: opening.epoch,
            dispatch: Dispatch::new(opening.epoch, hello, opening.resumed, opening.restore_hold),
            out: [hub_frame::Body::Welcome(welcome)].into(),
            effects: [Effect::Stands(false)].into(),
            send_credit,
            credit,
            refused: 0,
            inbox: Inbox::default(),
            reports_held_until: None,
            report_retry: options.report_retry,
            line: Liveness::new(keepalive::FIRST.max(options.ping_min), now),
            leave_by: None,
            is_to_relist: false,
            no_relist_before: Duration::ZERO,
            digests,
            documents,
            // A document that is cut is begun anew: Works, of which a part is kept, go first.
            is_documents_turn: true,
            identity_ends: Duration::MAX,
            is_asked,
            agent_questions: AgentQuestions::new(),
            closing: false,
        };
        if opening.of_our_history {
            session.dispatch.of_our_history();
        }
        if opening.resumed.is_none() {
            session.listing_starts();
        }
        session.compare_statuses();
        session
    }

    /// The same, ending when the agent's certificate does.
    #[must_use]
    pub fn until(mut self, identity_ends: Duration) -> Self {
        self.identity_ends = identity_ends;
        self
    }

    /// The same, which packs what other sessions share where they do.
    #[must_use]
    pub fn packs_with(mut self, encodings: Arc<Encodings>) -> Self {
        self.dispatch.packs_with(encodings);
        self
    }

    /// A full listing begins: at the start, or where a watch could not be resumed.
    pub fn listing_starts(&mut self) {
        self.dispatch.listing_starts();
    }

    /// Where a new watch may resume; `None` while a listing is unfinished.
    pub fn resume_point(&self) -> Option<u64> {
        self.dispatch.resume_point()
    }

    /// Takes one event of the cluster's Works.
    pub fn work(&mut self, event: WorkEvent) {
        self.dispatch.work(event);
    }

    /// Slots waiting to be sent.
    pub fn backlog(&self) -> usize {
        self.dispatch.backlog()
    }

    /// Whether there is room for more events of Works, where at most so many are to wait.
    pub fn takes_works(&self, most: usize) -> bool {
        self.dispatch.takes_works(most)
    }

    /// What is told of the session while it runs.
    pub fn progress(&self) -> Progress {
        let (received, sent) = self.line.bytes();
        Progress {
            heard: self.line.heard(),
            dead_at: self.line.dead_at(),
            acked: self.dispatch.acked(),
            backlog: self.dispatch.backlog(),
            received,
            sent,
            round_trip: self.line.round_trip(),
        }
    }

    /// Reports waiting to be written.
    pub fn reports(&self) -> usize {
        self.inbox.waiting()
    }

    /// Whether anything more is to be read of the agent: one that takes no answers is not listened to, so that they cannot pile up.
    pub fn listens(&self) -> bool {
        self.out.len() < ANSWERS
    }

    /// Frames that were dropped: of Works that are not this cluster's, or too large.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The outcome of [`Effect::Renew`].
    pub fn renewed(&mut self, reply: v1::RenewReply) {
        if !self.closing {
            self.out.push_back(hub_frame::Body::Renewed(reply));
        }
    }

    /// Asks the agent something; of one that takes no questions the answer is known.
    pub fn ask(&mut self, ask: v1::Ask) {
        if self.closing {
            return;
        }
        if self.is_asked {
            self.out.push_back(hub_frame::Body::Ask(ask));
            return;
        }
        let code = v1::AskRefusalCode::UnknownQuestion.into();
        let refusal = v1::AskRefusal { code, message: "the agent takes no questions".to_owned() };
        let result = Some(v1::answer::Result::Refusal(refusal));
        self.effects.push_back(Effect::Answered(v1::Answer { id: ask.id, result }));
    }

    // ---------------------------------------------------------------------------------------- sending

    /// The next frame to send, if there is one and the agent takes it.
    pub fn next_frame(&mut self) -> Option<v1::HubFrame> {
        let frame = self.following_frame()?;
        self.line.sends(frame::size(&frame));
        Some(frame)
    }

    fn following_frame(&mut self) -> Option<v1::HubFrame> {
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
        // In turns: neither a long listing nor a large document keeps the other back.
        self.is_documents_turn = !self.is_documents_turn;
        let document =
            |documents: &mut Documents| documents.next().map(hub_frame::Body::Document).map(frame::hub);
        if self.is_documents_turn
            && let Some(frame) = document(&mut self.documents)
        {
            return Some(frame);
        }
        let frame = self.dispatch.next_frame(&mut self.send_credit, &mut self.inbox);
        if let Some((batch, held)) = self.dispatch.take_held() {
            self.effects.push_back(Effect::DeletesHeld(batch, held));
        }
        frame.or_else(|| document(&mut self.documents))
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

    // ------------------------------------------------------------------------------- time and orders

    /// Nothing is to be done for now: gives back the memory of what is empty.
    pub fn rests(&mut self) {
        self.dispatch.release_empty();
        self.inbox.release_empty();
        self.out.release_empty();
        self.effects.release_empty();
    }

    /// The next thing for the shell to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Bytes of the agent came at `at`, though perhaps no whole frame: it is alive.
    pub fn heard_bytes(&mut self, at: Duration) {
        if self.line.heard_bytes(at) {
            self.effects.push_back(Effect::Stands(false));
        }
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Duration) {
        self.relist(now);
        self.look_again(now);
        match self.line.silence(now) {
            Silence::Fine => {}
            Silence::Late => {
                self.effects.push_back(Effect::Stands(true));
                self.probe(now);
            }
            Silence::Dead(silent) => {
                let message = format!("nothing heard for {} s", silent.as_secs());
                self.close(close(CloseCode::Dead, RetryClass::RetryNow, Duration::ZERO, message));
            }
        }
        if now >= self.identity_ends {
            self.close(expired());
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
        let first = self.line.deadline().min(self.identity_ends);
        // While a listing comes in, its end is waited for.
        let relist = (self.is_to_relist && !self.dispatch.is_listing()).then_some(self.no_relist_before);
        [self.leave_by, self.reports_held_until, relist, self.digests.deadline()]
            .into_iter()
            .flatten()
            .fold(first, Duration::min)
    }

    /// True once everything that is still to be said has been said.
    pub fn finished(&self) -> bool {
        self.closing && self.out.is_empty()
    }

    fn probe(&mut self, now: Duration) {
        if self.closing {
            return;
        }
        let ping = self.line.probe(now);
        self.out.push_back(hub_frame::Body::Ping(ping));
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
