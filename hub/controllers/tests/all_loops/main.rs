//! What an event costs all loops together: the same in a small fleet and in a large one, counted in keys that are woken and in calls of the port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dependencies;
mod evictions;
mod exports;
mod hands;
mod options;
mod presets;
mod running;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::running::Running;
use karmada_controllers::eviction_options::LifecycleOptions;
use karmada_controllers::port::Api;
use karmada_controllers::propagation::*;
use karmada_controllers::testing::{self, BINDING_API, CLUSTER_API, POLICY_API, Rig, WORK_API, key};
use karmada_core::feature_gates::Gate;
use tokio_util::sync::CancellationToken;

/// Calls of the port by verb and kind, and keys by loop.
type Costs = BTreeMap<String, u64>;

/// All loops over a fleet in memory.
struct Fleet {
    rig: Rig,
    running: Running,
}

const MAP: (&str, &str) = ("v1", "ConfigMap");
const CLUSTER: (&str, &str) = (CLUSTER_API, "Cluster");

fn site(number: usize) -> String {
    format!("site-{number:04}")
}

/// A policy that claims one ConfigMap by its name and places it in the clusters of one group.
fn policy(name: &str, group: &str) -> Value {
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"group": group}}}}}})
}

impl Fleet {
    /// So many clusters, the first two of them in group `a`, the next in `b`, others in none; ten ConfigMaps, each placed in `a` or `b`; three
    /// namespaces.
    async fn new(clusters: usize) -> Self {
        let group = |number: usize| match number {
            0 | 1 => "a",
            2 => "b",
            _ => "none",
        };
        let mut objects: Vec<Value> =
            (0..clusters).flat_map(|n| testing::cluster(&site(n), &json!({"group": group(n)}))).collect();
        for name in ["default", "shop", "bank", "post"] {
            objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        for number in 0..10 {
            let name = format!("web-{number}");
            objects.push(testing::config_map(&name));
            objects.push(policy(&name, if number < 5 { "a" } else { "b" }));
        }
        Fleet::over(Rig::new(objects).await).await
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

    fn costs(&self) -> Costs {
        let calls = self.rig.api.all_calls();
        let calls = calls.into_iter().map(|((verb, kind), count)| (format!("{verb} {kind}"), count));
        let queues = self.rig.api.workqueues().unwrap().counts();
        calls.chain(queues.into_iter().map(|(name, counts)| (format!("wake {name}"), counts.adds))).collect()
    }

    /// What an event costs, from rest to rest.
    async fn cost(&self, event: impl AsyncFnOnce(&Rig)) -> Costs {
        let before = self.costs();
        event(&self.rig).await;
        self.rest().await;
        let mut costs = self.costs();
        for (what, count) in before {
            *costs.entry(what).or_default() -= count;
        }
        // Looking whether there is anything to do is none.
        costs.retain(|what, count| *count > 0 && !what.ends_with(" Event"));
        costs
    }

    async fn end(self) {
        self.running.end().await;
    }
}

fn of(costs: &Costs, what: &str) -> u64 {
    costs.get(what).copied().unwrap_or(0)
}

async fn report(rig: &Rig, number: usize, pods: u64) {
    let resource = rig.api.resource_of(CLUSTER_API, "Cluster").unwrap();
    let mut cluster = rig.api.value(CLUSTER_API, "Cluster", "", &site(number)).unwrap();
    cluster["status"]["resourceSummary"] = json!({"allocatable": {"pods": pods.to_string()}});
    rig.api.update_status(&resource, cluster).await.unwrap();
}

async fn edit_template(rig: &Rig, name: &str, text: &str) {
    rig.edit(MAP, &key("default", name), |map| map["data"]["of"] = json!(text)).await;
}

/// Every event, by its name.
async fn events(fleet: &Fleet) -> BTreeMap<&'static str, Costs> {
    let mut all = BTreeMap::new();
    all.insert("a cluster's status", fleet.cost(async |rig| report(rig, 2, 10).await).await);
    let both = async |rig: &Rig| {
        report(rig, 2, 20).await;
        edit_template(rig, "web-0", "changed").await;
    };
    all.insert("a cluster's status, then a template", fleet.cost(both).await);
    all.insert("a template", fleet.cost(async |rig| edit_template(rig, "web-0", "again").await).await);
    let label = async |rig: &Rig| {
        rig.edit(CLUSTER, &key("", &site(2)), |cluster| cluster["metadata"]["labels"]["note"] = json!("x"))
            .await;
    };
    all.insert("a cluster's label", fleet.cost(label).await);
    let taint = async |rig: &Rig| {
        let taint = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
        rig.edit(CLUSTER, &key("", &site(2)), |cluster| cluster["spec"]["taints"] = taint).await;
    };
    all.insert("a taint", fleet.cost(taint).await);
    let policy = async |rig: &Rig| {
        rig.edit((POLICY_API, "PropagationPolicy"), &key("default", "web-9"), |policy| {
            policy["spec"]["conflictResolution"] = json!("Overwrite");
        })
        .await;
    };
    all.insert("a policy", fleet.cost(policy).await);
    let overriding = async |rig: &Rig| {
        let selectors = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web-3"}]);
        let rules = json!([{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]);
        rig.api.seed(json!({"apiVersion": POLICY_API, "kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "default", "generation": 1},
            "spec": {"resourceSelectors": selectors, "overrideRules": rules}}));
    };
    all.insert("an override", fleet.cost(overriding).await);
    let join = async |rig: &Rig| {
        let [cluster, _] = testing::cluster("site-z", &json!({"group": "b"}));
        rig.api.seed(cluster);
    };
    all.insert("a join", fleet.cost(join).await);
    all.insert("a leave", fleet.cost(async |rig| rig.delete(CLUSTER, &key("", "site-z")).await).await);
    all
}

#[tokio::test(start_paused = true)]
async fn an_event_costs_the_same_in_a_small_fleet_and_in_a_large_one() {
    let mut measured = Vec::new();
    for clusters in [10, 1000] {
        let fleet = Fleet::new(clusters).await;
        measured.push(events(&fleet).await);
        fleet.end().await;
    }
    let [small, large] = &measured[..] else { panic!() };
    for (event, costs) in large {
        assert_eq!(costs, &small[event], "{event}: in a large fleet (left), in a small one (right)");
    }
    let cost = |event: &str, what: &str| of(&large[event], what);
    // Five bindings look for clusters like that one; a binding that is placed anew is looked at once more for its own change.
    let scheduled = [
        ("a cluster's status", 0),
        ("a template", 0),
        ("a cluster's label", 5),
        ("a taint", 5),
        ("a join", 10),
    ];
    for (event, bindings) in scheduled {
        assert_eq!(cost(event, "wake scheduler"), bindings, "{event}: {:?}", large[event]);
    }
    for event in ["a cluster's status", "a cluster's label", "a taint", "a policy", "an override"] {
        assert_eq!(cost(event, "wake namespace-sync-controller"), 0, "{event}: {:?}", large[event]);
    }
    assert_eq!(
        cost("an override", "wake binding-controller"),
        2,
        "one to render, and its Works that changed"
    );
    let namespaces = cost("a join", "wake namespace-sync-controller");
    assert!(namespaces <= 4 + 4 + 1, "each namespace once, and its own Works: {namespaces}");
    assert_eq!(cost("a policy", "wake resource-detector"), 1);
    let lists = large["a policy"].keys().filter(|what| what.starts_with("list "));
    assert_eq!(lists.collect::<Vec<_>>(), ["list ConfigMap"], "no other kind is looked at");
    assert!(large["a template"].keys().all(|what| !what.starts_with("list ")), "{:?}", large["a template"]);
}

#[tokio::test(start_paused = true)]
async fn all_loops_share_one_watch_of_each_kind_and_a_start_at_rest_writes_nothing() {
    let fleet = Fleet::new(3).await;
    let watches = fleet.costs().into_iter().filter(|(what, _)| what.starts_with("watch "));
    for (what, count) in watches {
        assert_eq!(count, 1, "{what}");
    }
    let revision = fleet.rig.api.revision();
    let again = Fleet::over(fleet.rig.restarted().await).await;
    assert_eq!(again.rig.api.revision(), revision, "{:?}", again.costs());
    again.end().await;
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_templates_status_runs_neither_detector_nor_rendering() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "generation": 1, "uid": "t-web"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": []}}}});
    let mut objects = vec![deployment, policy("web", "a")];
    objects[1]["spec"]["resourceSelectors"][0] =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    objects.extend(testing::cluster("m1", &json!({"group": "a"})));
    let fleet = Fleet::over(Rig::new(objects).await).await;
    let api = fleet.rig.api.clone();
    let resource = api.resource_of("apps/v1", "Deployment").unwrap();
    let spoil = async |_: &Rig| {
        let mut template = api.value("apps/v1", "Deployment", "default", "web").unwrap();
        template["status"] = json!({"replicas": 77});
        api.update_status(&resource, template).await.unwrap();
    };
    let costs = fleet.cost(spoil).await;
    for what in ["wake resource-detector", "wake binding-controller", "wake scheduler"] {
        assert_eq!(of(&costs, what), 0, "{what}: {costs:?}");
    }
    let template = api.value("apps/v1", "Deployment", "default", "web").unwrap();
    assert_ne!(template["status"]["replicas"], 77, "what is no site's word is put right");
    assert_eq!(of(&costs, "read Work"), 0, "no Work changed: {costs:?}");
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_place_hears_of_every_cluster_that_may_be_one() {
    let fleet = Fleet::new(3).await;
    fleet.rig.api.seed_all([testing::config_map("lost"), policy("lost", "nowhere")]);
    fleet.rest().await;
    let scheduled = || {
        let binding =
            fleet.rig.api.value(BINDING_API, "ResourceBinding", "default", "lost-configmap").unwrap();
        (binding["spec"]["clusters"].clone(), binding["status"]["conditions"][0]["message"].clone())
    };
    let (_, before) = scheduled();
    let [elsewhere, _] = testing::cluster("m8", &json!({"group": "another"}));
    fleet.rig.api.seed(elsewhere);
    fleet.rest().await;
    let (_, after) = scheduled();
    assert_ne!(before, after, "its condition counts the clusters that do not fit");
    let [fits, _] = testing::cluster("m9", &json!({"group": "nowhere"}));
    fleet.rig.api.seed(fits);
    fleet.rest().await;
    assert_eq!(scheduled().0, json!([{"name": "m9"}]));
    assert_eq!(
        fleet
            .rig
            .api
            .values(WORK_API, "Work")
            .iter()
            .filter(|work| {
                work["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"].is_string()
                    && work["metadata"]["namespace"] == "karmada-es-m9"
            })
            .count(),
        1
    );
    fleet.end().await;
}
