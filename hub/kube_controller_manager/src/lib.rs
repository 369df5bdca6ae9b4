//! What kube-controller-manager does for Karmada's hub: namespaces end, garbage is collected, accounts get tokens, roles are put
//! together, what is over goes away.
//!
//! In: the port, a clock, the CA and the signer of tokens. Out: writes through the port. Each controller decides in a pure
//! function and runs in the frame of [`karmada_controller_runtime::runner`].

pub mod bootstrap_signer;
pub mod clusterrole_aggregation;
pub mod csr_cleaner;
pub mod csr_signer;
pub mod event_expiry;
pub mod garbage_collector;
pub mod namespace;
pub mod other_servers;
pub mod quota;
pub mod root_ca;
pub mod service_account;
pub mod token_cleaner;
pub mod ttl_after_finished;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use karmada_api::names;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, ApiError, Object, Resource};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Clock, Controller, Source};

/// What kube-controller-manager's controllers need beside the port.
#[derive(Clone)]
pub struct KubeControllerManager {
    /// The wall clock.
    pub clock: Clock,
    /// Signs the tokens that are kept in Secrets.
    pub tokens: Arc<dyn service_account::AccountTokens>,
    /// Signs approved certificate requests.
    pub signer: Arc<dyn csr_signer::Signer>,
    /// Who answers groups that are handed over.
    pub others: Arc<dyn other_servers::OtherServers>,
    /// The CA that clients verify the hub by, as PEM.
    pub ca_pem: watch::Receiver<Arc<str>>,
}

/// Runs each of its controllers until told to stop.
pub fn run(
    informers: impl Into<Informers>,
    parts: KubeControllerManager,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    loops(informers.into(), parts, stop)
}

