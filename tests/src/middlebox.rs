//! What may stand where an agent looks for its hub, and is no hub: a server that ends each connection after the
//! TLS handshake, or after one line of plain HTTP.
//!
//! In: what kind it is, and the hub whose certificate authority it may use. Out: an address to give to an agent as the hub's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_certs::{Authority, KeyedCertificate, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::folder::Folder;
use crate::hub::Hub;
use crate::runtime;

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TLS with the hub's certificate, but HTTP/1.1 alone, as it says itself.
    Http1,
    /// The same, but it does not know that there are other protocols (no ALPN).
    NoAlpn,
    /// TLS and HTTP/2 with the certificate of another CA.
    OtherCa,
    /// TLS with a certificate of the hub's CA that becomes valid in two days, less an hour: what a clock that is behind sees.
    NotYetValid,
    /// TLS with a certificate of the hub's CA that ended nine days ago: what a clock that is ahead sees.
    Expired,
    /// No TLS at all.
    PlainHttp,
}

/// One of them, on a loopback port of its own; gone with its value.
pub struct Middlebox {
    address: SocketAddr,
    listener: tokio::task::JoinHandle<()>,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Middlebox {
    /// Starts one that stands in for `hub`.
    pub fn start(kind: Kind, hub: &Hub) -> Middlebox {
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound listener has an address");
        let tls = (kind != Kind::PlainHttp).then(|| acceptor(kind, hub));
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, tls.clone()));
            }
        };
        Middlebox { address, listener: runtime().spawn(serve) }
    }

    /// What the agent connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn acceptor(kind: Kind, hub: &Hub) -> TlsAcceptor {
    let (certificate, ca) = certificate(kind, hub);
    let mut config = server_config(&certificate, &[ca]).expect("the certificate is usable");
    config.alpn_protocols = match kind {
        Kind::Http1 => vec![b"http/1.1".to_vec()],
        Kind::NoAlpn => Vec::new(),
        _ => vec![b"h2".to_vec()],
    };
    TlsAcceptor::from(Arc::new(config))
}

/// With the CA that signed it.
fn certificate(kind: Kind, hub: &Hub) -> (KeyedCertificate, CertificateDer<'static>) {
    let now = Timestamp::now();
    let folder = Folder::new("other-ca");
    let pki = if kind == Kind::OtherCa { folder.path().to_owned() } else { hub.data_dir().join("pki") };
    let authority = Authority::load_or_create(&pki, now).expect("the CA can be read");
    let from = match kind {
        Kind::NotYetValid => now + SignedDuration::from_hours(48),
        Kind::Expired => now - SignedDuration::from_hours(240),
        _ => now,
    };
    let issued = authority.issue_server(&["127.0.0.1".to_owned()], DAY, from).expect("the CA can sign");
    (issued, authority.certificate().clone())
}

async fn answer(mut stream: TcpStream, tls: Option<TlsAcceptor>) {
    match tls {
        Some(tls) => {
            if let Ok(mut stream) = tls.accept(stream).await {
                // Until the other end has seen enough.
                let _ = stream.read(&mut [0; 1024]).await;
            }
        }
        None => {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await;
        }
    }
}
