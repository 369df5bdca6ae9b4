//! Rebalancing over the port in memory: time passes as a test says, and members do at once what they are told.

mod asked_agents;

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_api::binding::ObjectReference;
use karmada_controllers::agent_ports::estimator::{Answers, RoomQuestion};
use karmada_controllers::events::Recorder;
use karmada_controllers::informer::Informers;
use karmada_controllers::port::fake::FakeApi;
use karmada_controllers::runner::Clock;
use karmada_controllers::scheduler::Scheduler;
use karmada_controllers::testing::{self, key};
use karmada_core::feature_gates::{FeatureGates, Gate};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::move_note::MoveNote;

const INTERVAL: SignedDuration = SignedDuration::from_mins(2);

/// A hub over a state, and its rebalancing.
struct Hub {
    api: Arc<FakeApi>,
    shared: Arc<ControllerContext>,
    controller: Arc<Rebalancing>,
    /// What hears for it.
    _informers: Informers,
}

impl Hub {
    /// A hub that is started now; it was noon when the test `began`.
    async fn start(api: &Arc<FakeApi>, began: Instant, budget: u32, asks: Option<Arc<dyn Estimator>>) -> Hub {
        Hub::gated(api, (began, budget), asks, FeatureGates::default()).await
    }

    async fn gated(
        api: &Arc<FakeApi>,
        (began, budget): (Instant, u32),
        asks: Option<Arc<dyn Estimator>>,
        gates: FeatureGates,
    ) -> Hub {
        let port: Arc<dyn Api> = api.clone();
        let noon: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let clock: Clock = Arc::new(move || noon + began.elapsed());
        let recorder = Recorder::new(port.clone(), "test", clock.clone());
        let shared = ControllerContext::gated(port, clock, recorder, gates);
        let informers = Informers::from(api.clone());
        shared.load(&informers).await.unwrap();
        let budget = NonZeroU32::new(budget).unwrap();
        let options = RebalancingOptions { interval: INTERVAL, budget };
        let controller = Rebalancing::new(shared.clone(), asks, options);
        Hub { api: api.clone(), shared, controller, _informers: informers }
    }

    /// Looks at these workloads, one after the other.
    async fn look(&self, names: &[&str]) {
        for name in names {
            assert!(self.looks(name).await.is_ok(), "{name}");
        }
    }

    async fn looks(&self, name: &str) -> Result<Action, Error> {
        let came = self.controller.reconcile(&key("shop", name)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        came
    }

    /// An interval goes by, and the workloads are looked at; members then report what they have.
    async fn round(&self, names: &[&str]) {
        tokio::time::advance(Duration::from_secs(120)).await;
        self.look(names).await;
        for name in names {
            report(&self.api, name).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Events as they are stored, without their times.
    async fn events(&self) -> Vec<String> {
        let stop = CancellationToken::new();
        let soon = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        tokio::join!(self.shared.recorder.run(stop.clone()), soon);
        let text = |event: Value| {
            let word = |path: &str| event.pointer(path).unwrap().as_str().unwrap().to_owned();
            [word("/involvedObject/kind"), word("/type"), word("/reason"), word("/message")].join(" ")
        };
        self.api.values("v1", "Event").into_iter().map(text).collect()
    }
}

/// A cluster with places for so many Pods, of which so many are taken.
fn cluster(name: &str, places: i64, taken: i64) -> Vec<Value> {
    let mut objects = testing::cluster(name, &json!({})).to_vec();
    objects[0]["status"]["resourceSummary"] =
        json!({"allocatable": {"pods": places.to_string()}, "allocated": {"pods": taken.to_string()}});
    objects
}

fn whole(clusters: &Value) -> Value {
    let item = |target: &Value| {
        let ready = &target["replicas"];
        json!({"clusterName": target["name"], "applied": true, "health": "Healthy",
            "status": {"replicas": ready, "readyReplicas": ready}})
    };
    clusters.as_array().unwrap().iter().map(item).collect()
}

/// A workload, whole where it runs: its Deployment, and the binding of the same name.
fn workload(name: &str, clusters: &Value) -> Vec<Value> {
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let replicas: i64 =
        clusters.as_array().unwrap().iter().map(|one| one["replicas"].as_i64().unwrap()).sum();
    let times = "2026-05-01T11:00:00Z";
    vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": replicas}}),
        json!({"apiVersion": BINDING.0, "kind": BINDING.1,
            "metadata": {"name": name, "namespace": "shop", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
                "annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name, "uid": "u"},
                "replicas": replicas, "schedulerName": "default-scheduler", "placement": placement, "clusters": clusters},
            "status": {"schedulerObservedGeneration": 1, "lastScheduledTime": times, "aggregatedStatus": whole(clusters),
                "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": times}]}}),
    ]
}

