//! A connection becomes a session: frames of a verified peer come in by a stream, frames to it go out by one, whatever carries them.
//!
//! In: who calls ([`Caller`]) and its frames. Out: a stream of frames ([`connect`]), or the same into a sink until one of both ends
//! ([`carry`]); one close that says why not, where the peer gets no session; a line of the log, a note for the audit log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::Either;
use futures::{Sink, Stream, StreamExt, stream};
use karmada_certs::PeerIdentity;
use karmada_proto::digest::Content;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::{
    AgentFrame, Close, CloseCode, Hello, HubFrame, RetryClass, Seen, agent_frame, hub_frame,
};
use karmada_proto::{frame, quoted};

use crate::cloned_identity;
use crate::gateway::Gateway;
use crate::ports::{Batch, ClusterIncarnation, CursorOrigin, Occurrence, PortError, Position, RestoreHold};
use crate::session::{Opening, Session, SessionHold};
use crate::session_admission::{self, close};
use crate::session_handle::SessionHandle;
use crate::shared_fleet::Way;
use crate::stream::SessionStream;

/// Who calls, as far as the transport has proved it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The certificate that was shown.
    pub peer: PeerIdentity,
    /// The connection's other end, where it is known.
    pub from: Option<IpAddr>,
    /// When the connection last brought a byte, on the gateway's clock; never, where the transport does not tell.
    pub last_read: LastRead,
    /// What carries the frames, for display.
    pub transport: &'static str,
}

/// Opens a session for `caller`, whose frames come by `inbound`. The answer is polled for the frames to it, and does nothing unless it is.
pub async fn connect<I, E>(
    gateway: &Arc<Gateway>,
    caller: Caller,
    inbound: I,
) -> impl Stream<Item = HubFrame> + Send + Unpin + use<I, E>
where
    I: Stream<Item = Result<AgentFrame, E>> + Send + Unpin,
    E: Send,
{
    // Boxed: opening a session awaits much, and is over long before the stream is.
    let opened = Box::pin(open(gateway, &caller, inbound)).await;
    note(gateway, &caller, opened.as_ref().err());
    match opened {
        Ok(session) => Either::Left(session),
        Err(close) => Either::Right(stream::iter([frame::hub(hub_frame::Body::Close(close))])),
    }
}

/// The same into a sink, until the session is over or the sink takes nothing more; then the sink is closed.
///
/// # Errors
/// That of the sink, when it takes nothing more.
pub async fn carry<I, E, O>(
    gateway: &Arc<Gateway>,
    caller: Caller,
    inbound: I,
    outbound: O,
) -> Result<(), O::Error>
where
    I: Stream<Item = Result<AgentFrame, E>> + Send + Unpin,
    E: Send,
    O: Sink<HubFrame>,
{
    connect(gateway, caller, inbound).await.map(Ok).forward(outbound).await
}

/// Writes down that a session opened, or why not. The lines about refusals are bounded in number.
fn note(gateway: &Gateway, Caller { peer, from, .. }: &Caller, refused: Option<&Close>) {
    let cluster = peer.cluster().unwrap_or_default();
    gateway.ports.registrar.note(&Occurrence {
        verb: "connect",
        user: Some(&peer.common_name),
        cluster,
        from: *from,
        refused: refused.map(|close| close.message.as_str()),
        pending: false,
    });
    let Some(close) = refused else { return };
    let Some(left_out) = gateway.may_log_refusal() else { return };
    let (code, why) = (close.code().as_str_name(), quoted(&close.message));
    let (who, from) = (quoted(&peer.common_name), from.map(tracing::field::display));
    tracing::info!(%who, from, code, %why, left_out, "a session was refused");
}

