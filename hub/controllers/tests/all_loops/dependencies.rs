//! What follows a workload, with all loops together over a fleet in memory: from the policy to the Works; and what one event of it costs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::running::Running;
use super::*;
use karmada_controllers::port::Api;
use karmada_controllers::testing::{self, BINDING_API, POLICY_API, Rig, WORK_API, key};

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const MAP: (&str, &str) = ("v1", "ConfigMap");
const POLICY: (&str, &str) = (POLICY_API, "PropagationPolicy");

/// A Deployment that refers to the ConfigMap `NAME-settings`, and to whatever else.
fn deployment(name: &str, more: &[&str]) -> Value {
    let settings = format!("{name}-settings");
    let maps = more.iter().copied().chain([settings.as_str()]);
    let from: Vec<Value> = maps.map(|map| json!({"configMapRef": {"name": map}})).collect();
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "uid": format!("t-{name}"), "generation": 1},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "main", "image": "main", "envFrom": from}]}}}})
}

/// One policy for all Deployments, which has follow them what they refer to.
fn policy(clusters: &[&str]) -> Value {
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-all"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "propagateDeps": true,
            "placement": {"clusterAffinity": {"clusterNames": clusters}}}})
}

struct Fleet {
    rig: Rig,
    running: Running,
}

impl Fleet {
    /// Two clusters, and these.
    async fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
        Fleet::over(Rig::new(clusters.chain(objects)).await).await
    }

    async fn over(rig: Rig) -> Self {
        let running = Running::over(&rig, LoopOptions::default()).await;
        let fleet = Fleet { rig, running };
        fleet.rest().await;
        fleet
    }

    /// Returns when nobody has anything to do.
    async fn rest(&self) {
        running::rest(&self.rig, Duration::from_secs(5)).await;
    }

    async fn edit(&self, kind: (&str, &str), name: &str, edit: impl FnOnce(&mut Value)) {
        self.rig.edit(kind, &key("default", name), edit).await;
        self.rest().await;
    }

    /// What is to be in the clusters, as `CLUSTER KIND/NAME`.
    fn placed(&self) -> Vec<String> {
        let works = self.rig.api.values(WORK_API, "Work");
        let live = works.iter().filter(|work| work["metadata"]["deletionTimestamp"].is_null());
        let of = |work: &Value| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let (kind, name) = (manifest["kind"].as_str()?, manifest["metadata"]["name"].as_str()?);
            let cluster = work["metadata"]["namespace"].as_str()?.trim_start_matches("karmada-es-");
            (manifest["metadata"]["namespace"] == "default").then(|| format!("{cluster} {kind}/{name}"))
        };
        let mut all: Vec<String> = live.filter_map(of).collect();
        all.sort();
        all
    }

    /// The calls of the port by verb and kind, and the keys of each loop, that an event costs until nobody has anything to do.
    async fn cost(&self, event: impl AsyncFnOnce(&Rig)) -> BTreeMap<String, u64> {
        let count = || {
            let calls = self.rig.api.all_calls();
            let calls = calls.into_iter().map(|((verb, kind), count)| (format!("{verb} {kind}"), count));
            let queues = self.rig.api.workqueues().unwrap().counts();
            let woken = queues.into_iter().map(|(name, counts)| (format!("wake {name}"), counts.adds));
            calls.chain(woken).collect::<BTreeMap<String, u64>>()
        };
        let before = count();
        event(&self.rig).await;
        self.rest().await;
        let mut costs = count();
        for (what, count) in before {
            *costs.entry(what).or_default() -= count;
        }
        costs.retain(|what, count| *count > 0 && !what.ends_with(" Event"));
        costs
    }

    async fn end(self) {
        self.running.end().await;
    }
}

