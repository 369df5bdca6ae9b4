//! Signs `kube-public/cluster-info` with every bootstrap token, so that whoever holds one can tell the hub's CA from another's
//! before trusting it.
//!
//! In: the ConfigMap and the bootstrap-token Secrets. Out: `data["jws-kubeconfig-ID"]` per token that may sign and has not
//! expired: a detached JWS (RFC 7515, HS256, key: the token's secret, kid: its id) over `data.kubeconfig`; signatures of other
//! tokens are taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BOOTSTRAP_TOKEN, KUBE_SYSTEM, find, mentions, resource, secret_text, time, until};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Clock, Controller, Error, Source, key_of};

const PREFIX: &str = "jws-kubeconfig-";
const PUBLIC: &str = "kube-public";
const NAME: &str = "cluster-info";

/// Runs the signer until told to stop.
pub async fn run(informers: impl Into<Informers>, clock: Clock, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let token = |change: &Change| {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        if object.key.name.starts_with("bootstrap-token-") { vec![()] } else { Vec::new() }
    };
    let info = |change: &Change| if &*key_of(change).name == NAME { vec![()] } else { Vec::new() };
    let sources = vec![
        Source::new("v1", "Secret", token).within(KUBE_SYSTEM),
        Source::new("v1", "ConfigMap", info).within(PUBLIC),
    ];
    let signer = Arc::new(Signer { api: api.clone(), clock });
    runner::run(informers, signer, Arc::new(Queue::default()), sources, 1, stop).await;
}

struct Signer {
    api: Arc<dyn Api>,
    clock: Clock,
}

/// A token that may sign.
struct Token {
    id: String,
    secret: String,
    end: Option<jiff::Timestamp>,
}

#[async_trait::async_trait]
impl Controller for Signer {
    type Key = ();

    fn name(&self) -> &'static str {
        "bootstrapsigner"
    }

    async fn reconcile(&self, (): &()) -> Result<Action, Error> {
        let (maps, secrets) =
            (resource(&*self.api, "v1", "ConfigMap")?, resource(&*self.api, "v1", "Secret")?);
        let Some(map) = find(&*self.api, &maps, PUBLIC, NAME).await? else { return Ok(Action::Done) };
        let now = (self.clock)();
        let mut tokens = Vec::new();
        for secret in self.api.list(&secrets, KUBE_SYSTEM).await? {
            if mentions(&secret, BOOTSTRAP_TOKEN) && !secret.deleting {
                tokens.extend(token(&secret.value()?, now));
            }
        }
        let old = map.value()?;
        let new = signed(&old, &tokens);
        if new != old {
            self.api.update(&maps, new).await?;
        }
        let next = tokens.iter().filter_map(|token| token.end).min();
        Ok(next.map_or(Action::Done, |end| Action::RequeueAfter(until(end, now))))
    }
}

/// The token of a Secret, if it may sign now.
fn token(secret: &Value, now: jiff::Timestamp) -> Option<Token> {
    let (id, key) = (secret_text(secret, "token-id"), secret_text(secret, "token-secret"));
    let named = secret["metadata"]["name"].as_str() == Some(&format!("bootstrap-token-{id}"));
    let may = secret["type"] == BOOTSTRAP_TOKEN && secret_text(secret, "usage-bootstrap-signing") == "true";
    if !named || !may || id.is_empty() || key.is_empty() {
        return None;
    }
    let expiration = secret_text(secret, "expiration");
    let end = time(&json!(expiration));
    let over = !expiration.is_empty() && end.is_none_or(|end| end <= now);
    (!over).then_some(Token { id, secret: key, end })
}

/// The ConfigMap with the signatures of these tokens and no others. Pure.
fn signed(map: &Value, tokens: &[Token]) -> Value {
    let mut new = map.clone();
    let Some(data) = new["data"].as_object_mut() else { return map.clone() };
    data.retain(|key, _| !key.starts_with(PREFIX));
    let Some(content) = data.get("kubeconfig").and_then(Value::as_str).map(str::to_owned) else { return new };
    let signatures: BTreeMap<String, String> = tokens
        .iter()
        .map(|token| {
            (format!("{PREFIX}{}", token.id), detached_signature(&content, &token.id, &token.secret))
        })
        .collect();
    data.extend(signatures.into_iter().map(|(key, signature)| (key, json!(signature))));
    new
}

/// `HEADER..SIGNATURE`: a compact JWS whose content is elsewhere.
fn detached_signature(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, api, fixed, now, settle};
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    fn secret(id: &str, changed: &[(&str, &str)]) -> Value {
        let mut fields = BTreeMap::from([
            ("token-id", id),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-signing", "true"),
        ]);
        fields.extend(changed.iter().copied());
        let data: serde_json::Map<String, Value> =
            fields.into_iter().map(|(key, text)| (key.to_owned(), json!(STANDARD.encode(text)))).collect();
        json!({"apiVersion": "v1", "kind": "Secret", "type": BOOTSTRAP_TOKEN, "data": data,
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": KUBE_SYSTEM}})
    }

    #[test]
    fn a_signature_is_what_another_jws_library_makes() {
        // Made with Python's hmac and base64 over the same input.
        let signature = detached_signature("content", "abcdef", "0123456789abcdef");
        let (header, rest) = signature.split_once("..").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(header).unwrap(), br#"{"alg":"HS256","kid":"abcdef"}"#);
        assert_eq!(rest, "psz1NayrXM3IaFzKZGsb5n_mBl7MjtlsZ1xE8MRmF_4");
    }

    #[test]
    fn who_may_sign() {
        let table = [
            (secret("abcdef", &[]), true),
            (secret("abcdef", &[("usage-bootstrap-signing", "false")]), false),
            (secret("abcdef", &[("expiration", NOW)]), false),
            (secret("abcdef", &[("expiration", "2026-05-01T12:00:01Z")]), true),
            (secret("abcdef", &[("expiration", "soon")]), false),
            (secret("abcdef", &[("token-id", "fedcba")]), false),
            (secret("abcdef", &[("token-secret", "")]), false),
        ];
        for (secret, may) in table {
            assert_eq!(token(&secret, now()).is_some(), may, "{secret}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signatures_follow_the_tokens() {
        let api = api();
        api.seed_all([
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": PUBLIC},
                "data": {"kubeconfig": "content", "jws-kubeconfig-gonexx": "old", "other": "kept"}}),
            secret("abcdef", &[]),
        ]);
        let stop = CancellationToken::new();
        settle(run(api.clone(), fixed(), stop.clone()), stop).await;
        let map = api.value("v1", "ConfigMap", PUBLIC, NAME).unwrap();
        let keys: Vec<&String> = map["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "kubeconfig", "other"]);
        let quiet = api.revision();
        let stop = CancellationToken::new();
        settle(run(api.clone(), fixed(), stop.clone()), stop).await;
        assert_eq!(api.revision(), quiet, "a signature that is there is not made again");
    }
}
