//! ServiceAccounts: every namespace has a `default` one, and every Secret of type `kubernetes.io/service-account-token` holds
//! the token of its account, as long as there is one.
//!
//! In: Namespaces, ServiceAccounts, Secrets. Out: the accounts, the Secrets' `token`, `ca.crt` and `namespace`; a Secret whose
//! account is gone, or was made anew, is deleted. A token that is there is not made again.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::root_ca::on_change;
use super::{KubeControllerManager, find, gone_is_fine, mentions, resource, runs_nothing};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, DeletionPropagation, Key, Object};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Controller, Error, Source, key_of};

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";
const DEFAULT: &str = "default";

/// Signs the tokens that are kept in Secrets: they name account and Secret, and have no end of their own.
pub trait AccountTokens: Send + Sync {
    /// A token of the account (namespace, name, uid) that is valid while the Secret holds it.
    ///
    /// # Errors
    /// In words: the token cannot be signed.
    fn token(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Result<String, String>;
}

/// Runs both halves until told to stop.
pub async fn run(informers: impl Into<Informers>, parts: KubeControllerManager, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let accounts = Arc::new(DefaultAccounts { api: api.clone() });
    let ca_pem = parts.ca_pem.clone();
    let secrets = Arc::new(TokenSecrets { api: api.clone(), parts });
    let namespace_of = |change: &Change| {
        let key = key_of(change);
        if &*key.name == DEFAULT {
            vec![Key { namespace: "".into(), name: key.namespace }]
        } else {
            Vec::new()
        }
    };
    let of_namespaces =
        vec![Source::own("v1", "Namespace"), Source::new("v1", "ServiceAccount", namespace_of)];
    let queue = Arc::new(Queue::default());
    let of_secrets = vec![
        Source::new("v1", "Secret", token_secret).mapped(Wake::Secret),
        Source::own("v1", "ServiceAccount").mapped(Wake::Account),
    ];
    let wake = queue.clone();
    let of_a_changed_ca =
        on_change(&api, ("v1", "Secret"), ca_pem, stop.clone(), move |key| wake.add(Wake::Secret(key)));
    tokio::join!(
        runner::run(informers.clone(), accounts, Arc::new(Queue::default()), of_namespaces, 1, stop.clone()),
        runner::run(informers.clone(), secrets, queue, of_secrets, 1, stop.clone()),
        of_a_changed_ca,
    );
}

/// The key of a changed Secret if it is one for a token.
fn token_secret(change: &Change) -> Vec<Key> {
    let (Change::Applied(object) | Change::Deleted(object)) = change;
    if mentions(object, TYPE) { vec![object.key.clone()] } else { Vec::new() }
}

struct DefaultAccounts {
    api: Arc<dyn Api>,
}

#[async_trait::async_trait]
impl Controller for DefaultAccounts {
    type Key = Key;

    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let namespaces = resource(&*self.api, "v1", "Namespace")?;
        let namespace = find(&*self.api, &namespaces, "", &key.name).await?;
        if namespace.is_none_or(|namespace| namespace.deleting) || runs_nothing(&key.name) {
            return Ok(Action::Done);
        }
        let accounts = resource(&*self.api, "v1", "ServiceAccount")?;
        if find(&*self.api, &accounts, &key.name, DEFAULT).await?.is_none() {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT, "namespace": &*key.name}});
            self.api.create(&accounts, account).await?;
        }
        Ok(Action::Done)
    }
}

/// What wakes the tokens: a Secret, or an account whose Secrets are then looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Secret(Key),
    Account(Key),
}

struct TokenSecrets {
    api: Arc<dyn Api>,
    parts: KubeControllerManager,
}

/// What becomes of a token Secret.
#[derive(Debug, PartialEq)]
enum Verdict {
    Keep,
    Delete,
    Write(Box<Value>),
}

#[async_trait::async_trait]
impl Controller for TokenSecrets {
    type Key = Wake;

    fn name(&self) -> &'static str {
        "serviceaccount-token"
    }

    async fn reconcile(&self, wake: &Wake) -> Result<Action, Error> {
        let secrets = resource(&*self.api, "v1", "Secret")?;
        match wake {
            Wake::Secret(key) => {
                if let Some(secret) = find(&*self.api, &secrets, &key.namespace, &key.name).await? {
                    self.reconcile_token_secret(&secret).await?;
                }
            }
            Wake::Account(account) => {
                for secret in self.api.list(&secrets, &account.namespace).await? {
                    if mentions(&secret, TYPE) && mentions(&secret, &account.name) {
                        self.reconcile_token_secret(&secret).await?;
                    }
                }
            }
        }
        Ok(Action::Done)
    }
}

