//! Returning to an earlier group, over the port in memory.

use std::time::Duration;

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::port::fake::FakeApi;
use crate::testing::{self, CLUSTER_API, POLICY_API, Rig, key};

/// Between two that return, where nobody says otherwise.
const TURN: Duration = Duration::from_secs(15);

/// A ConfigMap that is in the second of two groups; the first one's cluster is ready since this time.
fn objects(after: &Value, ready_since: &str) -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["near", "far"].into_iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    objects[0]["status"]["conditions"][0]["lastTransitionTime"] = json!(ready_since);
    let groups = json!({"clusterAffinities": [
        {"affinityName": "first", "clusterNames": ["near"]}, {"affinityName": "second", "clusterNames": ["far"]}]});
    objects.push(json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default", "annotations": after},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}], "placement": groups}}));
    let mut binding = testing::binding("web", &groups, &["far"]);
    binding["metadata"]["annotations"] = json!({"propagationpolicy.karmada.io/namespace": "default",
        "propagationpolicy.karmada.io/name": "p", "policy.karmada.io/applied-placement": groups.to_string()});
    binding["status"] = json!({"schedulerObservedGeneration": 1, "schedulerObservingAffinityName": "second",
        "lastScheduledTime": "2026-05-01T11:00:00Z",
        "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-05-01T11:00:00Z"}]});
    objects.push(binding);
    objects
}

fn after(window: &str) -> Value {
    json!({"edge.karmada.io/failback-after": window})
}

async fn at(api: &Arc<FakeApi>, minute: u32) -> Rig {
    Rig::started(api.clone(), &format!("2026-05-01T12:{minute:02}:00Z"), FeatureGates::default()).await
}

/// One look at each of these minutes after noon, by one controller.
async fn looks(api: &Arc<FakeApi>, minutes: &[u32]) -> Action {
    let mut wanted = BTreeMap::new();
    let mut came = Action::Done;
    let mut last = minutes[0];
    for minute in minutes {
        tokio::time::advance(Duration::from_secs(60 * u64::from(minute - last))).await;
        last = *minute;
        let rig = at(api, *minute).await;
        let failback = Failback {
            shared: rig.shared.clone(),
            estimator: None,
            patience: SignedDuration::from_mins(10),
            started: Instant::now(),
            turns: Mutex::new(RoundRobin::new(Duration::ZERO)),
            wanted: Mutex::new(wanted),
        };
        came = failback.reconcile(&key("default", "web-configmap")).await.unwrap();
        wanted = failback.wanted.lock().clone();
        rig.quiet().await;
    }
    came
}

fn spec(api: &FakeApi) -> Value {
    api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap()["spec"].clone()
}

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

#[tokio::test(start_paused = true)]
async fn it_returns_once_the_earlier_group_was_well_for_long_enough() {
    let api = Rig::new(objects(&after("10m"), LONG_AGO)).await.api;
    assert_eq!(looks(&api, &[0, 5, 9]).await, again(LOOK));
    assert_eq!(api.writes(), 0, "not before its time");
    assert_eq!(looks(&api, &[0, 10]).await, Action::Done);
    let spec = spec(&api);
    assert_eq!(spec["clusters"], json!([{"name": "near"}]));
    assert_eq!(spec["gracefulEvictionTasks"][0]["fromCluster"], "far");
    let writes = api.writes();
    looks(&api, &[20, 30, 40]).await;
    assert_eq!(api.writes(), writes, "it is under way");
}

/// Edits the one binding, as its other controllers do.
async fn edit(api: &Arc<FakeApi>, change: impl FnOnce(&mut Value)) {
    let at = (BINDING_API, "ResourceBinding");
    self::at(api, 0).await.edit(at, &key("default", "web-configmap"), change).await;
}

/// What ran well in the later group goes on there, also where the hub dies between the two writes.
#[tokio::test(start_paused = true)]
async fn a_return_that_does_not_become_healthy_is_taken_back() {
    let api = Rig::new(objects(&after("0s"), LONG_AGO)).await.api;
    looks(&api, &[0, 1]).await;
    edit(&api, |binding| {
        binding["spec"]["gracefulEvictionTasks"][0]["creationTimestamp"] = json!("2026-05-01T12:01:00Z");
        binding["status"]["schedulerObservingAffinityName"] = json!("first");
        binding["status"]["lastScheduledTime"] = json!("2026-05-01T12:01:00Z");
    })
    .await;
    let writes = api.writes();
    looks(&api, &[5, 11]).await;
    assert_eq!(api.writes(), writes, "it has ten minutes");
    looks(&api, &[12]).await;
    let taken_back = spec(&api);
    assert_eq!(taken_back["clusters"], json!([{"name": "far"}]));
    assert!(taken_back["gracefulEvictionTasks"].as_array().is_none_or(Vec::is_empty));
    looks(&api, &[13]).await;
    let status =
        api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap()["status"].clone();
    assert_eq!(status["schedulerObservingAffinityName"], "second");
    edit(&api, |binding| {
        let generation = binding["metadata"]["generation"].clone();
        binding["status"]["schedulerObservedGeneration"] = generation;
    })
    .await;
    let writes = api.writes();
    looks(&api, &[14, 40, 59]).await;
    assert_eq!(api.writes(), writes, "the next try is an hour off");
}

