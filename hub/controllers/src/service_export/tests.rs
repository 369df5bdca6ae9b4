//! Who is asked for an exported Service, over the port in memory.

use serde_json::json;

use super::*;
use crate::port::ApiError;
use crate::testing::{self, BINDING_API, CLUSTER_API, Rig, WORK_API, bears_trouble, key};

pub(crate) const EXPORT: (&str, &str) = (API, KIND);
const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");

pub(crate) fn export() -> Value {
    json!({"apiVersion": API, "kind": KIND, "metadata": {"name": "web", "namespace": "shop", "uid": "e"}})
}

/// The binding of the ServiceExport: where it is to be, and which of these clusters hold it.
fn placed(clusters: &[&str], holding: &[&str]) -> Value {
    let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    let items: Vec<Value> =
        holding.iter().map(|name| json!({"clusterName": name, "applied": true})).collect();
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": "web-serviceexport", "namespace": "shop"},
        "spec": {"resource": {"apiVersion": API, "kind": KIND, "namespace": "shop", "name": "web", "uid": "e"}, "clusters": targets},
        "status": {"aggregatedStatus": items}})
}

pub(crate) fn objects(more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    ["a", "b"]
        .into_iter()
        .flat_map(|name| testing::cluster(name, &json!({})))
        .chain([namespace])
        .chain(more)
        .collect()
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    ServiceExports::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

/// The clusters that are asked.
fn asked(rig: &Rig) -> Vec<String> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let stays = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    stays.map(|work| work["metadata"]["namespace"].as_str().unwrap().replace("karmada-es-", "")).collect()
}

#[tokio::test(start_paused = true)]
async fn who_holds_an_export_is_asked_whatever_happens_between() {
    let all = objects([export(), placed(&["a", "b"], &["a", "b"])]);
    let (api, writes) = bears_trouble(&all, look).await;
    assert_eq!(writes, 2);
    let rig = Rig::over(api).await;
    assert_eq!(asked(&rig), ["a", "b"]);
    let works = rig.api.values(WORK_API, "Work");
    assert_eq!(works[0]["spec"]["suspendDispatching"], true, "nothing is made of it");
    assert_eq!(works[0]["metadata"]["labels"]["endpointslice.karmada.io/managed-by"], "ServiceExport");
}

#[tokio::test(start_paused = true)]
async fn who_is_to_hold_it_no_more_is_asked_no_more() {
    let rig = Rig::new(objects([export(), placed(&["a", "b"], &["a", "b"])])).await;
    look(&rig).await.unwrap();
    rig.edit(BINDING, &key("shop", "web-serviceexport"), |binding| {
        binding["spec"]["clusters"] = json!([{"name": "b"}]);
    })
    .await;
    look(&rig).await.unwrap();
    assert_eq!(asked(&rig), ["b"]);
    rig.delete(EXPORT, &key("shop", "web")).await;
    let rig = rig.restarted().await;
    look(&rig).await.unwrap();
    assert_eq!(asked(&rig), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_or_has_no_execution_namespace_yet_is_not_asked() {
    let rig = Rig::new(objects([export(), placed(&["a", "b"], &["a", "b"])])).await;
    rig.delete((CLUSTER_API, "Cluster"), &key("", "b")).await;
    rig.api.refuse("create", "Work", ApiError::NotFound("no such namespace".into()));
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(NAMESPACE_WAIT));
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(asked(&rig), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_export_whose_derived_name_is_too_long_asks_nobody_and_is_told_so() {
    let long = "w".repeat(56);
    let (mut export, mut placed) = (export(), placed(&["a"], &["a"]));
    export["metadata"]["name"] = json!(long);
    placed["metadata"]["name"] = json!(format!("{long}-serviceexport"));
    placed["spec"]["resource"]["name"] = json!(long);
    let rig = Rig::new(objects([export, placed])).await;
    let controller = ServiceExports::new(rig.shared.clone());
    assert_eq!(controller.reconcile(&key("shop", &long)).await.unwrap(), Action::Done);
    assert_eq!(asked(&rig), Vec::<String>::new());
}

/// What wakes it is told apart from the thousands of other bindings and Works by name and labels alone.
#[tokio::test(start_paused = true)]
async fn its_binding_and_its_works_wake_an_export_and_others_do_not() {
    let rig = Rig::new(objects([export(), placed(&["a"], &["a"])])).await;
    look(&rig).await.unwrap();
    let resource = rig.api.resource_of(WORK_API, "Work").unwrap();
    let work = rig.api.list(&resource, "").await.unwrap().remove(0);
    assert_eq!(of_leaving(&Change::Applied(work.clone())), None, "it stays");
    assert_eq!(of_leaving(&Change::Deleted(work)), Some(key("shop", "web")));
    let resource = rig.api.resource_of(BINDING.0, BINDING.1).unwrap();
    let binding = rig.api.get(&resource, "shop", "web-serviceexport").await.unwrap();
    assert_eq!(of_binding(&binding), Some(key("shop", "web")));
    rig.api.seed(testing::binding("web", &json!({}), &["a"]));
    let other = rig.api.get(&resource, "default", "web-configmap").await.unwrap();
    assert_eq!(of_binding(&other), None);
}
