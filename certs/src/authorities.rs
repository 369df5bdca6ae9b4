//! A hub's CA over its life: the one that signs, and, while the CA is being changed, the one before, which is still trusted.
//!
//! In: a directory, and the word to make a new CA or to drop the older one. Out: what signs, the bundle of what is trusted (the one
//! that signs first), and a chain for servers by which whoever trusts only one of the two believes them: the older CA has
//! certified the new one's key. A step that a crash cuts short leaves a directory that loads, and can be taken again.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use crate::{Authority, CertError, KeyedCertificate, PeerIdentity, Pin, SealKeys, files, tls};

/// The CA that signs.
const CERTIFICATE: &str = "ca.crt";
/// Its key.
const KEY: &str = "ca.key";
/// The CA before it, as long as it is trusted.
const OLDER: &str = "ca-older.crt";
/// The key of the CA that signs, certified by the one before.
const CROSS: &str = "ca-cross.crt";
/// The certificate of a new CA, from before its key is put in place until it is itself.
const COMING: &str = "ca-coming.crt";

/// The CA that signs, and the one before it.
#[derive(Debug)]
pub struct Authorities {
    signing: Authority,
    older: Option<Older>,
    ends: Vec<AuthorityEnd>,
}

#[derive(Debug)]
struct Older {
    certificate: CertificateDer<'static>,
    pem: String,
    /// Empty where nobody made one.
    cross_pem: String,
}

impl Authorities {
    /// Those in a directory; a CA is made where there is none.
    ///
    /// # Errors
    /// A file cannot be read or written, or a key is missing: a CA made in its place would lock everybody out.
    pub fn load_or_create(directory: &Path, now: Timestamp) -> Result<Authorities, CertError> {
        finish(directory)?;
        let signing = Authority::load_or_create(directory, now)?;
        Self::with(older(directory, &signing)?, signing)
    }

    /// Those in a directory, as they are now. Nothing is written.
    ///
    /// # Errors
    /// A file cannot be read, or there is no CA.
    pub fn load(directory: &Path) -> Result<Authorities, CertError> {
        let signing = signing(directory)?.ok_or(CertError::Malformed("CA directory: there is no CA"))?;
        Self::with(older(directory, &signing)?, signing)
    }

    fn with(older: Option<Older>, signing: Authority) -> Result<Authorities, CertError> {
        let mut all = Authorities { signing, older, ends: Vec::new() };
        for der in all.trusted() {
            let ca = PeerIdentity::from_der(&der)?;
            all.ends.push(AuthorityEnd { name: ca.subject, end: ca.not_after });
        }
        Ok(all)
    }

    /// Makes a new CA, which signs from now on; the one that signed is trusted until [`Authorities::drop_older`].
    ///
    /// # Errors
    /// There is an older one already, no CA at all, or a file cannot be written.
    pub fn change(directory: &Path, now: Timestamp) -> Result<Authorities, CertError> {
        finish(directory)?;
        let before = Self::load(directory)?;
        if before.older.is_some() {
            return Err(CertError::Shape("the CA is being changed already: drop the older one first"));
        }
        let (coming, key_pem) = Authority::create(now)?;
        let cross_pem = before.signing.certify(&coming, now)?;
        let write = |name: &str, text: &str| files::write_private(&directory.join(name), text.as_bytes());
        // As long as it is the one that signs, a copy of it is no older one.
        write(CROSS, &cross_pem)?;
        write(OLDER, before.signing.certificate_pem())?;
        write(COMING, coming.certificate_pem())?;
        write(KEY, &key_pem)?;
        finish(directory)?;
        Self::load(directory)
    }

    /// The older CA is trusted no more. False where there was none.
    ///
    /// # Errors
    /// There is no CA, or a file cannot be read or removed.
    pub fn drop_older(directory: &Path) -> Result<bool, CertError> {
        finish(directory)?;
        let was = Self::load(directory)?.older.is_some();
        for name in [OLDER, CROSS] {
            files::remove(&directory.join(name))?;
        }
        Ok(was)
    }

    /// The CA that signs.
    pub fn signing(&self) -> &Authority {
        &self.signing
    }

