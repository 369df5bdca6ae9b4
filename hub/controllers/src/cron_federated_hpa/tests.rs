//! CronFederatedHPAs, over the port in memory.

use std::time::Duration;

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::port::fake::FakeApi;
use crate::queue::Queue;
use crate::runner;
use crate::testing::{Rig, bears_trouble, key};

/// The rigs' clock shows 2026-05-01T12:00:00Z, a Friday.
const NOON: &str = "2026-05-01T12:00:00Z";

async fn look(rig: &Rig) -> Result<Action, Error> {
    CronFederatedHPAs::new(rig.shared.clone()).reconcile(&key("shop", "clock")).await
}

/// One with these rules and histories.
fn cron(target: &Value, rules: &Value, histories: &Value) -> Value {
    json!({"apiVersion": CRON.0, "kind": CRON.1, "metadata": {"name": "clock", "namespace": "shop", "generation": 1},
        "spec": {"scaleTargetRef": target, "rules": rules}, "status": {"executionHistories": histories}})
}

fn workload() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn deployment(replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"replicas": replicas}})
}

/// A rule of a name, for 7 replicas.
fn rule(name: &str, schedule: &str) -> Value {
    json!({"name": name, "schedule": schedule, "targetReplicas": 7})
}

fn due_at(name: &str, next: &str) -> Value {
    json!({"ruleName": name, "nextExecutionTime": next})
}

fn replicas(api: &FakeApi) -> Value {
    api.value("apps/v1", "Deployment", "shop", "web").unwrap()["spec"]["replicas"].clone()
}

fn histories(api: &FakeApi) -> Value {
    api.value(CRON.0, CRON.1, "shop", "clock").unwrap()["status"]["executionHistories"].clone()
}

async fn at(api: &Arc<FakeApi>, now: &str) -> Rig {
    Rig::started(api.clone(), now, FeatureGates::default()).await
}

#[tokio::test(start_paused = true)]
async fn statement_74_a_run_is_carried_out_once_whatever_happens_between() {
    let rules = json!([rule("up", "0 12 * * *"), rule("later", "0 20 * * 5")]);
    let objects = [deployment(2), cron(&workload(), &rules, &json!([due_at("up", NOON)]))];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 2, "the scale, and what came of it");
    assert_eq!(replicas(&api), 7);
    let ran = json!([{"scheduleTime": NOON, "executionTime": NOON, "appliedReplicas": 7}]);
    let wanted = json!([
        {"ruleName": "up", "nextExecutionTime": "2026-05-02T12:00:00Z", "successfulExecutions": ran},
        {"ruleName": "later", "nextExecutionTime": "2026-05-01T20:00:00Z"}]);
    assert_eq!(histories(&api), wanted);
}

#[tokio::test(start_paused = true)]
async fn statement_74_a_federated_hpa_is_bounded_whatever_happens_between() {
    let target = json!({"apiVersion": CRON.0, "kind": "FederatedHPA", "name": "h"});
    let rules =
        json!([{"name": "up", "schedule": "0 12 * * *", "targetMinReplicas": 4, "targetMaxReplicas": 9}]);
    let federated_hpa = json!({"apiVersion": CRON.0, "kind": "FederatedHPA", "metadata": {"name": "h", "namespace": "shop"},
        "spec": {"minReplicas": 1, "maxReplicas": 3, "metrics": []}});
    let objects = [federated_hpa, cron(&target, &rules, &json!([due_at("up", NOON)]))];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 2);
    let bounded = api.value(CRON.0, "FederatedHPA", "shop", "h").unwrap();
    assert_eq!(bounded["spec"], json!({"minReplicas": 4, "maxReplicas": 9, "metrics": []}));
}

#[tokio::test(start_paused = true)]
async fn statement_74_what_rests_is_told_and_nothing_is_run_before_its_time() {
    let mut rests = rule("rests", "* * * * *");
    rests["suspend"] = json!(true);
    let rules = json!([rule("up", "30 12 * * *"), rests, rule("soon", "3 12 * * *")]);
    let rig = Rig::new([deployment(2), cron(&workload(), &rules, &json!([]))]).await;
    let wait = |action: Action| match action {
        Action::RequeueAfter(wait) => wait,
        other => panic!("{other:?}"),
    };
    assert_eq!(wait(look(&rig).await.unwrap()), Duration::from_secs(180));
    let wanted = json!([due_at("up", "2026-05-01T12:30:00Z"), {"ruleName": "rests"}, due_at("soon", "2026-05-01T12:03:00Z")]);
    assert_eq!((histories(&rig.api), replicas(&rig.api)), (wanted, json!(2)));
    let revision = rig.api.revision();
    assert_eq!(wait(look(&rig).await.unwrap()), Duration::from_secs(180));
    let early = at(&rig.api, "2026-05-01T12:02:59.5Z").await;
    assert_eq!(wait(look(&early).await.unwrap()), Duration::from_millis(500));
    assert_eq!(rig.api.revision(), revision, "nothing is written where nothing changed");
    let later = at(&rig.api, "2026-05-01T12:03:00Z").await;
    assert_eq!(wait(look(&later).await.unwrap()), Duration::from_secs(300), "the clock may be set meanwhile");
    assert_eq!(replicas(&rig.api), 7);
}

