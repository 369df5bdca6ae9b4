//! One TLS port: the Kubernetes API, the agents' streams and `/metrics`.
//!
//! In: a bound listener, a TLS configuration, and the two services. Out: nothing; runs until told to stop, then lets what is
//! under way end. A connection's client certificate is read once and goes along with every request on it; whether it is still good
//! is asked at each. An agent's certificate opens the agents' stream and nothing else. What strangers can take of the port is
//! bounded: by address and in time ([`connections`]), and in calls ([`unauthenticated`]). A join needs no certificate, and who shows one is
//! given no more for it; what an agent can take is bounded as well ([`agents`]).

mod agents;
mod bare;
mod certificate_lapse;
mod connections;
mod last_read;
mod peer;
mod sending_body;
mod unauthenticated;
mod upgraded;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use karmada_apiserver::audit::PeerAddress;
use karmada_apiserver::http::{ApiServer, CertificateUser, HeavyRequests, RefusedCertificate, WriteExecutor};
use karmada_certs::PeerIdentity;
use karmada_gateway::Gateway;
use karmada_proto::last_read::LastRead;
use karmada_registry::{Clock, User};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::agents::AgentStreams;
use self::connections::ConnectionPermit;
pub use self::connections::Connections;
use self::last_read::noting_reads;
use self::peer::Peer;
pub use self::sending_body::BrokenOff;
use self::sending_body::Retained;
use self::unauthenticated::Calls;
pub use self::unauthenticated::Strangers;
use self::upgraded::{Hold, Takeable};
use crate::heavy_request_threads::Lanes;
use crate::server_certificate::PortTls;

/// How long requests under way may take to end once the hub stops.
const DRAIN: Duration = Duration::from_secs(10);

/// How long what was sent to a peer may wait for its acknowledgement, milliseconds (TCP_USER_TIMEOUT, RFC 5482). A slow link goes on
/// acknowledging. A connection that was quiet for as long is asked whether somebody is there still: who left an `exec` open and went without a
/// word holds its place otherwise for as long as the member's end is silent. Agents are never quiet for so long.
#[cfg(target_os = "linux")]
const TAKEN_WITHIN: u32 = 180_000;

/// The agents' side of the port: a session, and a tunnel.
const CONNECT: &str = "/fleet.v1.Fleet/Connect";
const TUNNEL: &str = "/fleet.v1.Fleet/Tunnel";
/// Requests of one connection at once, but an agent's.
const STREAMS: u32 = 1000;

/// Body of any response on the port.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The agents' side of the port.
pub type Grpc =
    tower::util::BoxCloneSyncService<Request<tonic::body::Body>, Response<tonic::body::Body>, Infallible>;

/// What answers on the port.
#[derive(Clone)]
pub struct Services {
    /// The Kubernetes API.
    pub api: Arc<ApiServer>,
    /// The fleet's stream, for who shows an agent's certificate.
    pub agents: Arc<AgentStreams>,
    /// The same without gRPC.
    pub gateway: Arc<Gateway>,
    /// The fleet's other calls, and whoever else comes.
    pub strangers: Arc<Strangers>,
    /// What connections are received with, and whose certificates count.
    pub tls: Arc<PortTls>,
    /// By which certificates end.
    pub clock: Clock,
    /// Where the clock begins by which bytes are heard: the gateway's.
    pub started: Instant,
}

/// Everything behind the port.
pub struct PortServices {
    /// What answers.
    pub services: Services,
    /// Which threads it runs on.
    pub lanes: Arc<Lanes>,
    /// Who is connected.
    pub connections: Arc<Connections>,
}

/// Takes connections until `closing`, serves them until `stop`, then drains.
pub async fn serve(
    listener: TcpListener,
    doors: PortServices,
    closing: CancellationToken,
    stop: CancellationToken,
) {
    let PortServices { services, lanes, connections: places } = doors;
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => {
                // Every place is taken by somebody who is being answered: whoever comes now tries again.
                let Some(place) = places.enter(from.ip()) else {
                    tracing::debug!(from = %from.ip(), "too many connections of this address are busy");
                    continue;
                };
                let from = PeerAddress(from.ip());
                let load = HeavyRequests::default();
                let streams =
                    Streams { lanes: lanes.clone(), tracker: connections.clone(), load: load.clone() };
                let arrived = Arrived { socket, from, place };
                let serving = connection(arrived, services.clone(), streams, stop.clone());
                lanes.run(&connections, load, serving);
            }
            Err(error) => {
                // Out of file descriptors, mostly.
                tracing::warn!(%error, "a connection could not be accepted");
                places.make_room();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    stop.cancelled().await;
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut");
    }
}

/// A connection that was accepted.
struct Arrived {
    socket: TcpStream,
    from: PeerAddress,
    place: Arc<ConnectionPermit>,
}

