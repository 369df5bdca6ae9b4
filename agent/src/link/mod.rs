//! The link to the hub: dials, runs one session after the other, waits in between. The thin shell around
//! [`crate::session`], which decides, and [`crate::ledger`], which remembers.

pub mod dial;
pub(crate) mod hub;
mod last_read;
mod opening;
mod questions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use karmada_certs::agent_subject;
use karmada_pods::usage::PodUsages;
use karmada_proto::body::Assembly;
use karmada_proto::cadence::Cadence;
use karmada_proto::pulse::Pulse;
use karmada_proto::quoted;
use karmada_proto::v1::{AgentFrame, CloseCode, HubFrame};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::dial::{Connector, Transports};
use self::hub::Hub;
use self::opening::{Inbound, OpenedSession};
use self::questions::{AnswerSources, Questions};
use crate::cause::Cause;
use crate::clock_and_random::Sources;
use crate::enrolment::Enrolment;
use crate::identity::{Identity, IdentityStore};
use crate::ledger::{Ledger, LedgerError};
use crate::member::Member;
use crate::reconcile::orphan_rows::former_key;
use crate::redial::{Advice, Schedule};
use crate::rotation::{self, Asking};
use crate::session::{Change, Ended, Session};
use crate::shared::{LinkView, Shared};
use crate::tunnel::Tunnels;

/// Frames on their way to the transport; what waits longer waits in the outbox, where newer replaces older.
const OUTBOUND: usize = 4;
/// Frames taken before what they bring is committed: one fsync for all of them.
const BATCH: usize = 64;
/// The same in bytes of bodies, as they are unpacked: credit counts them as they came, packed, and they may unpack to ten thousand times
/// as much.
const BATCH_BYTES: usize = 4 << 20;

/// Between two times at which what the hub was told is kept: what comes in between is told once more after a crash.
const KEEP_TOLD: Duration = Duration::from_secs(30);

/// A session over bare TLS frames that ends sooner than this without a Close may have been cut by a proxy in between.
const YOUNG: Duration = Duration::from_secs(10);
/// After so many of these in a row gRPC is tried; fewer may be the hub's restart.
const CUTS: u32 = 3;

/// The wait before another certificate is asked for where the newest one is not valid yet: the clock of the hub that issued it was ahead.
const NOT_BEGUN: Duration = Duration::from_secs(60);

/// What the link is given.
pub struct Link {
    /// Ledger, outbox, notifications.
    pub shared: Arc<Shared>,
    /// Makes byte streams.
    pub connector: Arc<dyn Connector>,
    /// Who we are; renewed while running.
    pub identity: Identity,
    /// Where renewals are kept.
    pub identity_store: IdentityStore,
    /// To join anew where the hub does not know the identity any more; without it, the hub is asked again and again.
    pub enrolment: Option<Enrolment>,
    /// Random per process.
    pub boot_id: String,
    /// Of the reconnect schedule.
    pub seed: u64,
    /// The wall clock and randomness.
    pub sources: Sources,
    /// Who is asked where the hub asks about one workload.
    pub member: Arc<dyn Member>,
    /// Requests to the member, by way of the hub.
    pub tunnels: Arc<Tunnels>,
    /// Who says what Pods use.
    pub usages: Arc<PodUsages>,
    /// What may carry sessions.
    pub transports: Transports,
}

/// What is carried from one session to the next.
struct Carried {
    started: Instant,
    schedule: Schedule,
    cadence: Cadence,
    assembly: Assembly,
    next_endpoint: usize,
    /// What the next session may be carried by.
    transports: Transports,
    /// Sessions without HTTP in a row that were cut when they had hardly begun.
    cuts: u32,
    asking: Asking,
    /// Why the last dial failed.
    refused: Option<Cause>,
}

impl Carried {
    /// A session without HTTP is over, and was cut too soon, or was not.
    fn framed_ended(&mut self, is_cut: bool, allowed: Transports) {
        self.cuts = if is_cut { self.cuts.saturating_add(1) } else { 0 };
        if self.cuts >= CUTS {
            self.transports = self.transports.after_failure(allowed, true);
        }
    }
}

