//! A ResidencyRule that comes, changes and goes over a hub in memory, with its gates and all loops: what it takes away (nothing), what it tells, whom
//! it wakes.

use std::time::Duration;

use karmada_api::defaulting::cluster::Grades;
use karmada_api::validation::taint_policy::NoExecute;
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::events::Recorder;
use karmada_controllers::informer::Informers;
use karmada_controllers::port::DeletionPropagation;
use karmada_controllers::propagation::{self, AgentPorts, LoopOptions};
use karmada_controllers::runner;
use karmada_core::cluster::Contact;
use karmada_placement_expressions::PlacementExpressions;
use karmada_registry::admission::Admission;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::fleet::{KarmadaPolicies, ResidencyGuard};
use crate::registry_api::RegistryApi;
use crate::registry_in_memory::{RegistryInMemory, standing_clock};

/// Every agent is there.
struct Present;

impl ContactSource for Present {
    fn contact(&self, _: &str, now: jiff::Timestamp) -> Contact {
        Contact { last_heard: Some(now), listening_since: now }
    }

    fn connected(&self, _: &str) -> bool {
        true
    }
}

struct Hub {
    api: Arc<RegistryApi>,
    _stop: DropGuard,
}

const EDGE: &str = "edge.karmada.io/v1alpha1";
const WORK: &str = "work.karmada.io/v1alpha1";
const POLICY: &str = "policy.karmada.io/v1alpha1";

