//! The decisions around the recorded cases, by table and property.

mod bindings;
mod clusters;
mod detection;
mod expressions;
mod overrides;
mod residency;
mod scheduling;
mod statements;
mod statuses;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::policy::PropagationPolicy;
use serde_json::{Value, json};

pub fn now() -> jiff::Timestamp {
    "2024-05-06T07:08:09Z".parse().unwrap()
}

pub fn later() -> jiff::Timestamp {
    "2024-05-06T08:00:00Z".parse().unwrap()
}

/// A ready cluster that serves Deployments, Jobs and ConfigMaps and has room for 100 pods.
pub fn member(name: &str) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {"syncMode": "Pull"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
                               {"groupVersion": "batch/v1", "resources": [{"name": "jobs", "kind": "Job"}]},
                               {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}],
            "resourceSummary": {"allocatable": {"pods": "100", "cpu": "100"}}},
    }))
    .unwrap()
}

pub fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "uid": "t-1", "resourceVersion": "7", "generation": 3,
                     "labels": {"app": "nginx"}},
        "spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}]}}},
        "status": {"replicas": 1}})
}

pub fn policy(name: &str, namespace: &str, spec: Value) -> PropagationPolicy {
    let (kind, label) = if namespace.is_empty() {
        ("ClusterPropagationPolicy", "clusterpropagationpolicy.karmada.io/permanent-id")
    } else {
        ("PropagationPolicy", "propagationpolicy.karmada.io/permanent-id")
    };
    let namespace = (!namespace.is_empty()).then_some(namespace);
    serde_json::from_value(json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {label: format!("id-{name}")}}, "spec": spec}))
    .unwrap()
}

pub fn all_deployments() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "Deployment"}])
}

/// A binding of the Deployment, claimed, with this placement.
pub fn binding(placement: Value) -> ResourceBinding {
    serde_json::from_value(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "nginx-deployment", "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p", "resourcebinding.karmada.io/permanent-id": "b-1"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx", "uid": "t-1"},
                 "replicas": 6, "schedulerName": "default-scheduler", "placement": placement}}))
    .unwrap()
}