/// Its newest generation is not scheduled yet, again and again: what was watched so far counts.
#[tokio::test(start_paused = true)]
async fn a_binding_that_changes_often_returns_all_the_same() {
    let api = Rig::new(objects(&after("10m"), LONG_AGO)).await.api;
    let shared = at(&api, 0).await;
    let failback = Failback::new(shared.shared.clone(), None, &LifecycleOptions::default());
    let web = key("default", "web-configmap");
    failback.reconcile(&web).await.unwrap();
    assert_eq!(failback.wanted.lock().len(), 1);
    edit(&api, |binding| binding["status"]["schedulerObservedGeneration"] = json!(0)).await;
    failback.reconcile(&web).await.unwrap();
    assert_eq!(failback.wanted.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_policys_word_it_stays() {
    for notes in [json!({}), after("soon"), after("-5m")] {
        let api = Rig::new(objects(&notes, LONG_AGO)).await.api;
        assert_eq!(looks(&api, &[0, 30, 59]).await, again(LOOK), "{notes}");
        assert_eq!(api.writes(), 0, "{notes}");
    }
}

/// Between two looks it was away: it is ready for five minutes now.
#[tokio::test(start_paused = true)]
async fn an_outage_that_no_look_saw_counts() {
    let api = Rig::new(objects(&after("10m"), "2026-05-01T12:15:00Z")).await.api;
    assert_eq!(looks(&api, &[0, 20]).await, again(LOOK));
    assert_eq!(api.writes(), 0);
    assert_eq!(looks(&api, &[0, 25]).await, Action::Done);
}

/// A taint keeps it away, and has the count begin anew.
#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_take_it_meanwhile_is_watched_anew() {
    let api = Rig::new(objects(&after("10m"), LONG_AGO)).await.api;
    let taint = async |taints: Value| {
        let rig = at(&api, 0).await;
        rig.edit((CLUSTER_API, "Cluster"), &key("", "near"), |cluster| cluster["spec"]["taints"] = taints)
            .await;
    };
    taint(json!([{"key": "k", "effect": "NoSchedule"}])).await;
    let writes = api.writes();
    assert_eq!(looks(&api, &[0, 30]).await, again(LOOK));
    let shared = at(&api, 30).await;
    let failback = Failback::new(shared.shared.clone(), None, &LifecycleOptions::default());
    failback.wanted.lock().insert(key("default", "web-configmap"), Instant::now());
    failback.reconcile(&key("default", "web-configmap")).await.unwrap();
    assert!(failback.wanted.lock().is_empty());
    assert_eq!(api.writes(), writes);
    taint(json!([])).await;
    assert_eq!(looks(&api, &[31, 42]).await, Action::Done);
    assert_eq!(spec(&api)["clusters"], json!([{"name": "near"}]));
}

#[tokio::test(start_paused = true)]
async fn they_take_turns() {
    let rig = Rig::new(objects(&after("0s"), LONG_AGO)).await;
    let failback = Failback::new(rig.shared.clone(), None, &LifecycleOptions::default());
    let ask = |namespace: &str, name: &str| {
        failback.turns.lock().ask(&namespace.into(), &name.into(), failback.started.elapsed())
    };
    assert_eq!(ask("default", "another"), None);
    let came = failback.reconcile(&key("default", "web-configmap")).await.unwrap();
    assert_eq!(came, Action::RequeueAfter(TURN));
    assert_eq!(rig.api.writes(), 0);
    // As whoever runs the hub wants it.
    let options = LifecycleOptions { failback_interval: TURN / 15, ..LifecycleOptions::default() };
    let failback = Failback::new(rig.shared.clone(), None, &options);
    failback.turns.lock().ask(&"default".into(), &"another".into(), failback.started.elapsed());
    let came = failback.reconcile(&key("default", "web-configmap")).await.unwrap();
    assert_eq!(came, Action::RequeueAfter(TURN / 15));
}

/// Another namespace has a thousand that are to return.
#[tokio::test(start_paused = true)]
async fn namespaces_take_turns() {
    let rig = Rig::new(objects(&after("0s"), LONG_AGO)).await;
    let failback = Failback::new(rig.shared.clone(), None, &LifecycleOptions::default());
    let ask = |at: usize| {
        let name = format!("web-{at}").into();
        failback.turns.lock().ask(&"many".into(), &name, failback.started.elapsed())
    };
    (0..1000).for_each(|at| assert_eq!(ask(at).is_none(), at == 0));
    let web = key("default", "web-configmap");
    assert_eq!(failback.reconcile(&web).await.unwrap(), Action::RequeueAfter(TURN * 2));
    tokio::time::advance(TURN).await;
    assert_eq!(ask(1), None);
    tokio::time::advance(TURN).await;
    assert!(ask(2).is_some(), "it is the other namespace's turn");
    assert_eq!(failback.reconcile(&web).await.unwrap(), Action::Done);
    assert_eq!(spec(&rig.api)["clusters"], json!([{"name": "near"}]));
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_groups_wakes_nobody() {
    let api = Rig::new([testing::binding("web", &json!({}), &["far"])]).await.api;
    let bindings = api.resource_of(BINDING_API, "ResourceBinding").unwrap();
    let seen = api.get(&bindings, "default", "web-configmap").await.unwrap();
    assert_eq!(keys_of_bindings_in_groups(&Change::Applied(seen)), []);
    let api = Rig::new(objects(&json!({}), LONG_AGO)).await.api;
    let seen = api.get(&bindings, "default", "web-configmap").await.unwrap();
    assert_eq!(keys_of_bindings_in_groups(&Change::Applied(seen)).len(), 1);
}
