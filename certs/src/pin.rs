//! A CA known by the hash of its public key, as kubeadm prints it: `sha256:<hex>` over the SPKI.
//!
//! In: a public key or a certificate as DER, or `sha256:<hex>`. Out: a value to compare and to print; text of any other shape is refused.
//! Pure.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::CertError;

/// SHA-256 over a SubjectPublicKeyInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin([u8; 32]);

impl Pin {
    /// Over the DER of a SubjectPublicKeyInfo.
    pub fn of_spki(spki: &[u8]) -> Self {
        Self(Sha256::digest(spki).into())
    }

    /// Over the public key of a certificate (DER).
    ///
    /// # Errors
    /// It is no X.509 certificate.
    pub fn of_certificate(der: &[u8]) -> Result<Self, CertError> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|_| CertError::Malformed("certificate"))?;
        Ok(Self::of_spki(certificate.public_key().raw))
    }

    /// Lowercase hex without the prefix.
    pub fn hex(&self) -> String {
        Self::to_hex(&self.0)
    }

    pub(crate) fn to_hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl std::str::FromStr for Pin {
    type Err = CertError;

    fn from_str(text: &str) -> Result<Self, CertError> {
        let shape = || CertError::Shape("a CA hash is sha256: and 64 hex digits");
        let hex = text.strip_prefix("sha256:").ok_or_else(shape)?;
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(shape());
        }
        let mut pin = [0; 32];
        for (byte, pair) in pin.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| shape())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| shape())?;
        }
        Ok(Self(pin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_survives_its_text() {
        let pin = Pin::of_spki(b"key");
        assert_eq!(pin.to_string().parse::<Pin>().unwrap(), pin);
        let upper = format!("sha256:{}", pin.hex().to_uppercase());
        assert_eq!(upper.parse::<Pin>().unwrap(), pin);
        for bad in
            ["", "sha256:", "sha256:00", &pin.hex(), &format!("sha256:{}g", &pin.hex()[1..]), "sha256:é"]
        {
            assert!(bad.parse::<Pin>().is_err(), "{bad}");
        }
    }
}
