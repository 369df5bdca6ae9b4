//! The gRPC service: joins, and the opening of sessions.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use karmada_certs::PeerIdentity;
use karmada_proto::pulse::Pulse;
use karmada_proto::v1::fleet_server::Fleet;
use karmada_proto::v1::{
    AgentFrame, Close, CloseCode, Hello, HubFrame, JoinReply, JoinRequest, RetryClass, agent_frame, hub_frame,
};
use karmada_proto::{frame, quoted};
use tonic::{Request, Response, Status, Streaming};

use crate::Gateway;
use crate::admission::{self, Standing, close};
use crate::join;
use crate::ports::{Occurrence, PortError, Position};
use crate::registry::Handle;
use crate::session::{Control, Opening, Session};
use crate::stream::SessionStream;

/// The service that the hub mounts on its port. Cheap to clone.
#[derive(Clone)]
pub struct FleetService {
    gateway: Arc<Gateway>,
}

impl FleetService {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
    }
}

type Frames = BoxStream<'static, Result<HubFrame, Status>>;

#[tonic::async_trait]
impl Fleet for FleetService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let from = request.extensions().get::<IpAddr>().copied();
        join::answer(&self.gateway, request.into_inner(), from).await.map(Response::new)
    }

    type ConnectStream = Frames;

    async fn connect(&self, request: Request<Streaming<AgentFrame>>) -> Result<Response<Frames>, Status> {
        let peer = request.extensions().get::<PeerIdentity>().cloned();
        let from = request.extensions().get::<IpAddr>().copied();
        let pulse = request.extensions().get::<Pulse>().cloned().unwrap_or_default();
        let Some(peer) = peer else {
            return Err(Status::unauthenticated("the stream needs the agent's client certificate"));
        };
        // Boxed: opening a session awaits much, and is over long before the stream is.
        let opened = Box::pin(open(&self.gateway, peer.clone(), request.into_inner())).await;
        note(&self.gateway, &peer, from, opened.as_ref().err());
        let frames = match opened {
            Ok(stream) => stream.heard_by(pulse).boxed(),
            Err(close) => futures::stream::iter([Ok(frame::hub(hub_frame::Body::Close(close)))]).boxed(),
        };
        Ok(Response::new(frames))
    }
}

/// Writes down that a session opened, or why not. The lines about refusals are bounded in number.
fn note(gateway: &Gateway, peer: &PeerIdentity, from: Option<IpAddr>, refused: Option<&Close>) {
    let cluster = peer.cluster().unwrap_or_default();
    gateway.ports.registrar.note(&Occurrence {
        verb: "connect",
        user: Some(&peer.common_name),
        cluster,
        from,
        refused: refused.map(|close| close.message.as_str()),
        pending: false,
    });
    let Some(close) = refused else { return };
    let Some(left_out) = gateway.refusals.lock().line(gateway.now()) else { return };
    let (code, why) = (close.code().as_str_name(), quoted(&close.message));
    let (who, from) = (quoted(&peer.common_name), from.map(tracing::field::display));
    tracing::info!(%who, from, code, %why, left_out, "a session was refused");
}

/// From a verified peer to a running session, or to the close that says why not.
pub(crate) async fn open<I>(
    gateway: &Arc<Gateway>,
    peer: PeerIdentity,
    mut inbound: I,
) -> Result<SessionStream<I>, Close>
where
    I: Stream<Item = Result<AgentFrame, Status>> + Unpin,
{
    let cluster =
        gateway.ports.registrar.authorize_session(&peer).await.map_err(|r| admission::refused(&r))?;
    let hello = hello(gateway, &mut inbound).await?;
    let protocol = admission::check(&cluster, &hello)?;
    probe_other(gateway, &cluster, &hello).await?;
    let (position, resume) = position(gateway, &hello).await?;
    let epoch = position.epoch;
    let busy = |error: PortError| admission::busy(error.message);
    let feed = gateway.ports.works.watch(&cluster, resume).await.map_err(busy)?;
    let holds_deletes = holds_deletes(gateway, &cluster, &hello, epoch).await.map_err(busy)?;
    let session_seq = gateway.ports.sessions.next_session(&cluster).await.map_err(busy)?;
    // What was decided before all that was waited for may hold no more: asked again, before another session is replaced...
    authorized(gateway, &peer, &cluster).await?;
    let hub_clock_ms = (gateway.wall_clock)();
    let now = gateway.now();
    let handle = Arc::new(Handle::new(&cluster, session_seq, &hello, hub_clock_ms, now).of(&peer));
    if !gateway.registry.enter(&handle) {
        return Err(admission::busy("a newer session of this cluster is there".into()));
    }
    // ... and once it can be found: who is shut out from now on is closed there.
    if let Err(close) = authorized(gateway, &peer, &cluster).await {
        gateway.registry.leave(&handle);
        return Err(close);
    }
    // A new epoch that began meanwhile called those that it found: this one was not there yet.
    if gateway.ports.sessions.position().await.map_err(busy)?.epoch != epoch {
        gateway.registry.leave(&handle);
        return Err(admission::busy("the hub entered a new epoch".into()));
    }
    let opening = Opening {
        protocol,
        session_seq,
        epoch,
        epoch_seal: gateway.ports.sessions.seal(epoch),
        timeline: position.timeline,
        resumed: resume.filter(|_| !feed.full_listing),
        holds_deletes,
        retry_hint: admission::retry_hint(gateway.registry.count(), gateway.options.accept_rate),
        hub_clock_ms,
        trust_revision: gateway.ports.registrar.trust_revision(),
    };
    let version = quoted(&hello.agent_version);
    tracing::info!(cluster, session_seq, epoch, resumed = ?opening.resumed, %version, "session");
    let ends = now.saturating_add(life_left(&peer, hub_clock_ms));
    let session = Session::open(hello, &opening, &gateway.options, now).until(ends);
    Ok(SessionStream::new(gateway.clone(), handle, peer, session, inbound, feed))
}

