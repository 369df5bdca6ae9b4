//! Tasks of evictions, over the port in memory.

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, BINDING_API, Rig, bears_trouble, key};

const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");

async fn look(rig: &Rig) -> Result<Action, Error> {
    let timeout = SignedDuration::from_mins(10);
    GracefulEviction::new(rig.shared.clone(), timeout).reconcile(&key("default", "web-configmap")).await
}

fn leaving(tasks: Value) -> Value {
    let mut binding = testing::binding("web", &json!({}), &["m2"]);
    binding["spec"]["gracefulEvictionTasks"] = tasks;
    binding
}

/// The clusters that these tests name.
fn with_clusters(binding: Value) -> Vec<Value> {
    let clusters = ["m0", "m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    clusters.chain([binding]).collect()
}

fn task(cluster: &str, begun: Option<&str>) -> Value {
    json!({"fromCluster": cluster, "reason": "TaintUntolerated", "producer": "TaintManager", "creationTimestamp": begun})
}

fn tasks(rig: &Rig) -> Value {
    rig.api.value(BINDING.0, BINDING.1, "default", "web-configmap").unwrap()["spec"]["gracefulEvictionTasks"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn tasks_get_their_time_and_end_whatever_happens_between() {
    let mut ended = task("m0", Some("2026-05-01T11:00:00Z"));
    ended["suppressDeletion"] = json!(false);
    let mut new = task("m1", None);
    new.as_object_mut().unwrap().remove("creationTimestamp");
    let (api, writes) = bears_trouble(&with_clusters(leaving(json!([ended, new]))), look).await;
    assert_eq!(writes, 1);
    let binding = api.value(BINDING.0, BINDING.1, "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["gracefulEvictionTasks"], json!([task("m1", Some("2026-05-01T12:00:00Z"))]));
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_started_anew_waits_no_longer_than_the_one_before() {
    let rig = Rig::new(with_clusters(leaving(json!([task("m1", Some("2026-05-01T11:55:00Z"))])))).await;
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(Duration::from_secs(300)));
    let later = Rig::started(rig.api.clone(), "2026-05-01T12:05:01Z", FeatureGates::default()).await;
    assert_eq!(look(&later).await.unwrap(), Action::Done);
    assert_eq!(tasks(&rig), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn only_bindings_that_leave_a_cluster_wake_it() {
    let rig = Rig::new([
        leaving(json!([task("m1", Some("2026-05-01T11:55:00Z"))])),
        testing::binding("still", &json!({}), &["m1"]),
    ])
    .await;
    let wakes = |name: &str| rig.shared.bindings.is_leaving(&key("default", name));
    assert!(wakes("web-configmap") && !wakes("still-configmap"));
    rig.edit(BINDING, &key("default", "web-configmap"), |binding| {
        binding["spec"]["gracefulEvictionTasks"] = json!([]);
    })
    .await;
    assert!(!rig.shared.bindings.is_leaving(&key("default", "web-configmap")));
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_with_its_cluster_also_one_that_a_person_holds() {
    let mut held = task("away", Some("2026-05-01T11:55:00Z"));
    held["suppressDeletion"] = json!(true);
    let rig = Rig::new(with_clusters(leaving(json!([held.clone(), task("m1", None)])))).await;
    let unread = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "away"}, "spec": "no cluster says this"});
    rig.api.seed(unread);
    let later = Rig::started(rig.api.clone(), "2026-05-01T12:00:00Z", FeatureGates::default()).await;
    look(&later).await.unwrap();
    assert_eq!(tasks(&rig)[0], held, "a Cluster that cannot be read is there");
    rig.remove(("cluster.karmada.io/v1alpha1", "Cluster"), &key("", "away")).await;
    let later = Rig::started(rig.api.clone(), "2026-05-01T12:00:00Z", FeatureGates::default()).await;
    look(&later).await.unwrap();
    let left = tasks(&rig);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["fromCluster"]), (1, &json!("m1")));
}
