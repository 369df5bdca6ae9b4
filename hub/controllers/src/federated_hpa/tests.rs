//! FederatedHPAs, over the port in memory, with clusters that tell what a test says.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_autoscaling::federated_hpa::facts::{Measure, Phase, Pod, Reading, Ready, Sample};
use karmada_autoscaling::federated_hpa::{Answers, ClusterMetrics};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::port::fake::FakeApi;
use crate::queue::Queue;
use crate::runner;
use crate::testing::{self, BINDING_API, Rig, key};

/// Clusters whose Pods use so many thousandths of a CPU, of one that each asks for.
#[derive(Default)]
struct Clusters {
    uses: Mutex<BTreeMap<String, Result<Vec<i64>, String>>>,
    asked: Mutex<Vec<(Vec<String>, Question)>>,
    /// Somebody scales the workload to so many while they are asked.
    meanwhile: Mutex<Option<(Arc<FakeApi>, i32)>>,
}

impl Clusters {
    fn of<const N: usize>(all: [(&str, &[i64]); N]) -> Arc<Self> {
        let clusters = Arc::new(Clusters::default());
        for (cluster, uses) in all {
            clusters.uses(cluster, uses);
        }
        clusters
    }

    fn uses(&self, cluster: &str, uses: &[i64]) {
        self.uses.lock().insert(cluster.to_owned(), Ok(uses.to_vec()));
    }

    fn fails(&self, cluster: &str, why: &str) {
        self.uses.lock().insert(cluster.to_owned(), Err(why.to_owned()));
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

fn told_by(uses: &[i64]) -> ClusterMetrics {
    let since: Timestamp = "2026-05-01T10:00:00Z".parse().unwrap();
    let sample = |milli: &i64| Sample { milli: *milli, at: since, window: SignedDuration::ZERO };
    let pod = |milli: &i64| Pod {
        phase: Phase::Running,
        deleting: false,
        started: Some(since),
        ready: Some(Ready { serves: Some(true), since }),
        measures: vec![Measure { sample: Some(sample(milli)), request: Ok(1000) }],
    };
    ClusterMetrics { pods: uses.iter().map(pod).collect(), readings: vec![Reading::OfPods] }
}

#[async_trait::async_trait]
impl PodMetrics for Clusters {
    async fn ask(&self, clusters: &[&str], question: &Question) -> Answers {
        let names: Vec<String> = clusters.iter().map(|cluster| (*cluster).to_owned()).collect();
        self.asked.lock().push((names.clone(), question.clone()));
        let meanwhile = self.meanwhile.lock().take();
        if let Some((api, replicas)) = meanwhile {
            let kind = api.resource_of("apps/v1", "Deployment").unwrap();
            api.scale(&kind, &key("shop", "web"), replicas).await.unwrap();
        }
        let uses = self.uses.lock();
        let answer = |cluster: String| {
            let told = uses.get(&cluster).cloned().unwrap_or_else(|| Err("nobody is there".to_owned()));
            (cluster, told.map(|uses| told_by(&uses)))
        };
        names.into_iter().map(answer).collect()
    }
}

fn deployment(replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}}})
}

fn binding(replicas: i32, clusters: &[(&str, i32)]) -> Value {
    let targets: Vec<Value> =
        clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop", "generation": 1},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u"},
            "replicas": replicas, "clusters": targets}})
}

/// One that scales to half of what Pods ask for.
fn hpa(spec: &Value) -> Value {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let mut object = json!({"apiVersion": FEDERATED_HPA.0, "kind": FEDERATED_HPA.1,
        "metadata": {"name": "h", "namespace": "shop", "generation": 1},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 20, "metrics": [cpu]}});
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

/// Two clusters with two of four replicas each, and an autoscaler.
fn world(spec: &Value) -> Vec<Value> {
    let mut all = vec![deployment(4), binding(4, &[("m1", 2), ("m2", 2)]), hpa(spec)];
    all.extend(["m1", "m2"].iter().flat_map(|name| testing::cluster(name, &json!({}))));
    all
}

async fn look(rig: &Rig, clusters: &Arc<Clusters>) -> Result<Action, Error> {
    FederatedHPAs::new(rig.shared.clone(), clusters.clone()).reconcile(&key("shop", "h")).await
}