impl Hub {
    /// A hub with the clusters north and south in the region eu and west in us, and the namespace shop.
    async fn start() -> Hub {
        let gates: Vec<Box<dyn Admission>> = vec![
            Box::new(KarmadaPolicies { taint_policies: NoExecute::Refused, grades: Grades::Completed }),
            Box::new(ResidencyGuard::default()),
        ];
        let clock = standing_clock();
        let RegistryInMemory { registry, stop, .. } = RegistryInMemory::start(gates, clock.clone()).await;
        let api = Arc::new(RegistryApi::new(Arc::new(registry), "tests", Arc::default()));
        let hub = Hub { api: api.clone(), _stop: stop.clone().drop_guard() };
        for (name, region) in [("north", "eu"), ("south", "eu"), ("west", "us")] {
            hub.namespace(&format!("karmada-es-{name}")).await;
            hub.create(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "labels": {"tier": region}},
                "spec": {"syncMode": "Pull", "region": region}})).await;
            hub.edit_status("cluster.karmada.io/v1alpha1", "Cluster", "", name, |cluster| {
                cluster["status"] = json!({"kubernetesVersion": "v1.36.0",
                    "apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}],
                    "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}]});
            }).await;
        }
        hub.namespace("shop").await;
        let port: Arc<dyn Api> = api.clone();
        let recorder = Recorder::new(port.clone(), "tests", clock.clone());
        let shared = ControllerContext::new(port.clone(), clock, recorder.clone());
        shared.evaluate_by(Arc::new(PlacementExpressions::default()));
        let informers = Informers::new(port);
        let agents = AgentPorts {
            contacts: Arc::new(Present),
            clusters: Arc::default(),
            estimator: None,
            metrics: None,
        };
        for running in
            propagation::loops(&informers, &shared, agents, LoopOptions::default(), &stop).await.unwrap()
        {
            tokio::spawn(running);
        }
        tokio::spawn({
            let stop: CancellationToken = stop.clone();
            async move { recorder.run(stop).await }
        });
        let status = ResidencyStatus::new(shared);
        let wakes = status.wakes();
        tokio::spawn(runner::run(
            informers,
            status,
            Arc::<karmada_controllers::queue::Queue<_>>::default(),
            wakes,
            2,
            stop,
        ));
        hub
    }

    async fn namespace(&self, name: &str) {
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    async fn try_create(&self, object: Value) -> Result<(), String> {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let kind = self.api.resource_of(&text("apiVersion"), &text("kind")).unwrap();
        self.api.create(&kind, object).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn create(&self, object: Value) {
        let what = object.to_string();
        self.try_create(object).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    async fn find(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let kind = self.api.resource_of(api_version, kind).unwrap();
        self.api.get(&kind, namespace, name).await.ok().map(|found| found.value().unwrap())
    }

    async fn edit(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        edit: impl Fn(&mut Value),
    ) {
        for _ in 0..20 {
            let mut object = self.find(api_version, kind, namespace, name).await.unwrap();
            edit(&mut object);
            let resource = self.api.resource_of(api_version, kind).unwrap();
            if self.api.update(&resource, object).await.is_ok() {
                return;
            }
        }
        panic!("{kind} {name} cannot be written");
    }

    async fn edit_status(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        edit: impl Fn(&mut Value),
    ) {
        let mut object = self.find(api_version, kind, namespace, name).await.unwrap();
        edit(&mut object);
        let resource = self.api.resource_of(api_version, kind).unwrap();
        self.api.update_status(&resource, object).await.unwrap();
    }

    /// Places the ConfigMap `web` in all clusters.
    async fn place(&self, annotations: Value) {
        self.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop", "labels": {"data": "personal"}}, "data": {"of": "first"}})).await;
        self.create(json!({"apiVersion": POLICY, "kind": "PropagationPolicy", "metadata": {"name": "all", "namespace": "shop", "annotations": annotations},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}], "placement": {}}})).await;
    }

    async fn rule(&self, name: &str, spec: Value) {
        self.create(
            json!({"apiVersion": EDGE, "kind": "ResidencyRule", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    /// The clusters that have `web`, each with what of it, and whether it is on its way out.
    async fn held(&self) -> Vec<(String, String, bool)> {
        let kind = self.api.resource_of(WORK, "Work").unwrap();
        let works = self.api.list(&kind, "").await.unwrap();
        let one = |work: &Arc<Object>| {
            let value = work.value().unwrap();
            let manifest = &value["spec"]["workload"]["manifests"][0];
            let cluster = work.key.namespace.trim_start_matches("karmada-es-").to_owned();
            (manifest["metadata"]["name"] == "web")
                .then(|| (cluster, manifest["data"]["of"].as_str().unwrap_or("").to_owned(), work.deleting))
        };
        works.iter().filter_map(one).collect()
    }

    async fn clusters(&self) -> Vec<String> {
        self.held().await.into_iter().filter(|(_, _, leaves)| !leaves).map(|(cluster, ..)| cluster).collect()
    }

    /// The clusters that the scheduler chose: of what left one, its Work waits for the cluster.
    async fn chosen(&self) -> Vec<String> {
        let binding = self.find("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-configmap").await;
        let clusters = binding.map(|binding| binding["spec"]["clusters"].clone()).unwrap_or_default();
        let name = |target: &Value| target["name"].as_str().unwrap().to_owned();
        clusters.as_array().into_iter().flatten().map(name).collect()
    }

    async fn status(&self) -> Value {
        self.find(EDGE, "ResidencyRule", "", "home").await.unwrap()["status"].clone()
    }

    async fn told(&self) -> Vec<String> {
        let kind = self.api.resource_of("v1", "Event").unwrap();
        let events = self.api.list(&kind, "").await.unwrap();
        let own = events
            .iter()
            .map(|event| event.value().unwrap())
            .filter(|event| event["reason"] == "ResidencyViolated");
        let mut told: Vec<String> =
            own.map(|event| event["involvedObject"]["kind"].as_str().unwrap().to_owned()).collect();
        told.sort();
        told.dedup();
        told
    }
}

/// Waits until `holds`, for a minute of the tests' time.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never comes to this: {what}");
}

fn eu() -> Value {
    json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"data": "personal"}}}],
        "clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}}})
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_comes_takes_nothing_away_and_nothing_new_goes_there() {
    let hub = Hub::start().await;
    hub.place(json!({})).await;
    until("placed everywhere", async || hub.clusters().await == ["north", "south", "west"]).await;
    hub.rule("home", eu()).await;
    until("it is told", async || hub.status().await["violatingWorks"] == 1).await;
    let status = hub.status().await;
    assert_eq!(status["violations"][0]["object"], "ConfigMap shop/web");
    assert_eq!(
        (&status["violations"][0]["cluster"], &status["conditions"][0]["status"]),
        (&json!("west"), &json!("False"))
    );
    hub.edit("v1", "ConfigMap", "shop", "web", |map| map["data"]["of"] = json!("second")).await;
    let held = |cluster: &str, of: &str| (cluster.to_owned(), of.to_owned(), false);
    until("the others get what is new", async || {
        hub.held().await == [held("north", "second"), held("south", "second"), held("west", "first")]
    })
    .await;
    until("people hear of it", async || {
        hub.told().await == ["ConfigMap", "ResidencyRule", "ResourceBinding"]
    })
    .await;
    // The next decision, whatever it is made for, takes it away there.
    hub.edit("cluster.karmada.io/v1alpha1", "Cluster", "", "south", |cluster| {
        cluster["metadata"]["labels"]["note"] = json!("x");
    })
    .await;
    until("it leaves", async || hub.clusters().await == ["north", "south"]).await;
    let works = hub.api.resource_of(WORK, "Work").unwrap();
    let left = hub.api.list(&works, "karmada-es-west").await.unwrap();
    let own = left.iter().find(|work| work.deleting).unwrap();
    assert_eq!(hub.status().await["violatingWorks"], 1, "it is there until its cluster says that it is gone");
    hub.edit(WORK, "Work", "karmada-es-west", &own.key.name, |work| {
        work["metadata"]["finalizers"] = json!([]);
    })
    .await;
    until("all is well", async || hub.status().await["conditions"][0]["status"] == "True").await;
    assert_eq!(hub.status().await["violatingWorks"], 0);
}

