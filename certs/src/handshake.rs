//! Why a TLS handshake with a hub failed. In: the error of the handshake. Out: a cause that a person can act on.

use rustls::{AlertDescription, CertificateError, Error};

use crate::PinMismatch;

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// Nobody said anything about TLS: a load balancer without a hub behind it, or a link that broke just now.
    Closed(String),
    /// Another CA than the pinned one.
    Pin(PinMismatch),
    /// The certificate is not valid at this machine's time: from when, or until when, it is.
    Clock(String),
    /// The other end, or something between, does not speak HTTP/2.
    NoHttp2,
    /// The certificate is the hub's, and for other names than the one that was dialled.
    OtherName(String),
    /// TLS was refused otherwise, in words.
    Refused(String),
}

impl HandshakeFailure {
    /// What the error of a handshake says of who is there.
    pub fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
            return Self::Closed(format!("it was closed during the TLS handshake ({error})"));
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(wrong)) => Self::of_certificate(wrong),
            Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => Self::NoHttp2,
            Some(Error::InvalidMessage(_)) => {
                Self::Refused("what answers there does not speak TLS: is it the hub's port?".to_owned())
            }
            _ => Self::Refused(error.to_string()),
        }
    }

    fn of_certificate(wrong: &CertificateError) -> Self {
        use CertificateError as C;
        match wrong {
            C::Other(other) => match other.0.downcast_ref::<PinMismatch>() {
                Some(mismatch) => Self::Pin(mismatch.clone()),
                None => Self::Refused(other.0.to_string()),
            },
            C::Expired | C::ExpiredContext { .. } | C::NotValidYet | C::NotValidYetContext { .. } => {
                Self::Clock(wrong.to_string())
            }
            C::UnknownIssuer => Self::Refused(
                "its certificate is not from the hub's CA: another server answers there, or something between opens TLS"
                    .to_owned(),
            ),
            C::NotValidForName | C::NotValidForNameContext { .. } => Self::OtherName(wrong.to_string()),
            other => Self::Refused(other.to_string()),
        }
    }
}
