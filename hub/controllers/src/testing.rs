//! A hub in memory for the tests of single controllers: the port, what controllers share, and a clock that is given.
//!
//! In: a state. Out: single reconciles on it, as often and in whatever order a test likes. A second rig on the same state is a hub that was started anew.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it seeded it")]

pub mod multi_cluster_services;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_core::cluster::Contact;
use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use crate::cluster::ContactSource;
use crate::controller_context::ControllerContext;
use crate::events::Recorder;
use crate::informer::Informers;
use crate::port::fake::FakeApi;
use crate::port::{Api, ApiError, Change, DeletionPropagation, Key};
use crate::runner::{Action, Clock, Error};
use crate::shared_options::SharedOptions;

/// The apiVersion of bindings.
pub const BINDING_API: &str = "work.karmada.io/v1alpha2";
/// That of Clusters.
pub const CLUSTER_API: &str = "cluster.karmada.io/v1alpha1";
/// That of policies.
pub const POLICY_API: &str = "policy.karmada.io/v1alpha1";
/// That of Works.
pub const WORK_API: &str = "work.karmada.io/v1alpha1";

/// Every agent is there.
pub struct Present;

impl ContactSource for Present {
    fn contact(&self, _: &str, now: Timestamp) -> Contact {
        Contact { last_heard: Some(now), listening_since: now }
    }

    fn connected(&self, _: &str) -> bool {
        true
    }
}

/// A hub, and what its controllers share.
pub struct Rig {
    /// The state.
    pub api: Arc<FakeApi>,
    /// What the controllers share.
    pub shared: Arc<ControllerContext>,
    /// Its watches.
    pub informers: Informers,
}

impl Rig {
    /// One that holds these objects. The tests' time must be paused.
    pub async fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let api = Arc::new(FakeApi::default());
        api.seed_all(objects);
        Rig::over(api).await
    }

    /// One over a state that is there.
    pub async fn over(api: Arc<FakeApi>) -> Self {
        Rig::started(api, "2026-05-01T12:00:00Z", FeatureGates::default()).await
    }

    /// One over a state that is there, at this moment and with these gates.
    pub async fn started(api: Arc<FakeApi>, now: &str, gates: FeatureGates) -> Self {
        Rig::configured(api, now, (gates, SharedOptions::default())).await
    }

    /// One over a state that is there, at this moment, with these gates and options.
    pub async fn configured(api: Arc<FakeApi>, now: &str, said: (FeatureGates, SharedOptions)) -> Self {
        let port: Arc<dyn Api> = api.clone();
        let now: Timestamp = now.parse().unwrap();
        let clock: Clock = Arc::new(move || now);
        let recorder = Recorder::new(port.clone(), "test", clock.clone());
        let shared = ControllerContext::configured(port, clock, recorder, said);
        let informers = Informers::from(api.clone());
        shared.load(&informers).await.unwrap();
        Rig { api, shared, informers }
    }

    /// The hub started anew on the same state.
    pub async fn restarted(&self) -> Self {
        Rig::over(self.api.clone()).await
    }

    /// Returns once everybody has heard of every write so far.
    pub async fn quiet(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Takes in who claimed what of a kind, as the detector does as it watches.
    pub async fn note_claims(&self, (api_version, kind): (&str, &str)) {
        let resource = self.api.resource_of(api_version, kind).unwrap();
        for object in self.api.list(&resource, "").await.unwrap() {
            self.shared.claims.observe(&resource, &Change::Applied(object));
        }
    }

    /// Changes an object as a user does.
    pub async fn edit(&self, (api_version, kind): (&str, &str), key: &Key, edit: impl FnOnce(&mut Value)) {
        let resource = self.api.resource_of(api_version, kind).unwrap();
        let mut object = self.api.value(api_version, kind, &key.namespace, &key.name).unwrap();
        edit(&mut object);
        self.api.update(&resource, object).await.unwrap();
        self.quiet().await;
    }

    /// Deletes an object as a user does.
    pub async fn delete(&self, (api_version, kind): (&str, &str), key: &Key) {
        let resource = self.api.resource_of(api_version, kind).unwrap();
        self.api.delete(&resource, key, "", DeletionPropagation::Background).await.unwrap();
        self.quiet().await;
    }

    /// Deletes an object that nobody holds any more.
    pub async fn remove(&self, (api_version, kind): (&str, &str), key: &Key) {
        self.edit((api_version, kind), key, |object| object["metadata"]["finalizers"] = json!([])).await;
        if self.api.value(api_version, kind, &key.namespace, &key.name).is_some() {
            self.delete((api_version, kind), key).await;
        }
    }
}

