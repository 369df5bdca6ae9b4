//! The fleet's identities: the CA, certificates issued from requests, join tokens, service-account tokens, and
//! the rustls configurations of both ends.
//!
//! Comes in: a directory for keys, certificate requests, names, and `now`. Goes out: PEM, parsed identities,
//! and ready TLS configurations. Hub and agent both use it; it knows neither of them. Private keys are made
//! where they are used and never leave: a request carries the public half.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

mod authorities;
mod authority;
mod error;
pub mod files;
mod handshake;
mod identity;
mod jwt;
mod key;
mod pin;
mod pinned_server;
mod request;
mod seal;
mod subject;
mod tls;
mod token;
mod usage;

pub use authorities::{Authorities, AuthorityEnd, bundle_revision};
pub use authority::{Authority, server_names};
pub use error::CertError;
pub use handshake::HandshakeFailure;
pub use identity::{PeerIdentity, is_agent_name};
pub use jwt::ServiceAccountKey;
pub use key::KeyedCertificate;
pub use pin::Pin;
pub use pinned_server::PinMismatch;
pub use request::{AlternativeNames, CertificateRequest, ClientKey};
pub use seal::SealKeys;
pub use subject::Subject;
pub use tls::{SignedBy, Trust, certificates, client_config, client_config_h2, server_config};
pub use token::JoinToken;

/// Organisation of every agent's certificate.
pub const AGENT_ORGANIZATION: &str = "system:karmada:agents";

/// Organisation whose members may do everything on the hub.
pub const ADMIN_ORGANIZATION: &str = "system:masters";

/// Prefix of an agent's common name; the cluster's name follows.
pub const AGENT_COMMON_NAME: &str = "system:karmada:agent:";

/// The subject of a cluster's agent.
pub fn agent_subject(cluster: &str) -> Subject {
    Subject {
        common_name: format!("{AGENT_COMMON_NAME}{cluster}"),
        organizations: vec![AGENT_ORGANIZATION.into()],
    }
}
