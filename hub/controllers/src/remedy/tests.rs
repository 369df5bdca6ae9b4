//! Remedies, over the port in memory.

use serde_json::{Value, json};

use super::*;
use crate::testing::{self, CLUSTER_API, Rig, bears_trouble, key};

#[tokio::test(start_paused = true)]
async fn statement_80_a_cluster_says_which_remedies_are_to_be_taken_whatever_happens_between() {
    let look = async |rig: &Rig| Remedies::new(rig.shared.clone()).reconcile(&key("", "m1")).await;
    let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
    cluster["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "ServiceDomainNameResolutionReady",
        "status": "False", "reason": "Down", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    let remedy = |name: &str, status: &str, action: &str| {
        let says = json!({"conditionType": "ServiceDomainNameResolutionReady", "operator": "Equal", "conditionStatus": status});
        json!({"apiVersion": "remedy.karmada.io/v1alpha1", "kind": "Remedy", "metadata": {"name": name},
            "spec": {"decisionMatches": [{"clusterConditionMatch": says}], "actions": [action]}})
    };
    let objects: Vec<Value> =
        vec![cluster, namespace, remedy("a", "False", "TrafficControl"), remedy("b", "True", "Other")];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 1);
    let status = &api.value(CLUSTER_API, "Cluster", "", "m1").unwrap()["status"];
    assert_eq!(status["remedyActions"], json!(["TrafficControl"]));
}
