//! Join tokens: whether one holds, what it is good for, how much of it is left.
//!
//! In: the Secrets `kube-system/bootstrap-token-ID` that `karmadactl token create` makes, and what asks. Out: what the token
//! allows, or the refusal. A join is counted when it makes something, and given back when the making failed; how often one token
//! makes something is bounded as well, in memory.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_certs::JoinToken;
use karmada_definitions::status::Status;
use karmada_gateway::ports::{JoinRefusal, JoinRefusalCode};
use karmada_gateway::rate::{Buckets, Rate};
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::join::write_options;

/// Secret key: how many more joins the token is good for.
const USES: &str = "uses-left";
/// Of a token that does not say.
const DEFAULT_USES: u64 = 100;
/// Secret key: the only name that may be joined under; absent for any.
const NAME: &str = "cluster-name";
/// Secret key: joins that make something, a minute.
const PER_MINUTE: &str = "joins-per-minute";
/// Of a token that does not say.
const DEFAULT_PER_MINUTE: u32 = 10;
/// Tokens whose rates are remembered at once.
const REMEMBERED: usize = 1024;

/// The group that a token must carry to let agents join.
const JOINERS: &str = "system:bootstrappers:karmada:default-cluster-token";

/// The tokens of one hub.
pub struct JoinTokens {
    registry: Arc<Registry>,
    made: Mutex<Buckets<String>>,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    left: u64,
    rate: Rate,
}

impl JoinTokens {
    /// Over the registry's Secrets.
    pub fn new(registry: Arc<Registry>) -> Self {
        JoinTokens { registry, made: Mutex::new(Buckets::new(REMEMBERED)) }
    }

    /// What the token allows whoever wants to join under `name`.
    ///
    /// # Errors
    /// It is unknown, over, not for joining, or for another name.
    pub fn check(&self, token: &JoinToken, name: &str) -> Result<Allowance, JoinRefusal> {
        let unknown = || {
            JoinRefusal::new(
                JoinRefusalCode::TokenUnknown,
                "the hub does not know this token: it was mistyped, deleted, made on another hub, or ended more than a day ago",
            )
        };
        let secrets = self.registry.definition("", "v1", "secrets").map_err(|_| unknown())?;
        let secret =
            self.registry.get(&secrets, "kube-system", &secret_name(token.id())).map_err(|_| unknown())?;
        let secret = secret.value();
        // Nothing is told of a token to who does not hold it.
        if !token.secret_is(&field(&secret, "token-secret"))
            || field(&secret, "usage-bootstrap-authentication") != "true"
        {
            return Err(unknown());
        }
        judge(&secret, name, self.registry.now())
    }

    /// Takes note that the token makes something now.
    ///
    /// # Errors
    /// It is used up, or made too much in a short time.
    pub fn pace(&self, token: &JoinToken, allowance: Allowance) -> Result<(), JoinRefusal> {
        if allowance.left == 0 {
            let message = "the token has been used as often as it was made for";
            return Err(JoinRefusal::new(JoinRefusalCode::TokenUsedUp, message));
        }
        let now = Duration::from_millis(u64::try_from(self.registry.now().as_millisecond()).unwrap_or(0));
        self.made.lock().take(token.id().to_owned(), allowance.rate, now).map_err(|wait| {
            let seconds = wait.as_secs() + 1;
            let message = format!(
                "many clusters joined with this token in a short time: it makes the next in {seconds} s"
            );
            JoinRefusal::new(JoinRefusalCode::JoinUnavailable, message)
        })
    }

    /// Counts one use. Two joins that race for the last one are told apart by the Secret's version.
    pub async fn spend(&self, token: &JoinToken) -> Result<(), Status> {
        self.count(token, |left| left.checked_sub(1)).await
    }

    /// Takes the counting back: nothing was made.
    pub async fn give_back(&self, token: &JoinToken) {
        if let Err(status) = self.count(token, |left| left.checked_add(1)).await {
            tracing::warn!(
                token = token.id(),
                why = status.message,
                "a use of a token was counted for nothing"
            );
        }
    }