/// A hub that was away at noon and in the evening scales to what the evening's rule says, and notes both runs.
#[tokio::test(start_paused = true)]
async fn statement_74_a_hub_that_starts_anew_makes_up_what_it_missed() {
    let mut down = rule("down", "0 20 * * *");
    down["targetReplicas"] = json!(1);
    let rig =
        Rig::new([deployment(2), cron(&workload(), &json!([down, rule("up", "0 12 * * *")]), &json!([]))])
            .await;
    look(&rig).await.unwrap();
    let anew = at(&rig.api, "2026-05-03T06:00:00Z").await;
    look(&anew).await.unwrap();
    assert_eq!(replicas(&rig.api), 1);
    let told = histories(&rig.api);
    let ran = |rule: usize| told[rule]["successfulExecutions"].as_array().unwrap().len();
    assert_eq!((ran(0), ran(1)), (1, 1), "each once");
    assert_eq!(told[1]["successfulExecutions"][0]["scheduleTime"], "2026-05-02T12:00:00Z");
    assert_eq!(rig.api.calls("scale", "Deployment"), 1, "and not up first, and down then");
}

/// Looks at noon, with a run that is due; the failed run's message.
async fn failed(target: &Value, objects: Vec<Value>) -> Value {
    let rules = json!([rule("up", "0 12 * * *")]);
    let object = cron(target, &rules, &json!([due_at("up", NOON)]));
    let rig = Rig::new([vec![object], objects].concat()).await;
    look(&rig).await.unwrap();
    let told = histories(&rig.api);
    assert_eq!(told[0]["nextExecutionTime"], "2026-05-02T12:00:00Z", "the next one is tried in its turn");
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    assert_eq!(rig.api.values("v1", "Event")[0]["reason"], "ScaleFailed");
    told[0]["failedExecutions"][0]["message"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_scale_is_noted_with_why() {
    assert_eq!(failed(&workload(), Vec::new()).await, "deployments.apps \"web\" not found");
    let unserved = json!({"apiVersion": "example.org/v1", "kind": "Lamp", "name": "web"});
    assert_eq!(
        failed(&unserved, Vec::new()).await,
        "no matches for kind \"Lamp\" in version \"example.org/v1\""
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "web"});
    let there =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}});
    assert_eq!(failed(&map, vec![there]).await, "the server could not find the requested resource");
    let own = json!({"apiVersion": CRON.0, "kind": CRON.1, "name": "clock"});
    let words = "CronFederatedHPA(shop/clock) do not support scale target autoscaling.karmada.io/v1alpha1/CronFederatedHPA";
    assert_eq!(failed(&own, Vec::new()).await, words);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_hub_itself_cannot_carry_out_is_tried_again() {
    let rules = json!([rule("up", "0 12 * * *")]);
    let rig = Rig::new([deployment(2), cron(&workload(), &rules, &json!([due_at("up", NOON)]))]).await;
    rig.api.refuse("scale", "Deployment", ApiError::Unavailable("the disk is full".into()));
    assert!(look(&rig).await.is_err());
    assert_eq!(histories(&rig.api), json!([due_at("up", NOON)]), "it is still due");
    let later = at(&rig.api, "2026-05-01T12:00:20Z").await;
    look(&later).await.unwrap();
    assert_eq!(replicas(&rig.api), 7);
    assert_eq!(histories(&rig.api)[0]["successfulExecutions"][0]["executionTime"], "2026-05-01T12:00:20Z");
    assert!(histories(&rig.api)[0].get("failedExecutions").is_none());
}

/// As one may be stored that no gate has judged.
#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_read_is_told_of_and_holds_up_no_other() {
    let rules = json!([rule("bad", "0 0 L * *"), rule("up", "0 12 * * *")]);
    let rig = Rig::new([deployment(2), cron(&workload(), &rules, &json!([due_at("up", NOON)]))]).await;
    look(&rig).await.unwrap();
    assert_eq!((replicas(&rig.api), &histories(&rig.api)[0]), (json!(7), &json!({"ruleName": "bad"})));
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    let events = rig.api.values("v1", "Event");
    assert_eq!((events.len(), &events[0]["reason"]), (1, &json!("StartRuleFailed")));
    assert!(events[0]["message"].as_str().unwrap().starts_with("rule bad: failed to parse int from L"));
}

