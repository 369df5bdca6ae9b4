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
use karmada_fleet::token_allowance::{
    Allowance, SecretData, TokenRefusal, USES, allowance, field, uses_left,
};
use karmada_gateway::ports::{JoinRefusal, JoinRefusalCode};
use karmada_gateway::rate::{Buckets, Rate};
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::write_options::write_options;

/// Tokens whose rates are remembered at once.
const REMEMBERED: usize = 1024;

/// The tokens of one hub.
pub struct JoinTokens {
    registry: Arc<Registry>,
    made: Mutex<Buckets<String>>,
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
        let secret = data_of(&secret.value());
        // Nothing is told of a token to who does not hold it.
        if !token.secret_is(field(&secret, "token-secret"))
            || field(&secret, "usage-bootstrap-authentication") != "true"
        {
            return Err(unknown());
        }
        allowance(&secret, name, self.registry.now()).map_err(refused)
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
        let rate = Rate::per_minute(allowance.per_minute, allowance.per_minute.saturating_mul(2));
        let now = Duration::from_millis(u64::try_from(self.registry.now().as_millisecond()).unwrap_or(0));
        self.made.lock().take(token.id().to_owned(), rate, now).map_err(|wait| {
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
            let left =
                step(uses_left(&data_of(&secret))).ok_or_else(|| Status::conflict(&definition, &at.name))?;
            secret["data"][USES] = json!(STANDARD.encode(left.to_string()));
            Ok(secret)
        };
        self.registry.update(&definition, &at, &write_options(), &mut change).await.map(|_| ())
    }
}

fn refused(refusal: TokenRefusal) -> JoinRefusal {
    let code = match refusal {
        TokenRefusal::Expired => JoinRefusalCode::TokenExpired,
        TokenRefusal::NotForJoining => JoinRefusalCode::TokenUnknown,
        TokenRefusal::OtherName => JoinRefusalCode::Permission,
    };
    JoinRefusal::new(code, refusal.to_string())
}

/// The decoded fields of a Secret; of one that cannot be read, none.
fn data_of(secret: &Value) -> SecretData {
    SecretData::deserialize(&secret["data"]).unwrap_or_default()
}

fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}
