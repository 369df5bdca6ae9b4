//! Private keys, and a key together with its certificate.
//!
//! In: the system's randomness. Out: a new P-256 key; a pair of PEM texts whose `Debug` shows neither.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::CertError;

/// A certificate and the private key it is for, both PEM.
#[derive(Clone)]
pub struct KeyedCertificate {
    /// Leaf first, then what leads to the CA.
    pub certificate_pem: String,
    /// PKCS#8.
    pub key_pem: String,
}

impl std::fmt::Debug for KeyedCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedCertificate").finish_non_exhaustive()
    }
}

/// A new P-256 key.
pub(crate) fn new_key() -> Result<KeyPair, CertError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|_| CertError::Key)
}
