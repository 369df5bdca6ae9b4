//! Frames straight over a connection, without HTTP: each is its length, four bytes big-endian, and the message.
//!
//! Comes in: a byte stream (TLS, negotiated as [`ALPN`]). Goes out: the other end's messages as a stream ([`Incoming`]), and a sink for this end's
//! ([`Outgoing`]). An idle end holds no buffer: a message's memory is taken as its bytes come, and given back with it.

mod incoming;
mod outgoing;

pub use incoming::{Incoming, Limits};
pub use outgoing::Outgoing;

/// What TLS negotiates for it (RFC 7301), with the version of the framing.
pub const ALPN: &[u8] = b"karmada-fleet/1";

/// Bytes of a length.
const HEAD: usize = 4;

/// Why the other end cannot be heard any more.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A message that is longer than may be.
    #[error("a message of {length} bytes was announced, where {most} are the most")]
    TooLong {
        /// As announced.
        length: usize,
        /// What was allowed.
        most: usize,
    },
    /// Bytes that are no message.
    #[error("a message cannot be read: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// A message that is not decoded.
    #[error("a message is none that any end would send")]
    Unlikely,
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    CutOff,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

#[cfg(test)]
mod tests;
