//! One connection to the hub, step by step, so that each way to fail has its own name: DNS, TCP, TLS, the pin, the clock, HTTP/2. What it
//! carries, TLS negotiates ([`Transports`]).
//!
//! In: `host:port`, a TLS configuration, what may carry the frames. Out: a connection over gRPC or bare TLS, or a [`DialError`]. Each step
//! ends within ten seconds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use karmada_certs::{HandshakeFailure, PinMismatch};
use karmada_proto::v1::fleet_client::FleetClient;
use karmada_proto::{MESSAGE_LIMIT, one_line};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use crate::cause::Cause;

/// Each step of a dial takes at most this.
const STEP: Duration = Duration::from_secs(10);
/// What a hub may have under way to us, per stream and in all.
const WINDOWS: (u32, u32) = (256 * 1024, 512 * 1024);

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why the hub cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address is not `host:port`.
    #[error("{0:?} is not HOST:PORT")]
    Address(String),
    /// The name does not resolve.
    #[error("DNS: {host} does not resolve: {error}")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver said.
        error: String,
    },
    /// Nothing accepts connections there.
    #[error("TCP: no connection to {endpoint}: {error}")]
    Tcp {
        /// Where.
        endpoint: String,
        /// What the system said.
        error: String,
    },
    /// The connection ended within the handshake.
    #[error("TCP: no connection to {endpoint}: {error}")]
    Cut {
        /// Where.
        endpoint: String,
        /// What the system said.
        error: String,
    },
    /// Another CA than the pinned one.
    #[error("TLS: at {endpoint} {mismatch}")]
    Pin {
        /// Where.
        endpoint: String,
        /// What was shown.
        mismatch: PinMismatch,
    },
    /// The certificate is not valid at this machine's time.
    #[error("TLS: the certificate of {endpoint} is not valid now: is this machine's clock right? ({error})")]
    Clock {
        /// Where.
        endpoint: String,
        /// From when, or until when, it is.
        error: String,
    },
    /// TLS was refused otherwise.
    #[error("TLS: {endpoint}: {error}")]
    Tls {
        /// Where.
        endpoint: String,
        /// What went wrong.
        error: String,
    },
    /// The other end, or something between, does not speak HTTP/2.
    #[error("HTTP/2: refused at {0}: is there a proxy in between that speaks HTTP/1.1 only?")]
    Http2(String),
}

impl From<&DialError> for Cause {
    fn from(error: &DialError) -> Self {
        match error {
            DialError::Address(_) | DialError::Dns { .. } => Cause::Dns,
            DialError::Tcp { .. } | DialError::Cut { .. } => Cause::Tcp,
            DialError::Pin { .. } => Cause::PinMismatch,
            DialError::Clock { .. } => Cause::Clock,
            DialError::Tls { .. } => Cause::Tls,
            DialError::Http2(_) => Cause::Http2Refused,
        }
    }
}

impl DialError {
    /// Whether waiting may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Dns { .. } | Self::Tcp { .. } | Self::Cut { .. })
    }

    /// Whether what TLS was to negotiate may be the reason.
    pub fn is_of_the_protocol(&self) -> bool {
        matches!(self, Self::Cut { .. } | Self::Tls { .. } | Self::Http2(_))
    }

    fn tls(endpoint: &str, error: impl Into<String>) -> Self {
        Self::Tls { endpoint: endpoint.to_owned(), error: one_line(&error.into()) }
    }
}

/// Makes byte streams to a hub; TLS is laid over them by the dial.
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// A byte stream to `endpoint` (`host:port`).
    ///
    /// # Errors
    /// [`DialError::Address`], [`DialError::Dns`] or [`DialError::Tcp`]: no name, no address, or no connection in time.
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError>;
}

/// Plain TCP.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tcp;

#[async_trait]
impl Connector for Tcp {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let host = split(endpoint)?.0.to_owned();
        let resolved = tokio::time::timeout(STEP, tokio::net::lookup_host(endpoint)).await;
        let dns = |error: String| DialError::Dns { host: host.clone(), error };
        let addresses =
            resolved.map_err(|_| dns("no answer in 10 s".into()))?.map_err(|e| dns(e.to_string()))?;
        let mut last = "no address".to_owned();
        for address in addresses {
            match tokio::time::timeout(STEP, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Frames are small and wait for nobody.
                    let _ = stream.set_nodelay(true);
                    return Ok(Box::new(stream));
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "no answer in 10 s".to_owned(),
            }
        }
        Err(DialError::Tcp { endpoint: endpoint.to_owned(), error: last })
    }
}