/// A connection after its handshake.
struct Received<S> {
    stream: TlsStream<S>,
    peer: Peer,
    place: Arc<ConnectionPermit>,
    from: PeerAddress,
    /// When it last brought a byte.
    last_read: LastRead,
}

async fn connection(arrived: Arrived, services: Services, streams: Streams, stop: CancellationToken) {
    // Boxed, as other things are below that end long before the connection does: a task is as large as its largest moment, and
    // there is one for each agent.
    let Some(received) = Box::pin(receive(arrived, &services)).await else { return };
    if received.stream.get_ref().1.alpn_protocol() == Some(karmada_bare::ALPN) {
        Box::pin(bare::serve(received, services)).await;
    } else {
        Box::pin(requests(received, services, streams, stop)).await;
    }
}

/// Shakes hands, and reads whom the certificate speaks for.
async fn receive(
    arrived: Arrived,
    services: &Services,
) -> Option<Box<Received<impl AsyncRead + AsyncWrite + Send + Unpin + use<>>>> {
    let Arrived { socket, from, place } = arrived;
    let _ = socket.set_nodelay(true);
    untaken(&socket);
    let shown = services.tls.shown();
    let last_read = LastRead::default();
    let socket = noting_reads(socket, services.started, last_read.clone());
    let accepted = tokio::time::timeout(place.port().handshake, shown.acceptor.accept(socket));
    let accepted = tokio::select! {
        accepted = accepted => accepted,
        () = place.leave.cancelled() => return None,
    };
    let refused = |error: &dyn std::fmt::Display, what: &str| {
        tracing::debug!(%error, "{what}");
        None
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return refused(&error, "a TLS handshake failed"),
        Err(late) => return refused(&late, "a TLS handshake took too long"),
    };
    let peer = match peer::read(stream.get_ref().1.peer_certificates(), &shown) {
        Ok(peer) => peer,
        Err(error) => return refused(&error, "a client certificate cannot be read"),
    };
    if !peer.is_stranger() {
        place.is_known();
    }
    // What is awaited from now on holds a place for it: a pointer's.
    Some(Box::new(Received { stream, peer, place, from, last_read }))
}

