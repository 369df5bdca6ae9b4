//! The link to the hub: dials, runs one session after the other, waits in between. The thin shell around [`crate::session`], which decides,
//! and [`crate::ledger`], which remembers. What happens within one session is in [`session_loop`].
//!
//! In: the identity, the shared state, the member, the tunnels. Out: the link's view as others see it, questions answered, renewals kept;
//! it returns when it is told to stop or the cluster has another name.

pub mod dial;
pub(crate) mod hub;
mod last_read;
mod opening;
mod questions;
mod renewal;
mod session_loop;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_pods::usage::PodUsages;
use karmada_proto::keepalive::Cadence;
use karmada_proto::quoted;
use karmada_proto::v1::CloseCode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::dial::{Connector, Transports};
use self::hub::Hub;
use self::opening::OpenedSession;
use self::questions::{AnswerSources, Questions};
use self::session_loop::{SessionLoop, keep_told};
use crate::agent_state::{AgentState, LinkView};
use crate::cause::Cause;
use crate::clock_and_random::ClockAndRandom;
use crate::enrolment::Enrolment;
use crate::identity::{Identity, IdentityStore};
use crate::ledger::LedgerError;
use crate::member::Member;
use crate::member::topology::Topology;
use crate::redial::{Advice, Schedule};
use crate::renewal_schedule::Asking;
use crate::session::{Ended, Unfinished};
use crate::tunnel::Tunnels;

/// Frames on their way to the transport; what waits longer waits in the outbox, where newer replaces older.
const OUTBOUND: usize = 4;
/// A session over bare TLS frames that ends sooner than this without a Close may have been cut by a proxy in between.
const YOUNG: Duration = Duration::from_secs(10);
/// After so many of these in a row gRPC is tried; fewer may be the hub's restart.
const CUTS: u32 = 3;

/// What the link is given.
pub struct Link {
    /// Ledger, outbox, notifications.
    pub shared: Arc<AgentState>,
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
    pub sources: ClockAndRandom,
    /// Who is asked where the hub asks about one workload.
    pub member: Arc<dyn Member>,
    /// Requests to the member, by way of the hub.
    pub tunnels: Arc<Tunnels>,
    /// Who says what Pods use.
    pub usages: Arc<PodUsages>,
    /// Where the member is, as far as a person said it.
    pub said_topology: Topology,
    /// What may carry sessions.
    pub transports: Transports,
}

/// What is carried from one session to the next.
struct Carried {
    started: Instant,
    schedule: Schedule,
    cadence: Cadence,
    unfinished: Unfinished,
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
        unfinished: Unfinished::default(),
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

fn remember(shared: &AgentState, carried: &Carried) -> Result<(), LedgerError> {
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
    let begun_with = carried.unfinished.received();
    let endpoints = &link.identity.endpoints;
    let Some(endpoint) = endpoints.get(carried.next_endpoint % endpoints.len().max(1)).cloned() else {
        return Ok(lost("no hub is named: start the agent with --hub".into()));
    };
    let opening = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(lost("stopped".into())),
        opening = opening::open(link, carried, &endpoint) => opening?,
    };
    let OpenedSession { mut session, frames, inbound, last_read, hub } = match opening {
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
        said_topology: link.said_topology.clone(),
        sources: link.sources.clone(),
    };
    let questions = Questions::new(asked, hub);
    let session_loop = SessionLoop::new(link, carried, &mut session, frames, relists);
    let ended = session_loop.run((inbound, last_read, questions), stop).await?;
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
    let (cadence, cursor, unfinished) = session.into_parts();
    (carried.cadence, carried.unfinished) = (cadence, unfinished);
    // A piece of a large body is something: the next session goes on after it.
    let is_more = |(hash, received): (Bytes, u64)| begun_with.get(&hash).is_none_or(|had| *had < received);
    if carried.unfinished.received().into_iter().any(is_more) {
        carried.schedule.brought();
    }
    // A ledger that was damaged meanwhile has given its cursor up.
    if !cursor.is_empty() {
        link.shared.ledger.commit_after(relists, &cursor)?;
    }
    Ok(ended)
}

/// What came of joining anew.
enum Anew {
    Joined(Identity),
    /// The join failed, which the link's view shows. It is tried again when the hub refuses the next session.
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