/// Host (without brackets) and port of `host:port`.
fn split(endpoint: &str) -> Result<(&str, u16), DialError> {
    let address = || DialError::Address(endpoint.to_owned());
    let (host, port) = endpoint.rsplit_once(':').ok_or_else(address)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(address());
    }
    Ok((host, port.parse().map_err(|_| address())?))
}

/// What may carry the frames of a session.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Transports {
    /// gRPC alone.
    Grpc,
    /// Frames without HTTP, which cost both ends less; gRPC where the hub, or something in between, does not take them.
    #[default]
    BareOrGrpc,
}

impl Transports {
    /// What to try next after a dial that failed, of what is `allowed`. Where it failed since TLS was negotiated, what was offered may be what
    /// somebody in between does not let through: once without it, then as before.
    #[must_use]
    pub fn after_failure(self, allowed: Transports, is_of_the_protocol: bool) -> Transports {
        match self {
            Transports::BareOrGrpc if is_of_the_protocol => Transports::Grpc,
            Transports::BareOrGrpc => Transports::BareOrGrpc,
            Transports::Grpc => allowed,
        }
    }
}

/// A connection, by what carries frames over it.
pub enum Dialled {
    /// Calls of gRPC.
    Grpc(FleetClient<Channel>),
    /// Frames, without HTTP.
    Bare(Box<TlsStream<Box<dyn Io>>>),
}

/// A connection to the hub at `endpoint`, over one of these transports.
///
/// # Errors
/// [`DialError`] names the step: the name, the connection, TLS, or that neither transport is spoken at the other end.
pub async fn dial_any(
    connector: &dyn Connector,
    endpoint: &str,
    mut config: ClientConfig,
    transports: Transports,
) -> Result<Dialled, DialError> {
    if transports == Transports::BareOrGrpc {
        config.alpn_protocols.insert(0, karmada_bare::ALPN.to_vec());
    }
    let stream = handshake(connector, endpoint, config).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(karmada_bare::ALPN) => Ok(Dialled::Bare(Box::new(stream))),
        Some(b"h2") => grpc(stream, endpoint).await.map(Dialled::Grpc),
        _ => Err(DialError::Http2(endpoint.to_owned())),
    }
}

/// A client of the fleet service at `endpoint`.
///
/// # Errors
/// As of [`dial_any`].
pub async fn dial(
    connector: &dyn Connector,
    endpoint: &str,
    config: ClientConfig,
) -> Result<FleetClient<Channel>, DialError> {
    match dial_any(connector, endpoint, config, Transports::Grpc).await? {
        Dialled::Grpc(client) => Ok(client),
        Dialled::Bare(_) => Err(DialError::Http2(endpoint.to_owned())),
    }
}

/// A connection to `endpoint` after its handshake.
async fn handshake(
    connector: &dyn Connector,
    endpoint: &str,
    config: ClientConfig,
) -> Result<TlsStream<Box<dyn Io>>, DialError> {
    let (host, _) = split(endpoint)?;
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|_| DialError::Address(endpoint.to_owned()))?;
    let stream = connector.connect(endpoint).await?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    tokio::time::timeout(STEP, handshake)
        .await
        .map_err(|_| DialError::tls(endpoint, "no answer to the handshake in 10 s"))?
        .map_err(|error| tls_error(&error, endpoint))
}

/// gRPC over a connection.
async fn grpc(stream: TlsStream<Box<dyn Io>>, endpoint: &str) -> Result<FleetClient<Channel>, DialError> {
    let http2 = |_| DialError::Http2(endpoint.to_owned());
    // TLS is already there: tonic sees a plain stream, and is told the origin it stands for.
    let origin =
        format!("https://{endpoint}").parse().map_err(|_| DialError::Address(endpoint.to_owned()))?;
    let channel = Endpoint::from_shared(format!("http://{endpoint}"))
        .map_err(|_| DialError::Address(endpoint.to_owned()))?
        .origin(origin)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .buffer_size(8)
        .connect_timeout(STEP);
    let once = Mutex::new(Some(stream));
    let connect = tower::service_fn(move |_| {
        // One connection per dial: a lost one is dialled again from the start, with its steps named.
        let stream = once.lock().take().map(TokioIo::new);
        async move { stream.ok_or_else(|| std::io::Error::other("the connection is gone")) }
    });
    let channel = channel.connect_with_connector(connect).await.map_err(http2)?;
    Ok(FleetClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT))
}