/// What is there, without what differs from one run to the next: revisions, and ids that are drawn.
fn picture(api: &FakeApi) -> Vec<Value> {
    fn forget(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|field, _| field != "resourceVersion" && field != "generation");
                fields.values_mut().for_each(forget);
            }
            Value::Array(items) => items.iter_mut().for_each(forget),
            _ => {}
        }
    }
    let plain = |mut object: Value| {
        forget(&mut object);
        let text = object.to_string();
        let mut parts = text.split("00000000-0000-4000-8000-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + "drawn" + part.get(12..).unwrap_or_default())
    };
    api.everything().into_iter().map(|object| serde_json::from_str(&plain(object)).unwrap()).collect()
}

/// Runs something until it succeeds.
async fn finish(rig: &Rig, run: &impl AsyncFn(&Rig) -> Result<Action, Error>) {
    for _ in 0..10 {
        rig.quiet().await;
        if run(rig).await.is_ok() {
            rig.quiet().await;
            return;
        }
    }
    panic!("it does not succeed");
}

/// Holds a controller to what every shell promises: whichever of its writes meets a conflict, and wherever the hub ends, it comes to the
/// same state as if nothing had happened; and once it is there, it writes no more. Returns that state, and how many writes it took.
pub async fn bears_trouble(
    objects: &[Value],
    run: impl AsyncFn(&Rig) -> Result<Action, Error>,
) -> (Arc<FakeApi>, u64) {
    let calm = Rig::new(objects.to_vec()).await;
    let (before, begun) = (calm.api.revision(), calm.api.writes());
    finish(&calm, &run).await;
    let (wanted, writes) = (picture(&calm.api), calm.api.writes() - begun);
    assert_ne!(calm.api.revision(), before, "it does something");
    for nth in 1..=writes {
        let rig = Rig::new(objects.to_vec()).await;
        rig.api.fail(nth, false, ApiError::Conflict("somebody was faster".into()));
        finish(&rig, &run).await;
        assert_eq!(picture(&rig.api), wanted, "write {nth} met a conflict");

        let rig = Rig::new(objects.to_vec()).await;
        rig.api.fail(nth, true, ApiError::Unavailable("the hub ended".into()));
        rig.quiet().await;
        let _ = run(&rig).await;
        rig.api.mend();
        let rig = rig.restarted().await;
        finish(&rig, &run).await;
        assert_eq!(picture(&rig.api), wanted, "the hub ended at write {nth}");
    }
    let rig = calm.restarted().await;
    let revision = rig.api.revision();
    finish(&rig, &run).await;
    assert_eq!(rig.api.revision(), revision, "at rest nothing is written");
    (calm.api, writes)
}

/// A key.
pub fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.into(), name: name.into() }
}

/// A Cluster that is ready and serves Deployments and ConfigMaps, and its execution namespace.
pub fn cluster(name: &str, labels: &Value) -> [Value; 2] {
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let serves = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
        {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}]);
    [
        json!({"apiVersion": CLUSTER_API, "kind": "Cluster",
            "metadata": {"name": name, "generation": 1, "labels": labels, "finalizers": ["karmada.io/cluster-controller"]},
            "spec": {"syncMode": "Pull"}, "status": {"conditions": conditions, "apiEnablements": serves}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("karmada-es-{name}")}}),
    ]
}

/// A binding of the ConfigMap `name` in namespace `default`, claimed by a policy, with this placement and these clusters.
pub fn binding(name: &str, placement: &Value, clusters: &[&str]) -> Value {
    let targets: Vec<Value> = clusters.iter().map(|cluster| json!({"name": cluster})).collect();
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding",
        "metadata": {"name": format!("{name}-configmap"), "namespace": "default", "generation": 1,
            "labels": {"resourcebinding.karmada.io/permanent-id": format!("b-{name}"), "propagationpolicy.karmada.io/permanent-id": "p"},
            "finalizers": ["karmada.io/binding-controller"]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name, "uid": format!("t-{name}")},
            "schedulerName": "default-scheduler", "placement": placement, "clusters": targets}})
}

/// The ConfigMap `name` in namespace `default`.
pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": format!("t-{name}")}, "data": {"of": name}})
}
