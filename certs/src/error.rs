//! What can go wrong with certificates, keys and tokens.
//!
//! Types alone: what every fallible function of the crate returns, with the file or the part that was at fault.

use std::path::PathBuf;

/// An error of this crate. None of them carries key material.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A file of keys or certificates could not be read or written.
    #[error("{action} {}", path.display())]
    File {
        /// What was tried: `reading`, `writing`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// PEM or DER that does not parse.
    #[error("not a valid {0}")]
    Malformed(&'static str),
    /// A certificate request whose signature was not made by the key inside: its sender does not hold the key.
    #[error("the certificate request is not signed by the key it carries")]
    NotPossessed,
    /// More organisations than a certificate of ours can carry.
    #[error("a subject of ours carries at most two organisations, not {0}")]
    TooManyOrganizations(usize),
    /// Making or signing a certificate failed.
    #[error("making a certificate")]
    Issue(#[from] rcgen::Error),
    /// rustls refused the configuration.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
    /// The system gave no randomness, or the key could not be made.
    #[error("making a key")]
    Key,
    /// A join token, pin or JWT of the wrong shape.
    #[error("{0}")]
    Shape(&'static str),
    /// A JWT that this key did not sign.
    #[error("the token's signature is wrong")]
    Signature,
}
