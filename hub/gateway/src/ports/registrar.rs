//! Who may join and connect, and who is told of it.
//!
//! In: requests for an identity, identities that were shown. Out: a certificate, a wait or a refusal.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use karmada_certs::{CertificateRequest, PeerIdentity};

use super::PortError;

/// A request for one identity, its shape already checked.
#[derive(Debug, Clone)]
pub struct JoinAsk {
    /// Known to parse; whether it exists is the registrar's to say.
    pub token: karmada_certs::JoinToken,
    /// The name asked for.
    pub cluster_name: String,
    /// UID of the member's kube-system namespace.
    pub cluster_uid: String,
    /// Signed by the key it carries.
    pub request: CertificateRequest,
    /// For `Cluster.spec.provider`.
    pub provider: String,
    /// For `Cluster.spec.region`.
    pub region: String,
    /// For `Cluster.spec.zones`.
    pub zones: Vec<String>,
    /// For display.
    pub agent_version: String,
}

/// An identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGrant {
    /// PEM.
    pub certificate: String,
    /// PEM of the CAs to trust.
    pub ca_bundle: String,
    /// `host:port`s to dial, in order; empty for the one that was dialled.
    pub endpoints: Vec<String>,
    /// The name given.
    pub cluster_name: String,
}

/// The registrar's answer to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinOutcome {
    /// Here it is.
    Granted(JoinGrant),
    /// A person must approve; ask again after this long.
    Pending(Duration),
    /// Refused; not to be retried as it is.
    Refused(JoinRefusal),
}

/// Why a join was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRefusal {
    /// The class of the reason.
    pub code: JoinRefusalCode,
    /// In plain words, without secrets, and without a word of who holds a name: whoever asks is a stranger.
    pub message: String,
}

impl JoinRefusal {
    /// A refusal of this class.
    pub fn new(code: JoinRefusalCode, message: impl Into<String>) -> Self {
        JoinRefusal { code, message: message.into() }
    }
}

pub use karmada_proto::v1::JoinRefusalCode;

/// Why a session is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRefusal {
    /// Not an agent's identity, or the cluster is not (or no longer) registered.
    Unregistered(String),
    /// The identity was shut out.
    Revoked(String),
    /// The hub cannot tell now.
    Unavailable(String),
}

/// A join, a connect, a renewal or a disconnect, or the refusal of one, for the audit log.
#[derive(Debug, Clone)]
pub struct Occurrence<'a> {
    /// `join`, `connect`, `renew` or `disconnect`.
    pub verb: &'static str,
    /// Who, as far as that was proved: a token's user, or the certificate's name.
    pub user: Option<&'a str>,
    /// The cluster it is about; empty where its name was not fit to be read.
    pub cluster: &'a str,
    /// The connection's other end.
    pub from: Option<IpAddr>,
    /// Why not, where it was refused.
    pub refused: Option<&'a str>,
    /// Whether it waits for a person.
    pub pending: bool,
}

/// Who may join and connect.
#[async_trait]
pub trait Registrar: Send + Sync + 'static {
    /// Creates the identity and the Cluster, where `ask` may have them. Of two that ask for one name at once with two keys, one
    /// gets it.
    ///
    /// # Errors
    /// Nothing can be looked up, written or signed now. That `ask` is refused is no error, but [`JoinOutcome::Refused`].
    async fn join(&self, ask: JoinAsk) -> Result<JoinOutcome, PortError>;
    /// The cluster that `peer` speaks for: its key holds now, and its certificate has not ended.
    ///
    /// # Errors
    /// [`SessionRefusal`] says whether there is no such cluster, its key or certificate holds no longer, or the hub cannot tell.
    async fn authorize_session(&self, peer: &PeerIdentity) -> Result<String, SessionRefusal>;
    /// The uid of the Cluster of this name; empty where there is none. Must return at once.
    fn uid_of(&self, cluster: &str) -> String {
        let _ = cluster;
        String::new()
    }
    /// What tells the CAs that agents are to trust from others: one that trusts others asks for a new certificate. Zero: not told.
    fn trust_revision(&self) -> u64 {
        0
    }
    /// Takes note for the audit log. Must return at once.
    fn note(&self, occurrence: &Occurrence<'_>) {
        let _ = occurrence;
    }
    /// A new certificate for a running identity, over its authenticated stream; only while the key of that stream holds.
    ///
    /// # Errors
    /// Never to be tried again where the key or the certificate of that stream holds no longer; else nothing can be written or signed now.
    async fn renew(
        &self,
        cluster: &str,
        peer: &PeerIdentity,
        request: CertificateRequest,
    ) -> Result<JoinGrant, PortError>;
}