/// The scheduler has seen a binding as it is, and its members have what it says.
async fn report(api: &Arc<FakeApi>, name: &str) {
    let resource = api.resource_of(BINDING.0, BINDING.1).unwrap();
    let mut binding = api.value(BINDING.0, BINDING.1, "shop", name).unwrap();
    binding["status"]["schedulerObservedGeneration"] = binding["metadata"]["generation"].clone();
    binding["status"]["aggregatedStatus"] = whole(&binding["spec"]["clusters"]);
    api.update_status(&resource, binding).await.unwrap();
}

fn stands(api: &FakeApi, name: &str) -> BTreeMap<String, i64> {
    let binding = api.value(BINDING.0, BINDING.1, "shop", name).unwrap();
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let number = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["replicas"].as_i64().unwrap());
    clusters.iter().map(number).collect()
}

fn numbers<const N: usize>(all: [(&str, i64); N]) -> BTreeMap<String, i64> {
    all.map(|(name, number)| (name.to_owned(), number)).into()
}

fn note(api: &FakeApi, name: &str) -> MoveNote {
    let binding = api.value(BINDING.0, BINDING.1, "shop", name).unwrap();
    MoveNote::of(&serde_json::from_value(binding).unwrap()).unwrap()
}

/// All of one workload in `a`, and as much room in `b`.
fn lopsided() -> Vec<Value> {
    let objects =
        [cluster("a", 20, 10), cluster("b", 20, 0), workload("web", &json!([{"name": "a", "replicas": 10}]))];
    objects.concat()
}

fn state(objects: Vec<Value>) -> Arc<FakeApi> {
    let api = Arc::new(FakeApi::default());
    api.seed_all(objects);
    api
}

#[tokio::test(start_paused = true)]
async fn what_would_be_placed_elsewhere_is_moved_there_and_told() {
    let api = state(lopsided());
    let hub = Hub::start(&api, Instant::now(), 100, None).await;
    assert_eq!(hub.looks("web").await.unwrap(), again(INTERVAL), "nothing at first sight");
    assert_eq!(api.writes(), 0);
    hub.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]));
    let message = "moved 5 of 10 replicas to where they would be placed now (from a: 5; to b: 5)";
    let told = |kind: &str| format!("{kind} Normal RebalanceBindingSucceed {message}");
    assert_eq!(hub.events().await, [told("ResourceBinding"), told("Deployment")]);
    let counted = "karmada_descheduler_rebalance_attempts_total{result=\"success\"} 1";
    assert!(hub.shared.metrics.page().lines().any(|line| line == counted));
    // All are ready there, which is noted once. The clusters' reports are as old as before, so that there seems to be room: it rests.
    assert_eq!(note(&api, "web").changed.len(), 2);
    hub.round(&["web"]).await;
    assert_eq!(note(&api, "web").changed, BTreeMap::new());
    let writes = api.writes();
    for _ in 0..25 {
        tokio::time::advance(Duration::from_secs(120)).await;
        hub.look(&["web"]).await;
    }
    assert_eq!(api.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_one_for_all_and_a_large_move_goes_on() {
    let mut objects = [cluster("a", 40, 20), cluster("b", 40, 0)].concat();
    objects
        .extend(["w1", "w2"].iter().flat_map(|name| workload(name, &json!([{"name": "a", "replicas": 10}]))));
    let api = state(objects);
    let hub = Hub::start(&api, Instant::now(), 6, None).await;
    hub.look(&["w1", "w2"]).await;
    let moved = || (stands(&api, "w1").get("b").copied(), stands(&api, "w2").get("b").copied());
    hub.round(&["w1", "w2"]).await;
    assert_eq!(moved(), (Some(5), Some(1)));
    let left = note(&api, "w2").left;
    assert!(left > 0);
    assert!(hub.events().await.iter().any(|event| event.ends_with(&format!("; {left} more are to follow"))));
    hub.round(&["w1", "w2"]).await;
    assert_eq!(moved(), (Some(6), Some(1 + left)), "no more than half moved at once of the first, too");
    assert_eq!((note(&api, "w1").left, note(&api, "w2").left), (0, 0));
}

/// Reports are as old as they are: what one workload was given there, the next sees as taken.
#[tokio::test(start_paused = true)]
async fn two_workloads_are_not_moved_into_one_gap() {
    let mut objects = [cluster("a", 20, 20), cluster("b", 10, 0)].concat();
    objects
        .extend(["w1", "w2"].iter().flat_map(|name| workload(name, &json!([{"name": "a", "replicas": 10}]))));
    let api = state(objects);
    let hub = Hub::start(&api, Instant::now(), 100, None).await;
    hub.look(&["w1", "w2"]).await;
    hub.round(&["w1", "w2"]).await;
    assert_eq!(stands(&api, "w1"), numbers([("a", 5), ("b", 5)]));
    assert_eq!(stands(&api, "w2"), numbers([("a", 7), ("b", 3)]));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_decided_anew_and_costs_nothing_of_the_budget() {
    let api = state(lopsided());
    let hub = Hub::start(&api, Instant::now(), 5, None).await;
    hub.look(&["web"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    api.fail(1, false, ApiError::Conflict("somebody was faster".into()));
    assert!(hub.looks("web").await.is_err());
    assert_eq!(stands(&api, "web"), numbers([("a", 10)]));
    hub.look(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]));
    assert_eq!(hub.events().await.len(), 2, "nobody is told of the conflict");
}

/// Of a write of which nobody knows what came, the budget is spent.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_moved_counts_as_moved() {
    let api = state(lopsided());
    let hub = Hub::start(&api, Instant::now(), 5, None).await;
    hub.look(&["web"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    api.fail(1, false, ApiError::Unavailable("the disk is slow".into()));
    assert!(hub.looks("web").await.is_err());
    hub.look(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 10)]), "not before the interval is over");
    assert!(hub.events().await[0].contains("Warning RebalanceBindingFailed unavailable: the disk is slow"));
    hub.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]));
}