    async fn count(&self, token: &JoinToken, step: fn(u64) -> Option<u64>) -> Result<(), Status> {
        let definition = self.registry.definition("", "v1", "secrets")?;
        let at = ObjectKey::new("kube-system", &secret_name(token.id()));
        let mut change = |live: Option<&Value>| {
            let mut secret = live.cloned().ok_or_else(|| Status::not_found(&definition, &at.name))?;
            let left = step(uses(&secret)).ok_or_else(|| Status::conflict(&definition, &at.name))?;
            secret["data"][USES] = json!(STANDARD.encode(left.to_string()));
            Ok(secret)
        };
        self.registry.update(&definition, &at, &write_options(), &mut change).await.map(|_| ())
    }
}

/// What a token whose holder proved to hold it allows. Pure.
fn judge(secret: &Value, name: &str, now: jiff::Timestamp) -> Result<Allowance, JoinRefusal> {
    let expiration = field(secret, "expiration");
    let is_over = |end: jiff::Timestamp| end <= now;
    // An end that cannot be read is no end that was meant.
    if !expiration.is_empty() && expiration.parse().map_or(true, is_over) {
        let message = "the token has expired: make a new one with karmadactl token create";
        return Err(JoinRefusal::new(JoinRefusalCode::TokenExpired, message));
    }
    if !field(secret, "auth-extra-groups").split(',').any(|group| group.trim() == JOINERS) {
        return Err(JoinRefusal::new(JoinRefusalCode::TokenUnknown, "the token is not for joining clusters"));
    }
    let bound = field(secret, NAME);
    if !bound.is_empty() && bound != name {
        let message = "the token was made for one cluster name, and not for this one";
        return Err(JoinRefusal::new(JoinRefusalCode::Permission, message));
    }
    let per_minute = field(secret, PER_MINUTE).parse().unwrap_or(DEFAULT_PER_MINUTE);
    Ok(Allowance { left: uses(secret), rate: Rate::per_minute(per_minute, per_minute.saturating_mul(2)) })
}

fn uses(secret: &Value) -> u64 {
    let said = field(secret, USES);
    // What is no number is nothing that anybody may use.
    if said.is_empty() { DEFAULT_USES } else { said.parse().unwrap_or(0) }
}

fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

fn field(secret: &Value, key: &str) -> String {
    let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap_or("")).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(fields: &[(&str, &str)]) -> Value {
        let mut data = json!({"auth-extra-groups": STANDARD.encode(JOINERS)});
        for (key, value) in fields {
            data[*key] = json!(STANDARD.encode(value));
        }
        json!({"data": data})
    }

    #[test]
    fn what_a_token_allows() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let judged = |fields: &[(&str, &str)]| judge(&secret(fields), "north", now);
        let allows =
            |fields: &[(&str, &str)]| judged(fields).map(|a| (a.left, a.rate.per_minute, a.rate.burst));
        assert_eq!(allows(&[]), Ok((100, 10.0, 20.0)), "a token that says nothing");
        assert_eq!(allows(&[(USES, "3"), (PER_MINUTE, "500")]), Ok((3, 500.0, 1000.0)));
        assert_eq!(allows(&[(USES, "many")]), Ok((0, 10.0, 20.0)));
        assert_eq!(allows(&[(NAME, "north"), ("expiration", "2026-01-01T00:00:01Z")]), Ok((100, 10.0, 20.0)));
        for (fields, code) in [
            (&[(NAME, "south")][..], JoinRefusalCode::Permission),
            (&[("expiration", "2026-01-01T00:00:00Z")], JoinRefusalCode::TokenExpired),
            (&[("expiration", "soon")], JoinRefusalCode::TokenExpired),
            (&[("auth-extra-groups", "system:bootstrappers:other")], JoinRefusalCode::TokenUnknown),
        ] {
            assert_eq!(judged(fields).unwrap_err().code, code, "{fields:?}");
        }
    }
}
