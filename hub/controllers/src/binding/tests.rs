//! Bindings whose Works would have one name, over the port in memory.

mod evictions;
mod held_removals;
mod residency;

use karmada_api::strings::annotations;
use serde_json::json;

use super::*;
use crate::namespace::{NamespaceKey, NamespaceSync};
use crate::testing::{self, Rig};

/// Two namespaces with one hash for a ConfigMap named `same`: anybody finds such a pair within a second.
const PAIR: [&str; 2] = ["n512789", "n749192"];

struct Stage(Rig);

impl Stage {
    async fn new() -> Self {
        Stage(Rig::new(testing::cluster("m1", &json!({}))).await)
    }

    /// A ConfigMap `name` that is placed in m1.
    fn place(&self, namespace: &str, name: &str) {
        let binding = format!("{name}-configmap");
        let id = format!("{namespace}-id");
        self.0.api.seed_all([
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"of": namespace}}),
            json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": binding, "namespace": namespace,
                    "labels": {"resourcebinding.karmada.io/permanent-id": id}, "finalizers": [finalizers::BINDING]},
                "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name},
                    "schedulerName": "default-scheduler", "placement": {}, "clusters": [{"name": "m1"}]}}),
        ]);
    }

    async fn reconcile(&self, namespace: &str, name: &str) -> Result<Action, Error> {
        let key = Key { namespace: namespace.into(), name: format!("{name}-configmap").into() };
        self.0.quiet().await;
        Binding::new(self.0.shared.clone()).reconcile(&key).await
    }

    /// The Works, as (name, template's namespace or name).
    fn works(&self) -> Vec<(String, String)> {
        let of = |work: &Value| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let named = manifest["metadata"]["annotations"][annotations::WORK_NAME].clone();
            assert_eq!(named, work["metadata"]["name"], "its object tells where it comes from");
            let namespace = &manifest["metadata"]["namespace"];
            let whose = if namespace.is_null() { &manifest["metadata"]["name"] } else { namespace };
            (text(&work["metadata"]["name"]), text(whose))
        };
        self.0.api.values(WORK_API, "Work").iter().map(of).collect()
    }
}

/// As somebody writes it who may write bindings in one namespace, or as an earlier version stored it.
#[tokio::test(start_paused = true)]
async fn a_binding_places_nothing_of_another_namespace_and_takes_back_what_it_did() {
    let stage = Stage::new().await;
    stage.place("n1", "web");
    stage.reconcile("n1", "web").await.unwrap();
    assert_eq!(stage.works().len(), 1);
    let mut binding = stage.0.api.value(BINDING_API, "ResourceBinding", "n1", "web-configmap").unwrap();
    stage.place("n2", "web");
    binding["spec"]["resource"]["namespace"] = json!("n2");
    stage.0.api.seed(binding);
    stage.reconcile("n1", "web").await.unwrap();
    stage.0.quiet().await;
    stage.reconcile("n1", "web").await.unwrap();
    let left = stage.0.api.values(WORK_API, "Work");
    assert!(left.iter().all(|work| !work["metadata"]["deletionTimestamp"].is_null()), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn two_bindings_whose_works_would_have_one_name_have_a_work_each() {
    let stage = Stage::new().await;
    for namespace in PAIR {
        stage.place(namespace, "same");
        stage.reconcile(namespace, "same").await.unwrap();
    }
    let works = stage.works();
    let [(first, one), (second, other)] = &works[..] else { panic!("{works:?}") };
    assert_eq!((one.as_str(), other.as_str()), (PAIR[0], PAIR[1]));
    assert!(second.starts_with(&format!("{first}-")), "{second}");
    let mut revision = 0;
    // The first round completes what admission completes on a hub.
    for round in 0..2 {
        for namespace in PAIR {
            stage.reconcile(namespace, "same").await.unwrap();
        }
        assert!(round == 0 || revision == stage.0.api.revision(), "at rest");
        revision = stage.0.api.revision();
    }
    assert_eq!(stage.works(), works);

    // The first goes: the second keeps its name, and does not appear twice.
    stage.0.remove((WORK_API, "Work"), &testing::key("karmada-es-m1", first)).await;
    stage.reconcile(PAIR[1], "same").await.unwrap();
    assert_eq!(stage.works(), works[1..]);
    stage.reconcile(PAIR[0], "same").await.unwrap();
    assert_eq!(stage.works(), works, "and leaves the usual name to whoever had it");
    // Which binding a Work is of is known by the index, whatever its name.
    let binding: ResourceBinding = fetch::get(
        &*stage.0.api,
        &kinds::bindings(&*stage.0.api, PAIR[1]).unwrap(),
        PAIR[1],
        "same-configmap",
    )
    .await
    .unwrap()
    .unwrap();
    let own = stage.0.shared.works_of(&binding).await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(&*own[0].key.name, second.as_str());
}

/// A Work by hand under the usual name, or one of an object that was there before: taken over as ever.
#[tokio::test(start_paused = true)]
async fn a_work_that_is_nobodys_is_taken_over() {
    let stage = Stage::new().await;
    stage.place("n1", "web");
    let name = names::work_name("ConfigMap", "web", "n1");
    stage.0.api.seed(json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": name, "namespace": "karmada-es-m1"},
        "spec": {"workload": {"manifests": []}}}));
    stage.reconcile("n1", "web").await.unwrap();
    assert_eq!(stage.works(), [(name, "n1".to_owned())]);
}