fn loops(
    informers: Informers,
    parts: KubeControllerManager,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    let all: Vec<BoxFuture<'static, ()>> = vec![
        Box::pin(garbage_collector::run(informers.clone(), stop.clone())),
        Box::pin(namespace::run(informers.clone(), parts.others.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(service_account::run(informers.clone(), parts.clone(), stop.clone())),
        Box::pin(root_ca::run(informers.clone(), parts.ca_pem.clone(), stop.clone())),
        Box::pin(bootstrap_signer::run(informers.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(token_cleaner::run(informers.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(clusterrole_aggregation::run(informers.clone(), stop.clone())),
        Box::pin(ttl_after_finished::run(informers.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(event_expiry::run(informers.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(quota::run(informers.clone(), stop.clone())),
        Box::pin(csr_signer::run(informers.clone(), parts.signer.clone(), parts.clock.clone(), stop.clone())),
        Box::pin(csr_cleaner::run(informers, parts.clock, stop)),
    ];
    Box::pin(until_all_end(all))
}

async fn until_all_end(loops: Vec<BoxFuture<'static, ()>>) {
    let mut tasks: JoinSet<()> = loops.into_iter().collect();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller ended");
        }
    }
}

/// Runs a controller that looks at everything at once, first now and then as it asks.
async fn sweep<C: Controller<Key = ()>>(informers: Informers, controller: C, stop: CancellationToken) {
    let queue = Arc::new(Queue::default());
    queue.add(());
    runner::run(informers, Arc::new(controller), queue, Vec::<Source<()>>::new(), 1, stop).await;
}

/// The served resource of a kind that every hub serves.
fn resource(api: &dyn Api, api_version: &str, kind: &str) -> Result<Resource, ApiError> {
    api.resource_of(api_version, kind).ok_or_else(|| ApiError::NotFound(format!("{kind} is not served")))
}

/// Execution namespaces hold Works: no Pod will ever ask for an account or the CA there, and a fleet has thousands of them.
fn runs_nothing(namespace: &str) -> bool {
    names::cluster_of_execution_namespace(namespace).is_some()
}

/// The object, or `None` where there is none.
async fn find(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, ApiError> {
    match api.get(resource, namespace, name).await {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A failure to find what was to be changed or removed is success: it is gone.
fn gone_is_fine<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    match outcome {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A field of a Secret's `data` as text; empty where it is missing or no text.
fn secret_text(secret: &Value, field: &str) -> String {
    let bytes = secret["data"][field].as_str().and_then(|text| STANDARD.decode(text).ok());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// A timestamp field; `None` where it is missing or cannot be read.
fn time(value: &Value) -> Option<jiff::Timestamp> {
    value.as_str()?.parse().ok()
}

/// How long from `now` until `at`; zero where it has passed.
fn until(at: jiff::Timestamp, now: jiff::Timestamp) -> std::time::Duration {
    at.duration_since(now).try_into().unwrap_or_default()
}

/// Whether `needle` occurs in the object's JSON: a look before the price of parsing is paid.
fn mentions(object: &Object, needle: &str) -> bool {
    std::str::from_utf8(&object.json()).is_ok_and(|text| text.contains(needle))
}

const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";
const KUBE_SYSTEM: &str = "kube-system";

#[cfg(test)]
mod tests {
    //! What the tests of these controllers share: a fake API, a fixed time, and a way to let a controller work until it is quiet.

    use super::*;
    use karmada_controller_runtime::port::fake::FakeApi;
    use std::time::Duration;

    pub(super) const NOW: &str = "2026-05-01T12:00:00Z";

    pub(super) fn now() -> jiff::Timestamp {
        NOW.parse().unwrap()
    }

    pub(super) fn fixed() -> Clock {
        Arc::new(now)
    }

    pub(super) fn api() -> Arc<FakeApi> {
        let api = Arc::new(FakeApi::default());
        api.set_now(now());
        api
    }

    /// Lets a controller run for a while of paused time.
    pub(super) async fn settle(run: impl Future<Output = ()>, stop: CancellationToken) {
        let waiting = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            stop.cancel();
        };
        tokio::join!(run, waiting);
    }

    #[test]
    fn durations_do_not_go_below_zero() {
        let later = now() + jiff::SignedDuration::from_secs(5);
        assert_eq!((until(later, now()).as_secs(), until(now(), later).as_secs()), (5, 0));
    }

    /// Signs nothing.
    pub(super) struct NoSigner;

    impl csr_signer::Signer for NoSigner {
        fn read(&self, _: &str) -> Result<csr_signer::RequestedSubject, String> {
            Err("no key here".into())
        }
        fn sign(&self, _: &str, _: &[&str], _: Duration, _: jiff::Timestamp) -> Result<String, String> {
            Err("no key here".into())
        }
    }

    struct NoTokens;

    impl service_account::AccountTokens for NoTokens {
        fn token(&self, _: &str, _: &str, _: &str, _: &str) -> Result<String, String> {
            Err("no tokens here".into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn together_they_come_to_rest_and_a_namespace_still_ends() {
        let api = api();
        let namespaces = api.resource_of("v1", "Namespace").unwrap();
        let parts = || KubeControllerManager {
            clock: fixed(),
            tokens: Arc::new(NoTokens),
            signer: Arc::new(NoSigner),
            others: Arc::new(other_servers::Nobody),
            ca_pem: watch::channel("PEM".into()).1,
        };
        let made = api.create(&namespaces, serde_json::json!({"metadata": {"name": "shop"}})).await.unwrap();
        let stop = CancellationToken::new();
        let acts = async {
            let pause = || tokio::time::sleep(Duration::from_secs(5));
            pause().await;
            assert!(api.value("v1", "ServiceAccount", "shop", "default").is_some());
            assert!(api.value("v1", "ConfigMap", "shop", "kube-root-ca.crt").is_some());
            let quiet = api.revision();
            pause().await;
            assert_eq!(api.revision(), quiet, "at rest nothing is written");
            api.delete(
                &namespaces,
                &made.key,
                "",
                karmada_controller_runtime::port::DeletionPropagation::Background,
            )
            .await
            .unwrap();
            pause().await;
            pause().await;
            assert_eq!(api.value("v1", "Namespace", "", "shop"), None);
            assert!(
                api.values("v1", "ConfigMap").is_empty() && api.values("v1", "ServiceAccount").is_empty()
            );
        };
        tokio::join!(settle(run(api.clone(), parts(), stop.clone()), stop), acts);
    }
}
