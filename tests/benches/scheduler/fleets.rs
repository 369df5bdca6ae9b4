//! Fleets and bindings of the scheduler's bench.
//!
//! In: how many clusters, over how many regions. Out: clusters as their agents report them, and bindings as the detector makes them.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::{ApiEnablement, Cluster};
use serde_json::{Value, json};

/// How clusters lie in regions.
#[derive(Clone, Copy)]
pub enum Regions {
    /// Over so many.
    Of(usize),
    /// Each in one of its own.
    Each,
}

/// A kind of placement.
pub struct Placement {
    pub name: &'static str,
    pub spec: Value,
}

/// What a cluster of Kubernetes serves, as its agent tells it.
fn enablements() -> Value {
    let group = |version: &str, kinds: &[&str]| {
        let resources =
            kinds.iter().map(|kind| json!({"name": format!("{}s", kind.to_lowercase()), "kind": kind}));
        json!({"groupVersion": version, "resources": resources.collect::<Vec<_>>()})
    };
    json!([
        group("apps/v1", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
        group("autoscaling/v2", &["HorizontalPodAutoscaler"]),
        group("batch/v1", &["CronJob", "Job"]),
        group("networking.k8s.io/v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
        group("policy/v1", &["PodDisruptionBudget"]),
        group("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
        group(
            "v1",
            &[
                "ConfigMap",
                "Namespace",
                "Node",
                "PersistentVolumeClaim",
                "Pod",
                "Secret",
                "Service",
                "ServiceAccount"
            ]
        ),
    ])
}

/// So many clusters.
pub fn fleet(count: usize, regions: Regions) -> Vec<Arc<Cluster>> {
    let of = match regions {
        Regions::Of(regions) => regions,
        Regions::Each => count,
    };
    // Held once for all that serve the same, as a hub holds them.
    let serves: Arc<Vec<ApiEnablement>> =
        Arc::new(serde_json::from_value(enablements()).expect("they are such"));
    let one = |number: usize| {
        let (region, cpus) = (number % of, 8 + number % 57);
        let cluster = json!({
            "metadata": {"name": format!("site-{number:05}"), "labels": {"tier": if number.is_multiple_of(2) { "gold" } else { "silver" }}},
            "spec": {"syncMode": "Pull", "provider": format!("p{}", number % 3), "region": format!("region-{region}"),
                "zones": [format!("zone-{region}-{}", number % 3)]},
            "status": {
                "kubernetesVersion": "v1.36.3",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "ClusterReady", "message": ""}],
                "nodeSummary": {"totalNum": 3, "readyNum": 3},
                "resourceSummary": {
                    "allocatable": {"cpu": cpus.to_string(), "memory": format!("{}Gi", cpus * 4), "pods": "330"},
                    "allocated": {"cpu": "2", "memory": "4Gi", "pods": "30"},
                },
            },
        });
        let mut cluster: Cluster = serde_json::from_value(cluster).expect("it is a Cluster");
        cluster.status.api_enablements = serves.clone();
        Arc::new(cluster)
    };
    (0..count).map(one).collect()
}

/// Replicas divided over the better half of a fleet.
fn divided(preference: &str, more: &Value) -> Value {
    let mut scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    scheduling.as_object_mut().expect("it is one").extend(more.as_object().cloned().unwrap_or_default());
    json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}, "replicaScheduling": scheduling})
}

fn by_room() -> Value {
    divided("Weighted", &json!({"weightPreference": {"dynamicWeight": "AvailableReplicas"}}))
}

/// By room, over so many regions and clusters.
pub fn spread(regions: usize, clusters: usize) -> Value {
    let by = |field: &str, groups: usize| json!({"spreadByField": field, "minGroups": groups, "maxGroups": groups});
    let mut spec = by_room();
    spec["spreadConstraints"] = json!([by("region", regions), by("cluster", clusters)]);
    spec
}

/// The usual kinds of placement.
pub fn placements() -> Vec<Placement> {
    let weights = json!({"weightPreference": {"staticWeightList": [
        {"targetCluster": {"clusterNames": ["site-00000"]}, "weight": 2},
        {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}}, "weight": 1}]}});
    vec![
        Placement { name: "duplicated to all", spec: json!({"clusterAffinity": {}}) },
        Placement { name: "divided by static weights", spec: divided("Weighted", &weights) },
        Placement { name: "divided by room", spec: by_room() },
        Placement { name: "aggregated", spec: divided("Aggregated", &json!({})) },
        Placement { name: "spread over two regions and four clusters", spec: spread(2, 4) },
    ]
}

/// A Deployment of a hundred replicas under this placement, new.
pub fn binding(name: &str, placement: &Value) -> ResourceBinding {
    let binding = json!({
        "metadata": {"name": name.replace(' ', "-"), "namespace": "shop", "uid": "0b4f6a9e-9d53-4c3a-8f0e-5a4b1c2d3e4f", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "5a4b1c2d-3e4f-4c3a-8f0e-0b4f6a9e9d53"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 100,
            "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "256Mi"}},
            "placement": placement,
            "schedulerName": "default-scheduler",
        },
    });
    serde_json::from_value(binding).expect("it is a binding")
}