/// Somebody who may choose a namespace's name could else have an object of theirs take the place of another namespace.
#[tokio::test(start_paused = true)]
async fn a_namespace_and_a_binding_have_a_work_each() {
    let stage = Stage::new().await;
    let usual = names::work_name("Namespace", "team", "");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    stage.0.api.seed(namespace);
    stage.place("n1", "other");
    stage.reconcile("n1", "other").await.unwrap();
    let mut work = stage.0.api.values(WORK_API, "Work").pop().unwrap();
    let first = testing::key("karmada-es-m1", work["metadata"]["name"].as_str().unwrap());
    stage.0.remove((WORK_API, "Work"), &first).await;
    // As if their hashes were one.
    work["metadata"]["name"] = json!(usual);
    work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"][annotations::WORK_NAME] =
        json!(usual);
    stage.0.api.seed(work);
    let sync =
        NamespaceSync::new(stage.0.shared.clone(), karmada_core::skipped_resources::SkipRules::default());
    let key = NamespaceKey { namespace: "team".into(), cluster: None };
    for _ in 0..2 {
        sync.reconcile(&key).await.unwrap();
        let works = stage.works();
        assert_eq!(works[0], (usual.clone(), "n1".to_owned()));
        assert_eq!((works.len(), works[1].1.as_str()), (2, "team"), "{works:?}");
    }
}

/// Deleted and made anew at once: the Work of the first waits for its cluster, and the second's is made when it is gone.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_made_anew_waits_for_the_work_of_the_one_before() {
    let stage = Stage::new().await;
    let sync =
        NamespaceSync::new(stage.0.shared.clone(), karmada_core::skipped_resources::SkipRules::default());
    let key = NamespaceKey { namespace: "team".into(), cluster: None };
    let namespace = |uid: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "uid": uid}});
    stage.0.api.seed(namespace("u1"));
    sync.reconcile(&key).await.unwrap();
    let owner = |stage: &Stage| {
        let works = stage.0.api.values(WORK_API, "Work");
        works.iter().map(|work| work["metadata"]["ownerReferences"][0]["uid"].clone()).collect::<Vec<_>>()
    };
    stage.0.api.seed(namespace("u2"));
    let before = stage.0.api.values(WORK_API, "Work");
    let waits = sync.reconcile(&key).await.unwrap();
    assert!(
        matches!(waits, Action::RequeueAfter(_)),
        "the garbage collector has not come to it yet: {waits:?}"
    );
    let resource = stage.0.api.resource_of(WORK_API, "Work").unwrap();
    let name = before[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let work = Key { namespace: "karmada-es-m1".into(), name: name.as_str().into() };
    assert_eq!(stage.0.api.values(WORK_API, "Work"), before, "it is the first one's, and goes with it");
    stage.0.api.delete(&resource, &work, "", DeletionPropagation::Background).await.unwrap();
    let waits = sync.reconcile(&key).await.unwrap();
    assert!(matches!(waits, Action::RequeueAfter(_)), "its cluster has not let go yet: {waits:?}");
    assert_eq!(owner(&stage), [json!("u1")]);
    let mut old = stage.0.api.values(WORK_API, "Work").pop().unwrap();
    old["metadata"]["finalizers"] = json!([]);
    stage.0.api.update(&resource, old).await.unwrap();
    assert!(matches!(sync.reconcile(&key).await.unwrap(), Action::Done));
    assert_eq!(owner(&stage), [json!("u2")]);
}

