//! Who sent a request: a client certificate, a bearer token, or nobody.
//!
//! In: the headers, and the user that the TLS end made of a verified client certificate. Out: the [`User`], or 401 for a token
//! that is not ours. Tokens live and die with the objects that stand behind them: the ServiceAccount, the Secret, the Pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_registry::user::{ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED};
use karmada_registry::{Registry, User};
use karmada_schema::object::{ObjectKey, Stored};

use crate::tokens::{ISSUER, LEGACY_ISSUER};
use crate::{BoundClaims, Claims, ObjectClaim, ServiceAccountTokens, bootstrap, same_secret};

/// How far clocks may differ, and how long a deleted object's tokens still pass (seconds), as kube-apiserver's.
const LEEWAY: i64 = 60;

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
    /// goes before a token. No credential at all is `system:anonymous`; a bad token is 401.
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
        let accepted = match bootstrap::parts(token) {
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
        let over = bootstrap::parts(token).and_then(|(id, secret)| {
            let object = self.object("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
            bootstrap::over(&object.value(), secret, self.registry.now())
        });
        over.map_or_else(Status::unauthorized, Status::unauthorized_because)
    }

    fn of_bootstrap_token(&self, id: &str, secret: &str) -> Option<User> {
        let object = self.object("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
        bootstrap::user(&object.value(), id, secret, self.registry.now())
    }

    fn of_service_account(&self, token: &str, asked: &[String]) -> Result<Accepted, Refused> {
        let no = Refused::default;
        let claims = self.tokens.verify(token).ok_or_else(no)?;
        let now = self.registry.now().as_second();
        if claims.exp.is_some_and(|end| now > end.saturating_add(LEEWAY)) {
            return Err(Refused("service account token has expired".to_owned()));
        }
        if claims.nbf.is_some_and(|start| now.saturating_add(LEEWAY) < start) {
            return Err(Refused("service account token is not valid yet".to_owned()));
        }
        let own = [ISSUER.to_owned()];
        let named = if claims.bound.is_none() { &own[..] } else { &claims.aud };
        let audiences: Vec<String> = asked.iter().filter(|a| named.contains(a)).cloned().collect();
        if audiences.is_empty() && claims.bound.is_some() {
            return Err(Refused(format!(
                "token audiences {} is invalid for the target audiences {}",
                go_list(named),
                go_list(asked)
            )));
        }
        let user = match &claims.bound {
            Some(bound) if claims.iss == ISSUER && claims.exp.is_some() => self.of_bound(&claims, bound),
            None if claims.iss == LEGACY_ISSUER => self.of_legacy(&claims, token),
            _ => None,
        };
        let user = user.filter(|_| !audiences.is_empty()).ok_or_else(no)?;
        Ok(Accepted { user, audiences })
    }

    fn of_bound(&self, claims: &Claims, bound: &BoundClaims) -> Option<User> {
        let account = &bound.serviceaccount;
        if claims.sub != format!("{SERVICE_ACCOUNT}{}:{}", bound.namespace, account.name) {
            return None;
        }
        self.lives("serviceaccounts", &bound.namespace, account)?;
        let mut extra = BTreeMap::new();
        if !claims.jti.is_empty() {
            extra.insert(extra_key("credential-id"), vec![format!("JTI={}", claims.jti)]);
        }
        if let Some(secret) = &bound.secret {
            self.lives("secrets", &bound.namespace, secret)?;
        }
        if let Some(pod) = &bound.pod {
            self.lives("pods", &bound.namespace, pod)?;
            extra.insert(extra_key("pod-name"), vec![pod.name.clone()]);
            extra.insert(extra_key("pod-uid"), vec![pod.uid.clone()]);
        }
        if let Some(node) = &bound.node {
            if bound.pod.is_none() {
                self.lives("nodes", "", node)?;
            }
            extra.insert(extra_key("node-name"), vec![node.name.clone()]);
            if !node.uid.is_empty() {
                extra.insert(extra_key("node-uid"), vec![node.uid.clone()]);
            }
        }
        Some(service_account(&bound.namespace, &account.name, &account.uid, extra))
    }

    /// A token kept in a Secret lives as long as the Secret holds exactly it.
    fn of_legacy(&self, claims: &Claims, token: &str) -> Option<User> {
        let (namespace, name) = (&claims.legacy_namespace, &claims.legacy_name);
        if claims.sub != format!("{SERVICE_ACCOUNT}{namespace}:{name}") {
            return None;
        }
        let secret = ObjectClaim { name: claims.legacy_secret.clone(), uid: String::new() };
        let held = self.lives("secrets", namespace, &secret)?.value();
        let invalid = &held["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"];
        if invalid.as_str().is_some_and(|since| !since.is_empty()) {
            return None;
        }
        let held = STANDARD.decode(held["data"]["token"].as_str()?).ok()?;
        if !same_secret(&held, token.as_bytes()) {
            return None;
        }
        let account = ObjectClaim { name: name.clone(), uid: claims.legacy_uid.clone() };
        self.lives("serviceaccounts", namespace, &account)?;
        Some(service_account(namespace, name, &account.uid, BTreeMap::new()))
    }

    /// The object that a claim names, if it is still that one.
    fn lives(&self, plural: &str, namespace: &str, claim: &ObjectClaim) -> Option<Arc<Stored>> {
        let object = self.object(plural, namespace, &claim.name)?;
        let same = claim.uid.is_empty() || object.uid() == claim.uid;
        let leaving = object.deleting && self.left_long_ago(&object);
        (same && !leaving).then_some(object)
    }

    fn left_long_ago(&self, object: &Stored) -> bool {
        let value = object.value();
        let since =
            value["metadata"]["deletionTimestamp"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
        since.is_none_or(|since| self.registry.now().as_second() > since.as_second().saturating_add(LEEWAY))
    }

    fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let storage = StorageId(format!("core/{plural}").into());
        self.registry.cache().get(&storage, &ObjectKey::new(namespace, name))
    }
}

/// A list of texts as Go quotes it.
fn go_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn extra_key(name: &str) -> String {
    format!("authentication.kubernetes.io/{name}")
}

/// The token of an `Authorization: Bearer` header; another scheme is no credential here.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn service_account(namespace: &str, name: &str, uid: &str, extra: BTreeMap<String, Vec<String>>) -> User {
    User {
        name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: karmada_registry::user::account_groups(namespace),
        extra,
        ..User::default()
    }
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
