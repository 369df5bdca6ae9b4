//! Clusters, bindings and their Works together, over the port in memory and paused time.

use karmada_core::cluster::Contact;
use karmada_core::feature_gates::FeatureGates;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::binding::Binding;
use crate::events::Recorder;
use crate::informer::Informers;
use crate::port::fake::FakeApi;
use crate::queue::Queue;
use crate::runner::{self, Clock};
use crate::scheduler::Scheduler;

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const WORK_API: &str = "work.karmada.io/v1alpha1";
const CLUSTER_API: &str = "cluster.karmada.io/v1alpha1";

/// No agent is there; this one was, until then.
#[derive(Default)]
struct Silence(Option<(&'static str, Timestamp)>);

impl ContactSource for Silence {
    fn contact(&self, cluster: &str, now: Timestamp) -> Contact {
        let last_heard = self.0.filter(|(known, _)| *known == cluster).map(|(_, heard)| heard);
        Contact { last_heard, listening_since: now - jiff::SignedDuration::from_hours(1) }
    }

    fn connected(&self, _: &str) -> bool {
        false
    }
}

fn clock() -> Clock {
    let start: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
    let since = tokio::time::Instant::now();
    Arc::new(move || start + jiff::SignedDuration::try_from(since.elapsed()).unwrap())
}

/// The three controllers over an API, until stopped.
async fn start(api: &Arc<FakeApi>, stop: &CancellationToken) -> JoinSet<()> {
    start_with(api, Silence::default(), stop).await
}

async fn start_with(api: &Arc<FakeApi>, contacts: Silence, stop: &CancellationToken) -> JoinSet<()> {
    start_gated(api, contacts, FeatureGates::default(), stop).await
}

async fn start_gated(
    api: &Arc<FakeApi>,
    contacts: Silence,
    gates: FeatureGates,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let port: Arc<dyn Api> = api.clone();
    let recorder = Recorder::new(port.clone(), "test", clock());
    let shared = ControllerContext::gated(port, clock(), recorder, gates);
    let informers = Informers::from(api.clone());
    shared.load(&informers).await.unwrap();
    let mut tasks = JoinSet::new();
    let binding = Binding::new(shared.clone());
    let wakes = Binding::wakes(&shared);
    tasks.spawn(runner::run(informers.clone(), binding, Arc::<Queue<_>>::default(), wakes, 2, stop.clone()));
    let scheduler = Scheduler::new(shared.clone(), None);
    let (wakes, queue) = (scheduler.wakes(), scheduler.queue());
    tasks.spawn(runner::run(informers.clone(), scheduler, queue, wakes, 2, stop.clone()));
    let controller = ClusterController::new(shared, Arc::new(contacts), Grace::default());
    tasks.spawn(runner::run(
        informers,
        controller,
        Arc::<Queue<_>>::default(),
        ClusterController::wakes(),
        2,
        stop.clone(),
    ));
    tasks
}

fn binding(id: &str, template: &str) -> Value {
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": "web-configmap", "namespace": "default",
            "labels": {"resourcebinding.karmada.io/permanent-id": id}, "finalizers": [finalizers::BINDING]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "web", "uid": template},
            "schedulerName": "default-scheduler", "placement": {}, "clusters": [{"name": "north"}, {"name": "south"}]}})
}

fn template(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default", "uid": uid}})
}

/// Two clusters and a ConfigMap that a policy placed in both, which is deleted since.
fn api() -> Arc<FakeApi> {
    let api = Arc::new(FakeApi::default());
    for cluster in ["north", "south"] {
        api.seed_all([
            json!({"apiVersion": CLUSTER_API, "kind": "Cluster", "metadata": {"name": cluster, "finalizers": [finalizers::CLUSTER]},
                "spec": {"syncMode": "Pull"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names::execution_namespace(cluster)},
                "spec": {"finalizers": ["kubernetes"]}}),
        ]);
    }
    api.seed_all([template("t-1"), binding("b-1", "t-1")]);
    api
}

