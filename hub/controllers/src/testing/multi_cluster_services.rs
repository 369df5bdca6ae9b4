//! MultiClusterServices for tests, and a hub that serves them.
//!
//! In: names of clusters. Out: objects; a rig with the gate open.

use std::sync::Arc;

use karmada_core::feature_gates::{FeatureGates, Gate};
use karmada_core::multi_cluster_service::API;
use serde_json::{Value, json};

use super::Rig;
use crate::port::fake::FakeApi;

/// The kind of MultiClusterServices.
pub const MCS: (&str, &str) = (API, "MultiClusterService");
/// That of Services.
pub const SERVICE: (&str, &str) = ("v1", "Service");

/// One of Service `web` in namespace `shop`.
pub fn mcs(providers: &[&str], consumers: &[&str]) -> Value {
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    json!({"apiVersion": API, "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "shop", "generation": 1, "labels": {"multiclusterservice.karmada.io/permanent-id": "id"}},
        "spec": {"types": ["CrossCluster"], "providerClusters": named(providers), "consumerClusters": named(consumers)}})
}

/// That Service, claimed by a policy.
pub fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "t",
        "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}}, "spec": {"ports": [{"port": 80}]}})
}

/// A cluster that is ready and serves EndpointSlices.
pub fn cluster(name: &str) -> [Value; 2] {
    let [mut cluster, namespace] = super::cluster(name, &json!({}));
    cluster["status"]["apiEnablements"] = json!([{"groupVersion": "discovery.k8s.io/v1", "resources": [{"name": "endpointslices", "kind": "EndpointSlice"}]}]);
    [cluster, namespace]
}

/// Three clusters, the namespace, and more.
pub fn objects(more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    ["p", "q", "c"].into_iter().flat_map(cluster).chain([namespace]).chain(more).collect()
}

/// The gate is open.
pub fn gates() -> FeatureGates {
    FeatureGates::default().with(Gate::MultiClusterService)
}

/// A hub with these objects and the open gate.
pub async fn gated(objects: Vec<Value>) -> Rig {
    let api = Arc::new(FakeApi::default());
    api.seed_all(objects);
    over(api).await
}

/// The same over an API.
pub async fn over(api: Arc<FakeApi>) -> Rig {
    Rig::started(api, "2026-05-01T12:00:00Z", gates()).await
}
