//! rustls configurations of both ends.
//!
//! In: our certificate with its key, and whom to trust. Out: a configuration for rustls, which refuses bundles that cannot be read and keys
//! of other certificates. No connection is made here.
//!
//! The hub's asks for a client certificate and goes on without one: users with tokens share the port. Clients
//! trust a bundle of CAs, or, for the first contact of a join, a CA known by its pin only.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use crate::pinned_server::PinVerifier;
use crate::{CertError, KeyedCertificate, Pin};

/// Whom a client believes.
#[derive(Debug, Clone)]
pub enum Trust {
    /// PEM of one or more CAs.
    Bundle(String),
    /// Any of these CAs, found in the chain that the server shows.
    Pinned(Vec<Pin>),
}

/// The hub's TLS: `identity` for itself, client certificates of `clients` verified where one is given, in every handshake.
///
/// # Errors
/// `clients` is empty or holds what is no CA, or `identity` cannot be read or its key is not its certificate's.
pub fn server_config(
    identity: &KeyedCertificate,
    clients: &[CertificateDer<'static>],
) -> Result<ServerConfig, CertError> {
    let mut roots = RootCertStore::empty();
    for ca in clients {
        roots.add(ca.clone())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), crypto())
        .allow_unauthenticated()
        .build()
        .map_err(|_| CertError::Malformed("set of client CAs"))?;
    let (chain, key) = parts(identity)?;
    let mut config = ServerConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session is believed without a look at its certificate, which may have ended since: none is resumed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Which of several CAs signed a client's certificate, after the handshake has taken it for one of theirs.
pub struct SignedBy(Arc<dyn ClientCertVerifier>);

impl std::fmt::Debug for SignedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SignedBy").finish()
    }
}

impl SignedBy {
    /// These CAs.
    ///
    /// # Errors
    /// There is none, or one of them cannot be read.
    pub fn new(authorities: &[CertificateDer<'static>]) -> Result<SignedBy, CertError> {
        let mut roots = RootCertStore::empty();
        for ca in authorities {
            roots.add(ca.clone())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), crypto()).build();
        verifier.map(SignedBy).map_err(|_| CertError::Malformed("set of client CAs"))
    }

    /// Whether they signed the first certificate of a chain, by way of the others.
    pub fn signed(&self, chain: &[CertificateDer<'static>]) -> bool {
        let Some((leaf, others)) = chain.split_first() else { return false };
        self.0.verify_client_cert(leaf, others, UnixTime::now()).is_ok()
    }
}

/// The certificates of a PEM text; at least one.
///
/// # Errors
/// The text cannot be read, or holds no certificate.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertError> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| CertError::Malformed("CA bundle"))?;
    if all.is_empty() { Err(CertError::Malformed("CA bundle")) } else { Ok(all) }
}

/// A client's TLS: `trust`, and `identity` to show where the server asks. No ALPN: set by the caller's HTTP.
///
/// # Errors
/// The bundle cannot be read or holds no certificate, or the identity cannot be read or its key is not its certificate's.
pub fn client_config(trust: &Trust, identity: Option<&KeyedCertificate>) -> Result<ClientConfig, CertError> {
    let builder = ClientConfig::builder_with_provider(crypto()).with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Bundle(pem) => builder.with_root_certificates(roots(pem)?),
        Trust::Pinned(pins) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinVerifier { pins: pins.clone(), crypto: crypto() })),
    };
    Ok(match identity {
        Some(identity) => {
            let (chain, key) = parts(identity)?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    })
}

/// [`client_config`] that speaks HTTP/2 only, as gRPC does.
///
/// # Errors
/// As of [`client_config`].
pub fn client_config_h2(
    trust: &Trust,
    identity: Option<&KeyedCertificate>,
) -> Result<ClientConfig, CertError> {
    let mut config = client_config(trust, identity)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn roots(pem: &str) -> Result<RootCertStore, CertError> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(ca.map_err(|_| CertError::Malformed("CA bundle"))?)?;
    }
    if roots.is_empty() {
        return Err(CertError::Malformed("CA bundle"));
    }
    Ok(roots)
}

