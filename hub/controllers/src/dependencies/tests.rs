//! What follows a binding, over the port in memory: conflicts, ends between two writes, restarts.

use karmada_core::feature_gates::FeatureGates;
use serde_json::json;

use super::*;
use crate::port::fake::FakeApi;
use crate::testing::{BINDING_API, Rig, bears_trouble, key};

const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");
const MAP: (&str, &str) = ("v1", "ConfigMap");
const FINALIZER: &str = "karmada.io/binding-dependencies-distributor";

/// A Deployment that refers to these ConfigMaps.
fn deployment(name: &str, maps: &[&str]) -> Value {
    let from: Vec<Value> = maps.iter().map(|map| json!({"configMapRef": {"name": map}})).collect();
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "uid": format!("t-{name}"), "generation": 1},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "main", "envFrom": from}]}}}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": format!("t-{name}"), "labels": {"app": "web"}}})
}

/// The binding of a Deployment that what it refers to follows to these clusters.
fn referrer(name: &str, clusters: &[&str]) -> Value {
    let targets: Vec<Value> =
        clusters.iter().map(|cluster| json!({"name": cluster, "replicas": 1})).collect();
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding",
        "metadata": {"name": format!("{name}-deployment"), "namespace": "default", "uid": format!("b-{name}"), "generation": 1,
            "labels": {"resourcebinding.karmada.io/permanent-id": format!("id-{name}")},
            "finalizers": ["karmada.io/binding-controller"]},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name,
                "uid": format!("t-{name}")},
            "propagateDeps": true, "replicas": 1, "placement": {}, "schedulerName": "default-scheduler", "clusters": targets}})
}

fn at(name: &str) -> Key {
    key("default", name)
}

async fn look_at(rig: &Rig, name: &str) -> Result<Action, Error> {
    let action = Dependencies::new(rig.shared.clone()).reconcile(&at(name)).await;
    rig.quiet().await;
    action
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    look_at(rig, "web-deployment").await
}

fn binding(api: &FakeApi, name: &str) -> Value {
    api.value(BINDING.0, BINDING.1, "default", name).unwrap()
}

/// Who requires a binding, and in which clusters.
fn required(api: &FakeApi, name: &str) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = binding(api, name)["spec"]["requiredBy"].clone();
    let entries = entries.as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let clusters = entry["clusters"].as_array().into_iter().flatten();
            (text(&entry["name"]), clusters.map(|cluster| text(&cluster["name"])).collect())
        })
        .collect()
}

fn by(name: &str, clusters: &[&str]) -> (String, Vec<String>) {
    (format!("{name}-deployment"), clusters.iter().map(|cluster| (*cluster).to_owned()).collect())
}

/// The events that were told, as type, reason and message.
async fn told(rig: &Rig) -> Vec<String> {
    let (recorder, stop) = (rig.shared.recorder.clone(), CancellationToken::new());
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { recorder.run(stop).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop.cancel();
    running.await.unwrap();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let events = rig.api.values("v1", "Event");
    let all = events
        .iter()
        .map(|event| [text(event, "type"), text(event, "reason"), text(event, "message")].join(" "));
    all.collect()
}

#[tokio::test(start_paused = true)]
async fn statement_53_what_a_template_refers_to_is_attached_whatever_happens_between() {
    let objects =
        [deployment("web", &["a", "b", "absent"]), map("a"), map("b"), referrer("web", &["m1", "m2"])];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 3, "the note, and two attached bindings");
    let web = binding(&api, "web-deployment");
    assert!(web["metadata"]["finalizers"].as_array().unwrap().contains(&json!(FINALIZER)));
    let note = web["metadata"]["annotations"]["resourcebinding.karmada.io/dependencies"].as_str().unwrap();
    assert_eq!(note.matches("ConfigMap").count(), 3, "what is not there yet is noted too: {note}");
    for name in ["a", "b"] {
        let attached = binding(&api, &format!("{name}-configmap"));
        assert_eq!(attached["metadata"]["ownerReferences"][0]["uid"], format!("t-{name}"));
        assert_eq!(attached["spec"].get("placement"), None, "{attached}");
        let label = attached["metadata"]["labels"].as_object().unwrap();
        let label = label.iter().find(|(key, _)| key.starts_with("resourcebinding.karmada.io/depended-by-"));
        assert_eq!(label.unwrap().1, "id-web");
        assert_eq!(required(&api, &format!("{name}-configmap")), [by("web", &["m1", "m2"])]);
    }
}

