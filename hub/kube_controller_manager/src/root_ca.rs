//! Every namespace has the ConfigMap `kube-root-ca.crt` with the CA that the hub is verified by.
//!
//! In: Namespaces and those ConfigMaps. Out: the ConfigMap as it should be, whoever changed or deleted it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{find, resource, runs_nothing};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, Key};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Controller, Error, Source, key_of};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const WORDS: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
                     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                     Kubernetes clusters.";

/// Runs the publisher until told to stop.
pub async fn run(
    informers: impl Into<Informers>,
    ca_pem: watch::Receiver<Arc<str>>,
    stop: CancellationToken,
) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let namespace_of = |change: &Change| {
        let key = key_of(change);
        if &*key.name == NAME { vec![Key { namespace: "".into(), name: key.namespace }] } else { Vec::new() }
    };
    let sources = vec![Source::own("v1", "Namespace"), Source::new("v1", "ConfigMap", namespace_of)];
    let publisher = Arc::new(RootCa { api: api.clone(), ca_pem: ca_pem.clone() });
    let queue = Arc::new(Queue::default());
    let publishing = runner::run(informers.clone(), publisher, queue.clone(), sources, 1, stop.clone());
    tokio::join!(publishing, on_change(&api, ("v1", "Namespace"), ca_pem, stop, |one| queue.add(one)));
}

/// Wakes every object of a kind once the CA is another, until told to stop.
pub(super) async fn on_change(
    api: &Arc<dyn Api>,
    (version, kind): (&str, &str),
    mut ca_pem: watch::Receiver<Arc<str>>,
    stop: CancellationToken,
    wake: impl Fn(Key),
) {
    loop {
        let changed = tokio::select! {
            () = stop.cancelled() => return,
            changed = ca_pem.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let Some(resource) = api.resource_of(version, kind) else { return };
        match api.list(&resource, "").await {
            Ok(all) => all.into_iter().for_each(|one| wake(one.key.clone())),
            Err(error) => {
                tracing::warn!(%error, kind, "the changed CA is published when they change, or at the next start");
            }
        }
    }
}

struct RootCa {
    api: Arc<dyn Api>,
    ca_pem: watch::Receiver<Arc<str>>,
}

#[async_trait::async_trait]
impl Controller for RootCa {
    type Key = Key;

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let (namespaces, maps) =
            (resource(&*self.api, "v1", "Namespace")?, resource(&*self.api, "v1", "ConfigMap")?);
        let namespace = find(&*self.api, &namespaces, "", &key.name).await?;
        if namespace.is_none_or(|namespace| namespace.deleting) || runs_nothing(&key.name) {
            return Ok(Action::Done);
        }
        let ca_pem = self.ca_pem.borrow().clone();
        match find(&*self.api, &maps, &key.name, NAME).await? {
            None => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": NAME, "namespace": &*key.name}});
                self.api.create(&maps, published(map, &ca_pem)).await?;
            }
            Some(object) => {
                let (old, new) = (object.value()?, published(object.value()?, &ca_pem));
                if new != old {
                    self.api.update(&maps, new).await?;
                }
            }
        }
        Ok(Action::Done)
    }
}

/// The ConfigMap as it should be.
fn published(mut map: Value, ca_pem: &str) -> Value {
    map["data"] = json!({"ca.crt": ca_pem});
    map["metadata"]["annotations"][DESCRIPTION] = json!(WORDS);
    map
}

#[cfg(test)]
mod tests {
    use super::super::tests::{api, settle};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_ca_is_in_every_namespace_and_comes_back() {
        let api = api();
        api.seed(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        let stop = CancellationToken::new();
        let spoilt = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let mut map = api.value("v1", "ConfigMap", "shop", NAME).unwrap();
            map["data"] = json!({"ca.crt": "theirs"});
            let maps = api.resource_of("v1", "ConfigMap").unwrap();
            api.update(&maps, map).await.unwrap();
        };
        let (ca, told) = watch::channel(Arc::from("PEM"));
        let held = || api.value("v1", "ConfigMap", "shop", NAME).unwrap()["data"].clone();
        tokio::join!(settle(run(api.clone(), told.clone(), stop.clone()), stop), spoilt);
        assert_eq!(held(), json!({"ca.crt": "PEM"}));
        let quiet = api.revision();
        let stop = CancellationToken::new();
        settle(run(api.clone(), told.clone(), stop.clone()), stop).await;
        assert_eq!(api.revision(), quiet);
        let stop = CancellationToken::new();
        let changes = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            ca.send_replace("NEW and PEM".into());
        };
        tokio::join!(settle(run(api.clone(), told, stop.clone()), stop), changes);
        assert_eq!(held(), json!({"ca.crt": "NEW and PEM"}), "a CA that changes while the hub runs");
    }
}
