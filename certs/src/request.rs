//! Certificate requests (PKCS#10): made by the end that holds the key, checked by the end that signs.
//!
//! In: a key and the names wished for, or a request as DER or PEM. Out: a signed request; or one whose signature was checked, with what it
//! asks for. What is granted of it is decided elsewhere.

use rcgen::{CertificateSigningRequestParams, KeyPair, PublicKey, PublicKeyData, SanType};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use crate::key::{KeyedCertificate, new_key};
use crate::subject::{Subject, alternative_name, subject_of};
use crate::{CertError, Pin};

/// A private key on the machine that made it.
pub struct ClientKey(KeyPair);

impl std::fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClientKey").field(&self.fingerprint()).finish()
    }
}

impl ClientKey {
    /// A new ECDSA P-256 key.
    ///
    /// # Errors
    /// The system gives no randomness for a key.
    pub fn generate() -> Result<Self, CertError> {
        new_key().map(Self)
    }

    /// A key kept as PKCS#8 PEM.
    ///
    /// # Errors
    /// It is no PEM of a private key that can be used here.
    pub fn from_pem(pem: &str) -> Result<Self, CertError> {
        KeyPair::from_pem(pem).map(Self).map_err(|_| CertError::Malformed("private key"))
    }

    /// PKCS#8 PEM, to be kept on this machine.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// SHA-256 of the public key's SPKI, lowercase hex.
    pub fn fingerprint(&self) -> String {
        Pin::of_spki(&self.0.subject_public_key_info()).hex()
    }

    /// A request (DER) for this key; `subject` is a wish, and ignored where the signer decides it.
    ///
    /// # Errors
    /// The key cannot sign it.
    pub fn request(&self, subject: &Subject) -> Result<Vec<u8>, CertError> {
        self.request_for(subject, &[])
    }

    /// The same, with `names` (DNS names and addresses) as subject alternative names.
    ///
    /// # Errors
    /// A name is neither an address nor one that a certificate can hold, or the key cannot sign the request.
    pub fn request_for(&self, subject: &Subject, names: &[String]) -> Result<Vec<u8>, CertError> {
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names =
            names.iter().map(|name| alternative_name(name)).collect::<Result<_, _>>()?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, subject.common_name.as_str());
        if let Some(organization) = subject.organizations.first() {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, organization.as_str());
        }
        Ok(params.serialize_request(&self.0)?.der().to_vec())
    }

    /// The key together with the certificate issued for it.
    pub fn with_certificate(&self, certificate_pem: String) -> KeyedCertificate {
        KeyedCertificate { certificate_pem, key_pem: self.to_pem() }
    }
}

/// A request whose sender was shown to hold the key.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    /// What the sender asked to be called.
    pub subject: Subject,
    /// SHA-256 of the public key's SPKI, lowercase hex.
    pub key_fingerprint: String,
    public_key: PublicKey,
    names: Vec<SanType>,
}

/// How many subject alternative names a request asks for, by what they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// DNS names.
    pub dns: usize,
    /// IP addresses.
    pub addresses: usize,
    /// Mail addresses.
    pub emails: usize,
    /// URIs.
    pub uris: usize,
}

impl CertificateRequest {
    /// Parses DER and verifies the signature with the key inside.
    ///
    /// # Errors
    /// It is no request, or bytes follow it ([`CertError::Malformed`]); or the key inside did not sign it ([`CertError::NotPossessed`]).
    pub fn from_der(der: &[u8]) -> Result<Self, CertError> {
        let malformed = CertError::Malformed("certificate request");
        let Ok((rest, parsed)) = X509CertificationRequest::from_der(der) else { return Err(malformed) };
        if !rest.is_empty() {
            return Err(malformed);
        }
        let info = &parsed.certification_request_info;
        let (subject, spki) = (subject_of(&info.subject), Pin::of_spki(info.subject_pki.raw));
        let request = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der))
            .map_err(|error| match error {
                rcgen::Error::InvalidCertificationRequestSignature => CertError::NotPossessed,
                _ => CertError::Malformed("certificate request"),
            })?;
        Ok(Self {
            subject,
            key_fingerprint: spki.hex(),
            public_key: request.public_key,
            names: request.params.subject_alt_names,
        })
    }

    /// Parses the PEM form.
    ///
    /// # Errors
    /// There is no request in the text, or as of [`CertificateRequest::from_der`].
    pub fn from_pem(pem: &str) -> Result<Self, CertError> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| CertError::Malformed("certificate request"))?;
        Self::from_der(&der)
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    pub(crate) fn names(&self) -> &[SanType] {
        &self.names
    }

    /// Whether it asks for one of these names (DNS names and IP addresses), or for a wildcard, which may stand for any of them.
    pub fn asks_for_any_of(&self, names: &[String]) -> bool {
        self.names.iter().any(|asked| match asked {
            SanType::DnsName(asked) => {
                let asked = asked.as_str();
                asked.contains('*') || names.iter().any(|name| name.eq_ignore_ascii_case(asked))
            }
            SanType::IpAddress(asked) => names.iter().any(|name| name.parse() == Ok(*asked)),
            _ => false,
        })
    }

    /// What further names it asks for.
    pub fn alternative_names(&self) -> AlternativeNames {
        let mut found = AlternativeNames::default();
        for name in &self.names {
            match name {
                SanType::DnsName(_) => found.dns += 1,
                SanType::IpAddress(_) => found.addresses += 1,
                SanType::Rfc822Name(_) => found.emails += 1,
                SanType::URI(_) => found.uris += 1,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_key_not_held_is_refused() {
        let subject = crate::agent_subject("a");
        let (mine, other) = (ClientKey::generate().unwrap(), ClientKey::generate().unwrap());
        let der = mine.request(&subject).unwrap();
        assert_eq!(CertificateRequest::from_der(&der).unwrap().key_fingerprint, mine.fingerprint());
        // Another's public point in my request: the signature no longer fits.
        let (from, to) = (mine.0.public_key_raw(), other.0.public_key_raw());
        let at = der.windows(from.len()).position(|w| w == from).unwrap();
        let mut forged = der.clone();
        forged[at..at + to.len()].copy_from_slice(to);
        assert!(matches!(CertificateRequest::from_der(&forged), Err(CertError::NotPossessed)));
        for bad in [&der[..der.len() - 1], b"", b"hello", &[der.as_slice(), b"x"].concat()] {
            assert!(CertificateRequest::from_der(bad).is_err());
        }
    }

    #[test]
    fn names_of_the_hub_are_found_however_they_are_written() {
        let key = ClientKey::generate().unwrap();
        let own = ["hub.example.org".to_owned(), "10.0.0.1".to_owned(), "::1".to_owned()];
        let asks = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let der = key.request_for(&crate::agent_subject("a"), &names).unwrap();
            CertificateRequest::from_der(&der).unwrap().asks_for_any_of(&own)
        };
        for name in ["HUB.example.org", "10.0.0.1", "0:0:0:0:0:0:0:1", "*.example.org", "*"] {
            assert!(asks(&["other", name]), "{name}");
        }
        assert!(!asks(&["node.example.org", "10.0.0.2", "hub.example.org.evil"]) && !asks(&[]));
    }

    #[test]
    fn a_key_survives_its_pem() {
        let key = ClientKey::generate().unwrap();
        assert_eq!(ClientKey::from_pem(&key.to_pem()).unwrap().fingerprint(), key.fingerprint());
        assert!(!format!("{key:?}").contains("PRIVATE"));
    }
}
