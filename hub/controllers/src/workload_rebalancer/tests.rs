//! WorkloadRebalancers, over the port in memory.

use std::time::Duration;

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, BINDING_API, Rig, bears_trouble, key};

async fn look(rig: &Rig) -> Result<Action, Error> {
    Rebalancers::new(rig.shared.clone()).reconcile(&key("", "all")).await
}

fn rebalancer(ttl: Value) -> Value {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name});
    let mut object = json!({"apiVersion": REBALANCER.0, "kind": REBALANCER.1,
        "metadata": {"name": "all", "generation": 1, "creationTimestamp": "2026-05-01T11:59:00Z"},
        "spec": {"workloads": [map("web"), map("db"), map("gone")]}});
    if !ttl.is_null() {
        object["spec"]["ttlSecondsAfterFinished"] = ttl;
    }
    object
}

fn objects(ttl: Value) -> [Value; 3] {
    [
        testing::binding("web", &json!({}), &["m1"]),
        testing::binding("db", &json!({}), &["m1"]),
        rebalancer(ttl),
    ]
}

#[tokio::test(start_paused = true)]
async fn statement_72_every_workload_is_asked_for_once_whatever_happens_between() {
    let (api, writes) = bears_trouble(&objects(Value::Null), look).await;
    assert_eq!(writes, 3, "two bindings, and what came of it");
    for name in ["web-configmap", "db-configmap"] {
        let binding = api.value(BINDING_API, "ResourceBinding", "default", name).unwrap();
        assert_eq!(binding["spec"]["rescheduleTriggeredAt"], "2026-05-01T11:59:00Z");
    }
    let status = api.value(REBALANCER.0, REBALANCER.1, "", "all").unwrap()["status"].clone();
    let results = status["observedWorkloads"].as_array().unwrap().iter().map(|one| one["result"].clone());
    assert_eq!(results.collect::<Vec<_>>(), ["Successful", "Failed", "Successful"]);
    assert_eq!(status["finishTime"], "2026-05-01T12:00:00Z");
}

/// So many that what came of each does not fit beside their names.
#[tokio::test(start_paused = true)]
async fn one_whose_status_would_be_too_large_ends_and_says_what_it_does_not_tell() {
    let mut large = rebalancer(json!(60));
    let map = |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": format!("gone-{at:05}")});
    let workloads: Vec<Value> = (0..17_500).map(map).collect();
    let first = [large["spec"]["workloads"][0].clone(), large["spec"]["workloads"][1].clone()];
    large["spec"]["workloads"] = json!([&first[..], &workloads].concat());
    assert!(large.to_string().len() > 1_300_000);
    let mut all = objects(json!(60));
    all[2] = large;
    let rig = Rig::new(all).await;
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(Duration::from_secs(60)), "its time begins");
    let stored = rig.api.value(REBALANCER.0, REBALANCER.1, "", "all").unwrap();
    assert!(stored.to_string().len() <= karmada_core::object_size::LARGEST);
    let told = stored["status"]["observedWorkloads"].as_array().unwrap();
    assert!(told.len() > 100 && told.iter().all(|seen| seen["result"] == "Failed"), "{}", told.len());
    let asked = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(asked["spec"]["rescheduleTriggeredAt"], "2026-05-01T11:59:00Z");
    let writes = rig.api.writes();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.writes(), writes, "at rest nothing is written");
    let later = Rig::started(rig.api.clone(), "2026-05-01T12:01:00Z", FeatureGates::default()).await;
    look(&later).await.unwrap();
    assert_eq!(rig.api.value(REBALANCER.0, REBALANCER.1, "", "all"), None);
}

#[tokio::test(start_paused = true)]
async fn statement_72_a_finished_one_goes_when_its_time_is_over() {
    let rig = Rig::new(objects(json!(60))).await;
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(Duration::from_secs(60)));
    let later = Rig::started(rig.api.clone(), "2026-05-01T12:01:00Z", FeatureGates::default()).await;
    assert_eq!(look(&later).await.unwrap(), Action::Done);
    assert_eq!(rig.api.value(REBALANCER.0, REBALANCER.1, "", "all"), None);
    let at_once = Rig::new(objects(json!(0))).await;
    look(&at_once).await.unwrap();
    assert_eq!(at_once.api.value(REBALANCER.0, REBALANCER.1, "", "all"), None);
}