#[tokio::test(start_paused = true)]
async fn statement_53_nothing_is_attached_before_the_referrer_is_placed() {
    let rig = Rig::new([deployment("web", &["a"]), map("a"), referrer("web", &[])]).await;
    let revision = rig.api.revision();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.revision(), revision);
    rig.edit(BINDING, &at("web-deployment"), |binding| binding["spec"]["clusters"] = json!([{"name": "m1"}]))
        .await;
    look(&rig).await.unwrap();
    assert_eq!(required(&rig.api, "a-configmap"), [by("web", &["m1"])]);
    rig.edit(BINDING, &at("web-deployment"), |binding| binding["spec"]["clusters"] = json!([])).await;
    look(&rig).await.unwrap();
    assert_eq!(
        required(&rig.api, "a-configmap"),
        [by("web", &[])],
        "once it was placed, it is told of each change"
    );
}

/// A lazy policy leaves the binding as it is until a person changes the template; what the template refers to is no part of that.
#[tokio::test(start_paused = true)]
async fn statement_58_what_a_template_of_a_lazy_policy_refers_to_follows_as_of_any() {
    let mut lazy = referrer("web", &["m1"]);
    lazy["metadata"]["annotations"] =
        json!({"edge.karmada.io/lazily-seen": "another digest than the template has now"});
    let rig = Rig::new([deployment("web", &["a"]), map("a"), map("b"), lazy]).await;
    look(&rig).await.unwrap();
    rig.edit(("apps/v1", "Deployment"), &at("web"), |template| {
        template["spec"] = deployment("web", &["a", "b"])["spec"].clone();
    })
    .await;
    look(&rig).await.unwrap();
    for name in ["a", "b"] {
        assert_eq!(required(&rig.api, &format!("{name}-configmap")), [by("web", &["m1"])], "{name}");
    }
}

/// Two referrers of one ConfigMap, both entered.
async fn shared_map() -> Rig {
    let mut other = referrer("api", &["m2"]);
    other["spec"]["conflictResolution"] = json!("Overwrite");
    let objects =
        [deployment("web", &["a"]), deployment("api", &["a"]), map("a"), referrer("web", &["m1"]), other];
    let rig = Rig::new(objects).await;
    look(&rig).await.unwrap();
    look_at(&rig, "api-deployment").await.unwrap();
    assert_eq!(required(&rig.api, "a-configmap"), [by("web", &["m1"]), by("api", &["m2"])]);
    rig
}

#[tokio::test(start_paused = true)]
async fn statement_56_referrers_that_disagree_are_told_until_they_agree_or_one_goes() {
    let rig = shared_map().await;
    assert_eq!(binding(&rig.api, "a-configmap")["spec"]["conflictResolution"], "Overwrite");
    let conflict = "Warning DependencyPolicyConflict Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort).";
    let events = told(&rig).await;
    assert!(events.contains(&conflict.to_owned()), "{events:?}");
    for reason in ["Normal GetDependenciesSucceed", "Normal SyncScheduleResultToDependenciesSucceed"] {
        assert!(events.iter().any(|event| event.starts_with(reason)), "{reason}: {events:?}");
    }
    rig.edit(BINDING, &at("api-deployment"), |binding| binding["spec"]["propagateDeps"] = json!(false)).await;
    look_at(&rig, "api-deployment").await.unwrap();
    assert_eq!(required(&rig.api, "a-configmap"), [by("web", &["m1"])]);
    assert_eq!(binding(&rig.api, "a-configmap")["spec"]["conflictResolution"], "Abort");
}