fn tls_error(error: &std::io::Error, endpoint: &str) -> DialError {
    let at = || endpoint.to_owned();
    match HandshakeFailure::of(error) {
        HandshakeFailure::Closed(error) => DialError::Cut { endpoint: at(), error },
        HandshakeFailure::Pin(mismatch) => DialError::Pin { endpoint: at(), mismatch },
        HandshakeFailure::Clock(error) => DialError::Clock { endpoint: at(), error },
        HandshakeFailure::NoHttp2 => DialError::Http2(at()),
        HandshakeFailure::OtherName(wrong) => DialError::tls(
            endpoint,
            format!(
                "the hub's certificate is not for this name ({wrong}): start the hub with --advertise {endpoint}"
            ),
        ),
        HandshakeFailure::Refused(words) => DialError::tls(endpoint, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use rustls::CertificateError;

    #[test]
    fn endpoints_are_host_and_port() {
        for (text, host, port) in
            [("hub:5443", "hub", 5443), ("[::1]:1", "::1", 1), ("10.0.0.1:80", "10.0.0.1", 80)]
        {
            assert_eq!(split(text).unwrap(), (host, port));
        }
        for bad in ["", "hub", ":1", "hub:", "hub:x", "hub:70000"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_handshake_that_failed_says_what_is_there() {
        use rustls::{AlertDescription, InvalidMessage};
        let of = |error: rustls::Error| tls_error(&std::io::Error::other(error), "hub:5443");
        let certificate = |wrong: CertificateError| of(rustls::Error::InvalidCertificate(wrong));
        let pin = PinMismatch { shown: None };
        let pin = CertificateError::Other(rustls::OtherError(Arc::new(pin)));
        for (error, cause, says) in [
            (certificate(pin), Cause::PinMismatch, "at hub:5443 the server shows no CA"),
            (certificate(CertificateError::Expired), Cause::Clock, "hub:5443 is not valid now"),
            (certificate(CertificateError::NotValidYet), Cause::Clock, "clock right?"),
            (certificate(CertificateError::UnknownIssuer), Cause::Tls, "not from the hub's CA"),
            (certificate(CertificateError::NotValidForName), Cause::Tls, "--advertise hub:5443"),
            (
                of(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)),
                Cause::Tls,
                "does not speak TLS",
            ),
            (
                of(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)),
                Cause::Http2Refused,
                "HTTP/1.1",
            ),
            (of(rustls::Error::AlertReceived(AlertDescription::HandshakeFailure)), Cause::Tls, "hub:5443"),
        ] {
            assert_eq!(Cause::from(&error), cause, "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(!error.is_transient(), "{error}");
        }
        let reset = tls_error(&std::io::ErrorKind::ConnectionReset.into(), "hub:5443");
        assert!(matches!(reset, DialError::Cut { .. }) && reset.is_transient(), "{reset}");
        assert!(reset.is_of_the_protocol());
    }

    #[test]
    fn grpc_alone_is_tried_once_after_a_handshake_that_failed() {
        let (both, grpc) = (Transports::BareOrGrpc, Transports::Grpc);
        assert_eq!(both.after_failure(both, false), both, "nobody was reached");
        assert_eq!(both.after_failure(both, true), grpc);
        for of_the_protocol in [true, false] {
            assert_eq!(grpc.after_failure(both, of_the_protocol), both);
            assert_eq!(grpc.after_failure(grpc, of_the_protocol), grpc);
        }
    }

    #[tokio::test]
    async fn dns_and_tcp_are_told_apart() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = listener.local_addr().unwrap();
        drop(listener);
        let error = Tcp.connect(&closed.to_string()).await.err().unwrap();
        assert!(matches!(error, DialError::Tcp { .. }), "{error}");
        let error = Tcp.connect("no such host:1").await.err().unwrap();
        assert!(matches!(error, DialError::Dns { .. }), "{error}");
    }
}
