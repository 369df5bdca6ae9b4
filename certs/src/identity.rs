//! Who is at the other end of a TLS connection, read from the certificate that the handshake has verified.
//!
//! In: a certificate as DER or PEM. Out: its names, times and hashes, and the cluster that it speaks for; no signature is checked. Pure.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::subject::{Subject, subject_of};
use crate::{AGENT_COMMON_NAME, AGENT_ORGANIZATION, CertError, Pin};

/// A verified peer. Put into a request's extensions by the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The user's name.
    pub common_name: String,
    /// The user's groups.
    pub organizations: Vec<String>,
    /// The whole name that the certificate is for.
    pub subject: String,
    /// The name of the CA that signed it.
    pub issuer: String,
    /// Serial number, lowercase hex.
    pub serial: String,
    /// When the certificate begins to be valid.
    pub not_before: Timestamp,
    /// When it ends.
    pub not_after: Timestamp,
    /// SHA-256 of the whole certificate, lowercase hex.
    pub fingerprint: String,
    /// SHA-256 of the public key's SPKI, lowercase hex: stays the same over renewals with one key.
    pub key_fingerprint: String,
}

impl PeerIdentity {
    /// From the leaf certificate's DER. Does not verify: the handshake has.
    ///
    /// # Errors
    /// It is no X.509 certificate, or its times are beyond those that can be told.
    pub fn from_der(der: &[u8]) -> Result<Self, CertError> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|_| CertError::Malformed("certificate"))?;
        let Subject { common_name, organizations } = subject_of(certificate.subject());
        let time = |t: x509_parser::time::ASN1Time| {
            Timestamp::from_second(t.timestamp()).map_err(|_| CertError::Malformed("certificate"))
        };
        Ok(Self {
            common_name,
            organizations,
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            serial: Pin::to_hex(certificate.raw_serial()),
            not_before: time(certificate.validity().not_before)?,
            not_after: time(certificate.validity().not_after)?,
            fingerprint: Pin::of_spki(der).hex(),
            key_fingerprint: Pin::of_spki(certificate.public_key().raw).hex(),
        })
    }

    /// From the first certificate of a PEM text.
    ///
    /// # Errors
    /// There is no certificate in the text, or as of [`PeerIdentity::from_der`].
    pub fn from_pem(pem: &str) -> Result<Self, CertError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| CertError::Malformed("certificate"))?;
        Self::from_der(&der)
    }

    /// Whether it is an agent's by its name or its group, also where it is not fit to speak for a cluster.
    pub fn is_of_an_agent(&self) -> bool {
        is_agent_name(&self.common_name, &self.organizations)
    }

    /// The cluster this identity is the agent of. `None` for everybody else.
    pub fn cluster(&self) -> Option<&str> {
        if self.organizations != [AGENT_ORGANIZATION] {
            return None;
        }
        self.common_name.strip_prefix(AGENT_COMMON_NAME).filter(|name| !name.is_empty())
    }
}

/// Whether a name, or one of the groups with it, is an agent's or begins as theirs do, however it is written. Such names are given
/// by joining alone.
pub fn is_agent_name(common_name: &str, organizations: &[String]) -> bool {
    let begins = |text: &str, with: &str| {
        text.trim().get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with))
    };
    begins(common_name, AGENT_COMMON_NAME)
        || organizations.iter().any(|group| begins(group, AGENT_ORGANIZATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agents_organisation_speaks_for_a_cluster() {
        let peer = |cn: &str, orgs: &[&str]| PeerIdentity {
            common_name: cn.into(),
            organizations: orgs.iter().map(|&o| o.into()).collect(),
            subject: String::new(),
            issuer: String::new(),
            serial: String::new(),
            not_before: Timestamp::UNIX_EPOCH,
            not_after: Timestamp::UNIX_EPOCH,
            fingerprint: String::new(),
            key_fingerprint: String::new(),
        };
        for (cn, orgs, cluster) in [
            ("system:karmada:agent:a", &["system:karmada:agents"][..], Some("a")),
            ("system:karmada:agent:", &["system:karmada:agents"], None),
            ("system:karmada:agent:a", &["system:masters"], None),
            ("system:karmada:agent:a", &["system:karmada:agents", "system:masters"], None),
            ("system:admin", &["system:karmada:agents"], None),
        ] {
            assert_eq!(peer(cn, orgs).cluster(), cluster, "{cn} {orgs:?}");
        }
        for (cn, orgs, is) in [
            ("system:karmada:agent:a", &["developers"][..], true),
            (" System:Karmada:AGENT:a", &[], true),
            ("jane", &["developers", "SYSTEM:karmada:agents"], true),
            ("jane", &["system:karmada:agents:old"], true),
            ("system:karmada:agen", &["system:masters"], false),
            ("äsystem:karmada:agent:a", &["system:karmada:agent"], false),
        ] {
            assert_eq!(peer(cn, orgs).is_of_an_agent(), is, "{cn} {orgs:?}");
        }
        assert!(PeerIdentity::from_der(b"no").is_err());
    }
}
