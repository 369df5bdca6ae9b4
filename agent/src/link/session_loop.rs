//! One session from its hello to its end: frames come in and are committed, frames go out, questions are answered, the certificate is renewed.
//! The thin shell around [`crate::session`], which decides.
//!
//! In: the hub's frames, what the ledger holds, what waits in the outbox. Out: changes in the ledger, frames to the transport, why the session
//! ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use karmada_proto::last_read::LastRead;
use karmada_proto::quoted;
use karmada_proto::v1::{AgentFrame, HubAnswer, HubFrame, RenewReply, hub_answer};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::opening::Inbound;
use super::questions::Questions;
use super::renewal::{ask_for_renewal, next_renewal, renew_after, renewed};
use super::{Carried, Link, OUTBOUND};
use crate::agent_state::{AgentState, LinkView};
use crate::hub_questions::HubQuestion;
use crate::ledger::{Ledger, LedgerError};
use crate::reconcile::orphan_rows::former_key;
use crate::session::{Change, Ended, Session};

/// Frames taken before what they bring is committed: one fsync for all of them.
const BATCH: usize = 64;
/// The same in bytes of bodies, as they are unpacked: credit counts them as they came, packed, and they may unpack to ten thousand times
/// as much.
const BATCH_BYTES: usize = 4 << 20;

/// Between two times at which what the hub was told is kept: what comes in between is told once more after a crash.
const KEEP_TOLD: Duration = Duration::from_secs(30);

/// An opened session, and what it runs with.
pub(super) struct SessionLoop<'a> {
    link: &'a mut Link,
    carried: &'a mut Carried,
    session: &'a mut Session,
    frames: mpsc::Sender<AgentFrame>,
    /// How often the ledger had given its cursor up when the session began.
    relists: u64,
    /// When a certificate is asked for.
    renewal: Instant,
    /// When what the hub was told is kept.
    keep_at: Instant,
    is_welcomed: bool,
    /// Who waits for which answer of the hub.
    askers: BTreeMap<u64, oneshot::Sender<hub_answer::Result>>,
}

impl<'a> SessionLoop<'a> {
    /// Of a session that said hello, when the ledger had given its cursor up `relists` times.
    pub(super) fn new(
        link: &'a mut Link,
        carried: &'a mut Carried,
        session: &'a mut Session,
        frames: mpsc::Sender<AgentFrame>,
        relists: u64,
    ) -> Self {
        let renewal = next_renewal(link, carried, renew_after(link));
        let keep_at = Instant::now() + KEEP_TOLD;
        let (is_welcomed, askers) = (false, BTreeMap::new());
        Self { link, carried, session, frames, relists, renewal, keep_at, is_welcomed, askers }
    }

    /// Runs the session until it ends.
    pub(super) async fn run(
        mut self,
        (mut inbound, last_read, mut questions): (Inbound, LastRead, Questions),
        stop: &CancellationToken,
    ) -> Result<Ended, LedgerError> {
        let shared = self.link.shared.clone();
        let started = self.carried.started;
        let mut health = shared.ledger.health();
        loop {
            self.session.heard_bytes(last_read.at());
            self.session.tick(started.elapsed());
            if commit(&shared, self.session, self.relists, started.elapsed())? {
                self.carried.schedule.brought();
            }
            self.note_welcome();
            self.renew().await;
            while let Some(ask) = self.session.take_ask() {
                questions.take(ask);
            }
            self.ask_hub();
            if let Some(models) = self.session.take_resource_models() {
                shared.count_by(&models);
            }
            self.keep_what_was_told()?;
            let full = send(&shared, self.session, &self.frames, started.elapsed());
            if let Some(ended) = self.session.ended().cloned() {
                self.send_the_last().await;
                return Ok(ended);
            }
            let deadline = self.deadline(full);
            let Self { session, frames, renewal, .. } = &mut self;
            tokio::select! {
                biased;
                () = stop.cancelled() => session.leave("the agent stops"),
                message = inbound.next(), if session.listens() => receive(session, message, (&mut inbound, &shared.ledger), started),
                _ = frames.reserve(), if full => {}
                () = shared.tell.notified(), if !full => {}
                answer = questions.answered() => session.answer(answer),
                () = shared.hub_questions.come(), if session.may_ask_hub() => {}
                // What waited for the disk may be told.
                Ok(()) = health.changed() => {}
                () = tokio::time::sleep_until(*renewal) => {}
                () = tokio::time::sleep_until(started + deadline) => {}
            }
        }
    }

