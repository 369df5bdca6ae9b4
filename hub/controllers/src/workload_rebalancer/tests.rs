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
