//! The syncer, over the port in memory.

use serde_json::json;

use super::*;
use crate::port::fake::FakeApi;
use crate::testing::{Rig, bears_trouble, key};

fn deployment(retains: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 1,
        "labels": {"resourcetemplate.karmada.io/retain-replicas": retains}}, "spec": {"replicas": 4}, "status": {"replicas": 7}})
}

fn binding(uid: &str, items: &Value) -> Value {
    json!({"apiVersion": BINDING.0, "kind": BINDING.1, "metadata": {"name": "web-deployment", "namespace": "shop", "generation": 1},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": uid}, "replicas": 4,
            "clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 2}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}},
        "status": {"schedulerObservedGeneration": 1, "aggregatedStatus": items}})
}

fn reports(a: i64, b: i64) -> Value {
    json!([{"clusterName": "a", "status": {"replicas": a}}, {"clusterName": "b", "status": {"replicas": b}}])
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    DeploymentReplicasSyncer::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

fn replicas(api: &FakeApi) -> Value {
    api.value("apps/v1", "Deployment", "shop", "web").unwrap()["spec"]["replicas"].clone()
}

#[tokio::test(start_paused = true)]
async fn statement_76_the_members_number_is_written_once_whatever_happens_between() {
    let (api, writes) = bears_trouble(&[deployment("true"), binding("u1", &reports(3, 4))], look).await;
    assert_eq!((replicas(&api), writes), (json!(7), 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_reports_disagree_or_where_the_hub_decides() {
    for objects in [
        vec![deployment("true"), binding("u1", &reports(3, 3))],
        vec![deployment("true"), binding("u1", &json!([]))],
        vec![deployment("false"), binding("u1", &reports(3, 4))],
        vec![deployment("true"), binding("of an earlier Deployment", &reports(3, 4))],
        vec![deployment("true")],
        vec![binding("u1", &reports(3, 4))],
    ] {
        let rig = Rig::new(objects.clone()).await;
        look(&rig).await.unwrap();
        assert_eq!(rig.api.writes(), 0, "{objects:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_of_the_binding_wakes_the_deployment() {
    let api = Rig::new([binding("u1", &reports(3, 4))]).await.api;
    let bindings = api.resource_of(BINDING.0, BINDING.1).unwrap();
    let seen = api.get(&bindings, "shop", "web-deployment").await.unwrap();
    assert_eq!(deployment_of(&Change::Applied(seen)), [key("shop", "web")]);
}
