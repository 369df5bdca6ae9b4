//! What a ServiceAccount's token says.
//!
//! Who signs is outside: [`ServiceAccountTokens`] signs and verifies, everything else (times, audiences, whether the account
//! still exists) is judged by the authenticator.
//!
//! In: claims, or a token's text. Out: a signed token, or the claims that it makes. Types and a port: the program that holds the key
//! implements it.

use serde::{Deserialize, Serialize};

/// The issuer of tokens and the audience of this API, as kube-apiserver's default.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The issuer of tokens kept in Secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Signs and verifies tokens with the hub's key.
pub trait ServiceAccountTokens: Send + Sync {
    /// A signed token over the claims.
    ///
    /// # Errors
    /// In words: it cannot be signed.
    fn issue(&self, claims: &Claims) -> Result<String, String>;

    /// The claims, if this hub's key signed them. Times are not looked at.
    fn verify(&self, token: &str) -> Option<Claims>;

    /// The public keys, as a key set document (RFC 7517) shows them.
    fn keys(&self) -> serde_json::Value {
        serde_json::json!({"keys": []})
    }
}

/// The claims of a token: of a bound one (`kubernetes.io`), or of one kept in a Secret (the long names).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// Audiences; none means this API.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// Seconds since 1970 at which it ends; none means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// Seconds since 1970 at which it was issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    /// Who issued it.
    pub iss: String,
    /// Its id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io", skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundClaims>,
    /// Seconds since 1970 before which it is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
    /// Namespace, in a token kept in a Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", skip_serializing_if = "String::is_empty")]
    pub legacy_namespace: String,
    /// The Secret it is kept in.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", skip_serializing_if = "String::is_empty")]
    pub legacy_secret: String,
    /// The ServiceAccount's name, in a token kept in a Secret.
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.name",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_name: String,
    /// The ServiceAccount's uid, in a token kept in a Secret.
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.uid",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_uid: String,
}

/// What a bound token names. It dies with any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoundClaims {
    /// Namespace of the ServiceAccount and of what the token is bound to.
    pub namespace: String,
    /// A Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<ObjectClaim>,
    /// A Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<ObjectClaim>,
    /// A Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectClaim>,
    /// The ServiceAccount.
    pub serviceaccount: ObjectClaim,
}

/// One object that a token names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectClaim {
    /// Name.
    pub name: String,
    /// Uid; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Claims {
    /// The claims of the token that is kept in a Secret.
    pub fn legacy(namespace: &str, account: &str, uid: &str, secret: &str) -> Claims {
        Claims {
            iss: LEGACY_ISSUER.to_owned(),
            sub: format!("{}{namespace}:{account}", karmada_registry::user::SERVICE_ACCOUNT),
            legacy_namespace: namespace.to_owned(),
            legacy_secret: secret.to_owned(),
            legacy_name: account.to_owned(),
            legacy_uid: uid.to_owned(),
            ..Claims::default()
        }
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}
