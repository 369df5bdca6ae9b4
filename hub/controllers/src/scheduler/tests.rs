//! The scheduler as a shell.

use serde_json::{Value, json};

use super::*;
use crate::rig::{self, CLUSTER_API, Rig, bears_trouble, key};

async fn look(rig: &Rig) -> Result<Action, Error> {
    Scheduler::new(rig.shared.clone()).reconcile(&key("default", "web-configmap")).await
}

fn objects(placement: &Value, replicas: u64) -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["m1", "m2"].into_iter().flat_map(|name| rig::cluster(name, &json!({}))).collect();
    let mut binding = rig::binding("web", placement, &[]);
    binding["spec"]["replicas"] = json!(replicas);
    objects.push(binding);
    objects
}

fn condition(binding: &Value) -> (&Value, &Value) {
    (&binding["status"]["conditions"][0]["status"], &binding["status"]["conditions"][0]["reason"])
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_placed_and_says_so_whatever_happens_between() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let terms = json!({"clusterAffinities": [{"affinityName": "first", "clusterNames": ["m2"]}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    for (placement, replicas) in [(json!({}), 0), (divided, 6), (terms, 6)] {
        let (api, writes) = bears_trouble(&objects(&placement, replicas), look).await;
        assert_eq!(writes, 2, "where it goes, and that it was placed");
        let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert_eq!(condition(&binding), (&json!("True"), &json!("Success")), "{placement}");
        assert!(binding["status"]["lastScheduledTime"].is_string(), "{placement}");
        assert!(!binding["spec"]["clusters"].as_array().unwrap().is_empty(), "{placement}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_a_place_says_so_whatever_happens_between() {
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let (api, _) = bears_trouble(&objects(&nowhere, 0), look).await;
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(condition(&binding), (&json!("False"), &json!("NoClusterFit")));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_goes_is_left_whatever_happens_between() {
    let mut objects = objects(&json!({}), 0);
    objects[0]["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    assert_eq!(objects[0]["apiVersion"], CLUSTER_API);
    objects[4]["spec"]["clusters"] = json!([{"name": "m1"}, {"name": "m2"}]);
    let (api, _) = bears_trouble(&objects, look).await;
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "m2"}]));
}

#[tokio::test(start_paused = true)]
async fn what_a_quota_refuses_is_told_and_tried_again() {
    let rig = Rig::new(objects(&json!({}), 6)).await;
    let words = "FederatedResourceQuota(default/q) exceeded for resource cpu: requested sum 6, limit 4";
    let refusal = ApiError::Forbidden { reason: "QuotaExceeded".into(), message: words.into() };
    rig.api.refuse("update", "ResourceBinding", refusal);
    assert!(look(&rig).await.is_err(), "it is tried again");
    let now = || rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(condition(&now()), (&json!("False"), &json!("QuotaExceeded")));
    assert_eq!(now()["status"]["conditions"][0]["message"], words);
    look(&rig).await.unwrap();
    assert_eq!(condition(&now()), (&json!("True"), &json!("Success")));
}

#[tokio::test(start_paused = true)]
async fn workloads_that_keep_apart_see_each_other_at_once() {
    let mut objects = objects(&json!({"clusterAffinity": {"clusterNames": ["m1"]}}), 0);
    let mut other = rig::binding("other", &json!({}), &[]);
    for binding in [objects.last_mut().unwrap(), &mut other] {
        binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "app=db"});
    }
    objects.push(other);
    let rig = Rig::new(objects).await;
    let scheduler = Scheduler::new(rig.shared.clone());
    scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
    scheduler.reconcile(&key("default", "other-configmap")).await.unwrap();
    let clusters = |name| {
        rig.api.value(BINDING_API, "ResourceBinding", "default", name).unwrap()["spec"]["clusters"].clone()
    };
    assert_eq!(clusters("web-configmap"), json!([{"name": "m1"}]));
    assert_eq!(clusters("other-configmap"), json!([{"name": "m2"}]));
}
