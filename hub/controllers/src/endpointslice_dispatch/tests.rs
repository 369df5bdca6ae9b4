//! What providers tell, dispatched over the port in memory.

use serde_json::{Value, json};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::multiclusterservice::MultiClusterServices;
use crate::testing::multi_cluster_services::{MCS, SERVICE, gated, mcs, objects, over, service};
use crate::testing::{BINDING_API, Rig, WORK_API, bears_trouble, key};

/// The Work by which a provider is asked, with its answer.
fn answered(cluster: &str, slices: &[&str]) -> Value {
    let slice = |name: &&str| json!({"name": name, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    let slices: Vec<Value> = slices.iter().map(slice).collect();
    let name = karmada_core::multi_cluster_service::question_name("shop", "web");
    json!({"apiVersion": WORK_API, "kind": "Work",
        "metadata": {"name": name, "namespace": format!("karmada-es-{cluster}"), "labels": {"multiclusterservice.karmada.io/namespace": "shop",
            "multiclusterservice.karmada.io/name": "web", "multiclusterservice.karmada.io/permanent-id": "id"}},
        "spec": {"suspendDispatching": true, "workload": {"manifests": [{"apiVersion": API, "kind": "MultiClusterService", "metadata": {"name": "web", "namespace": "shop"}}]}},
        "status": {"manifestStatuses": [{"status": {"endpointSlices": slices}}]}})
}

/// The binding of the Service, which is placed in these.
fn placed(clusters: &[&str]) -> Value {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": "web-service", "namespace": "shop",
        "labels": {"resourcebinding.karmada.io/managed-by": "multi-cluster-service"}},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "t"}, "clusters": clusters}})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    EndpointSliceDispatch::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

/// Consumer and EndpointSlice of each Work that carries one and is not on its way out.
fn given(rig: &Rig) -> Vec<(String, String)> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let stays = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    let slice = |work: Value| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let cluster = work["metadata"]["namespace"].as_str()?.replace("karmada-es-", "");
        let name = manifest["metadata"]["name"].as_str()?.to_owned();
        (manifest["kind"] == "EndpointSlice").then_some((cluster, name))
    };
    let mut all: Vec<(String, String)> = stays.filter_map(slice).collect();
    all.sort();
    all
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(cluster, name)| ((*cluster).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn statement_77_what_providers_tell_is_in_the_consumers_whatever_happens_between() {
    // Slices of both have one name.
    let all = objects([
        service(),
        placed(&["p", "q", "c"]),
        mcs(&["p", "q"], &["c", "p"]),
        answered("p", &["web-1"]),
        answered("q", &["web-1", "web-2"]),
    ]);
    let (api, writes) = bears_trouble(&all, async |rig| {
        let rig = over(rig.api.clone()).await;
        look(&rig).await
    })
    .await;
    assert_eq!(writes, 5);
    let rig = over(api).await;
    let wanted = [("c", "p-web-1"), ("c", "q-web-1"), ("c", "q-web-2"), ("p", "q-web-1"), ("p", "q-web-2")];
    assert_eq!(given(&rig), pairs(&wanted));
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_tells_no_more_goes_and_so_does_all_with_the_multi_cluster_service() {
    let rig = gated(objects([
        service(),
        placed(&["p", "c"]),
        mcs(&["p"], &["c"]),
        answered("p", &["web-1", "web-2"]),
    ]))
    .await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("c", "p-web-1"), ("c", "p-web-2")]));
    let resource = rig.api.resource_of(WORK_API, "Work").unwrap();
    let name = karmada_core::multi_cluster_service::question_name("shop", "web");
    let mut question = rig.api.value(WORK_API, "Work", "karmada-es-p", &name).unwrap();
    question["status"] = answered("p", &["web-2"])["status"].clone();
    rig.api.update_status(&resource, question).await.unwrap();
    rig.quiet().await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("c", "p-web-2")]));
    rig.delete(MCS, &key("shop", "web")).await;
    let rig = over(rig.api.clone()).await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), []);
}