/// What a hub refuses is told, and moves nothing.
#[tokio::test(start_paused = true)]
async fn what_is_refused_is_told() {
    let api = state(lopsided());
    let hub = Hub::start(&api, Instant::now(), 5, None).await;
    hub.look(&["web"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    api.fail(1, true, ApiError::Forbidden { reason: "Forbidden".into(), message: "not there".into() });
    assert!(hub.looks("web").await.is_err());
    api.mend();
    assert_eq!(hub.controller.ledger.lock().free(hub.controller.started.elapsed()), 5);
    let writes = api.writes();
    assert!(matches!(hub.looks("web").await, Ok(Action::RequeueAfter(_))), "not again before its turn");
    assert_eq!((stands(&api, "web"), api.writes()), (numbers([("a", 10)]), writes));
    assert!(hub.events().await[0].contains("RebalanceBindingFailed forbidden (Forbidden): not there"));
}

/// A hub that is started anew knows of no budget that was spent: it waits for an interval, then goes on with what was begun.
#[tokio::test(start_paused = true)]
async fn over_a_restart_no_more_is_moved_in_an_interval() {
    let (api, began) = (state(lopsided()), Instant::now());
    let first = Hub::start(&api, began, 2, None).await;
    first.look(&["web"]).await;
    first.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 8), ("b", 2)]));
    let second = Hub::start(&api, began, 2, None).await;
    for _ in 0..11 {
        second.look(&["web"]).await;
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert_eq!(stands(&api, "web"), numbers([("a", 8), ("b", 2)]));
    second.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 6), ("b", 4)]));
    second.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]), "no further than was decided");
}

