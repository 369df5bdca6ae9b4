//! Why a value is not read or not written: for good, or for now.
//!
//! A type alone: transformers and providers answer it; who reads values tells the two apart, since only one is worth asking again.

/// Why a value is not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// None of the providers can, now or later.
    #[error("{0}")]
    Unreadable(String),
    /// A key management service is needed that does not answer now.
    #[error("{0}")]
    Unavailable(String),
}
