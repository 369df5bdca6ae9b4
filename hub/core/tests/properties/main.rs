//! What holds of every decision, by random cases: where bindings land, how replicas are divided, when a workload has left a cluster.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod affinity;
mod division;
mod eviction;
mod order;
mod policies;
mod taints;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::{self, Decision, Input};
use serde_json::{Value, json};

const SCHEDULER: &str = "default-scheduler";

fn now() -> jiff::Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// A cluster that serves Deployments and has room for so many Pods.
fn cluster(name: &str, pods: i64) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"name": name}}, "spec": {"syncMode": "Pull"}, "status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
        "resourceSummary": {"allocatable": {"pods": pods.to_string()}}}}))
    .unwrap()
}

/// A Deployment's binding of a policy, with this placement.
fn binding(placement: Value, replicas: i64) -> ResourceBinding {
    serde_json::from_value(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "w-deployment", "namespace": "ns", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "w", "uid": "u"},
            "schedulerName": SCHEDULER, "replicas": replicas, "placement": placement}}))
    .unwrap()
}

fn schedule(binding: &ResourceBinding, clusters: &[Cluster]) -> Decision {
    scheduler::schedule(&Input::plain(binding, clusters))
}

/// The binding once the decision is written down.
fn written(binding: &ResourceBinding, decision: &Decision) -> ResourceBinding {
    let mut after = scheduler::apply(binding, decision).unwrap_or_else(|| binding.clone());
    if let Some(status) = scheduler::status(&after, &binding.spec.clusters, decision, now()) {
        after.status = status;
    }
    after
}

/// A placement of every kind of division, by number.
fn division_of(kind: u8) -> Value {
    match kind % 5 {
        0 => json!({"replicaSchedulingType": "Duplicated"}),
        1 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
        2 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
        3 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        _ => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["m0", "m2"]}, "weight": 3},
                {"targetCluster": {"clusterNames": ["m1"]}, "weight": 2}]}}),
    }
}