/// From a verified peer to a running session, or to the close that says why not.
pub(crate) async fn open<I, E>(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    mut inbound: I,
) -> Result<SessionStream<I>, Close>
where
    I: Stream<Item = Result<AgentFrame, E>> + Unpin,
{
    let peer = &caller.peer;
    let cluster =
        gateway.ports.registrar.authorize_session(peer).await.map_err(|r| session_admission::refused(&r))?;
    let hello = hello(gateway, &mut inbound).await?;
    let protocol = session_admission::check(&cluster, &hello)?;
    gateway.paced(&cluster)?;
    cloned_identity::refuse(gateway, &cluster, &hello).await?;
    let uid = gateway.ports.registrar.uid_of(&cluster);
    let whose = ClusterIncarnation { cluster: &cluster, uid: &uid };
    let (position, resume) = position(gateway, whose, &hello).await?;
    let epoch = position.epoch;
    let busy = |error: PortError| session_admission::busy(error.message);
    let at = Batch { epoch, revision: position.revision, timeline: position.timeline };
    let restore_hold = restore_hold(gateway, whose, &hello, at).await.map_err(busy)?;
    // A cursor says nothing of what was withheld before it.
    let resume = resume.filter(|_| restore_hold.is_none());
    let feed = gateway.ports.works.watch(&cluster, resume).await.map_err(busy)?;
    let session_seq = gateway.ports.sessions.next_session(&cluster).await.map_err(busy)?;
    // What was decided before all that was waited for may hold no more: asked again, before another session is replaced.
    authorized(gateway, peer, &cluster).await?;
    let (hub_clock_ms, now) = (gateway.wall_ms(), gateway.now());
    let handle = Arc::new(SessionHandle::new(&cluster, session_seq, &hello.boot_id, peer));
    let way = Way { transport: caller.transport, address: caller.from, epoch };
    enter(gateway, peer, &handle, &hello, way).await?;
    let opening = Opening {
        protocol,
        session_seq,
        epoch,
        epoch_seal: gateway.ports.sessions.seal(epoch),
        timeline: gateway.ports.sessions.told_as(position.timeline, whose),
        resumed: resume.filter(|_| !feed.full_listing),
        of_our_history: resume.is_some(),
        restore_hold,
        retry_hint: session_admission::retry_hint(gateway.fleet.sessions(), gateway.options.accept_rate),
        hub_clock_ms,
        trust_revision: gateway.ports.registrar.trust_revision(),
    };
    let version = quoted(&hello.agent_version);
    tracing::info!(cluster, session_seq, epoch, resumed = ?opening.resumed, %version, "session");
    let told = Content::try_from(&*hello.cluster_digest).ok();
    let ends = now.saturating_add(life_left(peer, hub_clock_ms));
    let session = Session::open(hello, &opening, &gateway.options, now);
    let session = session.until(ends).packs_with(gateway.encodings.clone());
    let stream = SessionStream::new(gateway.clone(), handle, session, inbound, feed);
    let mut stream = stream.with_last_read(caller.last_read.clone());
    stream.let_go(now);
    stream.tells_documents(now);
    if told.is_some_and(|told| !gateway.ports.statuses.says(&cluster, &told)) {
        stream.asks_for_cluster(now);
    }
    Ok(stream)
}

/// How long the certificate is still valid.
fn life_left(peer: &PeerIdentity, now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(peer.not_after.as_millisecond() - now_ms).unwrap_or(0))
}

/// Has the session found as its cluster's from now on, in place of the one before.
async fn enter(
    gateway: &Gateway,
    peer: &PeerIdentity,
    handle: &Arc<SessionHandle>,
    hello: &Hello,
    way: Way,
) -> Result<(), Close> {
    let epoch = way.epoch;
    if !gateway.fleet.enter(handle, hello, way) {
        return Err(session_admission::busy("a newer session of this cluster is there".into()));
    }
    let stays = stays(gateway, peer, handle, epoch).await;
    if stays.is_err() {
        gateway.fleet.leave(handle);
    }
    stays
}

/// Whether a session that can be found by now is still one that may be.
async fn stays(
    gateway: &Gateway,
    peer: &PeerIdentity,
    handle: &SessionHandle,
    epoch: u64,
) -> Result<(), Close> {
    // Asked once more when it can be found: who is shut out from now on is closed there.
    authorized(gateway, peer, &handle.cluster).await?;
    let position = gateway.ports.sessions.position().await;
    // A new epoch that began meanwhile called those that it found: this one was not there yet.
    if position.map_err(|error| session_admission::busy(error.message))?.epoch != epoch {
        return Err(session_admission::busy("the hub entered a new epoch".into()));
    }
    Ok(())
}

/// Whether `peer` still speaks for `cluster`.
async fn authorized(gateway: &Gateway, peer: &PeerIdentity, cluster: &str) -> Result<(), Close> {
    let now =
        gateway.ports.registrar.authorize_session(peer).await.map_err(|r| session_admission::refused(&r))?;
    if now == cluster {
        Ok(())
    } else {
        Err(session_admission::busy("the identity changed meanwhile".into()))
    }
}