    /// Every CA whose certificates are taken.
    pub fn trusted(&self) -> Vec<CertificateDer<'static>> {
        let older = self.older.iter().map(|older| older.certificate.clone());
        std::iter::once(self.signing.certificate().clone()).chain(older).collect()
    }

    /// The same as PEM, the one that signs first.
    pub fn bundle_pem(&self) -> String {
        let older = self.older.as_ref().map_or("", |older| &older.pem);
        format!("{}{older}", self.signing.certificate_pem())
    }

    /// What tells this bundle from others: see [`bundle_revision`].
    pub fn revision(&self) -> u64 {
        revision(&self.trusted())
    }

    /// The keys whose seals count.
    pub fn seal_keys(&self) -> SealKeys {
        SealKeys::of_bundle(&self.bundle_pem())
    }

    /// Whether one of these CAs signed the certificate of a peer whose handshake was verified once.
    pub fn trusts(&self, peer: &PeerIdentity) -> bool {
        self.ends.iter().any(|ca| ca.name == peer.issuer)
    }

    /// When each ends, the one that signs first.
    pub fn ends(&self) -> &[AuthorityEnd] {
        &self.ends
    }

    /// A server's certificate with all that leads to a CA which a client may trust, or know by its pin.
    ///
    /// # Errors
    /// A name cannot stand in a certificate.
    pub fn issue_server(
        &self,
        names: &[String],
        validity: Duration,
        now: Timestamp,
    ) -> Result<KeyedCertificate, CertError> {
        let mut made = self.signing.issue_server(names, validity, now)?;
        if let Some(Older { pem, cross_pem, .. }) = &self.older {
            let own = self.signing.certificate_pem();
            let leaf = made.certificate_pem.strip_suffix(own).unwrap_or(&made.certificate_pem);
            // Some clients take the first that fits: by the certified one both kinds arrive.
            made.certificate_pem = format!("{leaf}{cross_pem}{own}{pem}");
        }
        Ok(made)
    }
}

/// A trusted CA and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityEnd {
    /// Its subject, which its certificates name as their issuer.
    pub name: String,
    /// When it ends.
    pub end: Timestamp,
}

/// What tells one bundle of CAs from another: their certificates in their order, however they are written. Zero where they cannot be read.
pub fn bundle_revision(pem: &str) -> u64 {
    tls::certificates(pem).map_or(0, |all| revision(&all))
}

