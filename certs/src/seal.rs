//! Seals on epochs: the proof that a hub with this CA's key handed out a number.
//!
//! In: an epoch, and the CA that signs or the CAs that are trusted. Out: a signature, or whether one is right. What is
//! signed begins with its own purpose, so that no other signature of that key can stand for it.

use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Authority, CertError};

/// What every signed text begins with.
const PURPOSE: &str = "karmada fleet epoch, version 1: ";
/// A signature with P-256 is at most 72 bytes; what is longer is none.
const LONGEST: usize = 128;

fn text(epoch: u64) -> String {
    format!("{PURPOSE}{epoch}")
}

/// The public keys whose seals count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealKeys(Vec<Vec<u8>>);

impl SealKeys {
    /// The keys of the CAs in a bundle, PEM. What cannot be read is no key.
    pub fn of_bundle(pem: &str) -> Self {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
        Self(certificates.filter_map(|der| public_key(&der)).collect())
    }

    /// The key of the first CA alone: the one that signs.
    #[must_use]
    pub fn first(&self) -> Self {
        Self(self.0.first().cloned().into_iter().collect())
    }

    /// Whether `seal` proves that `epoch` was handed out. The largest number has no successor, so none is ever made of it.
    pub fn verify(&self, epoch: u64, seal: &[u8]) -> bool {
        let text = text(epoch);
        let right = |key: &Vec<u8>| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(text.as_bytes(), seal).is_ok()
        };
        epoch < u64::MAX && !seal.is_empty() && seal.len() <= LONGEST && self.0.iter().any(right)
    }
}

fn public_key(der: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.public_key().subject_public_key.data.to_vec())
}

impl Authority {
    /// The proof that `epoch` was handed out by the hub with this CA.
    ///
    /// # Errors
    /// The key cannot sign, or `epoch` is the largest number: nothing could come after it.
    pub fn seal_epoch(&self, epoch: u64) -> Result<Vec<u8>, CertError> {
        if epoch == u64::MAX {
            return Err(CertError::Malformed("an epoch without a successor"));
        }
        self.sign(text(epoch).as_bytes())
    }

    /// The keys that verify this CA's seals.
    pub fn seal_keys(&self) -> SealKeys {
        SealKeys(public_key(self.certificate()).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_seal_is_of_one_epoch_and_one_authority() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let (other, _) = Authority::create(Timestamp::now()).unwrap();
        let seal = ca.seal_epoch(7).unwrap();
        assert!(ca.seal_keys().verify(7, &seal));
        assert!(!ca.seal_keys().verify(8, &seal), "another number");
        assert!(!other.seal_keys().verify(7, &seal), "another hub");
        assert!(!SealKeys::default().verify(7, &seal), "nobody is trusted");
        let both = format!("{}{}", other.certificate_pem(), ca.certificate_pem());
        assert!(SealKeys::of_bundle(&both).verify(7, &seal), "a bundle of two");
        for bad in [&b""[..], b"x", &seal[1..], &[0; 200]] {
            assert!(!ca.seal_keys().verify(7, bad));
        }
    }

    #[test]
    fn what_has_no_successor_is_never_sealed() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        assert!(ca.seal_epoch(u64::MAX).is_err());
        let signed = ca.sign(text(u64::MAX).as_bytes()).unwrap();
        assert!(!ca.seal_keys().verify(u64::MAX, &signed));
        let plain = ca.sign(b"7").unwrap();
        assert!(!ca.seal_keys().verify(7, &plain), "what was signed for something else");
    }
}