/// Runs until `stop`, or until the cluster has another name on the hub: what goes by the name begins anew then. Never gives up on the
/// network.
///
/// # Errors
/// The ledger cannot be read or written.
pub async fn run(mut link: Link, stop: CancellationToken) -> Result<(), LedgerError> {
    let ledger = &link.shared.ledger;
    let millis = |key: &str| -> Result<Option<Duration>, LedgerError> {
        Ok(ledger.number(key)?.map(|ms| Duration::from_millis(ms.max(0) as u64)))
    };
    let cadence = match (millis("ping_ms")?, millis("ping_ceiling_ms")?) {
        (Some(interval), Some(ceiling)) => Cadence::learned(interval, ceiling),
        _ => Cadence::default(),
    };
    let attempt = ledger.number("attempt")?.unwrap_or(0).clamp(0, i64::from(u32::MAX)) as u32;
    let schedule = Schedule::new(link.seed, attempt);
    let started = Instant::now();
    let mut carried = Carried {
        started,
        schedule,
        cadence,
        assembly: Assembly::default(),
        next_endpoint: 0,
        transports: link.transports,
        cuts: 0,
        asking: Asking::default(),
        refused: None,
    };
    while !stop.is_cancelled() {
        // Boxed: a session's future holds much, and the wait between two needs none of it.
        let ended = Box::pin(one_session(&mut link, &mut carried, &stop)).await?;
        if stop.is_cancelled() {
            break;
        }
        let lost = matches!(ended.code, Some(CloseCode::Unregistered | CloseCode::Revoked))
            || carried.refused == Some(Cause::CertificateExpired);
        let anew = if lost { Box::pin(joined_anew(&link, &stop)).await } else { Anew::NoToken };
        if let Anew::Joined(identity) = anew {
            let is_renamed = identity.cluster_name != link.identity.cluster_name;
            link.identity = identity;
            if is_renamed {
                tracing::info!(cluster = link.identity.cluster_name, "the cluster has another name now");
                break;
            }
            carried.refused = None;
            continue;
        }
        // The hub's long pause is for an identity that it does not take, not for a token that a person just gave.
        let advice = if matches!(anew, Anew::Failed) { Advice::Lost(Duration::ZERO) } else { ended.advice };
        let wait = carried.schedule.down(advice, carried.started.elapsed());
        remember(&link.shared, &carried)?;
        tracing::info!(reason = %quoted(&ended.reason), code = ?ended.code, wait_ms = wait.as_millis() as u64, "not connected");
        let cause = carried.refused.take().unwrap_or_else(|| ended.code.into());
        link.shared.link.send_replace(LinkView::away(cause, ended.reason));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    Ok(())
}

fn remember(shared: &Shared, carried: &Carried) -> Result<(), LedgerError> {
    let ledger = &shared.ledger;
    ledger.set_number("attempt", carried.schedule.attempt().into())?;
    ledger.set_number("ping_ms", carried.cadence.interval.as_millis() as i64)?;
    ledger.set_number("ping_ceiling_ms", carried.cadence.ceiling.as_millis() as i64)
}

/// Dials and runs one session to its end.
async fn one_session(
    link: &mut Link,
    carried: &mut Carried,
    stop: &CancellationToken,
) -> Result<Ended, LedgerError> {
    let lost =
        |reason: String| Ended { reason, advice: Advice::Lost(Duration::ZERO), code: None, relocate: None };
    let relists = link.shared.ledger.relists();
    let endpoints = &link.identity.endpoints;
    let endpoint = endpoints[carried.next_endpoint % endpoints.len()].clone();
    let opening = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(lost("stopped".into())),
        opening = opening::open(link, carried, &endpoint) => opening?,
    };
    let OpenedSession { mut session, frames, inbound, pulse, hub } = match opening {
        Ok(opened) => opened,
        Err((cause, reason)) => {
            carried.refused = Some(cause);
            // What else may carry frames is tried where this one did not.
            carried.next_endpoint += usize::from(carried.transports == link.transports);
            return Ok(lost(reason));
        }
    };
    let (is_framed, begun) = (matches!(hub, Hub::Apart(_)), carried.started.elapsed());
    let asked = AnswerSources {
        shared: link.shared.clone(),
        member: link.member.clone(),
        tunnels: link.tunnels.clone(),
        usages: link.usages.clone(),
        sources: link.sources.clone(),
    };
    let questions = Questions::new(asked, hub);
    let ended =
        converse(link, carried, &mut session, frames, (inbound, pulse, questions), (relists, stop)).await?;
    if session.welcomed() {
        let (cause, reason) = (ended.code.into(), ended.reason.clone());
        link.shared.link.send_replace(LinkView::away(cause, reason));
    } else {
        carried.next_endpoint += 1;
    }
    if is_framed {
        let is_cut = ended.code.is_none() && carried.started.elapsed() < begun + YOUNG;
        carried.framed_ended(is_cut, link.transports);
    }
    keep_told(&link.shared)?;
    let (cadence, cursor, assembly) = session.into_parts();
    (carried.cadence, carried.assembly) = (cadence, assembly);
    // A ledger that was damaged meanwhile has given its cursor up.
    if !cursor.is_empty() {
        link.shared.ledger.commit_after(relists, &cursor)?;
    }
    Ok(ended)
}

