//! One agent's session, as a state machine: no IO, no clock, no tasks.
//!
//! Comes in: frames of the agent ([`Session::frame`]), events of its Works ([`Session::work`]), orders of the
//! registry ([`Session::control`]), time ([`Session::tick`]), outcomes of report writes
//! ([`Session::report_done`]). Goes out, when asked for: frames ([`Session::next_frame`]), reports to write
//! ([`Session::next_report`]), and [`Effect`]s. `now` is monotonic time since any fixed start. What Works do is in
//! [`dispatch`].

mod dispatch;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::cadence::{dead_after, late_after};
use karmada_proto::credit::{Ledger, Purse};
use karmada_proto::v1::{self, Close, CloseCode, RetryClass, agent_frame, hub_frame};
use karmada_proto::{CHUNK, body, cadence, frame};

use self::dispatch::Dispatch;
use crate::admission::close;
use crate::inbox::{Inbox, Report};
use crate::options::Options;
use crate::ports::{Applied, LinkState, WorkEvent, WorkNotice, WorkReport};

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
    /// Have the agent count free nodes by these grades: JSON of `spec.resourceModels`.
    CountBy(Bytes),
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

/// The session.
#[derive(Debug)]
pub struct Session {
    dispatch: Dispatch,
    out: VecDeque<hub_frame::Body>,
    effects: VecDeque<Effect>,
    purse: Purse,
    credit: Ledger,
    inbox: Inbox,
    reports_held_until: Option<Duration>,
    report_retry: Duration,
    heard: Duration,
    silence: Duration,
    state: LinkState,
    probes: u64,
    leave_by: Option<Duration>,
    identity_ends: Duration,
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
            dispatch: Dispatch::new(opening.epoch, hello, opening.resumed),
            out: [hub_frame::Body::Welcome(welcome)].into(),
            effects: [Effect::State(LinkState::Connected)].into(),
            purse,
            credit,
            inbox: Inbox::default(),
            reports_held_until: None,
            report_retry: options.report_retry,
            heard: now,
            silence: cadence::FIRST.max(options.ping_min),
            state: LinkState::Connected,
            probes: 0,
            leave_by: None,
            identity_ends: Duration::MAX,
            closing: false,
        };
        if opening.resumed.is_none() {
            session.listing_starts();
        }
        session
    }

    /// The same, ending when the agent's certificate does.
    #[must_use]
    pub fn until(mut self, identity_ends: Duration) -> Self {
        self.identity_ends = identity_ends;
        self
    }

    /// A full listing begins: at the start, or where a watch could not be resumed.
    pub fn listing_starts(&mut self) {
        let start = self.dispatch.listing_starts();
        self.out.push_back(start);
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

    /// The newest revision that the agent has stored.
    pub fn acked(&self) -> u64 {
        self.dispatch.acked()
    }

    /// Reports waiting to be written.
    pub fn reports(&self) -> usize {
        self.inbox.waiting()
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
            B::Ack(ack) => self.effects.extend(self.dispatch.ack(ack).map(Effect::Persisted)),
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
            B::Want(want) => {
                if !self.dispatch.want(&want) {
                    self.effects.push_back(Effect::Relist);
                }
            }
            B::Removed(removed) => {
                self.dispatch.removed(&removed.key);
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
        let cursor = self.dispatch.idle_cursor();
        self.out.push_back(hub_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor }));
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
        let outdated = self.dispatch.is_outdated(&status);
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
        let uid = self.dispatch.uid_of(&nack.key);
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
        self.dispatch.next_frame(&mut self.purse, &mut self.inbox)
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
        if now >= self.identity_ends {
            let message = "the agent's certificate has ended".to_owned();
            // An agent that has renewed it meanwhile is back at once.
            self.close(close(CloseCode::Recycle, RetryClass::RetryAfter, Duration::from_secs(1), message));
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
        let first = silence.min(self.identity_ends);
        [self.leave_by, self.reports_held_until].into_iter().flatten().fold(first, Duration::min)
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
                let again = v1::Resync { cluster: true, ..v1::Resync::default() };
                self.out.push_back(hub_frame::Body::Resync(again));
            }
            Control::CountBy(resource_models) => {
                let otherwise = v1::Resync { resource_models, ..v1::Resync::default() };
                self.out.push_back(hub_frame::Body::Resync(otherwise));
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
