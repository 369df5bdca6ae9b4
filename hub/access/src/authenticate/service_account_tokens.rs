//! Tokens of ServiceAccounts: whose they are, and whether they are good still.
//!
//! In: a token, and the audiences that are asked for. Out: its user, or why not. A bound token is good as long as its account, and the Pod, Secret
//! or Node that it is bound to, are those that it names; a token in a Secret as long as the Secret holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_registry::User;
use karmada_registry::user::SERVICE_ACCOUNT;
use karmada_schema::object::Stored;
use karmada_schema::quote_list;

use super::{Accepted, Authenticator, Refused};
use crate::token_claims::{ISSUER, LEGACY_ISSUER};
use crate::{BoundClaims, Claims, ObjectClaim, same_secret};

/// How far clocks may differ, and how long a deleted object's tokens still pass (seconds), as kube-apiserver's.
const LEEWAY: i64 = 60;

impl Authenticator {
    /// The user of a ServiceAccount's token that is meant for one of the audiences `asked`.
    pub(super) fn of_service_account(&self, token: &str, asked: &[String]) -> Result<Accepted, Refused> {
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
                quote_list(named),
                quote_list(asked)
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
}

fn extra_key(name: &str) -> String {
    format!("authentication.kubernetes.io/{name}")
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