    /// The first time that the hub has welcomed us, it is told around.
    fn note_welcome(&mut self) {
        if !self.session.welcomed() || self.is_welcomed {
            return;
        }
        self.is_welcomed = true;
        self.carried.schedule.up(self.carried.started.elapsed());
        let epoch = self.session.epoch();
        self.link.shared.link.send_replace(LinkView::Connected { epoch });
        tracing::info!(epoch, offset_ms = self.session.hub_offset_ms(), "connected");
    }

    /// Asks what the agent's parts want to know, as far as the hub takes questions, and hands its answers on.
    fn ask_hub(&mut self) {
        let waiting = &self.link.shared.hub_questions;
        while self.session.may_ask_hub()
            && let Some(HubQuestion { question, answer }) = waiting.take()
        {
            match self.session.ask_hub(question) {
                Ok(id) => drop(self.askers.insert(id, answer)),
                // Nobody may wait for it any more.
                Err(refusal) => drop(answer.send(hub_answer::Result::Refusal(refusal))),
            }
        }
        while let Some(HubAnswer { id, result }) = self.session.take_hub_answer() {
            if let (Some(asker), Some(result)) = (self.askers.remove(&id), result) {
                let _ = asker.send(result);
            }
        }
    }

    /// Takes a certificate that came, and asks for one where it is time.
    async fn renew(&mut self) {
        if let Some(reply) = self.session.take_renewed() {
            self.take_certificate(reply).await;
        }
        let trusted = self.link.identity.trust_revision();
        if self.session.take_trust().is_some_and(|revision| revision != trusted) {
            let wished = next_renewal(self.link, self.carried, Duration::ZERO);
            if wished < self.renewal {
                tracing::info!("the hub's CA changes: a new certificate is asked for");
                self.renewal = wished;
            }
        }
        if self.renewal <= Instant::now() {
            self.renewal = ask_for_renewal(self.link, self.carried, self.session);
        }
    }

    async fn take_certificate(&mut self, reply: RenewReply) {
        match renewed(self.link, reply).await {
            Ok(of_another_ca) => {
                if of_another_ca {
                    self.session.return_renewed();
                }
                // One that is due already, by this clock, is no reason to ask at once.
                let due = renew_after(self.link);
                if !due.is_zero() {
                    self.renewal = next_renewal(self.link, self.carried, due);
                }
            }
            // The pause of the ask goes on.
            Err(refusal) if self.carried.asking.tells(self.carried.started.elapsed()) => {
                tracing::warn!(refusal = %quoted(&refusal), "the certificate was not renewed");
            }
            Err(_) => {}
        }
    }

    fn keep_what_was_told(&mut self) -> Result<(), LedgerError> {
        if self.keep_at > Instant::now() {
            return Ok(());
        }
        self.keep_at = Instant::now() + KEEP_TOLD;
        keep_told(&self.link.shared)
    }

    /// The transport gets 200 ms to send the last frames.
    async fn send_the_last(&self) {
        if !self.frames.is_closed() {
            let sent = self.frames.reserve_many(OUTBOUND);
            let _ = tokio::time::timeout(Duration::from_millis(200), sent).await;
        }
    }

    /// When there is something to do, by the session's clock, unless something happens before. `full`: the transport takes no more.
    fn deadline(&self, full: bool) -> Duration {
        // What cannot be sent is waited for otherwise than by the clock: the hub grants nothing for now, or reads no more and may say why.
        let may_report = !full && !self.frames.is_closed() && self.session.takes_reports();
        let report_due = if may_report { self.link.shared.outbox.lock().due_at() } else { None };
        report_due.map_or(self.session.deadline(), |due| due.min(self.session.deadline()))
    }
}

