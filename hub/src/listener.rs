//! One TLS port: the Kubernetes API, the agents' gRPC stream and the page.
//!
//! In: a bound listener, a TLS configuration, and the two services. Out: nothing; runs until told to stop, then lets what is
//! under way end. A connection's client certificate is read once and goes along with every request on it.

use std::convert::Infallible;
use std::sync::Arc;
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
use karmada_apiserver::auth::ProxyPeer;
use karmada_apiserver::http::{ApiServer, CertificateUser, HeavyRequests};
use karmada_apiserver::registry::User;
use karmada_certs::{CertError, PeerIdentity, SignedBy};
use karmada_gateway::ports::Registrar;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::lanes::Lanes;

/// A handshake that takes longer is given up: it holds a task and a socket.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long requests under way may take to end once the hub stops.
const DRAIN: Duration = Duration::from_secs(10);

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
    /// The fleet's stream, where it is served.
    pub grpc: Option<Grpc>,
    /// Knows which keys are agents' now.
    pub registrar: Arc<dyn Registrar>,
    /// Tells certificates apart, where proxies have a CA of their own.
    pub signers: Option<Arc<Signers>>,
}

/// Takes connections until `closing`, serves them until `stop`, then drains.
pub async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    services: Services,
    lanes: Arc<Lanes>,
    closing: CancellationToken,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => {
                let from = PeerAddress(from.ip());
                let load = HeavyRequests::default();
                let streams =
                    Streams { lanes: lanes.clone(), tracker: connections.clone(), load: load.clone() };
                let serving = connection(socket, from, tls.clone(), services.clone(), streams, stop.clone());
                lanes.run(&connections, load, serving);
            }
            Err(error) => {
                // Out of file descriptors, mostly: waiting lets some connection end.
                tracing::warn!(%error, "a connection could not be accepted");
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

async fn connection(
    socket: TcpStream,
    from: PeerAddress,
    tls: TlsAcceptor,
    services: Services,
    streams: Streams,
    stop: CancellationToken,
) {
    let _ = socket.set_nodelay(true);
    // Boxed, as other things are below that end long before the connection does: a task is as large as its largest moment, and
    // there is one for each agent.
    let stream = match Box::pin(tokio::time::timeout(HANDSHAKE, tls.accept(socket))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let peer = match peer(stream.get_ref().1.peer_certificates(), &services) {
        Ok(peer) => peer,
        Err(error) => return tracing::debug!(%error, "a client certificate cannot be read"),
    };
    let load = streams.load.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (services, peer) = (services.clone(), peer.clone());
        request.extensions_mut().insert(from);
        request.extensions_mut().insert(load.clone());
        async move { Ok::<_, Infallible>(answer(services, peer, request).await) }
    });
    let builder = settings(streams);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Runs the streams of one HTTP/2 connection: where the connection is.
#[derive(Clone)]
struct Streams {
    lanes: Arc<Lanes>,
    tracker: TaskTracker,
    load: HeavyRequests,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.lanes.run(&self.tracker, self.load.clone(), stream);
    }
}

/// Windows that a stalled peer cannot turn into gigabytes over ten thousand connections.
fn settings(streams: Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(256 << 10)
        .initial_connection_window_size(512 << 10)
        .max_send_buf_size(64 << 10)
        .max_header_list_size(64 << 10)
        .max_concurrent_streams(1000);
    builder
}

/// Whom the certificate speaks for: somebody whom the hub's own CA knows, a proxy in front, or both.
#[derive(Clone, Default)]
struct Peer {
    identity: Option<PeerIdentity>,
    proxy: Option<ProxyPeer>,
}

/// Where proxies have a CA of their own, who signed says what a certificate is good for.
fn peer(chain: Option<&[CertificateDer<'static>]>, services: &Services) -> Result<Peer, CertError> {
    let Some((leaf, _)) = chain.and_then(<[_]>::split_first) else { return Ok(Peer::default()) };
    let identity = PeerIdentity::from_der(leaf)?;
    let Some(signers) = &services.signers else { return Ok(Peer { identity: Some(identity), proxy: None }) };
    let chain = chain.unwrap_or_default();
    let proxy = signers.proxies.signed(chain).then(|| ProxyPeer(identity.common_name.clone()));
    Ok(Peer { identity: signers.clients.signed(chain).then_some(identity), proxy })
}

/// Tells clients' certificates from proxies'.
pub struct Signers {
    /// The hub's own CA.
    pub clients: SignedBy,
    /// The CA of proxies in front.
    pub proxies: SignedBy,
}

async fn answer(services: Services, peer: Peer, mut request: Request<Incoming>) -> Response<Body> {
    let Peer { identity: peer, proxy } = peer;
    if let Some(proxy) = proxy {
        request.extensions_mut().insert(proxy);
    }
    if let (true, Some(mut grpc)) = (is_grpc(&request), services.grpc) {
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let Ok(response) = Box::pin(grpc.call(request.map(tonic::body::Body::new))).await;
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    if let Some(peer) = peer
        // The key of an agent that joined anew since, or whose cluster is gone, is nobody's.
        && (peer.cluster().is_none() || Box::pin(services.registrar.authorize_session(&peer)).await.is_ok())
    {
        let credential = (
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("X509SHA256={}", peer.fingerprint)],
        );
        let extra = [credential].into_iter().collect();
        let user = User { name: peer.common_name, groups: peer.organizations, extra, ..User::default() };
        request.extensions_mut().insert(CertificateUser(user));
    }
    Box::pin(services.api.handle(request))
        .await
        .map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}