fn replicas(api: &FakeApi) -> Value {
    api.value("apps/v1", "Deployment", "shop", "web").unwrap()["spec"]["replicas"].clone()
}

fn status(api: &FakeApi) -> Value {
    api.value(FEDERATED_HPA.0, FEDERATED_HPA.1, "shop", "h").unwrap()["status"].clone()
}

/// Status and reason of a condition.
fn said(api: &FakeApi, type_: &str) -> String {
    let conditions = status(api)["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_);
    found.map_or_else(String::new, |one| {
        format!("{} {}", one["status"].as_str().unwrap(), one["reason"].as_str().unwrap())
    })
}

/// Reasons of the events so far.
async fn events(rig: &Rig) -> Vec<String> {
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    let all = rig.api.values("v1", "Event");
    all.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn statement_75_a_workload_is_scaled_by_the_pods_of_all_its_clusters() {
    let clusters = Clusters::of([("m1", &[1000, 1000]), ("m2", &[500, 500])]);
    let rig = Rig::new(world(&json!({}))).await;
    assert_eq!(look(&rig, &clusters).await.unwrap(), Action::RequeueAfter(Duration::from_secs(15)));
    assert_eq!(replicas(&rig.api), 6);
    let (asked, question) = clusters.asked.lock()[0].clone();
    assert_eq!((asked.join(" "), question.selector.as_str()), ("m1 m2".to_owned(), "app=web"));
    assert_eq!((question.namespace.as_str(), question.metrics.len()), ("shop", 1));
    let told = status(&rig.api);
    assert_eq!((&told["currentReplicas"], &told["desiredReplicas"]), (&json!(4), &json!(6)));
    assert_eq!(
        (&told["lastScaleTime"], &told["observedGeneration"]),
        (&json!("2026-05-01T12:00:00Z"), &json!(1))
    );
    assert_eq!(
        told["currentMetrics"][0]["resource"]["current"],
        json!({"averageUtilization": 75, "averageValue": "750m"})
    );
    assert_eq!(said(&rig.api, "AbleToScale"), "True SucceededRescale");
    assert_eq!(said(&rig.api, "ScalingActive"), "True ValidMetricFound");
    assert_eq!(said(&rig.api, "ScalingLimited"), "False DesiredWithinRange");
    assert_eq!(said(&rig.api, "ClustersMeasured"), "True AllClustersAnswered");
    assert_eq!(events(&rig).await, ["SuccessfulRescale"]);
    let message = rig.api.values("v1", "Event")[0]["message"].clone();
    assert_eq!(message, "New size: 6; reason: cpu resource utilization (percentage of request) above target");
}

/// Whichever write meets somebody who was faster, and wherever the hub ends, the workload is scaled once, and then nothing is written any more.
#[tokio::test(start_paused = true)]
async fn statement_75_whatever_happens_between_a_workload_is_scaled_once() {
    for (nth, ends) in [(1, false), (2, false), (1, true), (2, true)] {
        let clusters = Clusters::of([("m1", &[1000, 1000]), ("m2", &[500, 500])]);
        let mut rig = Rig::new(world(&json!({}))).await;
        let error = if ends {
            ApiError::Unavailable("the hub ended".into())
        } else {
            ApiError::Conflict("faster".into())
        };
        rig.api.fail(nth, ends, error);
        let mut controller = FederatedHPAs::new(rig.shared.clone(), clusters.clone());
        assert!(controller.reconcile(&key("shop", "h")).await.is_err(), "write {nth} fails");
        rig.api.mend();
        if ends {
            rig = rig.restarted().await;
            controller = FederatedHPAs::new(rig.shared.clone(), clusters.clone());
        }
        controller.reconcile(&key("shop", "h")).await.unwrap();
        assert_eq!(
            (replicas(&rig.api), &status(&rig.api)["desiredReplicas"]),
            (json!(6), &json!(6)),
            "write {nth}"
        );
        assert_eq!(rig.api.calls("scale", "Deployment"), if nth == 1 { 2 } else { 1 }, "write {nth}");
        if nth == 1 || !ends {
            assert_eq!(status(&rig.api)["lastScaleTime"], "2026-05-01T12:00:00Z", "write {nth}");
        }
        controller.reconcile(&key("shop", "h")).await.unwrap();
        let revision = rig.api.revision();
        controller.reconcile(&key("shop", "h")).await.unwrap();
        assert_eq!(rig.api.revision(), revision, "nothing is written where nothing changed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_nobody_places_or_measures_is_left_alone_and_says_why() {
    let clusters = Clusters::of([("m1", &[1000])]);
    let why = async |objects: Vec<Value>, condition: &str| {
        let rig = Rig::new(objects).await;
        let revision = rig.api.revision();
        look(&rig, &clusters).await.unwrap();
        assert_eq!(rig.api.calls("scale", "Deployment"), 0);
        assert_eq!(rig.api.revision(), revision + 1, "the status");
        look(&rig, &clusters).await.unwrap();
        assert_eq!(rig.api.revision(), revision + 1, "nothing is written where nothing changed");
        said(&rig.api, condition)
    };
    let with = |object: Value| vec![object, hpa(&json!({}))];
    assert_eq!(why(with(deployment(4)), "ScalingActive").await, "False NotPropagated");
    let paused = [with(deployment(0)), vec![binding(0, &[("m1", 0)])]].concat();
    assert_eq!(why(paused, "ScalingActive").await, "False ScalingDisabled");
    let unplaced = [with(deployment(4)), vec![binding(4, &[])]].concat();
    assert_eq!(why(unplaced, "ScalingActive").await, "False NotScheduled");
    let mut another = binding(4, &[("m1", 4)]);
    another["spec"]["resource"]["name"] = json!("other");
    assert_eq!(
        why([with(deployment(4)), vec![another]].concat(), "ScalingActive").await,
        "False NotPropagated"
    );
    let mut blind = deployment(4);
    blind["spec"]["selector"] = json!({});
    assert_eq!(
        why([with(blind), vec![binding(4, &[("m1", 4)])]].concat(), "ScalingActive").await,
        "False InvalidSelector"
    );
    assert_eq!(why(vec![hpa(&json!({}))], "AbleToScale").await, "False FailedGetScale");
    let unserved =
        hpa(&json!({"scaleTargetRef": {"apiVersion": "example.org/v1", "kind": "Lamp", "name": "web"}}));
    assert_eq!(why(vec![unserved], "AbleToScale").await, "False FailedGetScale");
    assert_eq!(clusters.asked(), 0, "nobody is asked in vain");
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_at_once_and_without_asking() {
    let clusters = Clusters::of([]);
    let rig = Rig::new(world(&json!({"maxReplicas": 3}))).await;
    look(&rig, &clusters).await.unwrap();
    assert_eq!((replicas(&rig.api), clusters.asked()), (json!(3), 0));
    assert_eq!(said(&rig.api, "ScalingLimited"), "True TooManyReplicas");
}

/// An agent of an older version says that it does not know the question.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_tell_is_named_and_holds_up_scaling_down() {
    let clusters = Clusters::of([("m1", &[10, 10])]);
    clusters.fails("m2", "UNKNOWN_QUESTION: it is not known here");
    let rig = Rig::new(world(&json!({}))).await;
    look(&rig, &clusters).await.unwrap();
    assert_eq!(replicas(&rig.api), 4);
    assert_eq!(said(&rig.api, "ClustersMeasured"), "False ClustersSilent");
    let conditions = status(&rig.api)["conditions"].to_string();
    assert!(conditions.contains("m2: UNKNOWN_QUESTION: it is not known here"), "{conditions}");
    clusters.fails("m1", "late");
    look(&rig, &clusters).await.unwrap();
    assert_eq!(said(&rig.api, "ScalingActive"), "False FailedGetResourceMetric");
    assert_eq!(
        status(&rig.api)["currentMetrics"][0]["resource"]["current"]["averageValue"],
        "10m",
        "the last that was known"
    );
    assert_eq!(events(&rig).await, ["FailedComputeMetricsReplicas"]);
}

#[tokio::test(start_paused = true)]
async fn a_site_that_is_away_is_not_asked_and_the_others_stand_for_it() {
    let clusters = Clusters::of([("m1", &[1000, 1000])]);
    let mut objects = world(&json!({}));
    for object in &mut objects {
        if object["metadata"]["name"] == "m2" {
            object["status"]["conditions"][0]["status"] = json!("Unknown");
        }
    }
    let rig = Rig::new(objects).await;
    look(&rig, &clusters).await.unwrap();
    assert_eq!(clusters.asked.lock()[0].0, ["m1"]);
    assert_eq!(
        (replicas(&rig.api), said(&rig.api, "ClustersMeasured")),
        (json!(8), "False ClustersAway".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_is_refused_is_told_and_tried_again_in_its_turn() {
    let clusters = Clusters::of([("m1", &[1000, 1000]), ("m2", &[1000, 1000])]);
    let rig = Rig::new(world(&json!({}))).await;
    let refusal = ApiError::Forbidden { reason: "Forbidden".into(), message: "a quota says no".into() };
    rig.api.refuse("scale", "Deployment", refusal);
    assert_eq!(look(&rig, &clusters).await.unwrap(), Action::RequeueAfter(Duration::from_secs(15)));
    assert_eq!(
        (replicas(&rig.api), said(&rig.api, "AbleToScale")),
        (json!(4), "False FailedUpdateScale".to_owned())
    );
    assert_eq!(status(&rig.api).get("lastScaleTime"), None);
    assert_eq!(events(&rig).await, ["FailedRescale"]);
}

/// As a CronFederatedHPA or a person may, while agents are waited for.
#[tokio::test(start_paused = true)]
async fn who_scales_it_meanwhile_is_not_overruled_by_what_was_counted_before() {
    let clusters = Clusters::of([("m1", &[1000, 1000]), ("m2", &[500, 500])]);
    let rig = Rig::new(world(&json!({}))).await;
    *clusters.meanwhile.lock() = Some((rig.api.clone(), 12));
    let refused = look(&rig, &clusters).await.unwrap_err();
    assert!(matches!(refused, Error::Api(ApiError::Conflict(_))), "{refused}");
    assert_eq!(replicas(&rig.api), 12);
    look(&rig, &clusters).await.unwrap();
    assert_eq!(replicas(&rig.api), 12, "what is not placed yet is not counted by");
    assert_eq!(said(&rig.api, "AbleToScale"), "False PlacementPending");
}

/// A clock that runs with the tests' time.
fn running_clock() -> runner::Clock {
    let (begun, noon): (_, Timestamp) =
        (tokio::time::Instant::now(), "2026-05-01T12:00:00Z".parse().unwrap());
    Arc::new(move || noon + SignedDuration::try_from(begun.elapsed()).unwrap())
}

/// The loop as it runs in the hub: by the clock alone, through windows and policies; and it hears of what is edited.
#[tokio::test(start_paused = true)]
async fn the_loop_looks_every_fifteen_seconds_and_hears_of_edits() {
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
    let api = Arc::new(FakeApi::default());
    api.seed_all(world(&json!({"behavior": behavior})));
    let clusters = Clusters::of([("m1", &[10, 10]), ("m2", &[10, 10])]);
    let port: Arc<dyn Api> = api.clone();
    let clock = running_clock();
    let recorder = crate::events::Recorder::new(port.clone(), "test", clock.clone());
    let shared = ControllerContext::new(port, clock, recorder);
    shared.load(&crate::informer::Informers::from(api.clone())).await.unwrap();
    let controller = FederatedHPAs::new(shared, clusters.clone());
    let stop = CancellationToken::new();
    let wakes = FederatedHPAs::wakes();
    let running = tokio::spawn(runner::run(
        api.clone(),
        controller.clone(),
        Arc::<Queue<_>>::default(),
        wakes,
        2,
        stop.clone(),
    ));
    let seconds = |count: u64| tokio::time::sleep(Duration::from_secs(count));
    seconds(59).await;
    assert_eq!((replicas(&api), clusters.asked()), (json!(4), 4), "the window begins with what there is");
    seconds(17).await;
    assert_eq!((replicas(&api), said(&api, "ScalingLimited")), (json!(3), "True ScaleDownLimit".to_owned()));
    let kind = api.resource_of(BINDING_API, "ResourceBinding").unwrap();
    let mut placed = api.value(BINDING_API, "ResourceBinding", "shop", "web-deployment").unwrap();
    placed["spec"]["replicas"] = json!(3);
    placed["spec"]["clusters"] = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]);
    clusters.uses("m2", &[10]);
    api.update(&kind, placed).await.unwrap();
    seconds(43).await;
    assert_eq!(replicas(&api), 3, "one in a minute");
    seconds(30).await;
    assert_eq!(replicas(&api), 2);
    let kind = api.resource_of(FEDERATED_HPA.0, FEDERATED_HPA.1).unwrap();
    let mut edited = api.value(FEDERATED_HPA.0, FEDERATED_HPA.1, "shop", "h").unwrap();
    edited["spec"]["minReplicas"] = json!(7);
    api.update(&kind, edited).await.unwrap();
    seconds(1).await;
    assert_eq!(replicas(&api), 7, "an edit counts at once");
    assert_eq!(controller.remembered.lock().len(), 1);
    api.delete(&kind, &key("shop", "h"), "", crate::port::DeletionPropagation::Background).await.unwrap();
    seconds(1).await;
    let asked = clusters.asked();
    seconds(60).await;
    assert_eq!(clusters.asked(), asked, "nothing is looked at for what is gone");
    assert_eq!(controller.remembered.lock().len(), 0, "nor remembered");
    stop.cancel();
    running.await.unwrap();
}

/// What was recommended for one workload holds up no other.
#[tokio::test(start_paused = true)]
async fn another_target_begins_anew() {
    let clusters = Clusters::of([("m1", &[10, 10]), ("m2", &[10, 10])]);
    let rig = Rig::new(world(&json!({}))).await;
    let controller = FederatedHPAs::new(rig.shared.clone(), clusters);
    controller.reconcile(&key("shop", "h")).await.unwrap();
    let before = controller.remembered.lock()[&key("shop", "h")].clone();
    rig.edit(FEDERATED_HPA, &key("shop", "h"), |hpa| hpa["spec"]["scaleTargetRef"]["name"] = json!("other"))
        .await;
    controller.reconcile(&key("shop", "h")).await.unwrap();
    assert_eq!(said(&rig.api, "AbleToScale"), "False FailedGetScale");
    let object = rig.api.value(FEDERATED_HPA.0, FEDERATED_HPA.1, "shop", "h").unwrap();
    let hpa: FederatedHPA = serde_json::from_value(object).unwrap();
    let anew = controller.remembered(&key("shop", "h"), &hpa);
    assert_ne!((anew.target.name, anew.history.clone()), (before.target.name, before.history));
    assert_eq!(anew.history, History::default());
}

/// Kubernetes' own autoscalers refuse this as well: each would scale back what the other did, for ever.
#[tokio::test(start_paused = true)]
async fn two_that_scale_one_target_scale_nothing_until_one_is_gone() {
    let mut all = world(&json!({"minReplicas": 8}));
    let mut second = hpa(&json!({"maxReplicas": 3}));
    second["metadata"]["name"] = json!("other");
    all.push(second);
    let rig = Rig::new(all).await;
    let clusters = Clusters::of([("m1", &[50, 50]), ("m2", &[50, 50])]);
    let controller = FederatedHPAs::new(rig.shared.clone(), clusters);
    let (first, other) = (key("shop", "h"), key("shop", "other"));
    // Who is there alone may have scaled before the other came.
    controller.reconcile(&other).await.unwrap();
    assert_eq!(replicas(&rig.api), 3);
    for _ in 0..3 {
        controller.reconcile(&first).await.unwrap();
        controller.reconcile(&other).await.unwrap();
        assert_eq!(replicas(&rig.api), 3);
    }
    assert_eq!(said(&rig.api, "ScalingActive"), "False AmbiguousSelector");
    rig.delete(FEDERATED_HPA, &other).await;
    controller.reconcile(&other).await.unwrap();
    controller.reconcile(&first).await.unwrap();
    assert_eq!(replicas(&rig.api), 8);
}
