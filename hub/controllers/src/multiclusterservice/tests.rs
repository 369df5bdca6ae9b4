//! Services over clusters, over the port in memory.

use serde_json::json;

use super::*;
use crate::port::ApiError;
use crate::testing::multi_cluster_services::{MCS, SERVICE, gated, mcs, objects, over, service};
use crate::testing::{BINDING_API, CLUSTER_API, Rig, WORK_API, bears_trouble, key};

async fn look(rig: &Rig) -> Result<Action, Error> {
    MultiClusterServices::new(rig.shared.clone()).reconcile(&key("shop", "web")).await
}

/// The clusters that are asked.
fn asked(rig: &Rig) -> Vec<String> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let stays = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    stays.map(|work| work["metadata"]["namespace"].as_str().unwrap().replace("karmada-es-", "")).collect()
}

fn condition(rig: &Rig) -> (Value, Value) {
    let found = rig.api.value(MCS.0, MCS.1, "shop", "web").unwrap();
    let condition = &found["status"]["conditions"][0];
    (condition["status"].clone(), condition["message"].clone())
}

#[tokio::test(start_paused = true)]
async fn statement_77_a_service_is_placed_on_both_sides_and_its_providers_are_asked_whatever_happens_between()
{
    let all = objects([mcs(&["p"], &["c"]), service()]);
    let (api, writes) = bears_trouble(&all, async |rig| {
        let rig = over(rig.api.clone()).await;
        look(&rig).await
    })
    .await;
    assert_eq!(writes, 5, "finalizer, question, Service, binding, status");
    let work = &api.values(WORK_API, "Work")[0];
    assert_eq!(work["metadata"]["namespace"], "karmada-es-p");
    assert_eq!(work["spec"]["suspendDispatching"], true);
    let binding = api.value(BINDING_API, "ResourceBinding", "shop", "web-service").unwrap();
    assert_eq!(binding["spec"]["placement"]["clusterAffinity"]["clusterNames"], json!(["c", "p"]));
    let labels = api.value("v1", "Service", "shop", "web").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["resourcetemplate.karmada.io/claimed-by"], "MultiClusterService");
    assert!(labels["propagationpolicy.karmada.io/permanent-id"].is_null());
}

