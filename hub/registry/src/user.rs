//! Who makes a request, and the names that have a meaning of their own.
//!
//! Types and constants, and reading names: from a service account to its user and groups, and back. Credentials are turned into a [`User`]
//! elsewhere.

use std::collections::BTreeMap;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// From outside, over HTTP.
    #[default]
    Client,
    /// From a controller of this process.
    Controller,
    /// From the hub's own workings: what it lays down at start, what is reported to it.
    Hub,
}

/// Who makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Whether it is a client or this process itself. No credential says anything else than a client.
    pub origin: Origin,
    /// User name.
    pub name: String,
    /// Uid, where the credential carries one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// More facts of the credential, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The API server itself, as which it lays down and keeps what a cluster has from the start.
    pub fn apiserver() -> User {
        User {
            name: "system:apiserver".into(),
            groups: vec![MASTERS.into()],
            origin: Origin::Hub,
            ..User::default()
        }
    }
}

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
pub(crate) fn service_account_user(namespace: &str, name: &str) -> User {
    let mut groups = account_groups(namespace);
    groups.push(AUTHENTICATED.to_owned());
    User { name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"), groups, ..User::default() }
}

/// The groups of every ServiceAccount of a namespace.
pub fn account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name of a ServiceAccount's user name.
pub fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
