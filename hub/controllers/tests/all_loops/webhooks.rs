//! Webhooks that interpret resources, with all loops together over a fleet in memory: what they say reaches bindings, Works and statuses, and what they do
//! not say is written nowhere.

use std::collections::BTreeMap;

use bytes::Bytes;
use karmada_resource_interpreter::WebhookCaller;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::running::Running;
use super::*;
use karmada_controllers::port::Api;
use karmada_controllers::testing::{self, BINDING_API, POLICY_API, Rig, WORK_API, key};

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const CONFIGURATION: (&str, &str) = ("config.karmada.io/v1alpha1", "ResourceInterpreterWebhookConfiguration");

/// Base64 of a patch that puts a value at a path.
fn put(path: &str, value: &Value) -> Value {
    let patch = json!([{"op": "add", "path": path, "value": value}]).to_string();
    json!({"patchType": "JSONPatch", "patch": base64(patch.as_bytes())})
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let of = |chunk: &[u8]| {
        let group =
            chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let letter = |at: usize| {
            if at > chunk.len() { '=' } else { char::from(LETTERS[(group >> (18 - 6 * at)) as usize & 63]) }
        };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(of).collect()
}

/// What a webhook says that counts otherwise than what is known without it.
fn respond(request: &Value) -> Value {
    let object = &request["object"];
    match request["operation"].as_str().unwrap() {
        "InterpretReplica" => json!({"replicas": object["spec"]["replicas"].as_i64().unwrap() * 10}),
        "ReviseReplica" => put("/spec/replicas", &json!(request["replicas"].as_i64().unwrap() + 1000)),
        "InterpretDependency" => {
            json!({"dependencies": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "chosen"}]})
        }
        "AggregateStatus" => {
            let items = request["aggregatedStatus"].as_array().cloned().unwrap_or_default();
            let ready: i64 = items.iter().filter_map(|item| item["status"]["seen"].as_i64()).sum();
            put("/status", &json!({"readyReplicas": ready, "of": items.len()}))
        }
        "InterpretStatus" => {
            json!({"rawStatus": {"seen": object["status"]["readyReplicas"], "generation": object["metadata"]["generation"]}})
        }
        "InterpretHealth" => {
            json!({"healthy": object["status"]["readyReplicas"] == object["spec"]["replicas"]})
        }
        other => json!({"unexpected": other}),
    }
}

/// A webhook without a network.
#[derive(Default)]
struct Webhook {
    asked: Mutex<Vec<Value>>,
    /// What it does instead of answering, by operation; `*`: whatever it is asked.
    fails: Mutex<BTreeMap<&'static str, Value>>,
}

#[async_trait::async_trait]
impl WebhookCaller for Webhook {
    async fn post(&self, client: &Value, body: Bytes, within: Duration, _: usize) -> Result<Bytes, String> {
        assert_eq!((&client["url"], within.as_secs()), (&json!("https://hook/"), 3));
        let request = serde_json::from_slice::<Value>(&body).unwrap()["request"].take();
        self.asked.lock().push(request.clone());
        tokio::time::sleep(Duration::from_millis(20)).await;
        let fails = self.fails.lock();
        let instead = fails.get("*").or_else(|| fails.get(request["operation"].as_str().unwrap()));
        let mut response = match instead {
            Some(Value::String(why)) => return Err(why.clone()),
            Some(response) => response.clone(),
            None => respond(&request),
        };
        response["uid"] = request["uid"].clone();
        if response.get("successful").is_none() {
            response["successful"] = json!(true);
        }
        Ok(Bytes::from(json!({"response": response}).to_string()))
    }
}

impl Webhook {
    /// How often it was asked.
    fn count(&self, operation: &str) -> usize {
        self.asked.lock().iter().filter(|request| request["operation"] == operation).count()
    }
}

fn configuration(operations: &[&str]) -> Value {
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["*"], "kinds": ["Deployment"], "operations": operations}]);
    json!({"apiVersion": CONFIGURATION.0, "kind": CONFIGURATION.1, "metadata": {"name": "hooks"},
        "webhooks": [{"name": "things.example.com", "clientConfig": {"url": "https://hook/"}, "timeoutSeconds": 3, "rules": rules,
            "interpreterContextVersions": ["v1alpha1"]}]})
}

fn deployment(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "t-web", "generation": 1},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": "main"}]}}}})
}

fn policy() -> Value {
    let weights = json!({"staticWeightList": [{"targetCluster": {"clusterNames": ["m1"]}, "weight": 1}, {"targetCluster": {"clusterNames": ["m2"]}, "weight": 1}]});
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "id-all"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "propagateDeps": true,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": weights}}}})
}

struct Fleet {
    rig: Rig,
    running: Running,
    webhook: Arc<Webhook>,
}

