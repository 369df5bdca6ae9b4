//! The port's certificate, and whose clients' certificates it takes: replaced while the port listens.
//!
//! In: the data directory's CAs, the names that the hub is reached by, the CA of proxies in front, the present. Out: what the next
//! connection is received with. Those that are there go on with what they were received with; whether their certificate is still
//! taken is asked at each of their requests.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karmada_certs::{Authorities, KeyedCertificate, PeerIdentity, SignedBy};
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;

use crate::data_dir::{DataDir, lasts};

/// Tells clients' certificates from proxies'.
pub struct Signers {
    /// The hub's own CAs.
    pub clients: SignedBy,
    /// The CA of proxies in front.
    pub proxies: SignedBy,
}

/// What a connection is received with.
pub struct Shown {
    /// Does the handshake.
    pub acceptor: TlsAcceptor,
    /// Tells certificates apart, where proxies have a CA of their own.
    pub signers: Option<Signers>,
    /// The hub's own certificate.
    pub certificate: PeerIdentity,
    by: Arc<Authorities>,
}

/// What connections are received with, now.
pub struct PortTls {
    data: Arc<DataDir>,
    names: Vec<String>,
    proxies: Vec<CertificateDer<'static>>,
    shown: RwLock<Arc<Shown>>,
}

impl PortTls {
    /// For a hub that is reached by `names`, and proxies of these CAs.
    ///
    /// # Errors
    /// The proxies' CAs cannot be read, or a name cannot stand in a certificate.
    pub fn new(
        data: &Arc<DataDir>,
        names: Vec<String>,
        proxies: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<PortTls>> {
        let proxies =
            proxies.map(karmada_certs::certificates).transpose().context("reading the proxies' CA")?;
        let proxies = proxies.unwrap_or_default();
        let shown = RwLock::new(Arc::new(make(data, &names, &proxies, now)?));
        Ok(Arc::new(PortTls { data: data.clone(), names, proxies, shown }))
    }

    /// What the next connection is received with.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.read().clone()
    }

    /// Whether the CA that signed a client's certificate, which its handshake verified, is trusted still.
    pub fn trusts(&self, peer: &PeerIdentity) -> bool {
        self.data.authorities().trusts(peer)
    }

    /// Replaces the certificate where it ends soon, or where the hub's CAs are others. True where it did.
    ///
    /// # Errors
    /// It cannot be made; the one that is there stays.
    pub fn renew(&self, now: Timestamp) -> Result<bool> {
        let shown = self.shown();
        let same = shown.by.revision() == self.data.authorities().revision();
        if same && lasts(&shown.certificate, now) {
            return Ok(false);
        }
        *self.shown.write() = Arc::new(make(&self.data, &self.names, &self.proxies, now)?);
        Ok(true)
    }
}

fn make(
    data: &DataDir,
    names: &[String],
    proxies: &[CertificateDer<'static>],
    now: Timestamp,
) -> Result<Shown> {
    let by = data.authorities();
    let made: KeyedCertificate = data.server_certificate(names, now)?;
    let mut taken = by.trusted();
    let signers = match proxies {
        [] => None,
        proxies => Some(Signers { clients: SignedBy::new(&taken)?, proxies: SignedBy::new(proxies)? }),
    };
    taken.extend_from_slice(proxies);
    let mut config = karmada_certs::server_config(&made, &taken)?;
    // Agents offer it beside HTTP/2, nobody else does.
    config.alpn_protocols.insert(0, karmada_bare::ALPN.to_vec());
    let certificate = PeerIdentity::from_pem(&made.certificate_pem)?;
    Ok(Shown { acceptor: TlsAcceptor::from(Arc::new(config)), signers, certificate, by })
}