#[tokio::test(start_paused = true)]
async fn statement_57_a_referrer_that_is_deleted_lets_go_first_whatever_happens_between() {
    let before = shared_map().await;
    before.delete(BINDING, &at("web-deployment")).await;
    let held = binding(&before.api, "web-deployment");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "its finalizers hold it");
    let (api, writes) = bears_trouble(&before.api.everything(), look).await;
    assert_eq!(writes, 2, "the attached binding, and its own finalizer");
    assert_eq!(required(&api, "a-configmap"), [by("api", &["m2"])]);
    let finalizers = binding(&api, "web-deployment")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["karmada.io/binding-controller"]), "what others hold is theirs");
}

#[tokio::test(start_paused = true)]
async fn statement_57_the_last_referrer_leaves_a_binding_without_clusters() {
    let rig = Rig::new([deployment("web", &["a"]), map("a"), referrer("web", &["m1"])]).await;
    look(&rig).await.unwrap();
    let entry = binding(&rig.api, "a-configmap");
    rig.edit(("apps/v1", "Deployment"), &at("web"), |web| {
        web["spec"] = deployment("web", &[])["spec"].clone();
    })
    .await;
    look(&rig).await.unwrap();
    let left = binding(&rig.api, "a-configmap");
    assert_eq!(left["metadata"]["uid"], entry["metadata"]["uid"]);
    assert_eq!(
        left["spec"],
        json!({"resource": left["spec"]["resource"]}),
        "nothing of the referrer is left"
    );
    assert!(!left["metadata"]["labels"].to_string().contains("depended-by"), "{left}");
    let web = binding(&rig.api, "web-deployment");
    assert_eq!(web["metadata"]["annotations"]["resourcebinding.karmada.io/dependencies"], "[]");
}

/// A referrer whose finalizer somebody took away is gone, and its snapshot is still there: also a hub that starts anew finds it.
#[tokio::test(start_paused = true)]
async fn a_referrer_that_is_gone_is_taken_out_by_a_hub_that_starts_anew() {
    let rig = shared_map().await;
    rig.remove(BINDING, &at("web-deployment")).await;
    let rig = rig.restarted().await;
    let (woken, queue) =
        (Arc::new(parking_lot::Mutex::new(Vec::new())), rig.shared.bindings.dependencies.clone());
    let heard = woken.clone();
    queue.listen(Box::new(move |keys| heard.lock().extend(keys)));
    assert!(woken.lock().contains(&at("web-deployment")), "{woken:?}");
    look(&rig).await.unwrap();
    assert_eq!(required(&rig.api, "a-configmap"), [by("api", &["m2"])]);
}