impl Fleet {
    async fn new(fails: &[(&'static str, Value)], operations: &[&str]) -> Self {
        let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
        let rig = Rig::new(clusters.chain([configuration(operations), testing::config_map("chosen")])).await;
        let webhook = Arc::new(Webhook::default());
        webhook.fails.lock().extend(fails.iter().cloned());
        rig.shared.customized.webhooks.connect(webhook.clone());
        let running = Running::over(&rig, LoopOptions::default()).await;
        rig.api.seed_all([policy(), deployment(2)]);
        let (recorder, stop) = (rig.shared.recorder.clone(), CancellationToken::new());
        tokio::spawn(async move { recorder.run(stop).await });
        let fleet = Fleet { rig, running, webhook };
        fleet.rest().await;
        fleet
    }

    async fn rest(&self) {
        running::rest(&self.rig, Duration::from_secs(5)).await;
    }

    fn binding(&self) -> Option<Value> {
        self.rig.api.value(BINDING_API, "ResourceBinding", "default", "web-deployment")
    }

    fn template(&self) -> Value {
        self.rig.api.value(DEPLOYMENT.0, DEPLOYMENT.1, "default", "web").unwrap()
    }

    /// The Work of the Deployment in a cluster.
    fn work(&self, cluster: &str) -> Option<Value> {
        let all = self.rig.api.values(WORK_API, "Work").into_iter();
        let mut own = all.filter(|work| work["metadata"]["namespace"] == format!("karmada-es-{cluster}"));
        own.find(|work| work["spec"]["workload"]["manifests"][0]["kind"] == "Deployment")
    }

    /// The cluster's site says that the Work was applied and that its object has this status.
    async fn report(&self, cluster: &str, status: Value) {
        let mut work = self.work(cluster).unwrap();
        let generation = work["metadata"]["generation"].clone();
        work["status"] = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "",
                "observedGeneration": generation, "lastTransitionTime": "2026-05-01T12:00:00Z"}],
            "manifestStatuses": [{"identifier": {"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"},
                "status": status, "health": "Unhealthy"}]});
        let works = self.rig.api.resource_of(WORK_API, "Work").unwrap();
        self.rig.api.update_status(&works, work).await.unwrap();
        self.rest().await;
    }

    /// Events, as `REASON MESSAGE`.
    fn events(&self, reason: &str) -> Vec<String> {
        let all = self.rig.api.values("v1", "Event").into_iter().filter(|event| event["reason"] == reason);
        all.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
    }
}

