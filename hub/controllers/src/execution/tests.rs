//! The execution controller as a shell.

use karmada_api::strings::annotations::CONFIRM_REMOVALS;
use karmada_api::strings::finalizers;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::port::fake::FakeApi;
use crate::queue::Queue;
use crate::testing::{CLUSTER_API, Rig, WORK_API, bears_trouble, binding, cluster, config_map, key};

#[tokio::test(start_paused = true)]
async fn a_work_that_is_held_back_says_so_whatever_happens_between() {
    let work = json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "w", "namespace": "karmada-es-m1"},
        "spec": {"suspendDispatching": true, "workload": {"manifests": []}}});
    let (api, writes) = bears_trouble(&[work], async |rig| {
        Execution::new(rig.shared.clone()).reconcile(&key("karmada-es-m1", "w")).await
    })
    .await;
    assert_eq!(writes, 1);
    let work = api.value(WORK_API, "Work", "karmada-es-m1", "w").unwrap();
    assert_eq!(work["status"]["conditions"][0]["type"], "Dispatching");
}

const M1: &str = "karmada-es-m1";

fn by_hand(namespace: &str) -> Value {
    json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "w", "namespace": namespace},
        "spec": {"workload": {"manifests": [config_map("a")]}}})
}

fn finalizers_of(api: &FakeApi, namespace: &str) -> Value {
    api.value(WORK_API, "Work", namespace, "w").unwrap()["metadata"]["finalizers"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_work_that_a_person_wrote_for_a_cluster_does_not_go_before_its_objects() {
    let [m1, namespace] = cluster("m1", &json!({}));
    let (api, writes) = bears_trouble(&[m1, namespace, by_hand(M1)], async |rig| {
        Execution::new(rig.shared.clone()).reconcile(&key(M1, "w")).await
    })
    .await;
    assert_eq!((writes, finalizers_of(&api, M1)), (1, json!([finalizers::EXECUTION])));
}

/// Nobody would ever take the finalizer off where no site is.
#[tokio::test(start_paused = true)]
async fn a_work_for_no_cluster_or_for_one_that_goes_is_left_as_it_is() {
    let [mut leaves, namespace] = cluster("m1", &json!({}));
    leaves["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    let rig = Rig::new([leaves, namespace, by_hand(M1), by_hand("karmada-es-m2"), by_hand("default")]).await;
    for namespace in [M1, "karmada-es-m2", "default"] {
        Execution::new(rig.shared.clone()).reconcile(&key(namespace, "w")).await.unwrap();
        assert_eq!(finalizers_of(&rig.api, namespace), Value::Null, "{namespace}");
    }
    // One that is deleted takes no finalizer any more: the API server would refuse it.
    let mut deleted = by_hand("karmada-es-m3");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    deleted["metadata"]["finalizers"] = json!(["example.org/mine"]);
    let [m3, namespace] = cluster("m3", &json!({}));
    let rig = Rig::new([m3, namespace, deleted]).await;
    Execution::new(rig.shared.clone()).reconcile(&key("karmada-es-m3", "w")).await.unwrap();
    assert_eq!(finalizers_of(&rig.api, "karmada-es-m3"), json!(["example.org/mine"]));
}

/// As where a hub is filled from a repository: namespaces and Works first, and clusters join later.
#[tokio::test(start_paused = true)]
async fn works_that_were_there_before_their_cluster_are_held_once_it_comes() {
    let [m1, namespace] = cluster("m1", &json!({}));
    let rig = Rig::new([namespace, by_hand(M1)]).await;
    let stop = CancellationToken::new();
    let controller = Execution::new(rig.shared.clone());
    let wakes = Execution::wakes(&rig.shared);
    let run = crate::runner::run(
        rig.informers.clone(),
        controller,
        Arc::<Queue<_>>::default(),
        wakes,
        1,
        stop.clone(),
    );
    let comes = async {
        rig.quiet().await;
        assert_eq!(finalizers_of(&rig.api, M1), Value::Null);
        rig.api.seed_all([m1]);
        rig.quiet().await;
        assert_eq!(finalizers_of(&rig.api, M1), json!([finalizers::EXECUTION]));
        stop.cancel();
    };
    tokio::join!(run, comes);
}

/// Somebody took the finalizer off a binding and deleted it, and perhaps another has its name by now: its Work waits for a word, and nobody
/// else is there to hear it.
#[tokio::test(start_paused = true)]
async fn a_work_that_waits_without_its_binding_goes_when_a_person_says_so() {
    let [m1, namespace] = cluster("m1", &json!({}));
    let mut left = by_hand(M1);
    left["metadata"]["labels"] =
        json!({REMOVAL_HELD: "20260501T110000Z", "resourcebinding.karmada.io/permanent-id": "gone"});
    left["metadata"]["annotations"] = json!({"resourcebinding.karmada.io/namespace": "default", "resourcebinding.karmada.io/name": "a-configmap"});
    let rig = Rig::new([m1, namespace, left, binding("a", &json!({}), &[])]).await;
    let stop = CancellationToken::new();
    let run = crate::runner::run(
        rig.informers.clone(),
        Execution::new(rig.shared.clone()),
        Arc::<Queue<_>>::default(),
        Execution::wakes(&rig.shared),
        1,
        stop.clone(),
    );
    let word = async |word: &str| {
        let edit = |cluster: &mut Value| cluster["metadata"]["annotations"][CONFIRM_REMOVALS] = json!(word);
        rig.edit((CLUSTER_API, "Cluster"), &key("", "m1"), edit).await;
        rig.quiet().await;
        rig.api.value(WORK_API, "Work", M1, "w").unwrap()["metadata"]["deletionTimestamp"].is_string()
    };
    let says = async {
        rig.quiet().await;
        assert!(!word("20260501T105959Z").await, "it was held later");
        assert!(word("20260501T110000Z").await);
        stop.cancel();
    };
    tokio::join!(run, says);
}