fn works(api: &FakeApi) -> Vec<String> {
    let of = |work: &Value| {
        let going = if work["metadata"]["deletionTimestamp"].is_null() { "" } else { " going" };
        let id = &work["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"];
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        format!("{} {}{going}", text(&work["metadata"]["namespace"]), text(id))
    };
    api.values(WORK_API, "Work").iter().map(of).collect()
}

async fn delete(api: &FakeApi, api_version: &str, kind: &str, namespace: &str, name: &str) {
    let resource = api.resource_of(api_version, kind).unwrap();
    let key = Key { namespace: namespace.into(), name: name.into() };
    api.delete(&resource, &key, "", DeletionPropagation::Background).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_leaves_though_the_policy_that_placed_things_there_is_gone() {
    let api = api();
    let stop = CancellationToken::new();
    let tasks = start(&api, &stop).await;
    let pause = || tokio::time::sleep(Duration::from_secs(5));
    pause().await;
    assert_eq!(works(&api), ["karmada-es-north b-1", "karmada-es-south b-1"]);

    delete(&api, CLUSTER_API, "Cluster", "", "north").await;
    pause().await;
    assert_eq!(api.value(CLUSTER_API, "Cluster", "", "north"), None, "it is gone");
    assert_eq!(works(&api), ["karmada-es-south b-1"], "the other keeps what it has");
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "south"}]), "the binding lost it");
    let namespace = api.value("v1", "Namespace", "", "karmada-es-north").unwrap();
    assert!(namespace["metadata"]["deletionTimestamp"].is_string(), "its namespace is closed");
    let quiet = api.revision();
    pause().await;
    assert_eq!(api.revision(), quiet, "nothing more is written");
    stop.cancel();
    tasks.join_all().await;
}

/// A Secret that followed a workload, whose policy said so while dependencies were followed: nobody enters anything in its binding any more.
fn required() -> Value {
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": "key-secret", "namespace": "default",
            "labels": {"resourcebinding.karmada.io/permanent-id": "b-key"}, "finalizers": [finalizers::BINDING]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "key", "uid": "t-key"},
            "requiredBy": [{"namespace": "default", "name": "web-configmap", "clusters": [{"name": "north"}, {"name": "south"}]}]}})
}

/// The next cluster of that name is another site: it is sent nothing that the first one was to have.
#[tokio::test(start_paused = true)]
async fn what_was_required_in_a_cluster_is_required_there_no_more_once_it_left() {
    for gates in [FeatureGates::default(), FeatureGates::default().without(Gate::PropagateDeps)] {
        let api = api();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default", "uid": "t-key"}});
        api.seed_all([secret, required()]);
        let stop = CancellationToken::new();
        let tasks = start_gated(&api, Silence::default(), gates, &stop).await;
        let pause = || tokio::time::sleep(Duration::from_secs(5));
        pause().await;
        assert!(works(&api).contains(&"karmada-es-north b-key".to_owned()));
        delete(&api, CLUSTER_API, "Cluster", "", "north").await;
        pause().await;
        assert_eq!(api.value(CLUSTER_API, "Cluster", "", "north"), None, "it is gone");
        let binding = api.value(BINDING_API, "ResourceBinding", "default", "key-secret").unwrap();
        assert_eq!(binding["spec"]["requiredBy"][0]["clusters"], json!([{"name": "south"}]));
        let quiet = api.revision();
        pause().await;
        assert_eq!(api.revision(), quiet, "nothing more is written");
        stop.cancel();
        tasks.join_all().await;
    }
}