/// The two controllers together: an answer of a provider that is named no more goes with its question.
#[tokio::test(start_paused = true)]
async fn a_provider_that_is_named_no_more_leaves_nothing() {
    let rig = gated(objects([
        service(),
        placed(&["p", "q", "c"]),
        mcs(&["p", "q"], &["c"]),
        answered("p", &["web-1"]),
        answered("q", &["web-9"]),
    ]))
    .await;
    look(&rig).await.unwrap();
    let spec = mcs(&["q"], &["c"])["spec"].clone();
    rig.edit(MCS, &key("shop", "web"), |mcs| mcs["spec"] = spec).await;
    MultiClusterServices::new(rig.shared.clone()).reconcile(&key("shop", "web")).await.unwrap();
    rig.quiet().await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("c", "q-web-9")]));
}

#[tokio::test(start_paused = true)]
async fn what_was_dispatched_goes_with_the_service() {
    let rig =
        gated(objects([service(), placed(&["p", "c"]), mcs(&["p"], &["c"]), answered("p", &["web-1"])]))
            .await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("c", "p-web-1")]));
    rig.delete(SERVICE, &key("shop", "web")).await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), []);
}

/// Where the Service is not, a Service of that name is somebody else's.
#[tokio::test(start_paused = true)]
async fn only_clusters_that_have_the_service_are_given_its_slices() {
    let rig =
        gated(objects([service(), placed(&["p"]), mcs(&["p"], &["c"]), answered("p", &["web-1"])])).await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), []);
}

/// One site's nonsense keeps no other site's from their consumers, and is written nowhere.
#[tokio::test(start_paused = true)]
async fn a_slice_that_no_api_server_takes_is_left_out_alone() {
    let long = "a".repeat(245);
    let rig = gated(objects([
        service(),
        placed(&["p", "q", "c"]),
        mcs(&["p", "q"], &["c"]),
        answered("p", &[".x", "-x", "x-", "", "a..b", &long]),
        answered("q", &["web-1"]),
    ]))
    .await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(given(&rig), pairs(&[("c", "q-web-1")]));
}

/// The gate that is closed again changes nothing of what there is.
#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_more_is_dispatched() {
    let all = objects([service(), placed(&["p", "c"]), mcs(&["p"], &["c"]), answered("p", &["web-1"])]);
    let closed = Rig::new(all).await;
    look(&closed).await.unwrap();
    assert_eq!(given(&closed), []);
    let open = over(closed.api.clone()).await;
    look(&open).await.unwrap();
    assert_eq!(given(&open), pairs(&[("c", "p-web-1")]));
    look(&closed).await.unwrap();
    assert_eq!(given(&closed), pairs(&[("c", "p-web-1")]));
}

/// Messages of the warnings that networks overlap.
fn overlaps(rig: &Rig) -> Vec<String> {
    let events = rig.api.values("v1", "Event").into_iter();
    let told = events.filter(|event| event["reason"] == "ClusterNetworksOverlap");
    told.map(|event| format!("{} {}", event["involvedObject"]["kind"], event["message"])).collect()
}

#[tokio::test(start_paused = true)]
async fn providers_that_tell_the_same_address_are_told_of_once() {
    let rig = gated(objects([
        service(),
        placed(&["p", "q", "c"]),
        mcs(&["p", "q"], &["c"]),
        answered("p", &["web-1"]),
        answered("q", &["web-2"]),
    ]))
    .await;
    let recording = rig.shared.recorder.clone();
    let recording = tokio::spawn(async move { recording.run(CancellationToken::new()).await });
    let dispatch = EndpointSliceDispatch::new(rig.shared.clone());
    for _ in 0..3 {
        dispatch.reconcile(&key("shop", "web")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let told = overlaps(&rig);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("MultiClusterService")
            && told[0].contains("10.0.0.1 is told by the clusters p and q"),
        "{told:?}"
    );
    recording.abort();
}
