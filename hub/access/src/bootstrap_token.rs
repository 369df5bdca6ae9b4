//! Bootstrap tokens (`id.secret`): who the holder of one is, from the Secret that holds the token.
//!
//! Pure: In: the Secret, the secret part as sent, the time. Out: the user, or nothing. Rules as kube-apiserver's bootstrap
//! token authenticator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_registry::User;
use serde_json::Value;

use crate::same_secret;

const USER: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Splits `id.secret`; `None` for anything that is not shaped like a bootstrap token.
pub(super) fn parts(token: &str) -> Option<(&str, &str)> {
    let fits = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    token.split_once('.').filter(|(id, secret)| fits(id, 6) && fits(secret, 16))
}

/// The user whom the Secret of token `id` makes of somebody who sent `secret`.
pub(super) fn user(object: &Value, id: &str, secret: &str, now: jiff::Timestamp) -> Option<User> {
    let field = |name: &str| {
        let bytes = object["data"][name].as_str().and_then(|text| STANDARD.decode(text).ok());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let held = field("token-secret");
    let is_token = object["type"] == TYPE
        && field("token-id") == id
        && !object["metadata"]["deletionTimestamp"].is_string();
    if !is_token || held.is_empty() || !same_secret(held.as_bytes(), secret.as_bytes()) {
        return None;
    }
    if expired(&field("expiration"), now) || field("usage-bootstrap-authentication") != "true" {
        return None;
    }
    // It was made for a number of joins, and has let in as many.
    if field("uses-left") == "0" {
        return None;
    }
    let extra = field("auth-extra-groups");
    let extra: Vec<&str> = extra.split(',').filter(|group| !group.is_empty()).collect();
    if !extra.iter().all(|group| is_bootstrap_group(group)) {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    groups.extend(extra.into_iter().map(str::to_owned));
    groups.sort();
    groups.dedup();
    Some(User { name: format!("{USER}{id}"), groups, ..User::default() })
}

/// Why a token that is the right one opens nothing any more, in a word. Nothing is told to who sent another secret.
pub(super) fn over(object: &Value, secret: &str, now: jiff::Timestamp) -> Option<&'static str> {
    let field = |name: &str| {
        let bytes = object["data"][name].as_str().and_then(|text| STANDARD.decode(text).ok());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let held = field("token-secret");
    if object["type"] != TYPE || held.is_empty() || !same_secret(held.as_bytes(), secret.as_bytes()) {
        return None;
    }
    match () {
        () if expired(&field("expiration"), now) => Some("TokenExpired"),
        () if field("uses-left") == "0" => Some("TokenUsedUp"),
        () => None,
    }
}

/// Whether the time is over; what cannot be read as a time is over.
fn expired(expiration: &str, now: jiff::Timestamp) -> bool {
    !expiration.is_empty() && expiration.parse::<jiff::Timestamp>().map_or(true, |end| end <= now)
}

/// Extra groups stay below `system:bootstrappers:`, so that a token's Secret cannot make an administrator.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b':' || b == b'-';
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    rest.len() <= 256 && rest.bytes().all(allowed) && ends(rest.bytes().last())
}
