//! Who sent a request: a client certificate, a bearer token, or nobody.
//!
//! In: the headers, and the user that the TLS end made of a verified client certificate. Out: the [`User`], or 401 for a token
//! that is not ours. Tokens live and die with the objects that stand behind them: the ServiceAccount, the Secret, the Pod.

mod service_account_tokens;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_registry::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use karmada_registry::{Registry, User};
use karmada_schema::object::{ObjectKey, Stored};

use crate::token_claims::ISSUER;
use crate::{ServiceAccountTokens, bootstrap_token};

/// A token that was accepted.
pub(super) struct Accepted {
    pub(super) user: User,
    /// Those of the asked audiences that the token is for.
    pub(super) audiences: Vec<String>,
}

/// Why a token was not accepted: words for who asked about it, mostly none.
#[derive(Debug, Default)]
pub(super) struct Refused(pub(super) String);

/// Tells who asks.
pub struct Authenticator {
    registry: Arc<Registry>,
    tokens: Arc<dyn ServiceAccountTokens>,
}

impl Authenticator {
    /// An authenticator over the Secrets and ServiceAccounts of the registry.
    pub fn new(registry: Arc<Registry>, tokens: Arc<dyn ServiceAccountTokens>) -> Self {
        Authenticator { registry, tokens }
    }

    /// The user of a request. `certificate` is the user of a verified client certificate (common name and organisations); it
    /// goes before a token. No credential at all is `system:anonymous`.
    ///
    /// # Errors
    /// 401: the token is not ours, or counts no longer.
    pub fn authenticate(&self, headers: &HeaderMap, certificate: Option<&User>) -> Result<User, Status> {
        if let Some(user) = certificate.filter(|user| !user.name.is_empty()) {
            return Ok(known(user.clone()));
        }
        match bearer(headers) {
            Some(token) => {
                let accepted = self.of_token(token, &[]);
                accepted.map(|accepted| accepted.user).map_err(|_| self.unauthorized(token))
            }
            None => Ok(anonymous()),
        }
    }

    /// The user of a token that is meant for one of `audiences` (none: for this API).
    pub(super) fn of_token(&self, token: &str, audiences: &[String]) -> Result<Accepted, Refused> {
        let own = [ISSUER.to_owned()];
        let asked = if audiences.is_empty() { &own[..] } else { audiences };
        let accepted = match bootstrap_token::parts(token) {
            // Only ServiceAccount tokens name audiences; a bootstrap token is for this API alone.
            Some((id, secret)) => {
                let user = self.of_bootstrap_token(id, secret).ok_or_else(Refused::default)?;
                let audiences: Vec<String> = asked.iter().filter(|a| *a == ISSUER).cloned().collect();
                if audiences.is_empty() {
                    return Err(Refused::default());
                }
                Accepted { user, audiences }
            }
            None => self.of_service_account(token, asked)?,
        };
        Ok(Accepted { user: known(accepted.user), ..accepted })
    }

    /// The refusal of a token; whoever holds the right one is told that its time is over.
    fn unauthorized(&self, token: &str) -> Status {
        let over = bootstrap_token::parts(token).and_then(|(id, secret)| {
            let object = self.object("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
            bootstrap_token::over(&object.value(), secret, self.registry.now())
        });
        over.map_or_else(Status::unauthorized, Status::unauthorized_because)
    }

    fn of_bootstrap_token(&self, id: &str, secret: &str) -> Option<User> {
        let object = self.object("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
        bootstrap_token::user(&object.value(), id, secret, self.registry.now())
    }

    fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let storage = StorageId(format!("core/{plural}").into());
        self.registry.cache().get(&storage, &ObjectKey::new(namespace, name))
    }
}

/// The token of an `Authorization: Bearer` header; another scheme is no credential here.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The user as one with a credential.
pub(super) fn known(mut user: User) -> User {
    let marked = user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if !marked && user.name != ANONYMOUS {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn anonymous() -> User {
    User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}