#[tokio::test(start_paused = true)]
async fn no_path_leads_around_a_rule() {
    let hub = Hub::start().await;
    hub.rule("home", eu()).await;
    hub.place(json!({})).await;
    until("placed where it may be", async || hub.clusters().await == ["north", "south"]).await;
    // A person edits the binding.
    hub.edit("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-configmap", |binding| {
        binding["spec"]["suspension"] = json!({"scheduling": true});
        binding["spec"]["clusters"] = json!([{"name": "north"}, {"name": "west"}]);
    })
    .await;
    until("the other cluster goes on", async || hub.clusters().await == ["north"]).await;
    until("people hear of it", async || hub.told().await == ["ConfigMap", "ResourceBinding"]).await;
    // A person writes a Work.
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop", "labels": {"data": "personal"}}});
    let work = |name: &str, manifest: &Value| json!({"apiVersion": WORK, "kind": "Work", "metadata": {"name": name, "namespace": "karmada-es-west"}, "spec": {"workload": {"manifests": [manifest]}}});
    let refusal = hub.try_create(work("by-hand", &manifest)).await.unwrap_err();
    assert!(
        refusal.contains("residency rule home does not allow ConfigMap shop/web in cluster west"),
        "{refusal}"
    );
    // An override takes the label off.
    hub.create(json!({"apiVersion": POLICY, "kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "shop"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "remove", "value": {"data": "personal"}}]}}]}})).await;
    until("the override is applied", async || {
        let works = hub.api.resource_of(WORK, "Work").unwrap();
        let all = hub.api.list(&works, "karmada-es-north").await.unwrap();
        let bare = |work: &Value| {
            work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == "web"
                && work["spec"]["workload"]["manifests"][0]["metadata"]["labels"]["data"].is_null()
        };
        all.iter().any(|work| bare(&work.value().unwrap()))
    })
    .await;
    assert_eq!(hub.clusters().await, ["north"]);
    // The cluster changes so that it may have it: what was kept out comes.
    hub.edit("cluster.karmada.io/v1alpha1", "Cluster", "", "west", |cluster| {
        cluster["spec"]["region"] = json!("eu");
    })
    .await;
    until("it comes", async || hub.clusters().await == ["north", "west"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_goes_wakes_those_that_it_covered() {
    let hub = Hub::start().await;
    hub.rule("home", eu()).await;
    hub.place(json!({})).await;
    until("placed where it may be", async || hub.clusters().await == ["north", "south"]).await;
    let kind = hub.api.resource_of(EDGE, "ResidencyRule").unwrap();
    let key = Key { namespace: "".into(), name: "home".into() };
    hub.api.delete(&kind, &key, "", DeletionPropagation::Background).await.unwrap();
    until("it goes everywhere", async || hub.clusters().await == ["north", "south", "west"]).await;
}

/// The expressions of a policy, as they come to a decision, and as they change.
#[tokio::test(start_paused = true)]
async fn a_policy_chooses_clusters_by_its_expressions() {
    let hub = Hub::start().await;
    let broken = json!({"apiVersion": POLICY, "kind": "PropagationPolicy", "metadata": {"name": "b", "namespace": "shop",
            "annotations": {"edge.karmada.io/cluster-filter": "cluster.spec.regoin == 'eu'"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}], "placement": {}}});
    let refusal = hub.try_create(broken).await.unwrap_err();
    assert!(
        refusal.contains("metadata.annotations[edge.karmada.io/cluster-filter]")
            && refusal.contains("<input>:1:13: undefined field 'regoin'"),
        "{refusal}"
    );
    hub.place(json!({"edge.karmada.io/cluster-filter": "cluster.spec.region == 'eu'"})).await;
    until("placed by the filter", async || hub.chosen().await == ["north", "south"]).await;
    let filter = |text: &str| {
        let text = text.to_owned();
        move |policy: &mut Value| {
            policy["metadata"]["annotations"]["edge.karmada.io/cluster-filter"] = json!(text);
        }
    };
    hub.edit(
        POLICY,
        "PropagationPolicy",
        "shop",
        "all",
        filter("cluster.metadata.name != 'north' && object.metadata.labels['data'] == 'personal'"),
    )
    .await;
    until("the policy says another thing", async || hub.chosen().await == ["south", "west"]).await;
    hub.edit(POLICY, "PropagationPolicy", "shop", "all", filter("cluster.metadata.labels['none'] == 'x'"))
        .await;
    let told = async || {
        let binding = hub.find("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-configmap").await;
        let conditions = binding.unwrap()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.into_iter().find(|one| one["type"] == "Scheduled").unwrap_or_default();
        scheduled["message"].as_str().unwrap_or_default().to_owned()
    };
    let fails = "0/3 clusters are available: 3 cluster(s) failed the policy's cluster-filter: no such key";
    until("it fails everywhere", async || told().await.contains(fails)).await;
    assert_eq!(hub.chosen().await, ["south", "west"], "what is placed stays until it is mended");
    hub.edit(POLICY, "PropagationPolicy", "shop", "all", |policy| {
        policy["metadata"]["annotations"] = json!({});
    })
    .await;
    until("it has no filter any more", async || hub.chosen().await == ["north", "south", "west"]).await;
}