const TEMPLATE: (&str, &str) = ("v1", "ConfigMap");

/// Makes the binding of `n1/web` one that the hub made for the template of this uid.
async fn made_for(stage: &Stage, uid: &str, owned: bool) {
    let resource = stage.0.api.resource_of(BINDING_API, "ResourceBinding").unwrap();
    let mut binding = stage.0.api.value(BINDING_API, "ResourceBinding", "n1", "web-configmap").unwrap();
    binding["spec"]["resource"]["uid"] = json!(uid);
    if owned {
        binding["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": uid, "controller": true}]);
    }
    stage.0.api.update(&resource, binding).await.unwrap();
}

/// What an older hub orphaned, whether its template is gone or another has its name: it goes, and its Works with it.
#[tokio::test(start_paused = true)]
async fn a_binding_that_nobody_owns_ends_with_its_template() {
    for anew in [false, true] {
        let stage = Stage::new().await;
        stage.place("n1", "web");
        stage.reconcile("n1", "web").await.unwrap();
        assert_eq!(stage.works().len(), 1);
        made_for(&stage, "of-an-earlier-one", false).await;
        if !anew {
            stage.0.remove(TEMPLATE, &testing::key("n1", "web")).await;
        }
        for _ in 0..2 {
            stage.reconcile("n1", "web").await.unwrap();
        }
        assert_eq!(stage.0.api.value(BINDING_API, "ResourceBinding", "n1", "web-configmap"), None, "{anew}");
        let works = stage.0.api.values(WORK_API, "Work");
        assert!(works.iter().all(|work| work["metadata"]["deletionTimestamp"].is_string()), "{works:?}");
    }
}

/// Between a template's deletion and the garbage collector's turn the next one of its name may be there already.
#[tokio::test(start_paused = true)]
async fn a_binding_places_nothing_of_another_template() {
    let stage = Stage::new().await;
    stage.place("n1", "web");
    made_for(&stage, "of-an-earlier-one", true).await;
    stage.reconcile("n1", "web").await.unwrap();
    assert_eq!(stage.works(), [], "it is the garbage collector's");
    assert!(stage.0.api.value(BINDING_API, "ResourceBinding", "n1", "web-configmap").is_some());
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    Binding::new(rig.shared.clone()).reconcile(&testing::key("default", "web-configmap")).await
}

fn objects() -> Vec<Value> {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    let mut objects: Vec<Value> = clusters.collect();
    objects.extend([testing::config_map("web"), testing::binding("web", &json!({}), &["m1", "m2"])]);
    // One that nobody wants any more.
    objects.push(json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "old", "namespace": "karmada-es-m3",
        "labels": {"resourcebinding.karmada.io/permanent-id": "b-web"}}, "spec": {"workload": {"manifests": []}}}));
    objects
}

#[tokio::test(start_paused = true)]
async fn a_binding_has_its_works_and_no_others_whatever_happens_between() {
    let (api, writes) = testing::bears_trouble(&objects(), look).await;
    assert_eq!(writes, 3, "one that nobody wants goes, two come");
    let places = api.values(WORK_API, "Work").into_iter().map(|work| work["metadata"]["namespace"].clone());
    assert_eq!(places.collect::<Vec<_>>(), ["karmada-es-m1", "karmada-es-m2"]);
}

