//! The collector against the fake API.

use serde_json::json;

use super::super::tests::{api, settle};
use super::*;
use karmada_controller_runtime::port::Key;
use karmada_controller_runtime::port::fake::FakeApi;

fn map(namespace: &str, name: &str, owners: &[(&str, &str, &str, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, name, uid, blocks)| {
            let version = if *kind == "Deployment" { "apps/v1" } else { "v1" };
            json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace,
        "uid": format!("uid-{name}"), "ownerReferences": owners}})
}

fn owner(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")}})
}

async fn collected(api: &Arc<FakeApi>) {
    let stop = CancellationToken::new();
    settle(run(api.clone(), stop.clone()), stop).await;
}

async fn delete(api: &FakeApi, kind: (&str, &str), name: &str, propagation: DeletionPropagation) {
    let resource = api.resource_of(kind.0, kind.1).unwrap();
    let key = Key { namespace: "n".into(), name: name.into() };
    api.delete(&resource, &key, "", propagation).await.unwrap();
}

fn maps(api: &FakeApi) -> Vec<String> {
    let names = api.values("v1", "ConfigMap");
    names.iter().map(|m| m["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

#[tokio::test(start_paused = true)]
async fn what_lost_all_its_owners_goes_and_the_rest_stays() {
    let api = api();
    api.seed_all([
        owner("n", "web"),
        map("n", "kept", &[("Deployment", "web", "uid-web", true)]),
        map("n", "half", &[("Deployment", "web", "uid-web", true), ("Deployment", "old", "uid-old", true)]),
        map("n", "gone", &[("Deployment", "old", "uid-old", true)]),
        map("n", "renewed", &[("Deployment", "web", "uid-of-an-earlier-web", true)]),
        map("m", "elsewhere", &[("Deployment", "web", "uid-web", true)]),
        map("n", "unknown", &[("Widget", "w", "uid-w", true)]),
        map("n", "child-of-gone", &[("ConfigMap", "gone", "uid-gone", false)]),
        map("n", "free", &[]),
    ]);
    let mut node = map("", "cluster-wide", &[("Deployment", "web", "uid-other", true)]);
    node["kind"] = json!("Node");
    api.seed(node);
    collected(&api).await;
    assert_eq!(maps(&api), ["free", "half", "kept", "unknown"]);
    let half = api.value("v1", "ConfigMap", "n", "half").unwrap();
    assert_eq!(half["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert!(
        api.value("v1", "Node", "", "cluster-wide").is_some(),
        "a namespaced owner says nothing about it"
    );
    let quiet = api.revision();
    collected(&api).await;
    assert_eq!(api.revision(), quiet);
}

#[tokio::test(start_paused = true)]
async fn dependants_follow_their_owner_while_the_collector_runs() {
    let api = api();
    api.seed_all([owner("n", "web"), map("n", "a", &[("Deployment", "web", "uid-web", false)])]);
    let stop = CancellationToken::new();
    let acts = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(maps(&api), ["a"]);
        delete(&api, DEPLOYMENT, "web", DeletionPropagation::Background).await;
    };
    tokio::join!(settle(run(api.clone(), stop.clone()), stop), acts);
    assert!(maps(&api).is_empty());
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_waits_for_those_that_block_it() {
    let api = api();
    let mut slow = map("n", "slow", &[("Deployment", "web", "uid-web", true)]);
    slow["metadata"]["finalizers"] = json!(["example.org/wait"]);
    api.seed_all([
        owner("n", "web"),
        slow,
        map("n", "quick", &[("Deployment", "web", "uid-web", true)]),
        map("n", "grandchild", &[("ConfigMap", "quick", "uid-quick", true)]),
    ]);
    delete(&api, DEPLOYMENT, "web", DeletionPropagation::Foreground).await;
    collected(&api).await;
    assert_eq!(maps(&api), ["slow"]);
    assert!(api.value("apps/v1", "Deployment", "n", "web").is_some(), "slow blocks it");
    let mut slow = api.value("v1", "ConfigMap", "n", "slow").unwrap();
    slow["metadata"]["finalizers"] = json!([]);
    let maps_kind = api.resource_of("v1", "ConfigMap").unwrap();
    api.update(&maps_kind, slow).await.unwrap();
    collected(&api).await;
    assert_eq!(api.value("apps/v1", "Deployment", "n", "web"), None);
}

#[tokio::test(start_paused = true)]
async fn owners_in_a_circle_do_not_wait_for_each_other_for_ever() {
    let api = api();
    let one =
        |name: &str, owner: &str| map("n", name, &[("ConfigMap", owner, &format!("uid-{owner}"), true)]);
    api.seed_all([one("a", "c"), one("b", "a"), one("c", "b"), one("d", "c")]);
    delete(&api, ("v1", "ConfigMap"), "a", DeletionPropagation::Foreground).await;
    collected(&api).await;
    assert_eq!(maps(&api), Vec::<String>::new());
    // Two that were both deleted so, each for the other to go first, stay, as with kube-controller-manager; but nothing spins.
    api.seed_all([one("e", "f"), one("f", "e")]);
    for name in ["e", "f"] {
        delete(&api, ("v1", "ConfigMap"), name, DeletionPropagation::Foreground).await;
    }
    collected(&api).await;
    assert_eq!(maps(&api), ["e", "f"]);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let api = api();
    api.seed_all([owner("n", "web"), map("n", "a", &[("Deployment", "web", "uid-web", true)])]);
    delete(&api, DEPLOYMENT, "web", DeletionPropagation::Orphan).await;
    collected(&api).await;
    assert_eq!(api.value("apps/v1", "Deployment", "n", "web"), None);
    let a = api.value("v1", "ConfigMap", "n", "a").unwrap();
    assert_eq!(a["metadata"]["ownerReferences"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_a_kind_that_comes_later_is_then_judged() {
    let api = api();
    api.seed(map("n", "a", &[("Widget", "w", "uid-w", true)]));
    let stop = CancellationToken::new();
    let acts = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(maps(&api), ["a"]);
        api.serve(karmada_controller_runtime::port::fake::resource("v1", "Widget", "widgets", true));
        tokio::time::sleep(Duration::from_secs(40)).await;
        stop.cancel();
    };
    tokio::join!(run(api.clone(), stop.clone()), acts);
    assert!(maps(&api).is_empty());
}

fn of_the_hub(api_version: &str, kind: &str, namespace: &str, controller: bool) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web",
        "controller": controller, "blockOwnerDeletion": true});
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web-deployment", "namespace": namespace,
        "uid": format!("uid-{kind}"), "ownerReferences": [owner]}})
}