async fn hello<I, E>(gateway: &Gateway, inbound: &mut I) -> Result<Hello, Close>
where
    I: Stream<Item = Result<AgentFrame, E>> + Unpin,
{
    let first = tokio::time::timeout(gateway.options.hello_timeout, inbound.next()).await;
    match first {
        Ok(Some(Ok(AgentFrame { body: Some(agent_frame::Body::Hello(hello)), .. }))) => Ok(hello),
        _ => {
            let message = "the first frame must be a hello".to_owned();
            Err(close(CloseCode::Protocol, RetryClass::RetryAfter, Duration::from_secs(5), message))
        }
    }
}

/// Which deletes that are listed to this agent wait for a person: since its site saw a life of the hub that was taken back, and until
/// somebody says otherwise. A word for an earlier life is none for this one, though its epoch and revision were reached again. As long as
/// the site does not have all of it, this says so, also where nothing waits for a word any more.
async fn restore_hold(
    gateway: &Gateway,
    whose: ClusterIncarnation<'_>,
    hello: &Hello,
    now: Batch,
) -> Result<Option<SessionHold>, PortError> {
    let (sessions, statuses) = (&gateway.ports.sessions, &gateway.ports.statuses);
    let cluster = whose.cluster;
    let stands = sessions.restore_hold(cluster).await?;
    let batch = stands.as_ref().map(|held| held.batch);
    // A word for an epoch that is still to come is none.
    let counts = |word: &Batch| word.epoch <= now.epoch && word.is_of_this_history(&**sessions, batch);
    let confirmed = statuses.deletes_confirmed(cluster).filter(counts);
    let is_open = |held: &Batch| confirmed.is_none_or(|confirmed| !confirmed.covers(*held));
    let waits = batch.is_some_and(|held| is_open(&held) && held.epoch == now.epoch);
    let others = other_lives(gateway, whose, hello);
    let held = if session_admission::saw_another_life(hello, now.epoch, &others, stands.as_ref(), waits) {
        sessions.set_restore_hold(cluster, &RestoreHold { batch: now, lives: others }).await?;
        Some(now)
    } else {
        batch
    };
    let passed = confirmed.filter(|confirmed| confirmed.epoch == now.epoch).map_or(0, |batch| batch.revision);
    Ok(held.map(|held| {
        let passed = if is_open(&held) { passed } else { SessionHold::ALL };
        SessionHold { held, start: now.timeline, passed }
    }))
}

/// What the agent was ever told that is not of the history that the hub has.
fn other_lives(gateway: &Gateway, whose: ClusterIncarnation<'_>, hello: &Hello) -> Vec<Seen> {
    let told = |life: &Seen| gateway.ports.sessions.told(whose, life.timeline, life.revision);
    session_admission::lives(hello).filter(|life| told(life) == CursorOrigin::InAnotherLife).collect()
}

/// Where the hub stands and where to resume. Mints a new epoch where the agent was given one that the hub does not know.
async fn position(
    gateway: &Gateway,
    whose: ClusterIncarnation<'_>,
    hello: &Hello,
) -> Result<(Position, Option<u64>), Close> {
    let sessions = &gateway.ports.sessions;
    let busy = |error: PortError| session_admission::busy(error.message);
    let position = sessions.position().await.map_err(busy)?;
    let sealed = hello.epoch > position.epoch && sessions.is_sealed(hello.epoch, &hello.epoch_seal);
    if !session_admission::ahead(hello, position, sealed) {
        if hello.epoch > position.epoch {
            tracing::warn!(
                cluster = hello.cluster_name,
                epoch = position.epoch,
                seen = hello.epoch,
                "an agent names an epoch without proof: it is listed everything in this one"
            );
        }
        let is_ours = sessions.told(whose, hello.timeline, hello.cursor) == CursorOrigin::ThisCluster
            && other_lives(gateway, whose, hello).is_empty();
        return Ok((position, session_admission::resume(hello, position.epoch, is_ours)));
    }
    let epoch = sessions.mint_epoch_above(hello.epoch).await.map_err(busy)?;
    tracing::warn!(
        epoch,
        seen = hello.epoch,
        "an agent was given an epoch that this hub does not know: a new one begins"
    );
    gateway.enter_epoch(epoch);
    Ok((Position { epoch, ..position }, None))
}