/// Members that are slow have no more under way at once than the budget has.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_holds_its_part_of_the_budget() {
    let mut objects = [cluster("a", 40, 20), cluster("b", 40, 0)].concat();
    objects
        .extend(["w1", "w2"].iter().flat_map(|name| workload(name, &json!([{"name": "a", "replicas": 10}]))));
    let api = state(objects);
    let hub = Hub::start(&api, Instant::now(), 5, None).await;
    hub.look(&["w1", "w2"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    hub.look(&["w1", "w2"]).await;
    report_none_in_b(&api, "w1").await;
    assert_eq!(
        (stands(&api, "w1"), stands(&api, "w2")),
        (numbers([("a", 5), ("b", 5)]), numbers([("a", 10)]))
    );
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(120)).await;
        hub.look(&["w1", "w2"]).await;
    }
    assert_eq!(stands(&api, "w2"), numbers([("a", 10)]), "the first is not there yet");
    report(&api, "w1").await;
    tokio::time::advance(Duration::from_secs(120)).await;
    hub.look(&["w1", "w2"]).await;
    assert_eq!(stands(&api, "w1"), numbers([("a", 4), ("b", 6)]), "what was left of it goes on");
    assert_eq!(
        stands(&api, "w2"),
        numbers([("a", 6), ("b", 4)]),
        "and the rest of the budget is there for others"
    );
}

/// A workload that the scheduler is yet to place, in `b` alone.
fn waiting(name: &str, replicas: i64) -> Vec<Value> {
    let mut objects = workload(name, &json!([]));
    objects[1]["metadata"]["annotations"] = json!({});
    objects[1]["spec"]["replicas"] = json!(replicas);
    objects[1]["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["b"]},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    objects[1]["status"] = json!({});
    objects
}

/// Reports are as old as they are: neither the scheduler nor rebalancing gives away what the other gave a moment ago.
#[tokio::test(start_paused = true)]
async fn the_scheduler_and_rebalancing_see_what_the_other_took() {
    for (scheduler_first, db, web) in [
        (true, numbers([("b", 20)]), numbers([("a", 10)])),
        (false, BTreeMap::new(), numbers([("a", 5), ("b", 5)])),
    ] {
        let mut objects = lopsided();
        objects.extend(waiting("db", 20));
        let api = state(objects);
        let hub = Hub::start(&api, Instant::now(), 100, None).await;
        let scheduler = Scheduler::new(hub.shared.clone(), None);
        hub.look(&["web"]).await;
        tokio::time::advance(Duration::from_secs(120)).await;
        for schedules in [scheduler_first, !scheduler_first] {
            match schedules {
                true => drop(scheduler.reconcile(&key("shop", "db")).await.unwrap()),
                false => hub.look(&["web"]).await,
            }
        }
        assert_eq!((stands(&api, "db"), stands(&api, "web")), (db, web), "{scheduler_first}");
    }
}

/// Who may write bindings may write a note. It has nothing taken back that the budget would not have moved.
#[tokio::test(start_paused = true)]
async fn a_note_that_somebody_wrote_moves_no_more_than_the_budget_has() {
    for (budget, wanted) in [(4, numbers([("a", 5), ("b", 5)])), (5, numbers([("a", 10)]))] {
        let clusters = json!([{"name": "a", "replicas": 5}, {"name": "b", "replicas": 5}]);
        let mut objects = [cluster("a", 20, 5), cluster("b", 20, 5), workload("web", &clusters)].concat();
        let note = json!({"at": "2026-05-01T11:45:00Z", "changed": {"a": {"before": 10, "after": 5}, "b": {"after": 5}}});
        let binding = objects.last_mut().unwrap();
        binding["metadata"]["annotations"]["edge.karmada.io/rebalanced"] = json!(note.to_string());
        let api = state(objects);
        report_none_in_b(&api, "web").await;
        let hub = Hub::start(&api, Instant::now(), budget, None).await;
        hub.look(&["web"]).await;
        tokio::time::advance(Duration::from_secs(120)).await;
        hub.look(&["web"]).await;
        assert_eq!(stands(&api, "web"), wanted, "{budget}");
    }
}

/// As few clusters as possible take these.
fn aggregated(name: &str, clusters: &Value) -> Vec<Value> {
    let mut objects = workload(name, clusters);
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let note = "policy.karmada.io/applied-placement";
    objects[1]["metadata"]["annotations"][note] = json!(placement.to_string());
    objects[1]["spec"]["placement"] = placement;
    objects
}

/// Some workloads that are to leave `a`, where they have one replica each.
fn leaving(names: &[&str]) -> Vec<Value> {
    let mut objects = [cluster("a", 3, 3), cluster("b", 90, 9)].concat();
    let clusters = json!([{"name": "a", "replicas": 1}, {"name": "b", "replicas": 3}]);
    objects.extend(names.iter().flat_map(|name| aggregated(name, &clusters)));
    objects
}

/// A removal that was one of too many would wait for a person, and the workload ran in both clusters.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_left_by_one_workload_in_a_minute() {
    let names = ["w1", "w2", "w3"];
    let api = state(leaving(&names));
    let hub = Hub::start(&api, Instant::now(), 100, None).await;
    hub.look(&names).await;
    let there = || names.iter().filter(|name| stands(&api, name).contains_key("a")).count();
    let mut all = Vec::new();
    for _ in 0..4 {
        hub.round(&names).await;
        all.push(there());
    }
    assert_eq!(all, [2, 1, 0, 0]);
}