/// How long the certificate is still valid.
fn life_left(peer: &PeerIdentity, now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(peer.not_after.as_millisecond() - now_ms).unwrap_or(0))
}

/// Whether `peer` still speaks for `cluster`.
async fn authorized(gateway: &Gateway, peer: &PeerIdentity, cluster: &str) -> Result<(), Close> {
    let now = gateway.ports.registrar.authorize_session(peer).await.map_err(|r| admission::refused(&r))?;
    if now == cluster { Ok(()) } else { Err(admission::busy("the identity changed meanwhile".into())) }
}

async fn hello<I>(gateway: &Gateway, inbound: &mut I) -> Result<Hello, Close>
where
    I: Stream<Item = Result<AgentFrame, Status>> + Unpin,
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

/// Where another process shows the identity, asks the old session for a sign of life: silence means replaced,
/// an answer means a clone, and the newcomer is refused.
async fn probe_other(gateway: &Gateway, cluster: &str, hello: &Hello) -> Result<(), Close> {
    let old = gateway.registry.get(cluster);
    let standing = admission::standing(old.as_ref().map(|old| old.boot_id.as_str()), hello);
    let (Some(old), Standing::OtherProcess) = (old, standing) else { return Ok(()) };
    // Whose key no longer holds is nobody's clone.
    if let Some(peer) = &old.peer
        && let Err(refused) = gateway.ports.registrar.authorize_session(peer).await
    {
        gateway.end(&old, admission::refused(&refused));
        return Ok(());
    }
    let asked = gateway.now();
    old.order(Control::Probe);
    let answered = async {
        loop {
            let heard = old.heard.notified();
            if old.heard_at() > asked {
                return true;
            }
            if gateway.registry.get(cluster).is_none_or(|live| live.seq != old.seq) {
                return false;
            }
            heard.await;
        }
    };
    if tokio::time::timeout(gateway.options.probe_timeout, answered).await == Ok(true) {
        tracing::warn!(cluster, "two living agents with one identity: the second is refused");
        gateway.ports.statuses.clone_seen(cluster);
        return Err(admission::clone());
    }
    Ok(())
}

/// Whether deletes that are listed to this agent wait for a person: since its site saw a life of the hub that was taken back, and
/// until somebody says otherwise.
async fn holds_deletes(
    gateway: &Gateway,
    cluster: &str,
    hello: &Hello,
    epoch: u64,
) -> Result<bool, PortError> {
    let sessions = &gateway.ports.sessions;
    let in_our_past = sessions.in_our_past(hello.timeline, hello.cursor);
    if admission::saw_another_life(hello, epoch, in_our_past) {
        sessions.hold_deletes(cluster, epoch).await?;
    }
    let held = sessions.holds_deletes(cluster).await?;
    Ok(held.is_some_and(|held| !gateway.ports.statuses.deletes_confirmed(cluster, held)))
}

/// Where the hub stands and where to resume. Mints a new epoch where the agent was given one that the hub does not know.
async fn position(gateway: &Gateway, hello: &Hello) -> Result<(Position, Option<u64>), Close> {
    let sessions = &gateway.ports.sessions;
    let busy = |error: PortError| admission::busy(error.message);
    let position = sessions.position().await.map_err(busy)?;
    let sealed = hello.epoch > position.epoch && sessions.is_sealed(hello.epoch, &hello.epoch_seal);
    if !admission::ahead(hello, position, sealed) {
        if hello.epoch > position.epoch {
            tracing::warn!(
                cluster = hello.cluster_name,
                epoch = position.epoch,
                seen = hello.epoch,
                "an agent names an epoch without proof: it is listed everything in this one"
            );
        }
        let in_our_past = sessions.in_our_past(hello.timeline, hello.cursor);
        return Ok((position, admission::resume(hello, position.epoch, in_our_past)));
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
