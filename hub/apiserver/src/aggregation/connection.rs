//! A connection to another API server: TLS with the front proxy's certificate, HTTP/1.1.
//!
//! In: an address, the name and CA that the other end's certificate must have, a request with its body. Out: the response as it
//! comes. One connection serves one request; it lives as long as the answer, which may be a watch.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;

/// How long the other end may take to take the connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A request's body on its way to the other server.
pub(super) type Outgoing = UnsyncBoxBody<Bytes, String>;

/// As whom other servers are asked: the front proxy's certificate and key, PEM.
#[derive(Clone, Default)]
pub struct ClientIdentity {
    /// Leaf first.
    pub certificate_pem: String,
    /// PKCS#8.
    pub key_pem: String,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// How the other end is known.
pub(super) struct Trust<'a> {
    pub server_name: String,
    pub ca: &'a karmada_definitions::ca_bundle::Trust,
    /// Whoever answers is believed.
    pub insecure: bool,
}

/// Sends a request and reads the head of its answer.
///
/// # Errors
/// No connection, no trust, or the other end broke off; in words.
pub(super) async fn send(
    (host, port): &(String, u16),
    trust: &Trust<'_>,
    identity: &ClientIdentity,
    request: Request<Outgoing>,
) -> Result<Response<Incoming>, String> {
    let connecting = async {
        let config = tls(trust, identity)?;
        let tcp =
            TcpStream::connect((host.as_str(), *port)).await.map_err(|error| dialled(host, *port, &error))?;
        let _ = tcp.set_nodelay(true);
        let name =
            ServerName::try_from(trust.server_name.clone()).map_err(|error| format!("tls: {error}"))?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(name, tcp).await.map_err(|error| format!("tls: {error}"))
    };
    let timeout = || format!("dial tcp {host}:{port}: i/o timeout");
    let tls = tokio::time::timeout(CONNECT, Box::pin(connecting)).await.map_err(|_| timeout())??;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
        .await
        .map_err(|error| format!("http: {error}"))?;
    // It ends with the answer's body, or with the upgraded connection.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to another API server ended");
        }
    });
    sender.send_request(request).await.map_err(|error| format!("http: {error}"))
}

fn dialled(host: &str, port: u16, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        _ => format!("dial tcp {host}:{port}: {error}"),
    }
}

fn tls(trust: &Trust<'_>, identity: &ClientIdentity) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?;
    let builder = if trust.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(karmada_registry::webhook::roots(trust.ca)?)
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes());
    match (chain, key) {
        (Ok(chain), Ok(key)) if !chain.is_empty() => {
            builder.with_client_auth_cert(chain, key).map_err(|error| format!("tls: {error}"))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// Believes whoever answers: `insecureSkipTLSVerify`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