fn revision(all: &[CertificateDer<'_>]) -> u64 {
    let digest = all.iter().fold(Sha256::new(), |digest, der| digest.chain_update(Sha256::digest(der)));
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    u64::from_be_bytes(first).max(1)
}

/// The CA whose key is in place; its certificate may not be yet.
fn signing(directory: &Path) -> Result<Option<Authority>, CertError> {
    let read = |name: &str| files::read(&directory.join(name));
    let Some(key) = read(KEY)? else { return Ok(None) };
    if let Some(coming) = read(COMING)?
        && let Ok(authority) = Authority::from_pem(&coming, &key)
    {
        return Ok(Some(authority));
    }
    read(CERTIFICATE)?.map(|certificate| Authority::from_pem(&certificate, &key)).transpose()
}

/// Finishes, or forgets, a change that was cut short.
fn finish(directory: &Path) -> Result<(), CertError> {
    let (coming, key) = (directory.join(COMING), directory.join(KEY));
    let Some(certificate) = files::read(&coming)? else { return Ok(()) };
    let is_in_place = files::read(&key)?.is_some_and(|key| Authority::from_pem(&certificate, &key).is_ok());
    if is_in_place {
        files::write_private(&directory.join(CERTIFICATE), certificate.as_bytes())?;
    }
    files::remove(&coming)
}

fn older(directory: &Path, signing: &Authority) -> Result<Option<Older>, CertError> {
    let Some(pem) = files::read(&directory.join(OLDER))? else { return Ok(None) };
    let certificate =
        tls::certificates(&pem)?.into_iter().next().ok_or(CertError::Malformed("CA certificate"))?;
    if Pin::of_certificate(&certificate)? == signing.pin() {
        return Ok(None);
    }
    let cross_pem = files::read(&directory.join(CROSS))?.unwrap_or_default();
    // One that is left of another change leads nowhere.
    let leads = |pem: &str| {
        PeerIdentity::from_pem(pem).is_ok_and(|cross| cross.key_fingerprint == signing.pin().hex())
    };
    let cross_pem = if leads(&cross_pem) { cross_pem } else { String::new() };
    Ok(Some(Older { certificate, pem, cross_pem }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_subject;

    fn now() -> Timestamp {
        Timestamp::from_second(1_760_000_000).unwrap()
    }

    #[test]
    fn a_ca_is_changed_in_two_steps_and_both_count_in_between() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Authorities::load(dir.path()).is_err(), "nothing is made by looking");
        let first = Authorities::load_or_create(dir.path(), now()).unwrap();
        assert_eq!(first.ends().len(), 1);
        let both = Authorities::change(dir.path(), now()).unwrap();
        assert_ne!(both.signing().pin(), first.signing().pin());
        let expected = format!("{}{}", both.signing().certificate_pem(), first.signing().certificate_pem());
        assert_eq!(both.bundle_pem(), expected);
        assert!(Authorities::change(dir.path(), now()).is_err(), "one at a time");
        let issued = |ca: &Authorities| {
            let life = Duration::from_secs(60);
            let made = ca.signing().issue_client_with_key(&agent_subject("a"), life, now()).unwrap();
            PeerIdentity::from_pem(&made.certificate_pem).unwrap()
        };
        let (old, new) = (issued(&first), issued(&both));
        assert!(both.trusts(&old) && both.trusts(&new) && !first.trusts(&new));
        for seal in [first.signing().seal_epoch(3).unwrap(), both.signing().seal_epoch(3).unwrap()] {
            assert!(both.seal_keys().verify(3, &seal));
        }
        assert!(Authorities::drop_older(dir.path()).unwrap());
        let last = Authorities::load(dir.path()).unwrap();
        assert_eq!(last.signing().pin(), both.signing().pin());
        assert!(last.trusts(&new) && !last.trusts(&old));
        assert!(!last.seal_keys().verify(3, &first.signing().seal_epoch(3).unwrap()));
        assert!(!Authorities::drop_older(dir.path()).unwrap());
        let revisions = [first.revision(), both.revision(), last.revision()];
        assert_eq!(std::collections::BTreeSet::from(revisions).len(), 3);
        assert_eq!(bundle_revision(&format!("\n{}", both.bundle_pem())), both.revision());
        assert_eq!(bundle_revision("no pem"), 0);
        Authorities::change(dir.path(), now()).unwrap();
    }

    /// Every file that the change writes is there, or not, in every order in which a crash may leave them.
    #[test]
    fn a_change_that_was_cut_short_loads_and_can_be_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let before = Authorities::load_or_create(dir.path(), now()).unwrap();
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        let old = [CERTIFICATE, KEY].map(|name| (name, read(name)));
        let after = Authorities::change(dir.path(), now()).unwrap();
        let mut steps: Vec<(&str, Vec<u8>)> = [CROSS, OLDER].map(|name| (name, read(name))).into();
        steps.push((COMING, read(CERTIFICATE)));
        steps.extend([KEY, CERTIFICATE].map(|name| (name, read(name))));
        for taken in 0..=steps.len() {
            for again in [false, true] {
                for name in [CERTIFICATE, KEY, OLDER, CROSS, COMING] {
                    files::remove(&dir.path().join(name)).unwrap();
                }
                for (name, text) in old.iter().chain(&steps[..taken]) {
                    std::fs::write(dir.path().join(name), text).unwrap();
                }
                let swapped = taken >= 4;
                let loaded = Authorities::load(dir.path()).unwrap();
                let signs = if swapped { &after } else { &before };
                assert_eq!(loaded.signing().pin(), signs.signing().pin(), "{taken}");
                assert_eq!(loaded.ends().len(), 1 + usize::from(swapped), "{taken}");
                if again {
                    assert_eq!(Authorities::change(dir.path(), now()).is_ok(), !swapped, "{taken}");
                }
                let started = Authorities::load_or_create(dir.path(), now()).unwrap();
                assert_eq!(started.ends().len(), 1 + usize::from(swapped || again), "{taken}");
                assert!(!dir.path().join(COMING).exists());
            }
        }
    }
}
