//! The certificate authority of one hub: made at its first start, kept in its data directory.
//!
//! In: a directory, or PEM; a subject or a request, a validity, the time. Out: certificates as PEM. Only [`Authority::load_or_create`]
//! touches the disk; randomness is the system's.
//!
//! Signs server and client certificates, CertificateSigningRequests as they stand ([`Authority::issue_requested`]: subject and names
//! are the request's; whoever calls has approved them), the next CA's key, and epochs. Except for `issue_requested` the subject is
//! the caller's, never the request's.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SerialNumber, SigningKey,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::key::{KeyedCertificate, new_key};
use crate::subject::{Subject, alternative_name, distinguished_name};
use crate::{CertError, CertificateRequest, PeerIdentity, Pin, files, usage};

/// A certificate of ours is valid from this long before it was made: other clocks run behind.
const BACKDATE: Duration = Duration::from_secs(3600);

/// The same for certificates that somebody asked for by a CertificateSigningRequest, whose life is theirs to say.
const REQUESTED_BACKDATE: Duration = Duration::from_secs(300);

/// Ten years: a CA outlives what it signs.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The CA: its certificate, and the key that signs.
pub struct Authority {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("pin", &self.pin().to_string()).finish_non_exhaustive()
    }
}

impl Authority {
    /// Loads `ca.crt` and `ca.key` from `directory`, or makes both where there is no `ca.crt`.
    ///
    /// # Errors
    /// A file cannot be read or written, the two do not belong together, or `ca.key` alone is missing: a CA made anew would orphan every agent.
    pub fn load_or_create(directory: &Path, now: Timestamp) -> Result<Self, CertError> {
        let (crt, key) = (directory.join("ca.crt"), directory.join("ca.key"));
        match (files::read(&crt)?, files::read(&key)?) {
            (Some(crt), Some(key)) => Self::from_pem(&crt, &key),
            // A crash between the two writes leaves the key alone: nothing was signed yet.
            (None, _) => {
                let (authority, key_pem) = Self::create(now)?;
                files::write_private(&key, key_pem.as_bytes())?;
                files::write_private(&crt, authority.certificate_pem.as_bytes())?;
                Ok(authority)
            }
            (Some(_), None) => Err(CertError::Malformed("CA directory: ca.crt without ca.key")),
        }
    }

    /// A new CA and its key as PEM.
    ///
    /// # Errors
    /// The system gives no randomness ([`CertError::Key`]), or the certificate cannot be signed.
    pub fn create(now: Timestamp) -> Result<(Self, String), CertError> {
        let key = new_key()?;
        let mut params = authority_params(&Pin::of_spki(&key.subject_public_key_info()))?;
        set_validity(&mut params, now, AUTHORITY_LIFE, BACKDATE);
        let certificate = params.self_signed(&key)?;
        let (certificate_pem, key_pem) = (certificate.pem(), key.serialize_pem());
        let authority = Self {
            certificate: certificate.der().clone(),
            certificate_pem,
            issuer: Issuer::new(params, key),
        };
        Ok((authority, key_pem))
    }