#[tokio::test(start_paused = true)]
async fn providers_that_are_named_no_more_are_asked_no_more_and_a_missing_service_is_waited_for() {
    let rig = gated(objects([mcs(&["p"], &["c"])])).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(
        (asked(&rig), condition(&rig)),
        (vec!["p".to_owned()], ("False".into(), "services \"web\" not found".into()))
    );
    rig.api.seed(service());
    let spec = mcs(&[], &["c"])["spec"].clone();
    rig.edit(MCS, &key("shop", "web"), |mcs| mcs["spec"] = spec).await;
    look(&rig).await.unwrap();
    assert_eq!(
        (asked(&rig), condition(&rig).0),
        (["c", "p", "q"].map(str::to_owned).to_vec(), "True".into())
    );
    let spec = mcs(&["q"], &["c"])["spec"].clone();
    rig.edit(MCS, &key("shop", "web"), |mcs| mcs["spec"] = spec).await;
    look(&rig).await.unwrap();
    assert_eq!(asked(&rig), ["q"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_lets_go_of_its_service_and_asks_nobody() {
    let rig = gated(objects([mcs(&["p"], &["c"]), service()])).await;
    look(&rig).await.unwrap();
    rig.delete(MCS, &key("shop", "web")).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    assert!(rig.api.value(MCS.0, MCS.1, "shop", "web").is_none());
    assert_eq!(asked(&rig), Vec::<String>::new());
    let left = rig.api.value(SERVICE.0, SERVICE.1, "shop", "web").unwrap();
    assert!(left["metadata"]["labels"]["resourcetemplate.karmada.io/claimed-by"].is_null(), "{left}");
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "shop", "web-service").unwrap();
    assert!(binding["metadata"]["labels"]["binding.karmada.io/managed-by"].is_null(), "it stays where it is");
}

#[tokio::test(start_paused = true)]
async fn where_the_gate_is_closed_nothing_is_made_and_the_object_says_so() {
    let rig = Rig::new(objects([mcs(&["p"], &["c"]), service()])).await;
    look(&rig).await.unwrap();
    assert_eq!((asked(&rig), condition(&rig)), (Vec::new(), ("False".into(), DISABLED.into())));
    let revision = rig.api.revision();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_an_earlier_service_goes_first() {
    let rig = gated(objects([mcs(&["p"], &["c"]), service()])).await;
    look(&rig).await.unwrap();
    rig.delete(SERVICE, &key("shop", "web")).await;
    let mut newer = service();
    newer["metadata"]["uid"] = json!("newer");
    rig.api.seed(newer);
    rig.quiet().await;
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(WAIT));
    rig.remove((BINDING_API, "ResourceBinding"), &key("shop", "web-service")).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "shop", "web-service").unwrap();
    assert_eq!(binding["spec"]["resource"]["uid"], "newer");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_its_execution_namespace_yet_is_asked_later() {
    let rig = gated(objects([mcs(&["p"], &["c"]), service()])).await;
    rig.api.refuse("create", "Work", ApiError::NotFound("no such namespace".into()));
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(WAIT));
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(asked(&rig), ["p"]);
}

/// Reports of a cluster that change nothing for Services wake nobody.
#[tokio::test(start_paused = true)]
async fn a_cluster_wakes_those_that_may_mean_it_once_it_takes_part_otherwise() {
    let rig = gated(objects([mcs(&["p"], &["c"])])).await;
    let service: MultiClusterService = serde_json::from_value(mcs(&["p"], &["c"])).unwrap();
    assert!(may_mean(&service, "p") && may_mean(&service, "c") && !may_mean(&service, "q"));
    let before = rig.shared.clusters.get("", "p");
    rig.edit((CLUSTER_API, "Cluster"), &key("", "p"), |cluster| {
        cluster["metadata"]["labels"] = json!({"a": "b"});
    })
    .await;
    assert_eq!(standing(&before), standing(&rig.shared.clusters.get("", "p")));
    assert_ne!(standing(&before), standing(&None));
}

/// A cluster that comes and goes over a bad link: of its two turns one is looked at.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_well_any_more_wakes_nobody_and_one_that_is_well_again_does() {
    let rig = gated(objects([mcs(&[], &["c"])])).await;
    let woken: Arc<parking_lot::Mutex<Vec<Key>>> = Arc::default();
    let (heard, services) = (woken.clone(), rig.shared.multi_cluster_services.clone());
    rig.shared.clusters.listen(move |transition| heard.lock().extend(woken_by(&services, transition)));
    let resource = rig.api.resource_of(CLUSTER_API, "Cluster").unwrap();
    let mut turns = Vec::new();
    for status in ["False", "True", "Unknown", "True"] {
        let mut cluster = rig.api.value(CLUSTER_API, "Cluster", "", "q").unwrap();
        cluster["status"]["conditions"][0]["status"] = json!(status);
        rig.api.update_status(&resource, cluster).await.unwrap();
        rig.quiet().await;
        turns.push(std::mem::take(&mut *woken.lock()).len());
    }
    assert_eq!(turns, [0, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_name_goes_on_with_a_providers_wakes_what_that_one_provides() {
    let service: MultiClusterService = serde_json::from_value(mcs(&["p"], &["c"])).unwrap();
    assert!(may_rename(&service, "p-2") && !may_rename(&service, "p2") && !may_rename(&service, "c-2"));
}

/// What every cluster has of its own must not be led into another: clients of every cluster's API go there.
#[tokio::test(start_paused = true)]
async fn what_every_cluster_has_of_its_own_crosses_none() {
    let mut own = mcs(&["p"], &["c"]);
    own["metadata"]["namespace"] = json!("default");
    own["metadata"]["name"] = json!("kubernetes");
    let mut kubernetes = service();
    kubernetes["metadata"]["namespace"] = json!("default");
    kubernetes["metadata"]["name"] = json!("kubernetes");
    let rig = gated(objects([own, kubernetes])).await;
    let controller = MultiClusterServices::new(rig.shared.clone());
    assert_eq!(controller.reconcile(&key("default", "kubernetes")).await.unwrap(), Action::Done);
    assert!(asked(&rig).is_empty() && rig.api.values(BINDING_API, "ResourceBinding").is_empty());
    let found = rig.api.value(MCS.0, MCS.1, "default", "kubernetes").unwrap();
    assert_eq!(found["status"]["conditions"][0]["status"], "False");
}

/// A binding of that name may be of an object of another group whose kind is called so.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_told() {
    let taken = json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": "web-service", "namespace": "shop"},
        "spec": {"resource": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "k"}}});
    let rig = gated(objects([mcs(&["p"], &["c"]), service(), taken])).await;
    look(&rig).await.unwrap();
    let (status, words) = condition(&rig);
    assert_eq!(status, "False");
    assert!(words.as_str().unwrap().contains("web-service"), "{words}");
}

/// A hub that dies in between finds it there, and what was dispatched is taken back.
#[tokio::test(start_paused = true)]
async fn it_is_there_until_all_that_was_dispatched_goes() {
    let work = json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "web-1-x", "namespace": "karmada-es-c",
        "finalizers": ["karmada.io/execution-controller"],
        "annotations": {"endpointslice.karmada.io/provision-cluster": "p"}, "labels": {"multiclusterservice.karmada.io/namespace": "shop",
            "multiclusterservice.karmada.io/name": "web", "multiclusterservice.karmada.io/permanent-id": "id"}},
        "spec": {"workload": {"manifests": [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "p-web-1", "namespace": "shop"}}]}}});
    let rig = gated(objects([mcs(&["p"], &["c"]), service(), work])).await;
    look(&rig).await.unwrap();
    rig.delete(MCS, &key("shop", "web")).await;
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(WAIT));
    assert!(rig.api.value(MCS.0, MCS.1, "shop", "web").is_some());
    rig.delete((WORK_API, "Work"), &key("karmada-es-c", "web-1-x")).await;
    rig.quiet().await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert!(rig.api.value(MCS.0, MCS.1, "shop", "web").is_none());
}