#[tokio::test(start_paused = true)]
async fn statement_55_what_a_policy_places_keeps_its_place_and_is_required_too() {
    let mut own =
        crate::testing::binding("a", &json!({"clusterAffinity": {"clusterNames": ["m9"]}}), &["m9"]);
    own["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "t-a", "controller": true}]);
    own["spec"]["conflictResolution"] = json!("Abort");
    let mut web = referrer("web", &["m1"]);
    web["spec"]["conflictResolution"] = json!("Overwrite");
    let objects = [deployment("web", &["a"]), map("a"), web, own.clone()];
    let (api, _) = bears_trouble(&objects, look).await;
    let both = binding(&api, "a-configmap");
    assert_eq!(required(&api, "a-configmap"), [by("web", &["m1"])]);
    for field in ["clusters", "placement", "conflictResolution"] {
        assert_eq!(both["spec"][field], own["spec"][field], "{field}");
    }
}

/// An object of the same name is made anew: its binding is still the one before's, and waits to be collected.
#[tokio::test(start_paused = true)]
async fn an_object_made_anew_waits_for_the_binding_of_the_one_before() {
    let rig = Rig::new([deployment("web", &["a"]), map("a"), referrer("web", &["m1"])]).await;
    look(&rig).await.unwrap();
    rig.delete(MAP, &at("a")).await;
    let mut anew = map("a");
    anew["metadata"]["uid"] = json!("t-another");
    rig.api.seed(anew);
    rig.quiet().await;
    assert!(matches!(look(&rig).await, Err(Error::Other(words)) if words.contains("another object")));
    let events = told(&rig).await;
    assert!(
        events.iter().any(|event| event.starts_with("Warning SyncScheduleResultToDependenciesFailed")),
        "{events:?}"
    );
    rig.remove(BINDING, &at("a-configmap")).await;
    look(&rig).await.unwrap();
    assert_eq!(binding(&rig.api, "a-configmap")["metadata"]["ownerReferences"][0]["uid"], "t-another");
}

/// A customization that has Deployments depend on what it says, in Lua.
fn customization(dependency: &str) -> Value {
    let script = format!("function GetDependencies(obj) return {{ {{ {dependency} }} }} end");
    json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": "own", "generation": 1},
        "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"dependencyInterpretation": {"luaScript": script}}}})
}

#[tokio::test(start_paused = true)]
async fn statement_54_what_is_selected_by_labels_follows_for_as_long_as_it_has_them() {
    let script = customization(
        "apiVersion = 'v1', kind = 'ConfigMap', namespace = 'default', labelSelector = { matchLabels = { app = 'web' } }",
    );
    let objects = [deployment("web", &["c"]), map("a"), map("b"), referrer("web", &["m1"]), script];
    let rig = Rig::new(objects).await;
    look(&rig).await.unwrap();
    for name in ["a-configmap", "b-configmap"] {
        assert_eq!(required(&rig.api, name), [by("web", &["m1"])]);
    }
    rig.edit(MAP, &at("b"), |map| map["metadata"]["labels"]["app"] = json!("other")).await;
    look(&rig).await.unwrap();
    assert_eq!((required(&rig.api, "a-configmap").len(), required(&rig.api, "b-configmap").len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_another_namespace_does_not_follow_and_is_told() {
    let script = customization("apiVersion = 'v1', kind = 'ConfigMap', namespace = 'bank', name = 'a'");
    let mut foreign = map("a");
    foreign["metadata"]["namespace"] = json!("bank");
    let rig = Rig::new([deployment("web", &[]), foreign, map("a"), referrer("web", &["m1"]), script]).await;
    look(&rig).await.unwrap();
    assert_eq!(rig.api.value(BINDING.0, BINDING.1, "default", "a-configmap"), None);
    assert_eq!(rig.api.value(BINDING.0, BINDING.1, "bank", "a-configmap"), None);
    let events = told(&rig).await;
    assert!(
        events.iter().any(|event| event.contains("ConfigMap bank/a is not in namespace default")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_that_cannot_be_interpreted_is_told_and_what_follows_it_stays() {
    let rig = Rig::new([deployment("web", &["a"]), map("a"), referrer("web", &["m1"])]).await;
    look(&rig).await.unwrap();
    rig.edit(("apps/v1", "Deployment"), &at("web"), |web| {
        web["spec"]["template"]["spec"]["containers"] = json!("none");
    })
    .await;
    assert!(look(&rig).await.is_err());
    assert_eq!(required(&rig.api, "a-configmap"), [by("web", &["m1"])]);
    let events = told(&rig).await;
    assert!(events.iter().any(|event| event.starts_with("Warning GetDependenciesFailed")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_new_follows_and_what_goes_lets_go() {
    let off = || FeatureGates::default().without(Gate::PropagateDeps);
    let objects = [deployment("web", &["a"]), map("a"), referrer("web", &["m1"])];
    let rig = Rig::new(objects).await;
    let rig = Rig::started(rig.api.clone(), "2026-05-01T12:00:00Z", off()).await;
    let revision = rig.api.revision();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.revision(), revision);
    let on = rig.restarted().await;
    look(&on).await.unwrap();
    let off = Rig::started(on.api.clone(), "2026-05-01T12:00:00Z", off()).await;
    look(&off).await.unwrap();
    assert_eq!(required(&off.api, "a-configmap"), [by("web", &["m1"])], "what is attached stays");
    off.delete(BINDING, &at("web-deployment")).await;
    look(&off).await.unwrap();
    assert_eq!(required(&off.api, "a-configmap"), []);
    assert!(!binding(&off.api, "web-deployment").to_string().contains(FINALIZER), "nothing holds it");
}