impl TokenSecrets {
    async fn reconcile_token_secret(&self, secret: &Object) -> Result<(), Error> {
        let (secrets, accounts) =
            (resource(&*self.api, "v1", "Secret")?, resource(&*self.api, "v1", "ServiceAccount")?);
        let value = secret.value()?;
        if value["type"] != TYPE || secret.deleting {
            return Ok(());
        }
        let name = value["metadata"]["annotations"][NAME].as_str().unwrap_or("");
        let account = find(&*self.api, &accounts, &secret.key.namespace, name).await?;
        let issue = |uid: &str| self.parts.tokens.token(&secret.key.namespace, name, uid, &secret.key.name);
        let ca_pem = self.parts.ca_pem.borrow().clone();
        let verdict = decide_secret(&value, account.as_ref().map(|a| &*a.uid), &ca_pem, &issue);
        match verdict.map_err(Error::Other)? {
            Verdict::Keep => {}
            Verdict::Delete => {
                let key = &secret.key;
                gone_is_fine(
                    self.api.delete(&secrets, key, &secret.uid, DeletionPropagation::Background).await,
                )?;
            }
            Verdict::Write(new) => gone_is_fine::<Arc<Object>>(self.api.update(&secrets, *new).await)?,
        }
        Ok(())
    }
}

/// Judges a token Secret by the uid of its account as it is now. Pure but for the signer.
fn decide_secret(
    secret: &Value,
    account_uid: Option<&str>,
    ca_pem: &str,
    issue: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Verdict, String> {
    let annotated = secret["metadata"]["annotations"][UID].as_str().unwrap_or("");
    let uid = match account_uid {
        Some(uid) if annotated.is_empty() || annotated == uid => uid,
        _ => return Ok(Verdict::Delete),
    };
    let mut new = secret.clone();
    new["metadata"]["annotations"][UID] = json!(uid);
    let namespace = secret["metadata"]["namespace"].as_str().unwrap_or("");
    new["data"]["ca.crt"] = json!(STANDARD.encode(ca_pem));
    new["data"]["namespace"] = json!(STANDARD.encode(namespace));
    if secret["data"]["token"].as_str().unwrap_or("").is_empty() {
        new["data"]["token"] = json!(STANDARD.encode(issue(uid)?));
    }
    Ok(if new == *secret { Verdict::Keep } else { Verdict::Write(Box::new(new)) })
}

#[cfg(test)]
mod tests {
    use super::super::secret_text;
    use super::super::tests::{NoSigner, api, fixed, settle};
    use super::*;
    use karmada_controller_runtime::port::fake::FakeApi;

    struct Plain;

    impl AccountTokens for Plain {
        fn token(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Result<String, String> {
            Ok(format!("{namespace}/{account}/{uid}/{secret}"))
        }
    }

    async fn settled(api: &Arc<FakeApi>) {
        let parts = KubeControllerManager {
            others: Arc::new(crate::other_servers::Nobody),
            clock: fixed(),
            tokens: Arc::new(Plain),
            signer: Arc::new(NoSigner),
            ca_pem: tokio::sync::watch::channel("PEM".into()).1,
        };
        let stop = CancellationToken::new();
        settle(run(api.clone(), parts, stop.clone()), stop).await;
    }

    fn secret(name: &str, account: &str, uid: &str) -> Value {
        let mut annotations = json!({NAME: account});
        if !uid.is_empty() {
            annotations[UID] = json!(uid);
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": TYPE,
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations}})
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_and_their_tokens_are_there() {
        let api = api();
        let account = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}})
        };
        api.seed_all([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            account("robot"),
            secret("robot-token", "robot", ""),
            secret("ghost-token", "ghost", ""),
            secret("renewed-token", "robot", "an-earlier-robot"),
        ]);
        settled(&api).await;
        assert!(api.value("v1", "ServiceAccount", "shop", DEFAULT).is_some());
        let secrets = api.values("v1", "Secret");
        assert_eq!(secrets.len(), 1, "a Secret without its account goes");
        assert_eq!(secret_text(&secrets[0], "token"), "shop/robot/uid-robot/robot-token");
        assert_eq!(
            (secret_text(&secrets[0], "ca.crt"), secret_text(&secrets[0], "namespace")),
            ("PEM".into(), "shop".into())
        );
        assert_eq!(secrets[0]["metadata"]["annotations"][UID], "uid-robot");
        let quiet = api.revision();
        settled(&api).await;
        assert_eq!(api.revision(), quiet, "nothing is written twice");
    }
}
