//! Policies of taints, over the port in memory.

use serde_json::{Value, json};

use super::*;
use crate::port::Change;
use crate::testing::{self, CLUSTER_API, POLICY_API, Rig, bears_trouble, key};

fn policy(name: &str, says: &str) -> Value {
    let when = |status: &str| json!([{"conditionType": "Ready", "operator": "In", "statusValues": [status]}]);
    json!({"apiVersion": POLICY_API, "kind": "ClusterTaintPolicy", "metadata": {"name": name},
        "spec": {"targetClusters": {"clusterNames": ["m1"]}, "addOnConditions": when(says), "removeOnConditions": when("Unknown"),
            "taints": [{"key": "outage", "effect": "NoExecute"}]}})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    ClusterTaintPolicies::new(rig.shared.clone()).reconcile(&key("", "m1")).await
}

#[tokio::test(start_paused = true)]
async fn a_cluster_gets_the_taints_of_policies_whatever_happens_between() {
    let mut objects: Vec<Value> = testing::cluster("m1", &json!({})).into_iter().collect();
    objects.push(policy("ready", "True"));
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 1);
    let taints = &api.value(CLUSTER_API, "Cluster", "", "m1").unwrap()["spec"]["taints"];
    assert_eq!(
        *taints,
        json!([{"key": "outage", "effect": "NoExecute", "timeAdded": "2026-05-01T12:00:00Z"}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_without_news_wakes_nobody_and_a_policy_those_that_it_means() {
    let rig = Rig::new(["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})))).await;
    let woken: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let heard = woken.clone();
    rig.shared.clusters.listen(move |transition| {
        heard.lock().extend(changed_in_conditions(transition).into_iter().map(|key| key.name.to_string()));
    });
    let report = |status: Value| {
        let mut cluster = rig.api.value(CLUSTER_API, "Cluster", "", "m1").unwrap();
        for (field, value) in status.as_object().unwrap() {
            cluster["status"][field] = value.clone();
        }
        rig.shared.clusters.observe(&Change::Applied(rig.api.seed(cluster)));
    };
    report(json!({"nodeSummary": {"totalNum": 3}}));
    assert!(woken.lock().is_empty());
    report(json!({"conditions": []}));
    assert_eq!(*woken.lock(), ["m1"]);
}
