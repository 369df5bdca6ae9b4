//! What a join token allows whoever proved to hold it.
//!
//! In: the fields of its Secret, the name that is asked for, the time. Out: what is left of it, or why it is no good. How often one token
//! makes something is bounded by who carries it out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use thiserror::Error;

/// Secret key: how many more joins the token is good for.
pub const USES: &str = "uses-left";
/// Of a token that does not say.
const DEFAULT_USES: u64 = 100;
/// Secret key: the only name that may be joined under; absent for any.
pub const NAME: &str = "cluster-name";
/// Secret key: joins that make something, a minute.
pub const PER_MINUTE: &str = "joins-per-minute";
/// Of a token that does not say.
const DEFAULT_PER_MINUTE: u32 = 10;

/// The group that a token must carry to let agents join.
pub const JOINERS: &str = "system:bootstrappers:karmada:default-cluster-token";

/// The `data` of a Secret.
pub type SecretData = BTreeMap<String, ByteString>;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Joins that it is good for yet.
    pub left: u64,
    /// Joins that make something, a minute in the long run; twice as many at once.
    pub per_minute: u32,
}

/// Why a token is no good for a join; each with what to do, for who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    /// Its end has come.
    #[error("the token has expired: make a new one with karmadactl token create")]
    Expired,
    /// It does not carry the group [`JOINERS`].
    #[error("the token is not for joining clusters")]
    NotForJoining,
    /// It is bound to another name.
    #[error("the token was made for one cluster name, and not for this one")]
    OtherName,
}

/// What a token whose holder proved to hold it allows under `name`.
///
/// # Errors
/// [`TokenRefusal`]: it is over, not for joining, or for another name.
pub fn allowance(secret: &SecretData, name: &str, now: Timestamp) -> Result<Allowance, TokenRefusal> {
    let expiration = field(secret, "expiration");
    let is_over = |end: Timestamp| end <= now;
    // An end that cannot be read is no end that was meant.
    if !expiration.is_empty() && expiration.parse().map_or(true, is_over) {
        return Err(TokenRefusal::Expired);
    }
    if !field(secret, "auth-extra-groups").split(',').any(|group| group.trim() == JOINERS) {
        return Err(TokenRefusal::NotForJoining);
    }
    let bound = field(secret, NAME);
    if !bound.is_empty() && bound != name {
        return Err(TokenRefusal::OtherName);
    }
    let per_minute = field(secret, PER_MINUTE).parse().unwrap_or(DEFAULT_PER_MINUTE);
    Ok(Allowance { left: uses_left(secret), per_minute })
}

/// Joins that a token is good for yet.
pub fn uses_left(secret: &SecretData) -> u64 {
    let said = field(secret, USES);
    // What is no number is nothing that anybody may use.
    if said.is_empty() { DEFAULT_USES } else { said.parse().unwrap_or(0) }
}

/// The text of one field; empty where it is absent or no text.
pub fn field<'a>(secret: &'a SecretData, key: &str) -> &'a str {
    secret.get(key).and_then(|bytes| std::str::from_utf8(&bytes.0).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(fields: &[(&str, &str)]) -> SecretData {
        let joins = ("auth-extra-groups", JOINERS);
        let all = [joins].iter().chain(fields).copied().collect::<Vec<_>>();
        all.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into()))).collect()
    }

    #[test]
    fn what_a_token_allows() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let judged = |fields: &[(&str, &str)]| allowance(&secret(fields), "north", now);
        let allows = |fields: &[(&str, &str)]| judged(fields).map(|a| (a.left, a.per_minute));
        assert_eq!(allows(&[]), Ok((100, 10)), "a token that says nothing");
        assert_eq!(allows(&[(USES, "3"), (PER_MINUTE, "500")]), Ok((3, 500)));
        assert_eq!(allows(&[(USES, "many")]), Ok((0, 10)));
        assert_eq!(allows(&[(NAME, "north"), ("expiration", "2026-01-01T00:00:01Z")]), Ok((100, 10)));
        for (fields, refusal) in [
            (&[(NAME, "south")][..], TokenRefusal::OtherName),
            (&[("expiration", "2026-01-01T00:00:00Z")], TokenRefusal::Expired),
            (&[("expiration", "soon")], TokenRefusal::Expired),
            (&[("auth-extra-groups", "system:bootstrappers:other")], TokenRefusal::NotForJoining),
        ] {
            assert_eq!(judged(fields).unwrap_err(), refusal, "{fields:?}");
        }
        let unreadable = SecretData::from([(USES.to_owned(), ByteString(vec![0xff]))]);
        assert_eq!(field(&unreadable, USES), "");
    }
}
