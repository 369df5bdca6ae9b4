//! What clusters tell of exported Services, kept on the hub, over the port in memory.

use serde_json::json;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::service_export::tests::{EXPORT, export, objects};
use crate::testing::{Rig, WORK_API, bears_trouble, key};

const SLICE: (&str, &str) = ("discovery.k8s.io/v1", "EndpointSlice");

/// The Work by which a cluster is asked, with its answer, or without one yet.
fn question(cluster: &str, slices: Option<&[&str]>) -> Value {
    let slice = |name: &&str| json!({"name": name, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    let told = slices.map(|slices| json!({"endpointSlices": slices.iter().map(slice).collect::<Vec<_>>()}));
    let statuses: Vec<Value> = told.into_iter().map(|told| json!({"status": told})).collect();
    json!({"apiVersion": WORK_API, "kind": "Work",
        "metadata": {"name": core::question_name("shop", "web"), "namespace": format!("karmada-es-{cluster}"), "labels": {
            "endpointslice.karmada.io/namespace": "shop", "endpointslice.karmada.io/name": "web", "work.karmada.io/permanent-id": "w"}},
        "spec": {"suspendDispatching": true, "workload": {"manifests": []}}, "status": {"manifestStatuses": statuses}})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    EndpointSlices::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

/// Names of the EndpointSlices of the hub.
fn kept(rig: &Rig) -> Vec<String> {
    let slices = rig.api.values(SLICE.0, SLICE.1).into_iter();
    slices.map(|slice| slice["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The cluster tells something else now.
async fn tells(rig: &Rig, cluster: &str, slices: &[&str]) {
    let resource = rig.api.resource_of(WORK_API, "Work").unwrap();
    let name = core::question_name("shop", "web");
    let mut work = rig.api.value(WORK_API, "Work", &format!("karmada-es-{cluster}"), &name).unwrap();
    work["status"] = question(cluster, Some(slices))["status"].clone();
    rig.api.update_status(&resource, work).await.unwrap();
    rig.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn what_clusters_tell_is_on_the_hub_whatever_happens_between() {
    let all = objects([export(), question("a", Some(&["web-1", "web-2"])), question("b", Some(&["web-1"]))]);
    let (api, writes) = bears_trouble(&all, look).await;
    assert_eq!(writes, 3);
    let rig = Rig::over(api).await;
    assert_eq!(kept(&rig), ["imported-a-web-1", "imported-a-web-2", "imported-b-web-1"]);
    let slice = rig.api.value(SLICE.0, SLICE.1, "shop", "imported-a-web-1").unwrap();
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "derived-web");
    assert_eq!(slice["metadata"]["annotations"]["work.karmada.io/namespace"], "karmada-es-a");
}

#[tokio::test(start_paused = true)]
async fn changes_are_followed_whatever_happens_between() {
    let rig = Rig::new(objects([
        export(),
        question("a", Some(&["web-1", "web-2"])),
        question("b", Some(&["web-1"])),
    ]))
    .await;
    look(&rig).await.unwrap();
    tells(&rig, "a", &["web-2", "web-3"]).await;
    let mut before = rig.api.everything();
    for slice in before.iter_mut().filter(|object| object["kind"] == SLICE.1) {
        slice["ports"] = json!([]);
    }
    let (api, writes) = bears_trouble(&before, look).await;
    assert_eq!(writes, 4, "one goes, one comes, two are put right");
    let rig = Rig::over(api).await;
    assert_eq!(kept(&rig), ["imported-a-web-2", "imported-a-web-3", "imported-b-web-1"]);
    assert!(rig.api.values(SLICE.0, SLICE.1).iter().all(|slice| slice["ports"][0]["port"] == 80));
}

/// With the ServiceExport its questions go, with a cluster all that is in its namespace.
#[tokio::test(start_paused = true)]
async fn what_was_asked_for_goes_with_the_question_also_where_no_hub_saw_it_go() {
    let rig =
        Rig::new(objects([export(), question("a", Some(&["web-1"])), question("b", Some(&["web-1"]))])).await;
    look(&rig).await.unwrap();
    rig.delete((WORK_API, "Work"), &key("karmada-es-b", &core::question_name("shop", "web"))).await;
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig), ["imported-a-web-1"]);
    rig.delete((WORK_API, "Work"), &key("karmada-es-a", &core::question_name("shop", "web"))).await;
    rig.delete(EXPORT, &key("shop", "web")).await;
    let rig = rig.restarted().await;
    let resource = rig.api.resource_of(SLICE.0, SLICE.1).unwrap();
    let left = rig.api.get(&resource, "shop", "imported-a-web-1").await.unwrap();
    assert_eq!(of_slice(&left), Some(key("shop", "web")), "it tells whom to wake");
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_asked_anew_and_is_silent_keeps_what_it_told() {
    let rig = Rig::new(objects([export(), question("a", Some(&["web-1"]))])).await;
    look(&rig).await.unwrap();
    let at = key("karmada-es-a", &core::question_name("shop", "web"));
    rig.delete((WORK_API, "Work"), &at).await;
    rig.api.seed(question("a", None));
    rig.quiet().await;
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig), ["imported-a-web-1"]);
    tells(&rig, "a", &[]).await;
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_somebody_deletes_comes_back_and_what_is_somebody_elses_stays() {
    let theirs = json!({"apiVersion": SLICE.0, "kind": SLICE.1, "metadata": {"name": "imported-b-web-1", "namespace": "shop",
        "labels": {"kubernetes.io/service-name": "derived-web"}}, "addressType": "IPv4"});
    let rig = Rig::new(objects([
        export(),
        theirs,
        question("a", Some(&["web-1"])),
        question("b", Some(&["web-1", "web-2"])),
    ]))
    .await;
    // Nothing wakes anybody when theirs goes: it is looked at again.
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(TAKEN_WAIT));
    rig.delete(SLICE, &key("shop", "imported-a-web-1")).await;
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig), ["imported-a-web-1", "imported-b-web-1", "imported-b-web-2"]);
    let slice = |rig: &Rig| rig.api.value(SLICE.0, SLICE.1, "shop", "imported-b-web-1").unwrap();
    assert!(slice(&rig)["endpoints"].is_null());
    rig.delete(SLICE, &key("shop", "imported-b-web-1")).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert!(slice(&rig)["endpoints"].is_array());
}

/// One that an API server refuses keeps no other from those who wait for it.
#[tokio::test(start_paused = true)]
async fn a_refused_slice_keeps_no_other() {
    let rig = Rig::new(objects([export(), question("a", Some(&["web-1", "web-2"]))])).await;
    rig.api.refuse("create", SLICE.1, ApiError::Invalid("not this one".into()));
    assert!(look(&rig).await.is_err());
    assert_eq!(kept(&rig), ["imported-a-web-2"]);
    look(&rig).await.unwrap();
    assert_eq!(kept(&rig).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_name_goes_on_with_anothers_wakes_what_that_one_gives() {
    let rig = Rig::new(objects([export(), question("a", Some(&["b-web"]))])).await;
    let woken = |cluster: &str| renamed_by(&rig.shared.export_works, cluster);
    assert_eq!(woken("a-b"), [key("shop", "web")]);
    assert!(woken("ab").is_empty() && woken("a").is_empty() && woken("b-a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn clusters_that_tell_the_same_address_are_told_of_once() {
    let rig =
        Rig::new(objects([export(), question("a", Some(&["web-1"])), question("b", Some(&["web-1"]))])).await;
    let recording = rig.shared.recorder.clone();
    let recording = tokio::spawn(async move { recording.run(CancellationToken::new()).await });
    let slices = EndpointSlices::new(rig.shared.clone());
    for _ in 0..3 {
        slices.reconcile(&key("shop", "web")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let events = rig.api.values("v1", "Event").into_iter();
    let told: Vec<Value> = events.filter(|event| event["reason"] == "ClusterNetworksOverlap").collect();
    assert!(told.len() == 1 && told[0]["count"] == 1, "{told:?}");
    assert_eq!(told[0]["involvedObject"]["kind"], "ServiceExport");
    recording.abort();
}
