//! The gRPC service: joins, and the opening of sessions.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use karmada_certs::{CertificateRequest, JoinToken, PeerIdentity};
use karmada_proto::frame;
use karmada_proto::v1::fleet_server::Fleet;
use karmada_proto::v1::{
    self, AgentFrame, Close, CloseCode, Hello, HubFrame, JoinReply, JoinRequest, RetryClass, agent_frame,
    hub_frame, join_reply,
};
use tonic::{Request, Response, Status, Streaming};

use crate::Gateway;
use crate::admission::{self, Standing, close};
use crate::ports::{JoinAsk, JoinOutcome, JoinRefusal, JoinRefusalCode, PortError, Position};
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
        let request = request.into_inner();
        let clocks = admission::clocks(request.clock_ms, (self.gateway.wall_clock)());
        let result = match clocks.and_then(|()| ask(request)) {
            Err(refusal) => JoinOutcome::Refused(refusal),
            Ok(ask) => {
                let (id, cluster) = (ask.token.to_string(), ask.cluster_name.clone());
                let outcome = self.gateway.ports.registrar.join(ask).await;
                let outcome = outcome.map_err(|error| Status::unavailable(error.message))?;
                tracing::info!(token = id, cluster, outcome = outcome_name(&outcome), "join");
                outcome
            }
        };
        let result = Some(match result {
            JoinOutcome::Granted(grant) => join_reply::Result::Grant(v1::JoinGrant {
                certificate: grant.certificate,
                ca_bundle: grant.ca_bundle,
                endpoints: grant.endpoints,
                cluster_name: grant.cluster_name,
            }),
            JoinOutcome::Pending(after) => join_reply::Result::PendingMs(after.as_millis() as u64),
            JoinOutcome::Refused(refusal) => join_reply::Result::Refusal(v1::JoinRefusal {
                code: refusal.code.into(),
                message: refusal.message,
                holder: refusal.holder.unwrap_or_default(),
            }),
        });
        Ok(Response::new(JoinReply { result, hub_clock_ms: (self.gateway.wall_clock)() }))
    }

    type ConnectStream = Frames;

    async fn connect(&self, request: Request<Streaming<AgentFrame>>) -> Result<Response<Frames>, Status> {
        let peer = request.extensions().get::<PeerIdentity>().cloned();
        let Some(peer) = peer else {
            return Err(Status::unauthenticated("the stream needs the agent's client certificate"));
        };
        // Boxed: opening a session awaits much, and is over long before the stream is.
        let opened = Box::pin(open(&self.gateway, peer, request.into_inner())).await;
        let frames = match opened {
            Ok(stream) => stream.boxed(),
            Err(close) => {
                tracing::info!(code = close.code().as_str_name(), message = close.message, "session refused");
                futures::stream::iter([Ok(frame::hub(hub_frame::Body::Close(close)))]).boxed()
            }
        };
        Ok(Response::new(frames))
    }
}

fn outcome_name(outcome: &JoinOutcome) -> &'static str {
    match outcome {
        JoinOutcome::Granted(_) => "granted",
        JoinOutcome::Pending(_) => "pending",
        JoinOutcome::Refused(refusal) => refusal.code.as_str_name(),
    }
}

/// Checks the shape of a join request.
fn ask(request: JoinRequest) -> Result<JoinAsk, JoinRefusal> {
    let refusal = |code, message: String| JoinRefusal { code, message, holder: None };
    let token = JoinToken::parse(&request.token)
        .map_err(|error| refusal(JoinRefusalCode::TokenUnknown, error.to_string()))?;
    let certificate = CertificateRequest::from_der(&request.csr)
        .map_err(|error| refusal(JoinRefusalCode::CsrInvalid, error.to_string()))?;
    if request.cluster_name.is_empty() || request.cluster_uid.is_empty() {
        let message = "a join needs the cluster's name and uid".to_owned();
        return Err(refusal(JoinRefusalCode::NameInvalid, message));
    }
    Ok(JoinAsk {
        token,
        cluster_name: request.cluster_name,
        cluster_uid: request.cluster_uid,
        request: certificate,
        provider: request.provider,
        region: request.region,
        zones: request.zones,
        agent_version: request.agent_version,
    })
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
    let handle = Arc::new(Handle::new(&cluster, session_seq, &hello, hub_clock_ms, now));
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
    };
    tracing::info!(cluster, session_seq, epoch, resumed = ?opening.resumed, version = hello.agent_version, "session");
    let session = Session::open(hello, &opening, &gateway.options, now);
    Ok(SessionStream::new(gateway.clone(), handle, peer, session, inbound, feed))
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

/// Whether deletes that are listed to this agent wait for a person. A site that comes out of another epoch has seen a life of
/// the hub that was taken back, and what was to be deleted may be so no more; it stays so until somebody says otherwise.
async fn holds_deletes(
    gateway: &Gateway,
    cluster: &str,
    hello: &Hello,
    epoch: u64,
) -> Result<bool, PortError> {
    let sessions = &gateway.ports.sessions;
    if hello.epoch != 0 && hello.epoch != epoch && hello.objects > 0 {
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
