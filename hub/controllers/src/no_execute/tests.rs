//! Bindings in tainted clusters, over the port in memory and paused time.

use karmada_api::policy::PurgeMode;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, CLUSTER_API, Rig, bears_trouble, key};

const RULES: Rules = Rules { purge_mode: PurgeMode::Gracefully, preserves_state: false };

fn tainted(name: &str, taints: Value) -> [Value; 2] {
    let [mut cluster, namespace] = testing::cluster(name, &json!({}));
    cluster["spec"]["taints"] = taints;
    [cluster, namespace]
}

fn outage() -> Value {
    json!([{"key": "outage", "effect": "NoExecute", "timeAdded": "2026-05-01T11:59:00Z"}])
}

/// A binding that was placed in `m1` and `m2` by a placement with these tolerations.
fn placed(name: &str, tolerations: &Value) -> Value {
    let mut binding = testing::binding(name, &json!({}), &["m1", "m2"]);
    let applied = json!({"clusterTolerations": tolerations}).to_string();
    binding["metadata"]["annotations"] = json!({"policy.karmada.io/applied-placement": applied});
    binding
}

fn objects(bindings: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut objects: Vec<Value> =
        tainted("m1", outage()).into_iter().chain(tainted("m2", json!([]))).collect();
    objects.extend(bindings);
    objects
}

fn spec(rig: &Rig, name: &str) -> Value {
    let name = format!("{name}-configmap");
    rig.api.value(BINDING_API, "ResourceBinding", "default", &name).unwrap()["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_does_not_tolerate_a_taint_leaves_whatever_happens_between() {
    let look = async |rig: &Rig| {
        let taints = NoExecuteTaints::new(rig.shared.clone(), RULES, 1000.0);
        taints.reconcile(&key("default", "web-configmap")).await
    };
    let (api, writes) = bears_trouble(&objects([placed("web", &json!([]))]), look).await;
    assert_eq!(writes, 1);
    let spec = &api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap()["spec"];
    assert_eq!(spec["clusters"], json!([{"name": "m2"}]));
    assert_eq!(spec["gracefulEvictionTasks"][0]["fromCluster"], "m1");
}

#[tokio::test(start_paused = true)]
async fn statement_66_a_cluster_is_emptied_at_a_pace_and_who_tolerates_it_for_a_while_waits() {
    let patient = json!([{"key": "outage", "operator": "Exists", "tolerationSeconds": 90}]);
    let names = ["a", "b", "c"];
    let rig = Rig::new(objects(
        names.map(|name| placed(name, &json!([]))).into_iter().chain([placed("d", &patient)]),
    ))
    .await;
    let taints = NoExecuteTaints::new(rig.shared.clone(), RULES, 0.5);
    let look =
        async |name: &str| taints.reconcile(&key("default", &format!("{name}-configmap"))).await.unwrap();
    let after = |seconds| Action::RequeueAfter(Duration::from_secs(seconds));
    assert_eq!([look("a").await, look("b").await, look("c").await], [Action::Done, after(2), after(4)]);
    assert_eq!(look("d").await, after(30));
    assert_eq!(spec(&rig, "a")["clusters"], json!([{"name": "m2"}]));
    assert_eq!(spec(&rig, "b")["clusters"].as_array().unwrap().len(), 2, "it waits for its turn");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(look("b").await, Action::Done);
    assert_eq!(spec(&rig, "b")["clusters"], json!([{"name": "m2"}]));
    // The taint goes: nobody leaves any more, and nothing is kept.
    rig.edit((CLUSTER_API, "Cluster"), &key("", "m1"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!([look("c").await, look("d").await], [Action::Done, Action::Done]);
    assert_eq!(spec(&rig, "c")["clusters"].as_array().unwrap().len(), 2);
    assert!(taints.lanes.lock().values().all(|lane| lane.is_idle(taints.started.elapsed())));
}

/// What waits for a status is tried again; what waits for a person who changes the binding is not.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_decided_stays_where_it_is() {
    let mut unplaced = placed("web", &json!([]));
    unplaced["metadata"]["annotations"] = json!({});
    let mut stateful = placed("db", &json!([]));
    stateful["spec"]["failover"] = json!({"cluster": {"purgeMode": "Directly",
        "statePreservation": {"rules": [{"aliasLabelName": "app.io/job", "jsonPath": "{.job}"}]}}});
    let rig = Rig::new(objects([unplaced, stateful])).await;
    let before = rig.api.revision();
    let rules = Rules { preserves_state: true, ..RULES };
    let taints = NoExecuteTaints::new(rig.shared.clone(), rules, 1.0);
    assert_eq!(taints.reconcile(&key("default", "web-configmap")).await.unwrap(), Action::Done);
    let error = taints.reconcile(&key("default", "db-configmap")).await.unwrap_err().to_string();
    assert!(error.contains("cluster m1 is not known yet"), "{error}");
    assert_eq!(rig.api.revision(), before);
}