/// Where something waits already, whatever else leaves waits as well.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_not_left_while_removals_wait_there() {
    let mut objects = leaving(&["web"]);
    objects.push(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "other", "namespace": "karmada-es-a",
        "labels": {"edge.karmada.io/removal-held": "20260501T110000Z"}}, "spec": {"workload": {"manifests": []}}}));
    let api = state(objects);
    let hub = Hub::start(&api, Instant::now(), 100, None).await;
    let work = Key { namespace: "karmada-es-a".into(), name: "other".into() };
    let works = kinds::works(&*api).unwrap();
    let note = fetch::get_object(&*api, &works, &work.namespace, &work.name).await.unwrap().unwrap();
    hub.shared.removal_limit.observe(&Change::Applied(note.clone()));
    hub.look(&["web"]).await;
    hub.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 1), ("b", 3)]));
    hub.shared.removal_limit.observe(&Change::Deleted(note));
    hub.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("b", 4)]));
}

/// What was moved to `b` is not ready there.
async fn report_none_in_b(api: &Arc<FakeApi>, name: &str) {
    report(api, name).await;
    let mut binding = api.value(BINDING.0, BINDING.1, "shop", name).unwrap();
    for item in binding["status"]["aggregatedStatus"].as_array_mut().unwrap() {
        if item["clusterName"] == "b" {
            item["status"]["readyReplicas"] = json!(0);
        }
    }
    api.update_status(&api.resource_of(BINDING.0, BINDING.1).unwrap(), binding).await.unwrap();
}

/// Room is not all that it needs there. A hub that was started anew takes it back as well: what it was is noted on the binding.
#[tokio::test(start_paused = true)]
async fn what_does_not_become_ready_where_it_went_is_taken_back() {
    for restarts in [false, true] {
        let (api, began) = (state(lopsided()), Instant::now());
        let mut hub = Hub::start(&api, began, 5, None).await;
        hub.look(&["web"]).await;
        tokio::time::advance(Duration::from_secs(120)).await;
        hub.look(&["web"]).await;
        report_none_in_b(&api, "web").await;
        assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]));
        if restarts {
            hub = Hub::start(&api, began, 5, None).await;
            hub.look(&["web"]).await;
        }
        for _ in 0..4 {
            tokio::time::advance(Duration::from_secs(120)).await;
            hub.look(&["web"]).await;
        }
        assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]), "not before ten minutes");
        tokio::time::advance(Duration::from_secs(120)).await;
        hub.look(&["web"]).await;
        assert_eq!(stands(&api, "web"), numbers([("a", 10)]));
        assert_eq!(note(&api, "web").rest_seconds, LONGEST_REST.as_secs());
        let told = "Warning RebalanceBindingFailed moved 5 replicas back to where they were (from b: 5; to a: 5): 10 minutes after";
        assert!(hub.events().await.iter().any(|event| event.contains(told)));
        for _ in 0..60 {
            hub.round(&["web"]).await;
        }
        assert_eq!(stands(&api, "web"), numbers([("a", 10)]), "it rests for long");
    }
}

/// What members scale keeps the number that it has there.
#[tokio::test(start_paused = true)]
async fn what_members_scale_is_left_alone() {
    let mut objects = lopsided();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        object["metadata"]["labels"] = json!({"resourcetemplate.karmada.io/retain-replicas": "true"});
    }
    let api = state(objects);
    let hub = Hub::start(&api, Instant::now(), 100, None).await;
    hub.look(&["web"]).await;
    hub.round(&["web"]).await;
    assert_eq!(stands(&api, "web"), numbers([("a", 10)]));
    assert_eq!(hub.looks("none").await.unwrap(), Action::Done);
}