fn whole(ready: i64) -> Value {
    json!({"readyReplicas": ready, "edge.karmada.io/observed": {"status": true, "generation": 7}})
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_says_reaches_bindings_works_and_statuses() {
    let fleet = Fleet::new(&[], &["*"]).await;
    let binding = fleet.binding().unwrap();
    assert_eq!(binding["spec"]["replicas"], 20);
    for cluster in ["m1", "m2"] {
        let manifest = fleet.work(cluster).unwrap()["spec"]["workload"]["manifests"][0].take();
        assert_eq!(manifest["spec"]["replicas"], 1010, "{cluster}");
    }
    let follows = fleet.rig.api.value(BINDING_API, "ResourceBinding", "default", "chosen-configmap").unwrap();
    assert_eq!(follows["spec"]["requiredBy"][0]["name"], "web-deployment");
    fleet.report("m1", whole(1010)).await;
    fleet.report("m2", whole(3)).await;
    let items = fleet.binding().unwrap()["status"]["aggregatedStatus"].take();
    assert_eq!(items[0]["status"], json!({"seen": 1010, "generation": 7}));
    assert_eq!((&items[0]["health"], &items[1]["health"]), (&json!("Healthy"), &json!("Unhealthy")));
    assert_eq!(fleet.template()["status"], json!({"readyReplicas": 1013, "of": 2}));
    // One question for each number and each report, whoever wants to know.
    let counts =
        ["InterpretReplica", "ReviseReplica", "InterpretDependency"].map(|of| fleet.webhook.count(of));
    assert!(counts.iter().all(|count| *count <= 2), "{counts:?}");
    assert_eq!((fleet.webhook.count("InterpretStatus"), fleet.webhook.count("Retain")), (2, 0));
    let (revision, asked) = (fleet.rig.api.revision(), fleet.webhook.asked.lock().len());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(
        (fleet.rig.api.revision(), fleet.webhook.asked.lock().len()),
        (revision, asked),
        "at rest nothing is asked"
    );
    // Without it everything is as it is known natively.
    fleet.rig.delete(CONFIGURATION, &key("", "hooks")).await;
    fleet.rest().await;
    assert_eq!(fleet.binding().unwrap()["spec"]["replicas"], 2);
    assert_eq!(fleet.work("m1").unwrap()["spec"]["workload"]["manifests"][0]["spec"]["replicas"], 1);
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_told_by_name_asked_again_and_nothing_is_written_in_its_place() {
    let fleet = Fleet::new(&[("*", json!("connection refused"))], &["*"]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(fleet.binding(), None, "what is known natively does not stand in for it");
    let told = fleet.events("ApplyPolicyFailed");
    let words = "failed calling webhook \"hooks/things.example.com\", InterpretReplica: connection refused";
    assert!(told.iter().any(|message| message.contains(words)), "{told:?}");
    let count = fleet.webhook.count("InterpretReplica");
    assert!((8..30).contains(&count), "asked {count} times in ten minutes");
    fleet.webhook.fails.lock().clear();
    tokio::time::sleep(Duration::from_secs(65)).await;
    fleet.rest().await;
    assert_eq!(fleet.binding().unwrap()["spec"]["replicas"], 20);
    assert!(fleet.work("m1").is_some());
    // What was answered before stands while what is asked now is not.
    fleet
        .webhook
        .fails
        .lock()
        .insert("ReviseReplica", json!({"successful": false, "status": {"code": 500, "message": "broken"}}));
    fleet.rig.edit(DEPLOYMENT, &key("default", "web"), |web| web["spec"]["replicas"] = json!(4)).await;
    fleet.rest().await;
    assert_eq!(fleet.binding().unwrap()["spec"]["replicas"], 40);
    assert_eq!(fleet.work("m1").unwrap()["spec"]["workload"]["manifests"][0]["spec"]["replicas"], 1010);
    let told = fleet.events("SyncWorkFailed");
    assert!(
        told.iter().any(|message| message.contains("hooks/things.example.com") && message.contains("broken")),
        "{told:?}"
    );
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_makes_another_object_of_it_makes_no_work() {
    let other = put("/metadata/namespace", &json!("kube-system"));
    let fleet = Fleet::new(&[("ReviseReplica", other)], &["ReviseReplica"]).await;
    assert_eq!(fleet.binding().unwrap()["spec"]["replicas"], 2, "of what it does not claim it is not asked");
    assert_eq!(fleet.work("m1"), None);
    let told = fleet.events("SyncWorkFailed");
    assert!(
        told.iter().any(|message| message.contains("changes apiVersion, kind, namespace or name")),
        "{told:?}"
    );
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_nobody_says_how_a_cluster_stands_it_stands_as_it_did() {
    let fleet = Fleet::new(&[], &["InterpretStatus", "InterpretHealth"]).await;
    fleet.report("m1", whole(1)).await;
    let first = fleet.binding().unwrap()["status"]["aggregatedStatus"][0].take();
    assert_eq!((&first["status"]["seen"], &first["health"]), (&json!(1), &json!("Healthy")));
    // A site that was not told yet that all is wanted.
    fleet.report("m1", json!({"readyReplicas": 0})).await;
    assert_eq!(fleet.binding().unwrap()["status"]["aggregatedStatus"][0], first);
    fleet.webhook.fails.lock().insert("*", json!("away"));
    fleet.report("m1", whole(0)).await;
    let now = fleet.binding().unwrap()["status"]["aggregatedStatus"][0].take();
    assert_eq!((&now["status"], &now["health"]), (&first["status"], &json!("Unknown")));
    let told = fleet.events("InterpretHealthFailed");
    assert!(
        told.iter().all(|message| message.contains("hooks/things.example.com")) && !told.is_empty(),
        "{told:?}"
    );
    assert!(!fleet.events("ReflectStatusFailed").is_empty());
    fleet.webhook.fails.lock().clear();
    tokio::time::sleep(Duration::from_secs(65)).await;
    let now = fleet.binding().unwrap()["status"]["aggregatedStatus"][0].take();
    assert_eq!((&now["status"]["seen"], &now["health"]), (&json!(0), &json!("Unhealthy")));
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_webhooks_are_asked_anew_and_nothing_is_written() {
    let fleet = Fleet::new(&[], &["*"]).await;
    fleet.report("m1", whole(1)).await;
    let Fleet { rig, running, webhook } = fleet;
    running.end().await;
    let before = rig.api.everything();
    let rig = rig.restarted().await;
    rig.shared.customized.webhooks.connect(webhook.clone());
    webhook.asked.lock().clear();
    let running = Running::over(&rig, LoopOptions::default()).await;
    running::rest(&rig, Duration::from_secs(5)).await;
    assert!(webhook.count("InterpretReplica") > 0 && webhook.count("AggregateStatus") > 0);
    assert_eq!(rig.api.everything(), before);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_review_asks_and_waits_and_says_why_where_there_is_no_answer() {
    use karmada_controllers::placement_review::{AsIf, Reviewer};
    use karmada_core::placement_review::WhatIf;
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    let rig = Rig::new(clusters.chain([configuration(&["*"]), policy()])).await;
    let webhook = Arc::new(Webhook::default());
    rig.shared.customized.webhooks.connect(webhook.clone());
    let revision = rig.api.revision();
    let reviewer = Reviewer { shared: rig.shared.clone(), estimator: None, evicts_for_taints: false };
    let told = reviewer.review(&deployment(2), &AsIf::default(), &WhatIf::default()).await.unwrap();
    let works: Vec<Value> =
        told.works.into_iter().map(|one| one.work.unwrap().spec.workload.manifests.remove(0)).collect();
    assert_eq!(works.iter().map(|work| &work["spec"]["replicas"]).collect::<Vec<_>>(), [1010, 1010]);
    webhook.fails.lock().insert("*", json!("away"));
    let told = reviewer.review(&deployment(3), &AsIf::default(), &WhatIf::default()).await.unwrap();
    assert!(told.works.is_empty() && told.message.contains("hooks/things.example.com"), "{}", told.message);
    assert_eq!(rig.api.revision(), revision, "nothing is written");
}