/// Jobs are orphaned where the client says nothing, by everybody who means no such thing: that is about what the user made.
#[tokio::test(start_paused = true)]
async fn what_the_hub_made_for_an_owner_goes_with_it_also_where_dependants_are_to_stay() {
    const BINDING: (&str, &str) = ("work.karmada.io/v1alpha2", "ResourceBinding");
    let api = api();
    api.seed_all([
        owner("n", "web"),
        map("n", "a", &[("Deployment", "web", "uid-web", false)]),
        of_the_hub(BINDING.0, BINDING.1, "n", true),
    ]);
    // A Work that a user wrote, with an owner of their choice.
    let mut by_hand = of_the_hub("work.karmada.io/v1alpha1", "Work", "n", false);
    by_hand["metadata"]["name"] = json!("by-hand");
    api.seed(by_hand);
    delete(&api, DEPLOYMENT, "web", DeletionPropagation::Orphan).await;
    collected(&api).await;
    assert_eq!(api.value("apps/v1", "Deployment", "n", "web"), None);
    assert_eq!(api.value(BINDING.0, BINDING.1, "n", "web-deployment"), None);
    for (version, kind, name) in [("v1", "ConfigMap", "a"), ("work.karmada.io/v1alpha1", "Work", "by-hand")] {
        let left = api.value(version, kind, "n", name).unwrap();
        assert_eq!(left["metadata"]["ownerReferences"], json!([]), "{name}");
    }
}

/// A hub that stops between the two: the owner is gone, its binding is not yet.
#[tokio::test(start_paused = true)]
async fn a_restart_between_an_owner_and_its_binding_changes_nothing() {
    let api = api();
    api.seed(of_the_hub("work.karmada.io/v1alpha2", "ResourceBinding", "n", true));
    collected(&api).await;
    assert!(api.values("work.karmada.io/v1alpha2", "ResourceBinding").is_empty());
}
