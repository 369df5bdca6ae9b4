//! Whom a connection speaks for, by the certificate that it was opened with, and whether that counts still.
//!
//! In: the verified chain, and what the port was shown with. Out: the peer.

use jiff::Timestamp;
use karmada_access::ProxyPeer;
use karmada_certs::{CertError, PeerIdentity};
use rustls::pki_types::CertificateDer;

use super::Services;
use crate::server_certificate::Shown;

/// Whom the certificate speaks for: somebody whom the hub's own CA knows, a proxy in front, or both.
#[derive(Clone, Default)]
pub(super) struct Peer {
    pub identity: Option<PeerIdentity>,
    pub proxy: Option<ProxyPeer>,
    /// When the certificate ends.
    pub ends: Option<Timestamp>,
}

impl Peer {
    pub fn is_stranger(&self) -> bool {
        self.identity.is_none() && self.proxy.is_none()
    }

    /// Whether the certificate has ended by `now`.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }

    /// Whether the certificate counts still: it has not ended, and its CA is trusted.
    pub(super) fn counts(&self, services: &Services) -> bool {
        let trusted = self.identity.as_ref().is_none_or(|identity| services.tls.trusts(identity));
        trusted && !self.has_ended((services.clock)())
    }
}

/// Where proxies have a CA of their own, who signed says what a certificate is good for.
pub(super) fn read(chain: Option<&[CertificateDer<'static>]>, shown: &Shown) -> Result<Peer, CertError> {
    let Some((leaf, _)) = chain.and_then(<[_]>::split_first) else { return Ok(Peer::default()) };
    let identity = PeerIdentity::from_der(leaf)?;
    let ends = Some(identity.not_after);
    let Some(signers) = &shown.signers else {
        return Ok(Peer { identity: Some(identity), proxy: None, ends });
    };
    let chain = chain.unwrap_or_default();
    let proxy = signers.proxies.signed(chain).then(|| ProxyPeer(identity.common_name.clone()));
    Ok(Peer { identity: signers.clients.signed(chain).then_some(identity), proxy, ends })
}
