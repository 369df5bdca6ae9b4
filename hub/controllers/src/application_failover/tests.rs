//! Unhealthy workloads, over the port in memory.

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, BINDING_API, Rig, bears_trouble, key};

async fn look(rig: &Rig) -> Result<Action, Error> {
    ApplicationFailover::new(rig.shared.clone()).reconcile(&key("default", "web-deployment")).await
}

/// A Deployment that is unhealthy in `m1`, noted since then, if it is.
fn unhealthy(since: Option<&str>) -> Value {
    let mut binding = testing::binding("web", &json!({}), &["m1", "m2"]);
    binding["metadata"]["name"] = json!("web-deployment");
    if let Some(since) = since {
        binding["metadata"]["annotations"] =
            json!({"edge.karmada.io/unhealthy-since": json!({"m1": since}).to_string()});
    }
    binding["spec"]["resource"] =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    binding["spec"]["propagateDeps"] = json!(true);
    binding["spec"]["failover"] =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": "Directly"}});
    binding["status"] = json!({"aggregatedStatus": [{"clusterName": "m1", "health": "Unhealthy"}, {"clusterName": "m2", "health": "Healthy"}]});
    binding
}

fn binding(rig: &Rig) -> Value {
    rig.api.value(BINDING_API, "ResourceBinding", "default", "web-deployment").unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_unhealthy_is_noted_and_leaves_whatever_happens_between() {
    let (api, writes) = bears_trouble(&[unhealthy(None)], look).await;
    assert_eq!(writes, 1, "it is noted");
    let later = Rig::started(api.clone(), "2026-05-01T12:00:40Z", FeatureGates::default()).await;
    let revision = api.revision();
    assert_eq!(look(&later).await.unwrap(), Action::RequeueAfter(std::time::Duration::from_secs(20)));
    assert_eq!(api.revision(), revision, "nothing changed, nothing is written");
    let over = Rig::started(api, "2026-05-01T12:01:01Z", FeatureGates::default()).await;
    look(&over).await.unwrap();
    let left = binding(&over);
    assert_eq!(left["spec"]["clusters"], json!([{"name": "m2"}]));
    assert_eq!(left["spec"]["gracefulEvictionTasks"][0]["reason"], "ApplicationFailure");
    assert!(left["metadata"]["annotations"].get("edge.karmada.io/unhealthy-since").is_none());

    let (_, writes) = bears_trouble(&[unhealthy(Some("2026-05-01T11:00:00Z"))], look).await;
    assert_eq!(writes, 1, "it leaves");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_leave_says_so_and_is_tried_again() {
    let mut gracefully = unhealthy(Some("2026-05-01T11:00:00Z"));
    gracefully["spec"]["failover"]["application"]["purgeMode"] = json!("Gracefully");
    let rig = Rig::new([gracefully]).await;
    let gates = FeatureGates::default().without(Gate::GracefulEviction);
    let rig = Rig::started(rig.api.clone(), "2026-05-01T12:00:00Z", gates).await;
    let error = look(&rig).await.unwrap_err().to_string();
    assert!(error.contains("cluster m1") && error.contains("GracefulEviction"), "{error}");
    assert_eq!(binding(&rig)["spec"]["clusters"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_leave_any_more_is_forgotten() {
    let mut plain = unhealthy(Some("2026-05-01T11:00:00Z"));
    plain["spec"].as_object_mut().unwrap().remove("failover");
    let rig = Rig::new([plain]).await;
    assert!(!rig.shared.bindings.fails_over(&key("default", "web-deployment")));
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert!(binding(&rig)["metadata"]["annotations"].get("edge.karmada.io/unhealthy-since").is_none());
}