#[tokio::test(start_paused = true)]
async fn a_binding_ends_after_its_works_whatever_happens_between() {
    let mut objects = objects();
    objects[5]["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    let (api, writes) = testing::bears_trouble(&objects, look).await;
    assert_eq!(writes, 2, "its Work, and itself");
    assert!(api.values(WORK_API, "Work").is_empty());
    assert_eq!(api.value(BINDING_API, "ResourceBinding", "default", "web-configmap"), None);
}

/// A binding of a thousand clusters is not a thousand Works in memory.
#[tokio::test(start_paused = true)]
async fn works_are_rendered_when_their_turn_to_be_written_comes() {
    let names: Vec<String> = (0..200).map(|n| format!("m{n:03}")).collect();
    let mut objects: Vec<Value> = names.iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    objects.extend([testing::config_map("web"), testing::binding("web", &json!({}), &names)]);
    let rig = Rig::new(objects).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    assert_eq!(rig.api.values(WORK_API, "Work").len(), 200);
    let before = rig.api.calls("read", "Work");
    rig.edit((BINDING_API, "ResourceBinding"), &testing::key("default", "web-configmap"), |binding| {
        binding["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    })
    .await;
    rig.delete((BINDING_API, "ResourceBinding"), &testing::key("default", "web-configmap")).await;
    look(&rig).await.unwrap();
    assert_eq!(rig.api.calls("read", "Work"), before, "to let Works go, none is read");
}

/// What an override policy that cannot be read says of it nobody knows: nothing is made anew, and what is there stays, also where it moves.
#[tokio::test(start_paused = true)]
async fn nothing_moves_while_an_override_policy_cannot_be_read() {
    let stage = Stage::new().await;
    stage.0.api.seed_all(testing::cluster("m2", &json!({})));
    stage.place("default", "same");
    stage.reconcile("default", "same").await.unwrap();
    assert_eq!(stage.works().len(), 1);
    stage.0.api.seed(json!({"apiVersion": testing::POLICY_API, "kind": "ClusterOverridePolicy", "metadata": {"name": "o"}, "spec": 1}));
    let key = Key { namespace: "default".into(), name: "same-configmap".into() };
    let moves = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m2"}]);
    stage.0.edit((BINDING_API, "ResourceBinding"), &key, moves).await;
    let refused = stage.reconcile("default", "same").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("the override policy o cannot be read")));
    let works = stage.0.api.values(WORK_API, "Work");
    assert_eq!(works.len(), 1);
    assert_eq!(works[0]["metadata"]["namespace"], "karmada-es-m1");
    assert!(works[0]["metadata"]["deletionTimestamp"].is_null());
}

/// Whoever wrote the workload looks at its events.
#[tokio::test(start_paused = true)]
async fn that_the_hub_refuses_a_work_is_told_and_that_somebody_was_faster_is_not() {
    let refusals = [
        (ApiError::Invalid("its annotations are too long".into()), true),
        (ApiError::Forbidden { reason: "Forbidden".into(), message: "a webhook said no".into() }, true),
        (ApiError::Conflict("somebody was faster".into()), false),
    ];
    for (refusal, is_told) in refusals {
        let words = refusal.to_string();
        let stage = Stage::new().await;
        stage.place("default", "same");
        stage.0.api.refuse("create", "Work", refusal);
        let stop = tokio_util::sync::CancellationToken::new();
        let recorder = stage.0.shared.recorder.clone();
        let ended = stop.clone();
        let recording = tokio::spawn(async move { recorder.run(ended).await });
        assert!(stage.reconcile("default", "same").await.is_err());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let events = stage.0.api.values("v1", "Event");
        let tells = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "SyncWorkFailed" && message.contains(&words)
        };
        assert_eq!(events.iter().any(tells), is_told, "{words}: {events:?}");
        stop.cancel();
        recording.await.unwrap();
    }
}
