//! The fleet that is measured: Clusters that are Ready, and Deployments placed in a few of them each.
//!
//! In: the API of an empty hub, and how much of everything. Out: the hub at rest with all of it. Clusters stand in groups of four by a label, a policy
//! names one group and claims the Deployments with its label. Half of the policies duplicate, half divide.

use std::sync::Arc;

use futures::StreamExt;
use karmada_controllers::port::{Api, Object, Resource};
use serde_json::{Value, json};

use crate::gauge::Gauge;

/// Clusters of one group, and Deployments of one policy.
const GROUP: usize = 4;
const CLAIMED: usize = 10;
/// Namespaces over which the Deployments are spread.
pub const NAMESPACES: usize = 10;
/// Writes at once.
const AT_ONCE: usize = 32;

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Size {
    /// Clusters.
    pub clusters: usize,
    /// Deployments, and so bindings.
    pub bindings: usize,
}

impl Size {
    fn groups(self) -> usize {
        self.clusters.div_ceil(GROUP)
    }

    fn policies(self) -> usize {
        self.bindings.div_ceil(CLAIMED)
    }
}

/// A kind that the hub serves.
pub fn kind(api: &dyn Api, api_version: &str, kind: &str) -> Resource {
    api.resource_of(api_version, kind).expect("a kind that is served")
}

/// The resource of Clusters.
pub fn clusters(api: &dyn Api) -> Resource {
    kind(api, "cluster.karmada.io/v1alpha1", "Cluster")
}

/// How many Works there are.
pub async fn works(api: &dyn Api) -> usize {
    api.list(&kind(api, "work.karmada.io/v1alpha1", "Work"), "").await.map_or(0, |works| works.len())
}

/// Name of the cluster `number`.
pub fn cluster_name(number: usize) -> String {
    format!("site-{number:05}")
}

/// Namespace and name of the Deployment `number`.
pub fn deployment_name(number: usize) -> (String, String) {
    (format!("shop-{}", number % NAMESPACES), format!("app-{number:05}"))
}

/// A Cluster as it joins.
pub fn cluster(number: usize, group: usize) -> Value {
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": cluster_name(number), "labels": {"group": format!("g{group}"), "site": format!("s{number}")}},
        "spec": {"id": format!("uid-{number}"), "syncMode": "Pull", "region": format!("r{}", number % 20), "provider": "edge"}})
}

/// What a cluster serves: as much as one with a few operators.
fn enablements() -> Vec<Value> {
    let resources = |group: usize| -> Vec<Value> {
        (0..6)
            .map(|n| json!({"name": format!("things{group}x{n}"), "kind": format!("Thing{group}x{n}")}))
            .collect()
    };
    let mut all = vec![
        json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}),
        json!({"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}),
    ];
    all.extend(
        (0..50)
            .map(|n| json!({"groupVersion": format!("group{n}.example.org/v1"), "resources": resources(n)})),
    );
    all
}

/// A status as an agent reports it; `pods` are those that run.
pub fn status(pods: usize) -> Value {
    json!({"kubernetesVersion": "v1.34.4", "apiEnablements": enablements(),
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodeSummary": {"totalNum": 3, "readyNum": 3},
        "resourceSummary": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "330"}, "allocated": {"cpu": "8", "pods": pods.to_string()}}})
}

fn policy(number: usize, group: usize) -> Value {
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    let strategy =
        if number.is_multiple_of(2) { json!({"replicaSchedulingType": "Duplicated"}) } else { divided };
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": format!("policy-{number:05}")},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"policy": format!("p{number}")}}}],
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"group": format!("g{group}")}}}, "replicaScheduling": strategy}}})
}

/// The Deployment `number`, with the label of a policy.
pub fn deployment(number: usize, policy: usize) -> Value {
    let (namespace, name) = deployment_name(number);
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"policy": format!("p{policy}"), "app": name}},
        "spec": {"replicas": 8, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "example.org/app:1.0"}]}}}})
}

/// Reads an object, changes it, and writes it; again where somebody else was faster.
pub async fn change(
    api: &dyn Api,
    resource: &Resource,
    (namespace, name): (&str, &str),
    status: bool,
    edit: impl Fn(&mut Value),
) {
    for _ in 0..50 {
        let mut object =
            api.get(resource, namespace, name).await.and_then(|object| object.value()).expect("an object");
        edit(&mut object);
        let written = if status {
            api.update_status(resource, object).await
        } else {
            api.update(resource, object).await
        };
        if written.is_ok() {
            return;
        }
    }
    panic!("{name} could not be changed");
}

/// Makes objects, some at once.
pub async fn make_all(api: &dyn Api, resource: &Resource, objects: impl Iterator<Item = Value>) {
    let writes = objects.map(|object| api.create(resource, object));
    let made: Vec<Arc<Object>> = futures::stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .map(|made| made.expect("an object is made"))
        .collect()
        .await;
    drop(made);
}

/// Makes all of it, and waits until the loops are at rest.
pub async fn lay_out(api: &dyn Api, gauge: &Gauge, size: Size) {
    let of = |number: usize, groups: usize| number % groups;
    make_all(api, &clusters(api), (0..size.clusters).map(|n| cluster(n, of(n, size.groups())))).await;
    gauge.rest().await;
    let resource = clusters(api);
    for number in 0..size.clusters {
        change(api, &resource, ("", &cluster_name(number)), true, |cluster| cluster["status"] = status(10))
            .await;
    }
    gauge.rest().await;
    let namespaces = (0..NAMESPACES).map(|n| json!({"metadata": {"name": format!("shop-{n}")}}));
    make_all(api, &kind(api, "v1", "Namespace"), namespaces).await;
    gauge.rest().await;
    let policies = (0..size.policies()).map(|n| policy(n, of(n, size.groups())));
    make_all(api, &kind(api, "policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"), policies).await;
    gauge.rest().await;
    let deployments = (0..size.bindings).map(|n| deployment(n, of(n, size.policies())));
    make_all(api, &kind(api, "apps/v1", "Deployment"), deployments).await;
    gauge.rest().await;
}