fn both(names: &[&str]) -> Vec<String> {
    ["m1", "m2"]
        .iter()
        .flat_map(|cluster| names.iter().map(move |name| format!("{cluster} {name}")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_workload_refers_to_goes_where_it_goes() {
    let objects = [policy(&["m1", "m2"]), deployment("web", &[]), testing::config_map("web-settings")];
    let fleet = Fleet::new(objects).await;
    assert_eq!(fleet.placed(), both(&["ConfigMap/web-settings", "Deployment/web"]));

    // It refers to one more, which comes later.
    fleet.edit(DEPLOYMENT, "web", |web| web["spec"] = deployment("web", &["later"])["spec"].clone()).await;
    fleet.rig.api.seed(testing::config_map("later"));
    fleet.rest().await;
    assert_eq!(fleet.placed(), both(&["ConfigMap/later", "ConfigMap/web-settings", "Deployment/web"]));

    // What follows changes.
    fleet.edit(MAP, "later", |map| map["data"] = json!({"of": "changed"})).await;
    let works = fleet.rig.api.values(WORK_API, "Work");
    let changed = |work: &&Value| work["spec"]["workload"]["manifests"][0]["data"]["of"] == "changed";
    assert_eq!(works.iter().filter(changed).count(), 2);

    // The workload moves.
    let placement = policy(&["m2"])["spec"]["placement"].clone();
    fleet.edit(POLICY, "all", |policy| policy["spec"]["placement"] = placement).await;
    assert_eq!(fleet.placed(), ["m2 ConfigMap/later", "m2 ConfigMap/web-settings", "m2 Deployment/web"]);

    // A hub that starts anew finds all as it is.
    let revision = fleet.rig.api.revision();
    let anew = Fleet::over(fleet.rig.restarted().await).await;
    assert_eq!(anew.rig.api.revision(), revision, "at rest nothing is written");
    anew.end().await;

    // Nothing is to follow any more.
    fleet.edit(POLICY, "all", |policy| policy["spec"]["propagateDeps"] = json!(false)).await;
    assert_eq!(fleet.placed(), ["m2 Deployment/web"]);
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_others_did_to_an_attached_binding_is_put_right() {
    let objects = [policy(&["m1", "m2"]), deployment("web", &[]), testing::config_map("web-settings")];
    let fleet = Fleet::new(objects).await;
    let binding = (BINDING_API, "ResourceBinding");
    let before = fleet.rig.api.value(binding.0, binding.1, "default", "web-settings-configmap").unwrap();
    fleet
        .edit(binding, "web-settings-configmap", |attached| attached["spec"]["requiredBy"] = json!([]))
        .await;
    fleet
        .edit(binding, "web-settings-configmap", |attached| {
            attached["spec"]["conflictResolution"] = json!("Overwrite");
        })
        .await;
    let after = fleet.rig.api.value(binding.0, binding.1, "default", "web-settings-configmap").unwrap();
    assert_eq!(after["spec"], before["spec"]);
    fleet.rig.remove(binding, &key("default", "web-settings-configmap")).await;
    fleet.rest().await;
    let anew = fleet.rig.api.value(binding.0, binding.1, "default", "web-settings-configmap").unwrap();
    assert_eq!(anew["spec"]["requiredBy"], before["spec"]["requiredBy"]);
    fleet.end().await;
}

/// What a customization says follows as well: as soon as it says so, and by labels as objects get and lose them.
#[tokio::test(start_paused = true)]
async fn what_a_customization_selects_follows_as_its_labels_say() {
    let objects = [
        policy(&["m1"]),
        deployment("web", &[]),
        testing::config_map("web-settings"),
        testing::config_map("extra"),
    ];
    let fleet = Fleet::new(objects).await;
    assert_eq!(fleet.placed(), ["m1 ConfigMap/web-settings", "m1 Deployment/web"]);
    let script = "function GetDependencies(obj) return {{ apiVersion = 'v1', kind = 'ConfigMap', \
        namespace = obj.metadata.namespace, labelSelector = { matchLabels = { of = 'web' } } }} end";
    fleet.rig.api.seed(
        json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "own", "generation": 1},
        "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"dependencyInterpretation": {"luaScript": script}}}}),
    );
    fleet.rest().await;
    assert_eq!(fleet.placed(), ["m1 Deployment/web"], "nothing has the label");
    fleet.edit(MAP, "extra", |map| map["metadata"]["labels"] = json!({"of": "web"})).await;
    assert_eq!(fleet.placed(), ["m1 ConfigMap/extra", "m1 Deployment/web"]);
    fleet.edit(MAP, "extra", |map| map["metadata"]["labels"] = json!({"of": "another"})).await;
    assert_eq!(fleet.placed(), ["m1 Deployment/web"]);
    fleet.edit(MAP, "extra", |map| map["metadata"]["labels"] = json!({"of": "web"})).await;
    fleet.rig.delete(MAP, &key("default", "extra")).await;
    fleet.rest().await;
    assert_eq!(fleet.placed(), ["m1 Deployment/web"], "it is gone");
    fleet.end().await;
}

/// A policy's Deployments with as many ConfigMaps, and one that each tenth of them refers to.
fn many(count: usize) -> Vec<Value> {
    let mut objects = vec![policy(&["m1"]), testing::config_map("shared")];
    for number in 0..count {
        let name = format!("web-{number:04}");
        objects.push(deployment(&name, if number % 10 == 3 { &["shared"] } else { &[] }));
        objects.push(testing::config_map(&format!("{name}-settings")));
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn an_event_of_what_follows_costs_the_same_with_ten_referrers_and_with_a_thousand() {
    let mut measured = Vec::new();
    for count in [10, 1000] {
        let fleet = Fleet::new(many(count)).await;
        let one = "web-0003-settings";
        let edit = async |rig: &Rig, name: &str| {
            rig.edit(MAP, &key("default", name), |map| map["data"]["of"] = json!("changed")).await;
        };
        let changes = fleet.cost(async |rig| edit(rig, one).await).await;
        let shared = fleet.cost(async |rig| edit(rig, "shared").await).await;
        let unrelated = fleet.cost(async |rig| drop(rig.api.seed(testing::config_map("nobodys")))).await;
        let uninteresting = ["wake dependencies-distributor"];
        for costs in [&changes, &shared, &unrelated] {
            assert!(uninteresting.iter().all(|what| !costs.contains_key(*what)), "{costs:?}");
        }
        let refers = fleet
            .cost(async |rig| {
                rig.edit(DEPLOYMENT, &key("default", "web-0003"), |web| {
                    web["spec"] = deployment("web-0003", &["shared", "new"])["spec"].clone();
                })
                .await;
            })
            .await;
        let comes = fleet.cost(async |rig| drop(rig.api.seed(testing::config_map("new")))).await;
        assert_eq!(comes["create ResourceBinding"], 1, "{comes:?}");
        measured.push([changes, shared, unrelated, refers, comes]);
        fleet.end().await;
    }
    assert_eq!(measured[1], measured[0], "with a thousand (left), with ten (right)");
}

/// The Deployments that stay in m1 without their settings.
fn bereft(fleet: &Fleet) -> Vec<String> {
    let placed = fleet.placed();
    let of = |line: &String| line.strip_prefix("m1 Deployment/").map(str::to_owned);
    let has = |name: &String| placed.contains(&format!("m1 ConfigMap/{name}-settings"));
    placed.iter().filter_map(of).filter(|name| !has(name)).collect()
}

/// What is held back goes on running: with what it refers to.
#[tokio::test(start_paused = true)]
async fn what_is_held_back_keeps_what_it_refers_to() {
    let fleet = Fleet::new(many(30)).await;
    let placement = policy(&["m2"])["spec"]["placement"].clone();
    fleet.edit(POLICY, "all", |policy| policy["spec"]["placement"] = placement).await;
    assert_eq!(bereft(&fleet), Vec::<String>::new());
    fleet.end().await;
}

/// The same where the hub ends after all was decided and before anything went.
#[tokio::test(start_paused = true)]
async fn what_is_held_back_after_a_restart_keeps_what_it_refers_to() {
    let fleet = Fleet::new(many(30)).await;
    let api = fleet.rig.api.clone();
    fleet.end().await;
    for mut binding in api.values(BINDING_API, "ResourceBinding") {
        if binding["spec"]["resource"]["kind"] == "Deployment" {
            binding["spec"]["clusters"] = json!([{"name": "m2", "replicas": 2}]);
            binding["spec"]["placement"] = policy(&["m2"])["spec"]["placement"].clone();
        }
        let required = binding["spec"].get_mut("requiredBy").and_then(Value::as_array_mut);
        for required in required.into_iter().flatten() {
            required["clusters"] = json!([{"name": "m2", "replicas": 2}]);
        }
        api.seed(binding);
    }
    api.seed(policy(&["m2"]));
    let fleet = Fleet::over(Rig::over(api).await).await;
    assert_eq!(bereft(&fleet), Vec::<String>::new());
    fleet.end().await;
}

/// A person's delete of a template is not asked about, and neither is what went along with it and nobody else requires.
#[tokio::test(start_paused = true)]
async fn what_followed_a_workload_that_a_person_deleted_goes() {
    let fleet = Fleet::new(many(30)).await;
    for number in 0..30 {
        fleet.rig.delete(DEPLOYMENT, &key("default", &format!("web-{number:04}"))).await;
        let binding = key("default", &format!("web-{number:04}-deployment"));
        fleet.rig.delete((BINDING_API, "ResourceBinding"), &binding).await;
    }
    fleet.rest().await;
    assert_eq!(fleet.placed(), Vec::<String>::new());
    fleet.end().await;
}