/// What came of joining anew.
enum Anew {
    Joined(Identity),
    /// Shown; tried again with the next session that is refused.
    Failed,
    /// There is no newer token than the one that the identity was joined with.
    NoToken,
}

/// Joins anew where the hub does not take the identity any more and there is a newer token.
async fn joined_anew(link: &Link, stop: &CancellationToken) -> Anew {
    let enrolment = link.enrolment.as_ref().filter(|enrolment| enrolment.has_new_token(&link.identity));
    let Some(enrolment) = enrolment else { return Anew::NoToken };
    let joined = tokio::select! {
        biased;
        () = stop.cancelled() => return Anew::Failed,
        joined = enrolment.join() => joined,
    };
    match joined {
        Ok(identity) => Anew::Joined(identity),
        Err(error) => {
            tracing::warn!(error = %quoted(&error.to_string()), "joining anew");
            link.shared.link.send_replace(LinkView::away((&error).into(), &error));
            Anew::Failed
        }
    }
}

/// Runs an opened session until it ends.
async fn converse(
    link: &mut Link,
    carried: &mut Carried,
    session: &mut Session,
    frames: mpsc::Sender<AgentFrame>,
    (mut inbound, pulse, mut questions): (Inbound, Pulse, Questions),
    (relists, stop): (u64, &CancellationToken),
) -> Result<Ended, LedgerError> {
    let shared = link.shared.clone();
    let started = carried.started;
    let mut renewal = next_renewal(link, carried, renew_after(link));
    let mut keep_at = Instant::now() + KEEP_TOLD;
    let mut welcomed = false;
    let mut health = shared.ledger.health();
    loop {
        session.heard_bytes(pulse.last());
        session.tick(started.elapsed());
        commit(&shared, session, relists, started.elapsed())?;
        if session.welcomed() && !welcomed {
            welcomed = true;
            carried.schedule.up(started.elapsed());
            shared.link.send_replace(LinkView::Connected { epoch: session.epoch() });
            tracing::info!(epoch = session.epoch(), offset_ms = session.hub_offset_ms(), "connected");
        }
        if let Some(reply) = session.take_renewed() {
            match renewed(link, reply).await {
                Ok(of_another_ca) => {
                    if of_another_ca {
                        session.return_renewed();
                    }
                    // One that is due already, by this clock, is no reason to ask at once.
                    let due = renew_after(link);
                    if !due.is_zero() {
                        renewal = next_renewal(link, carried, due);
                    }
                }
                // The pause of the ask goes on.
                Err(refusal) if carried.asking.tells(started.elapsed()) => {
                    tracing::warn!(refusal = %quoted(&refusal), "the certificate was not renewed");
                }
                Err(_) => {}
            }
        }
        if session.take_trust().is_some_and(|revision| revision != link.identity.trust_revision()) {
            let wished = next_renewal(link, carried, Duration::ZERO);
            if wished < renewal {
                tracing::info!("the hub's CA changes: a new certificate is asked for");
                renewal = wished;
            }
        }
        if renewal <= Instant::now() {
            renewal = ask_for_renewal(link, carried, session);
        }
        while let Some(ask) = session.take_ask() {
            questions.take(ask);
        }
        if let Some(models) = session.take_resource_models() {
            shared.count_by(&models);
        }
        if keep_at <= Instant::now() {
            keep_at = Instant::now() + KEEP_TOLD;
            keep_told(&shared)?;
        }
        let full = send(&shared, session, &frames, started.elapsed());
        if let Some(ended) = session.ended() {
            let ended = ended.clone();
            // The transport gets 200 ms to send the last frames.
            if !frames.is_closed() {
                let _ = tokio::time::timeout(Duration::from_millis(200), frames.reserve_many(OUTBOUND)).await;
            }
            return Ok(ended);
        }
        // What cannot be sent is waited for otherwise than by the clock: the hub grants nothing for now, or reads no more and may say why.
        let may_report = !full && !frames.is_closed() && session.takes_reports();
        let report_due = if may_report { shared.outbox.lock().due_at() } else { None };
        let deadline = report_due.map_or(session.deadline(), |due| due.min(session.deadline()));
        tokio::select! {
            biased;
            () = stop.cancelled() => session.leave("the agent stops"),
            message = inbound.next(), if session.listens() => receive(session, message, (&mut inbound, &shared.ledger), started),
            _ = frames.reserve(), if full => {}
            () = shared.tell.notified(), if !full => {}
            answer = questions.answered() => session.answer(answer),
            // What waited for the disk may be told.
            Ok(()) = health.changed() => {}
            () = tokio::time::sleep_until(renewal) => {}
            () = tokio::time::sleep_until(started + deadline) => {}
        }
    }
}

