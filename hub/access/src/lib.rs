//! Who asks, and whether they may: authentication, RBAC, the default roles, the checks that keep roles from growing by
//! themselves, and the review kinds that answer questions about all of it.
//!
//! In: headers and the client certificate's user; attributes of a request; RBAC objects from the cache. Out: a [`User`], a
//! [`Decision`], or the `Status` (401, 403) that kube-apiserver gives.
//!
//! [`User`]: karmada_registry::User
//! [`Decision`]: karmada_registry::Decision

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

mod access;
mod authenticate;
mod bootstrap_token;
mod default_roles;
mod escalation;
mod front_proxy;
mod impersonate;
mod oidc;
mod policy_rule;
mod rbac;
mod rbac_bootstrap;
mod review_validation;
mod reviews;
#[cfg(test)]
mod tests;
mod token_claims;

pub use access::{Access, AccessOptions};
pub use authenticate::Authenticator;
pub use default_roles::{OwnRoles, bootstrap_roles};
pub use escalation::Escalation;
pub use front_proxy::{FrontProxy, ProxyPeer};
pub use impersonate::impersonate;
pub use oidc::{Anonymous, IssuerOptions, Issuers};
pub use policy_rule::Rule;
pub use rbac::Authorizer;
pub use rbac_bootstrap::{Reconciled, reconcile};
pub use reviews::Reviews;
pub use token_claims::{BoundClaims, Claims, ObjectClaim, ServiceAccountTokens};

/// Whether two secrets are equal, in time that depends on their lengths only.
fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
