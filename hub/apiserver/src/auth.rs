//! Who asks, and whether they may: authentication, RBAC, the default roles, the checks that keep roles from growing by
//! themselves, and the review kinds that answer questions about all of it.
//!
//! In: headers and the client certificate's user; attributes of a request; RBAC objects from the cache. Out: a [`User`], a
//! [`Decision`], or the `Status` (401, 403) that kube-apiserver gives.
//!
//! [`User`]: crate::registry::User

mod access;
mod attributes;
mod authenticate;
mod bootstrap;
mod default_roles;
mod escalation;
mod front_proxy;
mod impersonate;
mod oidc;
mod rbac;
mod reconcile;
mod review_rules;
mod reviews;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;

pub use access::Access;
pub use attributes::{Attributes, Decision};
pub use authenticate::Authenticator;
pub use default_roles::bootstrap_roles;
pub use escalation::Escalation;
pub use front_proxy::{FrontProxy, ProxyPeer};
pub use impersonate::impersonate;
pub use oidc::{Anonymous, IssuerOptions, Issuers};
pub use rbac::Authorizer;
pub use reconcile::{Reconciled, reconcile};
pub use reviews::Reviews;
pub use rules::Rule;
pub use tokens::{BoundClaims, Claims, ObjectClaim, ServiceAccountTokens};

/// The group that may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
/// Everybody with a credential.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody without.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// Prefix of a ServiceAccount's user name; `NAMESPACE:NAME` follows.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The user that a ServiceAccount is.
pub(crate) fn service_account_user(namespace: &str, name: &str) -> crate::registry::User {
    let mut groups = authenticate::account_groups(namespace);
    groups.push(AUTHENTICATED.to_owned());
    crate::registry::User {
        name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
        groups,
        ..crate::registry::User::default()
    }
}

/// Namespace and name of a ServiceAccount's user name.
fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Whether two secrets are equal, in time that depends on their lengths only.
fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