/// The loop as it runs in the hub: it wakes by the clock alone, and hears of what is edited.
#[tokio::test(start_paused = true)]
async fn the_loop_runs_rules_by_the_clock_and_hears_of_edits() {
    let api = Arc::new(FakeApi::default());
    api.seed_all([deployment(2), cron(&workload(), &json!([rule("up", "*/10 * * * *")]), &json!([]))]);
    let (begun, noon): (_, Timestamp) = (Instant::now(), NOON.parse().unwrap());
    let port: Arc<dyn Api> = api.clone();
    let clock: runner::Clock = Arc::new(move || {
        noon + SignedDuration::try_from(begun.elapsed()).unwrap() + SignedDuration::from_secs(1)
    });
    let recorder = crate::events::Recorder::new(port.clone(), "test", clock.clone());
    let controller = CronFederatedHPAs::new(ControllerContext::new(port, clock, recorder));
    let stop = CancellationToken::new();
    let wakes = CronFederatedHPAs::wakes();
    let running = tokio::spawn(runner::run(
        api.clone(),
        controller,
        Arc::<Queue<_>>::default(),
        wakes,
        2,
        stop.clone(),
    ));
    let minutes = |count: u64| tokio::time::sleep(Duration::from_secs(60 * count));
    minutes(9).await;
    assert_eq!((replicas(&api), api.writes()), (json!(2), 1));
    let kind = api.resource_of(CRON.0, CRON.1).unwrap();
    let mut forgotten = api.value(CRON.0, CRON.1, "shop", "clock").unwrap();
    forgotten["status"] = json!({});
    api.update_status(&kind, forgotten).await.unwrap();
    minutes(1).await;
    assert_eq!(replicas(&api), 7, "though somebody took away what was told as the next run");
    let mut edited = api.value(CRON.0, CRON.1, "shop", "clock").unwrap();
    edited["spec"]["rules"][0]["schedule"] = json!("*/3 * * * *");
    edited["spec"]["rules"][0]["targetReplicas"] = json!(4);
    api.update(&kind, edited).await.unwrap();
    minutes(2).await;
    assert_eq!(replicas(&api), 4, "at twelve minutes past");
    minutes(60).await;
    let ran = histories(&api)[0]["successfulExecutions"].clone();
    assert_eq!(ran.as_array().unwrap().len(), 3, "as many are kept as nobody says otherwise");
    assert_eq!(ran[0]["scheduleTime"], "2026-05-01T13:12:00Z");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rules_that_run_are_counted_by_how_they_went() {
    let lines = |rig: &Rig| -> Vec<String> {
        let page = rig.shared.metrics.page();
        let of_rules = |line: &&str| line.starts_with("cronfederatedhpa_rule_process_duration_seconds_count");
        page.lines().filter(of_rules).map(str::to_owned).collect()
    };
    let rules = json!([rule("up", "0 12 * * *"), rule("also", "0 12 * * 5"), rule("later", "0 20 * * 5")]);
    let due = json!([due_at("up", NOON), due_at("also", NOON)]);
    let api = Arc::new(FakeApi::default());
    api.seed(cron(&workload(), &rules, &due));
    let rig = at(&api, NOON).await;
    look(&rig).await.unwrap();
    let failed = r#"cronfederatedhpa_rule_process_duration_seconds_count{result="error"} 2"#;
    assert_eq!(lines(&rig), [failed], "what they scale is not there");
    api.seed(deployment(2));
    api.seed(cron(&workload(), &rules, &due));
    look(&rig).await.unwrap();
    let done = r#"cronfederatedhpa_rule_process_duration_seconds_count{result="success"} 2"#;
    assert_eq!(lines(&rig), [failed, done]);
    look(&rig).await.unwrap();
    assert_eq!(lines(&rig), [failed, done], "no rule is due");
}

/// One that was stored before such were refused: it ends, and says why.
#[tokio::test(start_paused = true)]
async fn one_of_too_many_rules_runs_none_and_is_not_tried_again() {
    let rules: Vec<Value> = (0..15_000).map(|at| rule(&format!("r{at}"), "0 12 * * *")).collect();
    let rig = Rig::new([deployment(2), cron(&workload(), &json!(rules), &json!([]))]).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!((rig.api.writes(), histories(&rig.api)), (0, json!([])));
}