/// Keeps what the hub was told for the next process.
pub(super) fn keep_told(shared: &AgentState) -> Result<(), LedgerError> {
    let told = shared.outbox.lock().take_told();
    shared.ledger.set_told(&told)
}

/// Takes a message and those that are already there behind it, up to a batch. Each that is read is handled: none is
/// taken out of the stream before there is room for it in the batch.
fn receive<S>(
    session: &mut Session,
    first: Option<Result<HubFrame, String>>,
    (inbound, ledger): (&mut S, &Ledger),
    started: Instant,
) where
    S: Stream<Item = Result<HubFrame, String>> + Unpin,
{
    let mut message = first;
    for taken in 1.. {
        match message {
            Some(Ok(frame)) => take(session, frame, ledger, started.elapsed()),
            None => return session.lost("the hub ended the stream".into()),
            Some(Err(why)) => return session.lost(format!("the stream broke: {why}")),
        }
        if taken == BATCH || !session.listens() || session.uncommitted() >= BATCH_BYTES {
            return;
        }
        let Some(next) = inbound.next().now_or_never() else { return };
        message = next;
    }
}

/// Takes a frame, and gives the session the body that a difference which came with it is of.
fn take(session: &mut Session, frame: HubFrame, ledger: &Ledger, now: Duration) {
    session.frame(frame, now);
    if let Some((key, hash)) = session.base_wanted() {
        let body = ledger.body(key, hash);
        session.base(body.as_ref());
    }
}

/// Writes what the session wants written, and wakes who works on it. True where it brought Works, or word that some are to go. The session is over where the ledger gave its cursor up since it
/// began, which was `relists` times before: what comes follows on what is lost.
fn commit(
    shared: &AgentState,
    session: &mut Session,
    relists: u64,
    now: Duration,
) -> Result<bool, LedgerError> {
    let lost = |session: &mut Session| {
        session.lost("the ledger was damaged: the hub is asked for everything again".into());
    };
    if shared.ledger.relists() != relists {
        lost(session);
        return Ok(false);
    }
    if !session.has_changes() {
        // The disk took nothing for a while, and now it has all of it.
        if session.owes_ack() && shared.ledger.is_durable() {
            session.committed(now);
        }
        return Ok(false);
    }
    let changes = session.take_changes();
    let is_kept = shared.ledger.commit_after(relists, &changes)?;
    match is_kept {
        Some(true) => session.committed(now),
        Some(false) => session.held_for_now(),
        None => lost(session),
    }
    let keys: BTreeSet<String> = changes.iter().filter_map(key_of).collect();
    if !keys.is_empty() {
        shared.changed(keys);
    }
    let brings = |change: &Change| {
        matches!(change, Change::Put { .. } | Change::Delete { .. } | Change::Document { .. })
    };
    Ok(is_kept == Some(true) && changes.iter().any(brings))
}

fn key_of(change: &Change) -> Option<String> {
    match change {
        Change::Put { key, .. }
        | Change::Touch { key, .. }
        | Change::Delete { key, .. }
        | Change::Forget { key } => Some(key.clone()),
        // What is reported of it names its revision.
        Change::Listed { key, .. } | Change::Unlisted { key } => Some(key.clone()),
        Change::KeepFormer { key } => former_key(key),
        Change::Epoch(_)
        | Change::Listing
        | Change::Cursor(_)
        | Change::Timeline(_)
        | Change::Seen(_)
        | Change::Seal(_)
        | Change::Document { .. } => None,
    }
}

/// Hands frames to the transport. True where it takes no more for now and some may wait.
fn send(
    shared: &AgentState,
    session: &mut Session,
    frames: &mpsc::Sender<AgentFrame>,
    now: Duration,
) -> bool {
    shared.outbox.lock().hold_removals(!shared.ledger.is_durable());
    loop {
        match frames.try_reserve() {
            Ok(place) => match session.next_frame(&mut shared.outbox.lock(), now) {
                Some(frame) => place.send(frame),
                None => return false,
            },
            Err(mpsc::error::TrySendError::Full(())) => return true,
            // The hub reads no more. Why, it has said or will say on its own side, which is still read.
            Err(mpsc::error::TrySendError::Closed(())) => {
                session.discard_outgoing();
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
