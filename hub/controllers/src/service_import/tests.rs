//! Services that are derived from ServiceImports, over the port in memory.

use serde_json::json;

use super::*;
use crate::testing::{Rig, bears_trouble, key};

const IMPORT: (&str, &str) = (API, KIND);
const SERVICE: (&str, &str) = ("v1", "Service");

fn objects(spec: &Value) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let import = json!({"apiVersion": API, "kind": KIND, "metadata": {"name": "web", "namespace": "shop", "uid": "i"}, "spec": spec});
    vec![namespace, import]
}

fn cluster_set_ip() -> Value {
    json!({"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}], "ips": ["10.1.0.1"]})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    ServiceImports::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

fn derived(rig: &Rig) -> Option<Value> {
    rig.api.value(SERVICE.0, SERVICE.1, "shop", "derived-web")
}

#[tokio::test(start_paused = true)]
async fn a_service_is_derived_whatever_happens_between() {
    let (api, writes) = bears_trouble(&objects(&cluster_set_ip()), look).await;
    assert_eq!(writes, 2, "it, and its status");
    let rig = Rig::over(api).await;
    let service = derived(&rig).unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    assert_eq!(service["status"]["loadBalancer"]["ingress"], json!([{"ip": "10.1.0.1"}]));
    assert_eq!(service["metadata"]["ownerReferences"][0]["kind"], "ServiceImport");
}

#[tokio::test(start_paused = true)]
async fn what_there_is_is_taken_over_whatever_happens_between() {
    let mut all = objects(&cluster_set_ip());
    all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-web", "namespace": "shop", "uid": "s"},
        "spec": {"ports": [{"port": 1}], "clusterIP": "10.96.0.9"}}));
    let (api, writes) = bears_trouble(&all, look).await;
    assert_eq!(writes, 2);
    let service = derived(&Rig::over(api).await).unwrap();
    assert_eq!(
        (&service["spec"]["clusterIP"], &service["spec"]["ports"][0]["port"]),
        (&json!("10.96.0.9"), &json!(80))
    );
}

/// Somebody's Service by which Pods are reached stays what it is, also when the import goes.
#[tokio::test(start_paused = true)]
async fn a_service_with_pods_of_its_own_is_not_taken_over() {
    let mut all = objects(&cluster_set_ip());
    all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-web", "namespace": "shop", "uid": "s"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 1}]}}));
    let rig = Rig::new(all).await;
    let before = derived(&rig);
    look(&rig).await.unwrap();
    assert_eq!(derived(&rig), before);
    rig.delete(IMPORT, &key("shop", "web")).await;
    look(&rig).await.unwrap();
    assert_eq!(derived(&rig), before);
}

#[tokio::test(start_paused = true)]
async fn it_goes_with_its_import_comes_back_where_it_is_deleted_and_a_persons_own_stays() {
    let rig = Rig::new(objects(&cluster_set_ip())).await;
    look(&rig).await.unwrap();
    rig.delete(SERVICE, &key("shop", "derived-web")).await;
    look(&rig).await.unwrap();
    assert!(derived(&rig).is_some());
    rig.delete(IMPORT, &key("shop", "web")).await;
    let rig = rig.restarted().await;
    look(&rig).await.unwrap();
    assert!(derived(&rig).is_none());
    rig.api.seed(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-web", "namespace": "shop"}, "spec": {}}));
    look(&rig).await.unwrap();
    assert!(derived(&rig).is_some(), "nobody made it from an import");
}

#[tokio::test(start_paused = true)]
async fn of_a_headless_import_nothing_is_made_and_of_an_impossible_name_nothing_either() {
    let rig = Rig::new(objects(&json!({"type": "Headless", "ports": []}))).await;
    let before = rig.api.revision();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.revision(), before);
    let long = "w".repeat(56);
    let mut all = objects(&cluster_set_ip());
    all[1]["metadata"]["name"] = json!(long);
    let rig = Rig::new(all).await;
    let controller = ServiceImports::new(rig.shared.clone());
    assert_eq!(
        controller.reconcile(&key("shop", &long)).await.unwrap(),
        Action::Done,
        "nobody waits for another answer"
    );
    assert!(rig.api.values(SERVICE.0, SERVICE.1).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_wakes_the_import_whose_derived_name_it_has() {
    let rig = Rig::new(objects(&cluster_set_ip())).await;
    look(&rig).await.unwrap();
    let resource = rig.api.resource_of(SERVICE.0, SERVICE.1).unwrap();
    let service = rig.api.get(&resource, "shop", "derived-web").await.unwrap();
    assert_eq!(of_service(&Change::Deleted(service)), Some(key("shop", "web")));
    rig.api.seed(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {}}));
    let other = rig.api.get(&resource, "shop", "web").await.unwrap();
    assert_eq!(of_service(&Change::Applied(other)), None);
}