fn parts(
    identity: &KeyedCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertError> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| CertError::Malformed("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes())
        .map_err(|_| CertError::Malformed("private key"))?;
    Ok((chain, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authorities, Authority, PeerIdentity, agent_subject, server_names};
    use jiff::{SignedDuration, Timestamp};
    use rustls::{ClientConnection, ServerConnection};
    use rustls_pki_types::ServerName;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(86_400);

    /// A handshake in memory: who the server saw, or what each end said went wrong.
    fn handshake(
        server: ServerConfig,
        client: ClientConfig,
        host: &str,
    ) -> Result<Option<PeerIdentity>, String> {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.is_handshaking()
            || server.is_handshaking()
            || client.wants_write()
            || server.wants_write()
        {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            let mut wire = wire.as_slice();
            while !wire.is_empty() {
                server.read_tls(&mut wire).unwrap();
                server.process_new_packets().map_err(|e| format!("server: {e}"))?;
            }
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            let mut wire = wire.as_slice();
            while !wire.is_empty() {
                client.read_tls(&mut wire).unwrap();
                client.process_new_packets().map_err(|e| format!("client: {e}"))?;
            }
        }
        Ok(server.peer_certificates().map(|chain| PeerIdentity::from_der(&chain[0]).unwrap()))
    }

    #[test]
    fn who_gets_through() {
        let now = Timestamp::now();
        let (ca, _) = Authority::create(now).unwrap();
        let (other, _) = Authority::create(now).unwrap();
        let hub = ca.issue_server(&server_names(None, &["hub.example.com".into()]), DAY, now).unwrap();
        let long_ago = now - SignedDuration::from_hours(24 * 30);
        let stale_hub = ca.issue_server(&server_names(None, &[]), DAY, long_ago).unwrap();
        let client =
            |ca: &Authority, at| Some(ca.issue_client_with_key(&agent_subject("site1"), DAY, at).unwrap());
        let bundle = Trust::Bundle(format!("{}{}", other.certificate_pem(), ca.certificate_pem()));
        let pinned = Trust::Pinned(vec![ca.pin()]);
        let agent = "system:karmada:agent:site1";
        for (what, server, trust, identity, host, expect) in [
            ("no certificate", &hub, &bundle, None, "localhost", Ok(None)),
            ("a certificate", &hub, &bundle, client(&ca, now), "localhost", Ok(Some(agent))),
            ("a pin, no certificate", &hub, &pinned, None, "hub.example.com", Ok(None)),
            ("a pin, by address", &hub, &pinned, None, "127.0.0.1", Ok(None)),
            ("wrong pin", &hub, &Trust::Pinned(vec![other.pin()]), None, "localhost", Err("PinMismatch")),
            ("pin, wrong name", &hub, &pinned, None, "evil.example.com", Err("client: ")),
            ("pin, expired hub", &stale_hub, &pinned, None, "localhost", Err("expired")),
            (
                "wrong CA",
                &hub,
                &Trust::Bundle(other.certificate_pem().into()),
                None,
                "localhost",
                Err("UnknownIssuer"),
            ),
            ("wrong name", &hub, &bundle, None, "evil.example.com", Err("client: ")),
            ("expired hub", &stale_hub, &bundle, None, "localhost", Err("expired")),
            ("expired client", &hub, &bundle, client(&ca, long_ago), "localhost", Err("server: ")),
            ("another CA's client", &hub, &bundle, client(&other, now), "localhost", Err("server: ")),
        ] {
            let config = server_config(server, &[ca.certificate().clone()]).unwrap();
            let got = handshake(config, client_config_h2(trust, identity.as_ref()).unwrap(), host);
            match expect {
                Ok(name) => assert_eq!(
                    got.as_ref().map(|p| p.as_ref().map(|p| p.common_name.as_str())),
                    Ok(name),
                    "{what}"
                ),
                Err(part) => {
                    let error = got.expect_err(what);
                    assert!(error.contains(part), "{what}: {error}");
                }
            }
        }
    }

    #[test]
    fn no_handshake_is_taken_from_an_earlier_one() {
        let now = Timestamp::now();
        let (ca, _) = Authority::create(now).unwrap();
        let hub = ca.issue_server(&server_names(None, &[]), DAY, now).unwrap();
        let identity = ca.issue_client_with_key(&agent_subject("site1"), DAY, now).unwrap();
        let trust = Trust::Bundle(ca.certificate_pem().into());
        let server = Arc::new(server_config(&hub, &[ca.certificate().clone()]).unwrap());
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let builder =
                ClientConfig::builder_with_provider(crypto()).with_protocol_versions(&[version]).unwrap();
            let (chain, key) = parts(&identity).unwrap();
            let Trust::Bundle(pem) = &trust else { panic!() };
            let client = builder
                .with_root_certificates(roots(pem).unwrap())
                .with_client_auth_cert(chain, key)
                .unwrap();
            let client = Arc::new(client);
            for round in 0..3 {
                let mut client =
                    ClientConnection::new(client.clone(), ServerName::try_from("localhost").unwrap())
                        .unwrap();
                let mut server = ServerConnection::new(server.clone()).unwrap();
                for _ in 0..20 {
                    let (mut there, mut back) = (Vec::new(), Vec::new());
                    while client.wants_write() {
                        client.write_tls(&mut there).unwrap();
                    }
                    let mut there = there.as_slice();
                    while !there.is_empty() {
                        server.read_tls(&mut there).unwrap();
                        server.process_new_packets().unwrap();
                    }
                    while server.wants_write() {
                        server.write_tls(&mut back).unwrap();
                    }
                    let mut back = back.as_slice();
                    while !back.is_empty() {
                        client.read_tls(&mut back).unwrap();
                        client.process_new_packets().unwrap();
                    }
                }
                let kind = server.handshake_kind();
                assert_ne!(kind, Some(rustls::HandshakeKind::Resumed), "{version:?}, connection {round}");
                assert!(kind.is_some() && server.peer_certificates().is_some());
            }
        }
    }

    /// While the CA is changed, whoever trusts or pinned either of the two reaches the hub, with a certificate of either.
    #[test]
    fn a_change_of_the_ca_locks_nobody_out_until_the_older_one_is_dropped() {
        let now = Timestamp::now();
        let dir = tempfile::tempdir().unwrap();
        let first = Authorities::load_or_create(dir.path(), now).unwrap();
        let both = Authorities::change(dir.path(), now).unwrap();
        Authorities::drop_older(dir.path()).unwrap();
        let last = Authorities::load(dir.path()).unwrap();
        let client =
            |of: &Authorities| of.signing().issue_client_with_key(&agent_subject("site1"), DAY, now).unwrap();
        let passes = |hub: &Authorities, trust: &Trust, identity: &KeyedCertificate| {
            let names = server_names(None, &[]);
            let certificate = hub.issue_server(&names, DAY, now).unwrap();
            let server = server_config(&certificate, &hub.trusted()).unwrap();
            handshake(server, client_config_h2(trust, Some(identity)).unwrap(), "localhost").is_ok()
        };
        let bundle = |of: &Authorities| Trust::Bundle(of.signing().certificate_pem().to_owned());
        let pin = |of: &Authorities| Trust::Pinned(vec![of.signing().pin()]);
        for trust in
            [bundle(&first), bundle(&last), Trust::Bundle(both.bundle_pem()), pin(&first), pin(&last)]
        {
            for identity in [client(&first), client(&both)] {
                assert!(passes(&both, &trust, &identity), "{trust:?}");
            }
        }
        assert!(passes(&last, &bundle(&last), &client(&both)));
        assert!(
            !passes(&last, &bundle(&first), &client(&both)) && !passes(&last, &pin(&first), &client(&both))
        );
        assert!(!passes(&last, &bundle(&last), &client(&first)), "a certificate of the CA that was dropped");
    }

    #[test]
    fn an_administrator_is_told_from_an_agent() {
        let now = Timestamp::now();
        let (ca, _) = Authority::create(now).unwrap();
        let subject = crate::Subject {
            common_name: "system:admin".into(),
            organizations: vec![crate::ADMIN_ORGANIZATION.into()],
        };
        let admin = ca.issue_client_with_key(&subject, DAY, now).unwrap();
        let hub = ca.issue_server(&server_names(None, &[]), DAY, now).unwrap();
        let config = server_config(&hub, &[ca.certificate().clone()]).unwrap();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        let trust = Trust::Bundle(ca.certificate_pem().into());
        let peer =
            handshake(config, client_config(&trust, Some(&admin)).unwrap(), "localhost").unwrap().unwrap();
        assert_eq!((peer.common_name.as_str(), peer.cluster()), ("system:admin", None));
        assert!(!format!("{admin:?}").contains("KEY"));
        assert!(client_config(&Trust::Bundle("no pem".into()), None).is_err());
    }
}
