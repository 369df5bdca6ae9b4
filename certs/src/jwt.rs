//! Service-account tokens: JSON web tokens signed with ES256 by a key that lives beside the CA.
//!
//! In: claims, or a token. Out: a signed token; or the claims of one that this very key signed, refused otherwise.
//!
//! The claims are the caller's bytes: what a token means is the API server's business, who signed it is ours.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;

use crate::key::new_key;
use crate::{CertError, Pin, files};

/// The key that signs and verifies service-account tokens.
pub struct ServiceAccountKey {
    key: EcdsaKeyPair,
    header: String,
    key_id: String,
}

impl std::fmt::Debug for ServiceAccountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServiceAccountKey").field(&self.key_id).finish()
    }
}

impl ServiceAccountKey {
    /// Loads `sa.key` from `directory`, or makes it.
    ///
    /// # Errors
    /// The file cannot be read or written, or as of [`ServiceAccountKey::from_pem`].
    pub fn load_or_create(directory: &Path) -> Result<Self, CertError> {
        let path = directory.join("sa.key");
        let pem = match files::read(&path)? {
            Some(pem) => pem,
            None => {
                let pem = new_key()?.serialize_pem();
                files::write_private(&path, pem.as_bytes())?;
                pem
            }
        };
        Self::from_pem(&pem)
    }

    /// A key kept nowhere: for a hub whose state is in memory.
    ///
    /// # Errors
    /// The system gives no randomness for a key.
    pub fn generate() -> Result<Self, CertError> {
        Self::from_pem(&new_key()?.serialize_pem())
    }

    /// From PKCS#8 PEM.
    ///
    /// # Errors
    /// It is no PKCS#8, or no key of the curve P-256.
    pub fn from_pem(pem: &str) -> Result<Self, CertError> {
        let malformed = || CertError::Malformed("service-account key");
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| malformed())?;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random)
            .map_err(|_| malformed())?;
        let key_id = URL_SAFE_NO_PAD.encode(Pin::of_spki(key.public_key().as_ref()).hex());
        let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"ES256","kid":"{key_id}"}}"#));
        Ok(Self { key, header, key_id })
    }

    /// The `kid` of its tokens.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The uncompressed public point (65 bytes), for a key set document.
    pub fn public_point(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// A token over `claims` (a JSON object).
    ///
    /// # Errors
    /// The system gives no randomness for a signature.
    pub fn sign(&self, claims: &[u8]) -> Result<String, CertError> {
        let message = format!("{}.{}", self.header, URL_SAFE_NO_PAD.encode(claims));
        let signature =
            self.key.sign(&SystemRandom::new(), message.as_bytes()).map_err(|_| CertError::Key)?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token this key signed. The header must be the one this key writes: no other algorithm is
    /// looked at. Times and audiences are the caller's to check.
    ///
    /// # Errors
    /// It has another shape or header ([`CertError::Shape`]), or another key signed it ([`CertError::Signature`]).
    pub fn verify(&self, token: &str) -> Result<Vec<u8>, CertError> {
        let shape = || CertError::Shape("not a token of this hub");
        let (message, signature) = token.rsplit_once('.').ok_or_else(shape)?;
        let (header, claims) = message.split_once('.').ok_or_else(shape)?;
        if header != self.header {
            return Err(shape());
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| shape())?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.public_point())
            .verify(message.as_bytes(), &signature)
            .map_err(|_| CertError::Signature)?;
        URL_SAFE_NO_PAD.decode(claims).map_err(|_| shape())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_verifies_with_its_key_only_and_only_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let key = ServiceAccountKey::load_or_create(dir.path()).unwrap();
        let token = key.sign(br#"{"sub":"system:serviceaccount:a:b"}"#).unwrap();
        let again = ServiceAccountKey::load_or_create(dir.path()).unwrap();
        assert_eq!(again.verify(&token).unwrap(), br#"{"sub":"system:serviceaccount:a:b"}"#);
        assert!(ServiceAccountKey::generate().unwrap().verify(&token).is_err());
        let forged =
            token.replacen(&URL_SAFE_NO_PAD.encode(b"{\"sub"), &URL_SAFE_NO_PAD.encode(b"{\"bus"), 1);
        assert_ne!(forged, token);
        assert!(matches!(key.verify(&forged), Err(CertError::Signature)));
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        for bad in ["", "a.b", "..", &format!("{none}.{none}."), &token[..token.len() - 4]] {
            assert!(key.verify(bad).is_err(), "{bad}");
        }
    }
}