/// A workload that leaves the cluster, and keeps its Secret there until it has left: the cluster does not wait for that.
#[tokio::test(start_paused = true)]
async fn a_referrer_that_is_still_leaving_holds_no_cluster() {
    let mut leaving = binding("b-1", "t-1");
    leaving["spec"]["clusters"] = json!([{"name": "south"}]);
    leaving["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "north", "reason": "TaintUntolerated", "producer": "TaintManager", "suppressDeletion": true}]);
    let [mut cluster, namespace] = crate::testing::cluster("north", &json!({}));
    cluster["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    let rig = crate::testing::Rig::new([leaving, required(), cluster, namespace]).await;
    let controller =
        ClusterController::new(rig.shared.clone(), Arc::new(Silence::default()), Grace::default());
    controller.reconcile(&crate::testing::key("", "north")).await.unwrap();
    assert_eq!(rig.api.value(CLUSTER_API, "Cluster", "", "north"), None);
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "key-secret").unwrap();
    assert_eq!(binding["spec"]["requiredBy"][0]["clusters"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_site_that_is_away_holds_neither_the_binding_nor_a_new_template() {
    let api = api();
    let stop = CancellationToken::new();
    let tasks = start(&api, &stop).await;
    let pause = || tokio::time::sleep(Duration::from_secs(5));
    pause().await;
    delete(&api, "v1", "ConfigMap", "default", "web").await;
    delete(&api, BINDING_API, "ResourceBinding", "default", "web-configmap").await;
    pause().await;
    assert_eq!(api.value(BINDING_API, "ResourceBinding", "default", "web-configmap"), None);
    assert_eq!(
        works(&api),
        ["karmada-es-north b-1 going", "karmada-es-south b-1 going"],
        "each waits for its site"
    );

    // South answers at once.
    let resource = api.resource_of(WORK_API, "Work").unwrap();
    let let_go = async |namespace: &str| {
        let mut all = api.values(WORK_API, "Work").into_iter();
        let mut work = all.find(|work| work["metadata"]["namespace"] == namespace).unwrap();
        work["metadata"]["finalizers"] = json!([]);
        api.update(&resource, work).await.unwrap();
    };
    let_go("karmada-es-south").await;
    api.seed_all([template("t-2"), binding("b-2", "t-2")]);
    pause().await;
    assert_eq!(
        works(&api),
        ["karmada-es-north b-1 going", "karmada-es-south b-2"],
        "the new one goes where it can"
    );
    let_go("karmada-es-north").await;
    pause().await;
    assert_eq!(works(&api), ["karmada-es-north b-2", "karmada-es-south b-2"]);
    stop.cancel();
    tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_gets_its_namespace_when_the_old_one_has_ended() {
    let api = api();
    let resource = api.resource_of("v1", "Namespace").unwrap();
    let stop = CancellationToken::new();
    let tasks = start(&api, &stop).await;
    let pause = || tokio::time::sleep(Duration::from_secs(5));
    delete(&api, "v1", "Namespace", "", "karmada-es-north").await;
    pause().await;
    let mut old = api.value("v1", "Namespace", "", "karmada-es-north").unwrap();
    old["spec"]["finalizers"] = json!([]);
    api.update(&resource, old).await.unwrap();
    pause().await;
    let new = api.value("v1", "Namespace", "", "karmada-es-north").unwrap();
    assert!(new["metadata"]["deletionTimestamp"].is_null(), "{new}");
    stop.cancel();
    tasks.join_all().await;
}

/// An agent whose link was reset is back in a moment, and has to hear what it is to remove.
#[tokio::test(start_paused = true)]
async fn a_link_that_broke_just_now_does_not_let_the_works_go() {
    let api = api();
    let stop = CancellationToken::new();
    let now = clock()();
    let tasks = start_with(&api, Silence(Some(("north", now))), &stop).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    delete(&api, CLUSTER_API, "Cluster", "", "north").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(works(&api), ["karmada-es-north b-1 going", "karmada-es-south b-1"], "it may come back");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(works(&api), ["karmada-es-south b-1"], "it did not");
    assert_eq!(api.value(CLUSTER_API, "Cluster", "", "north"), None);
    stop.cancel();
    tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_gets_what_it_needs_whatever_happens_between() {
    let mut cluster = crate::testing::cluster("m1", &json!({}))[0].clone();
    cluster["metadata"]["finalizers"] = json!([]);
    cluster["status"] = json!({});
    let look = async |rig: &crate::testing::Rig| {
        let controller =
            ClusterController::new(rig.shared.clone(), Arc::new(crate::testing::Present), Grace::default());
        controller.reconcile(&crate::testing::key("", "m1")).await?;
        // Its own changes wake it again.
        controller.reconcile(&crate::testing::key("", "m1")).await
    };
    let (api, _) = crate::testing::bears_trouble(&[cluster], look).await;
    let cluster = api.value(CLUSTER_API, "Cluster", "", "m1").unwrap();
    assert_eq!(cluster["metadata"]["finalizers"], json!([finalizers::CLUSTER]));
    assert_eq!(cluster["spec"]["taints"][0]["key"], "cluster.karmada.io/not-ready");
    assert!(api.value("v1", "Namespace", "", "karmada-es-m1").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_lost_leaves_nothing_behind_whatever_happens_between() {
    let [mut cluster, namespace] = crate::testing::cluster("m1", &json!({}));
    cluster["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    let work = json!({"apiVersion": WORK_API, "kind": "Work",
        "metadata": {"name": "w", "namespace": "karmada-es-m1", "finalizers": [finalizers::EXECUTION]},
        "spec": {"workload": {"manifests": []}}});
    let look = async |rig: &crate::testing::Rig| {
        let controller =
            ClusterController::new(rig.shared.clone(), Arc::new(Silence::default()), Grace::default());
        controller.reconcile(&crate::testing::key("", "m1")).await?;
        controller.reconcile(&crate::testing::key("", "m1")).await
    };
    let (api, _) = crate::testing::bears_trouble(&[cluster, namespace, work], look).await;
    assert_eq!(api.value(CLUSTER_API, "Cluster", "", "m1"), None);
    assert!(api.values(WORK_API, "Work").is_empty());
}

/// One that was heard 45 s ago, and one that was made 45 s ago and was never heard.
#[tokio::test(start_paused = true)]
async fn a_cluster_may_be_silent_for_as_long_as_whoever_runs_the_hub_says() {
    let span = jiff::SignedDuration::from_secs;
    let usual = Grace::default();
    for (grace, heard, unheard) in [
        (usual, "Unknown", Value::Null),
        (Grace { silence: span(50), ..usual }, "True", Value::Null),
        (Grace { startup: span(40), ..usual }, "Unknown", json!("Unknown")),
    ] {
        let [heard_one, first] = crate::testing::cluster("north", &json!({}));
        let [mut unheard_one, second] = crate::testing::cluster("south", &json!({}));
        unheard_one["metadata"]["creationTimestamp"] = json!("2026-05-01T11:59:15Z");
        unheard_one["status"]["conditions"] = json!([]);
        let rig = crate::testing::Rig::new([heard_one, first, unheard_one, second]).await;
        let contacts = Silence(Some(("north", "2026-05-01T11:59:15Z".parse().unwrap())));
        let controller = ClusterController::new(rig.shared.clone(), Arc::new(contacts), grace);
        for name in ["north", "south"] {
            controller.reconcile(&crate::testing::key("", name)).await.unwrap();
        }
        let ready = |name: &str| {
            let cluster = rig.api.value(CLUSTER_API, "Cluster", "", name).unwrap();
            cluster["status"]["conditions"][0]["status"].clone()
        };
        assert_eq!((ready("north"), ready("south")), (json!(heard), unheard), "{grace:?}");
    }
}

/// That a cluster is tainted, as nobody hears of it, stands in its events.
#[tokio::test(start_paused = true)]
async fn taints_that_come_of_silence_are_told() {
    let rig = crate::testing::Rig::new(crate::testing::cluster("m1", &json!({}))).await;
    let controller =
        ClusterController::new(rig.shared.clone(), Arc::new(Silence::default()), Grace::default());
    for _ in 0..3 {
        rig.quiet().await;
        controller.reconcile(&crate::testing::key("", "m1")).await.unwrap();
    }
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    let told: Vec<String> = rig
        .api
        .values("v1", "Event")
        .into_iter()
        .filter(|event| event["reason"] == "TaintClusterSucceed")
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("cluster.karmada.io/unreachable:NoSchedule"), "{told:?}");
}