    /// A CA from its PEM files.
    ///
    /// # Errors
    /// Either is no PEM of its kind, or the key is not the certificate's.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, CertError> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| CertError::Malformed("CA certificate"))?;
        let key = KeyPair::from_pem(key_pem).map_err(|_| CertError::Malformed("CA key"))?;
        let spki = Pin::of_certificate(&certificate)?;
        if spki != Pin::of_spki(&key.subject_public_key_info()) {
            return Err(CertError::Malformed("CA directory: ca.key is not the key of ca.crt"));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { certificate, certificate_pem: certificate_pem.to_owned(), issuer })
    }

    /// The CA's certificate, DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The CA's certificate, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// A signature over `text` with the CA's key. What is signed says what it is for.
    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, CertError> {
        Ok(self.issuer.key().sign(text)?)
    }

    /// The key of `other` certified by this CA, until this one ends: whoever trusts this one believes that one by it. PEM.
    pub(crate) fn certify(&self, other: &Authority, now: Timestamp) -> Result<String, CertError> {
        let end = PeerIdentity::from_der(&self.certificate)?.not_after;
        let left = u64::try_from(end.as_second().saturating_sub(now.as_second())).unwrap_or(0);
        let mut params = authority_params(&other.pin())?;
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, Duration::from_secs(left), BACKDATE);
        Ok(params.signed_by(other.issuer.key(), &self.issuer)?.pem())
    }

    /// What `--discovery-token-ca-cert-hash` names.
    pub fn pin(&self) -> Pin {
        Pin::of_spki(&self.issuer.key().subject_public_key_info())
    }

    /// Signs the key of `request` for `subject`, for `validity` from `now`. PEM.
    ///
    /// # Errors
    /// The subject has more than two organisations, or the certificate cannot be signed.
    pub fn issue_client(
        &self,
        subject: &Subject,
        request: &CertificateRequest,
        validity: Duration,
        now: Timestamp,
    ) -> Result<String, CertError> {
        let params = client_params(subject, validity, now)?;
        Ok(params.signed_by(request.public_key(), &self.issuer)?.pem())
    }

    /// Signs `request` as it stands, names and all, for `usages` (those of a CertificateSigningRequest's spec): what
    /// kube-controller-manager's permissive policy signs. Who may have it was decided before. PEM.
    ///
    /// # Errors
    /// The request's subject has more than two organisations, a usage is unknown, or the certificate cannot be signed.
    pub fn issue_requested(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        validity: Duration,
        now: Timestamp,
    ) -> Result<String, CertError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(&request.subject)?;
        params.subject_alt_names = request.names().to_vec();
        finish_leaf(&mut params, validity, now)?;
        // Who asks for an hour wants no certificate of two: backdated no further than kube-controller-manager does.
        set_validity(&mut params, now, validity, REQUESTED_BACKDATE);
        (params.key_usages, params.extended_key_usages) = usage::read(usages)?;
        Ok(params.signed_by(request.public_key(), &self.issuer)?.pem())
    }

    /// A client certificate with a key made here: the administrator's, or a component's of this process.
    ///
    /// # Errors
    /// The subject has more than two organisations, or the system gives no randomness for a key.
    pub fn issue_client_with_key(
        &self,
        subject: &Subject,
        validity: Duration,
        now: Timestamp,
    ) -> Result<KeyedCertificate, CertError> {
        let key = new_key()?;
        let certificate = client_params(subject, validity, now)?.signed_by(&key, &self.issuer)?;
        Ok(KeyedCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// The hub's server certificate for `names` (DNS names and addresses), followed by the CA's own: a joining
    /// agent knows the CA by its pin only and must find it in the chain.
    ///
    /// # Errors
    /// A name is neither an address nor one that a certificate can hold, or the system gives no randomness for a key.
    pub fn issue_server(
        &self,
        names: &[String],
        validity: Duration,
        now: Timestamp,
    ) -> Result<KeyedCertificate, CertError> {
        let key = new_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(&Subject {
            common_name: "karmada-apiserver".into(),
            organizations: Vec::new(),
        })?;
        params.subject_alt_names = names.iter().map(|n| alternative_name(n)).collect::<Result<_, _>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        finish_leaf(&mut params, validity, now)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(KeyedCertificate {
            certificate_pem: format!("{}{}", certificate.pem(), self.certificate_pem),
            key_pem: key.serialize_pem(),
        })
    }
}

/// The names a hub's certificate carries: this host by its usual names, `hostname` where known, what the user
/// advertises (`host`, `host:port` or a URL), and the names a Service in front of it has inside a cluster.
pub fn server_names(hostname: Option<&str>, advertised: &[String]) -> Vec<String> {
    let service = "karmada-apiserver";
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        service,
    ]
    .map(str::to_owned)
    .into();
    for suffix in ["karmada-system", "karmada-system.svc", "karmada-system.svc.cluster.local"] {
        names.push(format!("{service}.{suffix}"));
    }
    names.extend(hostname.map(str::to_owned));
    names.extend(advertised.iter().map(|url| host_of(url).to_owned()));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    names
}

/// The host in `host`, `host:port`, `[v6]:port` or a URL.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if let Some(v6) = rest.strip_prefix('[') {
        return v6.split(']').next().unwrap_or(v6);
    }
    match rest.split_once(':') {
        // More than one colon and no brackets: a bare IPv6 address.
        Some((_, port)) if port.contains(':') => rest,
        Some((host, _)) => host,
        None => rest,
    }
}

/// What a CA's certificate says; `pin`: of its key, which its name is made from.
fn authority_params(pin: &Pin) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    // Its own name per key: a verifier that holds two CAs of one name would try the wrong one.
    let common_name = format!("karmada-ca-{}", &pin.hex()[..16]);
    params.distinguished_name = distinguished_name(&Subject { common_name, organizations: Vec::new() })?;
    params.serial_number = Some(serial()?);
    Ok(params)
}

fn client_params(
    subject: &Subject,
    validity: Duration,
    now: Timestamp,
) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(subject)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    finish_leaf(&mut params, validity, now)?;
    Ok(params)
}

fn finish_leaf(params: &mut CertificateParams, validity: Duration, now: Timestamp) -> Result<(), CertError> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.serial_number = Some(serial()?);
    set_validity(params, now, validity, BACKDATE);
    Ok(())
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, validity: Duration, backdate: Duration) {
    let at = |seconds: i64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.max(0) as u64);
    // Short lives (tests of rotation) are not backdated beyond themselves: not_before stays close.
    params.not_before = at(now.as_second() - backdate.min(validity).as_secs() as i64);
    params.not_after = at(now.as_second().saturating_add(validity.as_secs() as i64));
}