/// A peer that takes nothing of what it is sent, or whose network is gone, is noticed by the system itself, also where nothing is to be sent.
/// Linux alone can be told so.
fn untaken(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
        let quiet = Duration::from_millis(TAKEN_WITHIN.into());
        let set = set_tcp_user_timeout(socket, TAKEN_WITHIN)
            .and_then(|()| set_tcp_keepidle(socket, quiet))
            .and_then(|()| set_socket_keepalive(socket, true));
        if let Err(error) = set {
            tracing::debug!(%error, "a connection's patience could not be set");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Serves requests over HTTP until the connection ends, or something else wants it to.
async fn requests<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    received: Box<Received<S>>,
    services: Services,
    streams: Streams,
    stop: CancellationToken,
) {
    let Received { stream, peer, place, from, last_read } = *received;
    let builder = settings(streams.clone(), &peer);
    let workers = streams.workers();
    let (load, here, calls) = (streams.load, place.clone(), Calls::default());
    // An agent's session has its own signs of life, over links on which a frame takes minutes.
    let agent = peer.identity.as_ref().filter(|identity| identity.is_of_an_agent());
    let is_agent = agent.is_some();
    let _one_of_its_key =
        agent.map(|agent| services.agents.connected(&agent.key_fingerprint, place.leave.clone()));
    let answers = Arc::new(AtomicU64::new(0));
    // A request of HTTP/2 is one of many on its connection, and takes none.
    let is_takeable = !is_agent && stream.get_ref().1.alpn_protocol() != Some(b"h2");
    let (stream, hold) = Takeable::new(stream, is_takeable);
    let lapse = certificate_lapse::lapse_of(&services, &peer, &place);
    let held = hold.map(|hold| Box::new((hold, services.clone(), peer.clone())));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (services, peer, calls) = (services.clone(), peer.clone(), calls.clone());
        let busy = here.begin();
        let number = (!is_agent).then(|| answers.fetch_add(1, Ordering::Relaxed));
        request.extensions_mut().insert(from);
        request.extensions_mut().insert(from.0);
        request.extensions_mut().insert(load.clone());
        request.extensions_mut().insert(workers.clone());
        request.extensions_mut().insert(last_read.clone());
        async move {
            let answer = answer(services, peer, calls, request).await;
            Ok::<_, Infallible>(Retained::of(answer, busy, number))
        }
    });
    // What is served here is dropped before what was taken over is waited for.
    let ended = {
        let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            ended = &mut serving => ended,
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
            () = lapse => return,
            () = leaves(&place) => {
                serving.as_mut().graceful_shutdown();
                match takes_farewell(&mut serving, &place).await {
                    Some(ended) => ended,
                    None => return,
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
    if let Some(held) = held {
        Box::pin(taken_over(*held, place, stop)).await;
    }
}

/// What was asked in that very moment is answered; who does not take the farewell is to be cut.
async fn takes_farewell<F: Future + Unpin>(serving: &mut F, place: &ConnectionPermit) -> Option<F::Output> {
    loop {
        match tokio::time::timeout(place.port().farewell, &mut *serving).await {
            Ok(ended) => return Some(ended),
            Err(_) if place.patience().is_some() || place.leave.is_cancelled() || place.is_untaken() => {
                return None;
            }
            Err(_) => {}
        }
    }
}

/// Stays by a connection that a request took for another protocol: it ends as a watch does, and counts as one that is busy.
async fn taken_over(
    (hold, services, peer): (Hold, Services, Peer),
    place: Arc<ConnectionPermit>,
    stop: CancellationToken,
) {
    let _busy = place.begin();
    let lapse = certificate_lapse::lapse_of(&services, &peer, &place);
    hold.until(async {
        tokio::select! {
            () = lapse => {}
            () = place.leave.cancelled() => {}
            () = stop.cancelled() => {}
        }
    })
    .await;
}

/// Resolves when the connection must make room, or was idle for too long.
async fn leaves(place: &ConnectionPermit) {
    tokio::select! {
        () = place.leave.cancelled() => {}
        () = place.idled() => {}
    }
}

/// Runs the streams of one HTTP/2 connection: where the connection is.
#[derive(Clone)]
struct Streams {
    lanes: Arc<Lanes>,
    tracker: TaskTracker,
    load: HeavyRequests,
}

impl Streams {
    /// Those who work on what this connection asks to be written, also when it is gone.
    fn workers(&self) -> WriteExecutor {
        let streams = self.clone();
        WriteExecutor::new(move |work| streams.execute(work))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.lanes.run(&self.tracker, self.load.clone(), stream);
    }
}

/// Windows that a stalled peer cannot turn into gigabytes over ten thousand connections; smaller ones for strangers.
fn settings(streams: Streams, peer: &Peer) -> Builder<Streams> {
    let (of_stream, of_connection) =
        if peer.is_stranger() { (64 << 10, 128 << 10) } else { (256 << 10, 512 << 10) };
    let is_agent = peer.identity.as_ref().is_some_and(PeerIdentity::is_of_an_agent);
    let mut builder = Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(of_stream)
        .initial_connection_window_size(of_connection)
        .max_send_buf_size(64 << 10)
        .max_header_list_size(64 << 10)
        .max_concurrent_streams(if is_agent { agents::STREAMS } else { STREAMS });
    builder
}

async fn answer(
    services: Services,
    peer: Peer,
    calls: Calls,
    mut request: Request<Incoming>,
) -> Response<Body> {
    // Asked at each request: a connection may outlive what it was opened with.
    let has_ended = peer.has_ended((services.clock)());
    if is_grpc(&request) {
        let response = Box::pin(fleet(services, peer.identity, calls, request)).await;
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    let extensions = request.extensions_mut();
    match peer.identity {
        Some(peer) if !has_ended && !peer.is_of_an_agent() && services.tls.trusts(&peer) => {
            extensions.insert(CertificateUser(user(peer)));
        }
        Some(_) => {
            extensions.insert(RefusedCertificate);
        }
        None => {}
    }
    match peer.proxy {
        Some(_) if has_ended => {
            extensions.insert(RefusedCertificate);
        }
        Some(proxy) => {
            extensions.insert(proxy);
        }
        None => {}
    }
    Box::pin(services.api.handle(request))
        .await
        .map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

/// The agents' service: an agent's own streams, and within a stranger's bounds whatever else is called. A certificate that has ended is
/// refused by it, with words.
async fn fleet(
    services: Services,
    peer: Option<PeerIdentity>,
    calls: Calls,
    mut request: Request<Incoming>,
) -> Response<tonic::body::Body> {
    let agent = peer.as_ref().filter(|peer| peer.is_of_an_agent()).map(|peer| peer.key_fingerprint.clone());
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    if let Some(key) = agent
        && [CONNECT, TUNNEL].contains(&request.uri().path())
    {
        return services.agents.call(&key, request.map(tonic::body::Body::new)).await;
    }
    let from = request.extensions().get::<PeerAddress>();
    let from = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |PeerAddress(from)| *from);
    services.strangers.call(&calls, from, request.map(tonic::body::Body::new)).await
}

/// The user whom a certificate names.
fn user(peer: PeerIdentity) -> User {
    let credential = (
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={}", peer.fingerprint)],
    );
    let extra = [credential].into_iter().collect();
    User { name: peer.common_name, groups: peer.organizations, extra, ..User::default() }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_quiet_connection_is_asked_whether_somebody_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        untaken(&far);
        assert!(rustix::net::sockopt::socket_keepalive(&far).unwrap());
        assert_eq!(rustix::net::sockopt::tcp_keepidle(&far).unwrap(), Duration::from_secs(180));
        drop(near);
    }
}