/// Keeps what the hub was told for the next process.
fn keep_told(shared: &Shared) -> Result<(), LedgerError> {
    let told = shared.outbox.lock().take_told();
    shared.ledger.set_told(&told)
}

/// A timer this far away never fires in practice and does not overflow.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

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

/// Writes what the session wants written, and wakes who works on it. The session is over where the ledger gave its cursor up since it
/// began, which was `relists` times before: what comes follows on what is lost.
fn commit(shared: &Shared, session: &mut Session, relists: u64, now: Duration) -> Result<(), LedgerError> {
    let lost = |session: &mut Session| {
        session.lost("the ledger was damaged: the hub is asked for everything again".into());
    };
    if shared.ledger.relists() != relists {
        lost(session);
        return Ok(());
    }
    if !session.has_changes() {
        // The disk took nothing for a while, and now it has all of it.
        if session.owes_ack() && shared.ledger.is_durable() {
            session.committed(now);
        }
        return Ok(());
    }
    let changes = session.take_changes();
    match shared.ledger.commit_after(relists, &changes)? {
        Some(true) => session.committed(now),
        Some(false) => session.held_for_now(),
        None => lost(session),
    }
    let keys: BTreeSet<String> = changes.iter().filter_map(key_of).collect();
    if !keys.is_empty() {
        shared.changed(keys);
    }
    Ok(())
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
fn send(shared: &Shared, session: &mut Session, frames: &mpsc::Sender<AgentFrame>, now: Duration) -> bool {
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

fn renew_after(link: &Link) -> Duration {
    let now = link.sources.now();
    // The newest one has not begun, and what is shown in its place was to be renewed already.
    if link.identity.shows_earlier(now) {
        return NOT_BEGUN;
    }
    link.identity.peer(now).map_or(FAR, |peer| rotation::due_in(&peer, now)).min(FAR)
}

/// When to ask, where it is to be in `due`: no earlier than the asks before allow.
fn next_renewal(link: &Link, carried: &Carried, due: Duration) -> Instant {
    let now = link.sources.now();
    let earliest = link.identity.peer(now).map_or(Duration::ZERO, |peer| carried.asking.earliest(&peer, now));
    (Instant::now() + due).max(carried.started + earliest)
}

/// Asks for a new certificate; when to ask again, unless one comes that is not due.
fn ask_for_renewal(link: &Link, carried: &mut Carried, session: &mut Session) -> Instant {
    let request =
        link.identity.key().and_then(|key| key.request(&agent_subject(&link.identity.cluster_name)));
    let now = link.sources.now();
    match (request, link.identity.peer(now)) {
        (Ok(csr), Ok(peer)) => {
            session.renew(csr.into());
            carried.asking.asks(carried.started.elapsed());
            next_renewal(link, carried, rotation::ask_again_in(&peer, now))
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "renewing the certificate");
            Instant::now() + FAR
        }
    }
}

/// Takes a new certificate. True where it is of another CA.
async fn renewed(link: &mut Link, reply: karmada_proto::v1::RenewReply) -> Result<bool, String> {
    let now = link.sources.now();
    let of_another_ca = link.identity.renewed(reply, now)?;
    if let Ok(peer) = link.identity.peer(now) {
        link.shared.counts.certificate_ends.store(peer.not_after.as_second(), Ordering::Relaxed);
    }
    match link.identity_store.save(&link.identity).await {
        Ok(()) => tracing::info!("the certificate was renewed"),
        Err(error) => tracing::error!(%error, "keeping the renewed certificate"),
    }
    Ok(of_another_ca)
}

#[cfg(test)]
mod tests;