/// 127 random bits (RFC 5280: positive, at most 20 bytes).
fn serial() -> Result<SerialNumber, CertError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CertError::Key)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientKey, agent_subject};

    fn now() -> Timestamp {
        Timestamp::from_second(1_760_000_000).unwrap()
    }

    #[test]
    fn the_authority_is_made_once_and_loaded_after() {
        let dir = tempfile::tempdir().unwrap();
        let made = Authority::load_or_create(dir.path(), now()).unwrap();
        let loaded = Authority::load_or_create(dir.path(), now()).unwrap();
        assert_eq!(made.pin(), loaded.pin());
        assert_eq!(made.certificate_pem(), loaded.certificate_pem());
        std::fs::remove_file(dir.path().join("ca.key")).unwrap();
        assert!(Authority::load_or_create(dir.path(), now()).is_err());
        let (_, other) = Authority::create(now()).unwrap();
        std::fs::write(dir.path().join("ca.key"), other).unwrap();
        assert!(Authority::load_or_create(dir.path(), now()).is_err());
    }

    #[test]
    fn the_subject_is_the_callers_and_never_the_requests() {
        let (authority, _) = Authority::create(now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let wish = Subject { common_name: "admin".into(), organizations: vec!["system:masters".into()] };
        let request = CertificateRequest::from_der(&key.request(&wish).unwrap()).unwrap();
        assert_eq!(request.subject, wish);
        let life = Duration::from_secs(3600);
        let pem = authority.issue_client(&agent_subject("site1"), &request, life, now()).unwrap();
        let peer = PeerIdentity::from_pem(&pem).unwrap();
        assert_eq!(peer.common_name, "system:karmada:agent:site1");
        assert_eq!(peer.organizations, ["system:karmada:agents"]);
        assert_eq!(peer.cluster(), Some("site1"));
        assert_eq!(peer.not_after, Timestamp::from_second(1_760_003_600).unwrap());
        assert_eq!(peer.key_fingerprint, key.fingerprint());
    }

    #[test]
    fn what_was_approved_is_signed_as_it_was_asked() {
        let (authority, _) = Authority::create(now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let node =
            Subject { common_name: "system:node:a".into(), organizations: vec!["system:nodes".into()] };
        let names = ["a.example.org".to_owned(), "192.0.2.7".to_owned()];
        let request = CertificateRequest::from_der(&key.request_for(&node, &names).unwrap()).unwrap();
        let asked = request.alternative_names();
        assert_eq!((asked.dns, asked.addresses, asked.emails, asked.uris), (1, 1, 0, 0));
        let usages = ["digital signature", "server auth"];
        let pem = authority.issue_requested(&request, &usages, Duration::from_secs(3600), now()).unwrap();
        assert_eq!(PeerIdentity::from_pem(&pem).unwrap().organizations, ["system:nodes"]);
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        use x509_parser::prelude::FromDer as _;
        let (_, read) = x509_parser::prelude::X509Certificate::from_der(&der).unwrap();
        let extended = read.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && !extended.client_auth);
        assert_eq!(read.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 2);
        let (from, until) = (read.validity().not_before.timestamp(), read.validity().not_after.timestamp());
        assert_eq!((from, until), (now().as_second() - 300, now().as_second() + 3600));
        assert!(!read.is_ca());
    }

    #[test]
    fn serials_differ_and_two_organisations_fit() {
        let (authority, _) = Authority::create(now()).unwrap();
        let subject = |n: usize| Subject {
            common_name: "u".into(),
            organizations: (0..n).map(|i| format!("g{i}")).collect(),
        };
        let issue = |n| authority.issue_client_with_key(&subject(n), Duration::from_secs(60), now());
        let peers: Vec<_> =
            (0..3).map(|n| PeerIdentity::from_pem(&issue(n).unwrap().certificate_pem).unwrap()).collect();
        assert_eq!(peers[2].organizations, ["g0", "g1"]);
        assert_ne!(peers[0].serial, peers[1].serial);
        assert!(matches!(issue(3), Err(CertError::TooManyOrganizations(3))));
    }

    #[test]
    fn hosts_are_found_in_urls() {
        for (url, host) in [
            ("https://hub.example.com:5443/x", "hub.example.com"),
            ("hub:5443", "hub"),
            ("hub", "hub"),
            ("https://[fd00::1]:5443", "fd00::1"),
            ("[fd00::1]:5443", "fd00::1"),
            ("fd00::1", "fd00::1"),
            ("10.0.0.1:1", "10.0.0.1"),
        ] {
            assert_eq!(host_of(url), host);
        }
        let names = server_names(Some("localhost"), &["hub.example.com:5443".into()]);
        assert_eq!(names.iter().filter(|n| *n == "localhost").count(), 1);
        assert!(names.contains(&"hub.example.com".into()) && names.contains(&"::1".into()));
    }
}
