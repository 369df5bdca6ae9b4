//! Why the agent is not with its hub, as one word that people and karmadactl can act on.
//!
//! In: an error, a Close of the hub, a refusal of a join. Out: its class, the word for it, and what a person does about it. Pure.

use std::fmt;

use karmada_proto::v1::{CloseCode, JoinRefusalCode};

/// The class of a reason. Shown as the word that `karmadactl register` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The hub's name does not resolve.
    Dns,
    /// No connection to the hub, or it was lost.
    Tcp,
    /// TLS was refused.
    Tls,
    /// The hub has another CA than the pinned one.
    PinMismatch,
    /// Something between does not pass HTTP/2.
    Http2Refused,
    /// This machine's clock and the hub's differ too much.
    Clock,
    /// The hub does not know the token.
    TokenUnknown,
    /// The token has expired.
    TokenExpired,
    /// The token was used as often as it may be.
    TokenUsedUp,
    /// The cluster's name cannot be used.
    NameInvalid,
    /// Another cluster holds the name.
    NameTaken,
    /// This cluster is registered under another name.
    IdTaken,
    /// A person has to approve the join.
    Pending,
    /// The hub or the member refuses.
    Permission,
    /// The hub does not know the cluster (any more).
    Unregistered,
    /// The identity was given to another key since.
    Revoked,
    /// The agent's own certificate ended while it was away.
    CertificateExpired,
    /// Another agent with this identity is connected.
    Clone,
    /// Hub and agent are too far apart in version.
    Version,
    /// The member does not answer.
    Member,
    /// What passes by itself: the hub restarts, or is busy.
    Passing,
    /// Anything else.
    Other,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "DNS",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::PinMismatch => "PinMismatch",
            Self::Http2Refused => "HTTP2Refused",
            Self::Clock => "Clock",
            Self::TokenUnknown => "TokenUnknown",
            Self::TokenExpired => "TokenExpired",
            Self::TokenUsedUp => "TokenUsedUp",
            Self::NameInvalid => "NameInvalid",
            Self::NameTaken => "NameTaken",
            Self::IdTaken => "IdTaken",
            Self::Pending => "Pending",
            Self::Permission => "Permission",
            Self::Unregistered => "Unregistered",
            Self::Revoked => "Revoked",
            Self::CertificateExpired => "CertificateExpired",
            Self::Clone => "Clone",
            Self::Version => "Version",
            Self::Member => "Member",
            Self::Passing => "",
            Self::Other => "Failed",
        })
    }
}

impl Cause {
    /// What a person does about it, beside a plain agent process; `None` where the words of the error say it, or nothing
    /// is to be done. (karmadactl has its own, for an agent in a Pod.)
    pub fn next(self) -> Option<&'static str> {
        Some(match self {
            Self::Dns => "check the name in --hub, and this machine's resolver",
            Self::Tcp => "let this machine open connections to the hub, and check that the hub listens there",
            Self::Tls => "point --hub at the hub itself; a proxy between must pass TLS through as it is",
            Self::PinMismatch => {
                "make the line anew on the hub with karmadactl token create --print-register-command; if the hash is right, \
                 something between opens TLS"
            }
            Self::Http2Refused => {
                "let the proxy or load balancer before the hub forward TCP as it is, or speak HTTP/2"
            }
            Self::Clock => "set this machine's clock (NTP), or the hub's, and start again",
            Self::TokenUnknown | Self::TokenExpired | Self::TokenUsedUp => {
                "make a new token on the hub with karmadactl token create --print-register-command"
            }
            Self::NameInvalid | Self::NameTaken => {
                "give another --cluster-name, or unregister the cluster that has it"
            }
            Self::IdTaken => "use the name under which the hub knows this cluster, or unregister that first",
            Self::Pending => "have somebody decide on the hub: karmadactl adopt, or karmadactl refuse",
            Self::Permission => {
                "give the agent a kubeconfig that may read the namespace kube-system and write what is placed here"
            }
            Self::Member => "check --kubeconfig, and that the member's API server answers",
            Self::CertificateExpired | Self::Unregistered | Self::Revoked => "join again with a new token",
            Self::Clone => "stop the other agent of this cluster",
            Self::Version => "bring hub and agent to versions that are closer",
            Self::Passing | Self::Other => return None,
        })
    }
}

impl From<JoinRefusalCode> for Cause {
    fn from(code: JoinRefusalCode) -> Self {
        match code {
            JoinRefusalCode::TokenUnknown => Self::TokenUnknown,
            JoinRefusalCode::TokenExpired => Self::TokenExpired,
            JoinRefusalCode::TokenUsedUp => Self::TokenUsedUp,
            JoinRefusalCode::NameTaken => Self::NameTaken,
            JoinRefusalCode::ClusterTaken => Self::IdTaken,
            JoinRefusalCode::NameInvalid => Self::NameInvalid,
            JoinRefusalCode::Permission => Self::Permission,
            JoinRefusalCode::ClockSkewed => Self::Clock,
            JoinRefusalCode::CsrInvalid => Self::Other,
            JoinRefusalCode::JoinUnavailable | JoinRefusalCode::JoinRefusalUnspecified => Self::Passing,
        }
    }
}

impl From<Option<CloseCode>> for Cause {
    fn from(code: Option<CloseCode>) -> Self {
        match code {
            // The stream broke without a word.
            None => Self::Tcp,
            Some(CloseCode::Clone) => Self::Clone,
            Some(CloseCode::Version) => Self::Version,
            Some(CloseCode::Revoked) => Self::Revoked,
            Some(CloseCode::Unregistered) => Self::Unregistered,
            Some(_) => Self::Passing,
        }
    }
}

impl From<&tonic::Status> for Cause {
    fn from(status: &tonic::Status) -> Self {
        match status.code() {
            tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => Self::Permission,
            _ => Self::Tcp,
        }
    }
}
