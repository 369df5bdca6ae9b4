//! CronFederatedHPAs: when rules run, what is told of it, whole timelines over what they scale; which may be stored.

use jiff::Timestamp;
use karmada_api::cron_federated_hpa::CronFederatedHPA;
use karmada_autoscaling::cron_federated_hpa::validation::validate_cron_federated_hpa;
use karmada_autoscaling::cron_federated_hpa::{
    Due, Scaling, bounded, due, fitting, rests, scaling, status, too_large, unreadable,
};
use karmada_cron::{Schedule, zone};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::{time, without_nulls};

const ENDS: &str =
    "recorded: a limit below 1 ends the controller at the rule's first run; here nothing is kept";
const OTHERS_RUN: &str = "recorded: a rule that cannot be read holds up those after it, for ever; here it is told of, and the others run";

const CRON: Differences = &[
    (120, ENDS),
    (121, ENDS),
    (122, ENDS),
    (123, ENDS),
    (124, ENDS),
    (125, ENDS),
    (126, ENDS),
    (127, ENDS),
    (128, ENDS),
    (129, ENDS),
    (130, ENDS),
    (131, ENDS),
    (132, ENDS),
    (133, ENDS),
    (134, ENDS),
    (135, ENDS),
    (191, OTHERS_RUN),
];

/// What a library says before what is wrong.
const PREFIX: &str = "gocron: cron expression failed to be parsed: ";

fn next(case: &Value) -> Verdict {
    let name = case["timeZone"].as_str().unwrap_or_default();
    let read = zone(name).map_err(|unknown| unknown.to_string()).and_then(|zone| {
        let text = case["schedule"].as_str().unwrap();
        Schedule::parse(text, &zone).map_err(|unreadable| format!("{PREFIX}{unreadable}"))
    });
    let schedule = match read {
        Ok(schedule) => schedule,
        Err(error) => return compare(&case["error"], &json!(error)),
    };
    let runs = std::iter::successors(schedule.next(time(&case["now"])), |run| schedule.next(*run));
    compare(&case["next"], &json!(runs.take(4).map(|run| run.to_string()).collect::<Vec<_>>()))
}

/// The times of old entries, which are not recorded.
const LONG_AGO: &str = "1970-01-01T00:00:00Z";

fn history(case: &Value) -> Verdict {
    let before = |entry: &dyn Fn(usize) -> Value| -> Vec<Value> {
        (0..usize::try_from(case["entriesBefore"].as_u64().unwrap()).unwrap()).map(entry).collect()
    };
    let old = |field: &str, value: Value| json!({"scheduleTime": LONG_AGO, "executionTime": LONG_AGO, field: value});
    let succeeded = before(&|at| old("appliedReplicas", json!(100 + at)));
    let failed = before(&|at| old("message", json!(format!("old {at}"))));
    let limit = case.get("limit").cloned().unwrap_or_default();
    let object = json!({
        "metadata": {"name": "c", "namespace": "d"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "n"}, "rules": [
            {"name": "r", "schedule": "0 8 * * *", "targetReplicas": 3,
                "successfulHistoryLimit": limit, "failedHistoryLimit": limit}]},
        "status": {"executionHistories": [
            {"ruleName": "r", "successfulExecutions": succeeded, "failedExecutions": failed}]}});
    let hpa: CronFederatedHPA = serde_json::from_value(without_nulls(object)).unwrap();
    let now: Timestamp = "2024-02-27T12:00:00Z".parse().unwrap();
    let came = if case["failed"] == true { Err("new".to_owned()) } else { Ok(()) };
    // The recorded run came out of its turn, at noon.
    let mut got =
        json!(status(&hpa, &[Due { scheduled: now, rule: 0 }], &came, now))["executionHistories"].take();
    for entries in ["successfulExecutions", "failedExecutions"] {
        for entry in got[0].get_mut(entries).and_then(Value::as_array_mut).into_iter().flatten() {
            for at in ["scheduleTime", "executionTime"] {
                if entry[at] == LONG_AGO {
                    entry[at] = Value::Null;
                }
            }
        }
    }
    compare(&case["history"], &got)
}

/// What there is to scale.
struct World {
    deployment: Value,
    federated_hpa: Value,
}

impl World {
    /// Carries out what is due.
    fn scale(&mut self, hpa: &CronFederatedHPA, runs: &[Due]) -> Result<(), String> {
        let target = &hpa.spec.scale_target_ref;
        let missing = |resource: &str| Err(format!("{resource} \"{}\" not found", target.name));
        match scaling(hpa, runs)? {
            Scaling::Replicas(_) if self.deployment.is_null() => missing("deployments.apps"),
            Scaling::Replicas(replicas) => {
                self.deployment = json!(replicas);
                Ok(())
            }
            Scaling::Bounds { .. } if self.federated_hpa.is_null() => {
                missing("federatedhpas.autoscaling.karmada.io")
            }
            Scaling::Bounds { min, max } => {
                let object = json!({ "spec": self.federated_hpa });
                if let Some(changed) = bounded(&object, min, max) {
                    self.federated_hpa = changed["spec"].clone();
                }
                Ok(())
            }
        }
    }
}

/// One look of the controller.
fn look(hpa: &mut CronFederatedHPA, world: &mut World, now: Timestamp) {
    let runs = due(hpa, now);
    let came = if runs.is_empty() { Ok(()) } else { world.scale(hpa, &runs) };
    hpa.status = status(hpa, &runs, &came, now);
}

fn timeline(case: &Value) -> Verdict {
    let mut hpa: CronFederatedHPA =
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "d"}})).unwrap();
    let some = |value: &Value| value.clone();
    let mut world =
        World { deployment: some(&case["deploymentReplicas"]), federated_hpa: some(&case["federatedHPA"]) };
    let (mut wanted, mut got) = (Vec::new(), Vec::new());
    let mut now = time(&case["start"]);
    for entry in case["log"].as_array().unwrap() {
        let until = time(&entry["at"]);
        // The controller looks when the first run is due, and once more for each that follows.
        while let Some(rest) = rests(&hpa.status, now).filter(|rest| now + *rest <= until) {
            now += rest;
            look(&mut hpa, &mut world, now);
        }
        now = until;
        if let Some(spec) = entry.get("spec") {
            hpa.spec = serde_json::from_value(without_nulls(spec.clone())).unwrap();
            look(&mut hpa, &mut world, now);
        }
        wanted.push(json!([entry["executionHistories"], entry["deploymentReplicas"], entry["federatedHPA"]]));
        let told = json!(hpa.status)["executionHistories"].take();
        got.push(json!([told, world.deployment, world.federated_hpa]));
    }
    compare(&json!(wanted), &json!(got))
}

#[test]
fn recorded_cron_federated_hpas() {
    recorded::run("cron.json", "recorded_cron_federated_hpas", CRON, |case| match case["kind"].as_str() {
        Some("next") => next(case),
        Some("history") => history(case),
        Some("timeline") => timeline(case),
        _ => Verdict::Differs("a case of no kind that is known".to_owned()),
    });
}

const NEVER_RUNS: &str = "recorded: it is stored, and then the rule never runs";

const VALIDATION: Differences = &[
    (215, NEVER_RUNS),
    (222, NEVER_RUNS),
    (223, NEVER_RUNS),
    (224, NEVER_RUNS),
    (225, NEVER_RUNS),
    (227, NEVER_RUNS),
    (232, NEVER_RUNS),
    (239, NEVER_RUNS),
];

/// What is said of a schedule, without why: the recorded answers do not say that.
fn without_reason(told: &str) -> &str {
    told.split_once("invalid cron format: ")
        .map_or(told, |(before, _)| &told[..before.len() + "invalid cron format".len()])
}

#[test]
fn recorded_answers_to_cron_federated_hpas() {
    recorded::run("validation.json", "recorded_answers_to_cron_federated_hpas", VALIDATION, |case| {
        if case["webhook"] != "validate CronFederatedHPA" {
            return Verdict::Skip(BESIDE);
        }
        let errors = validate_cron_federated_hpa(&case["object"]);
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let told = if words.len() == 1 { words[0].clone() } else { format!("[{}]", words.join(", ")) };
        match case["messageOneOf"].as_array() {
            None => compare(&json!("[]"), &json!(told)),
            Some(wanted) if wanted.contains(&json!(without_reason(&told))) => Verdict::Agrees,
            Some(wanted) => compare(&wanted[0], &json!(told)),
        }
    });
}

fn hpa(rules: &Value, histories: &Value) -> CronFederatedHPA {
    serde_json::from_value(json!({
        "metadata": {"name": "c", "namespace": "d"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "n"}, "rules": rules},
        "status": {"executionHistories": histories}}))
    .unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn statement_74_a_run_that_came_while_no_hub_was_there_is_made_up_once_the_last_one_of_each_rule_in_their_order()
 {
    let rules = json!([
        {"name": "down", "schedule": "0 20 * * *", "targetReplicas": 1},
        {"name": "up", "schedule": "0 8 * * *", "targetReplicas": 7}]);
    let told = json!([
        {"ruleName": "down", "nextExecutionTime": "2024-02-27T20:00:00Z"},
        {"ruleName": "up", "nextExecutionTime": "2024-02-28T08:00:00Z"}]);
    let (mut hpa, now) = (hpa(&rules, &told), at("2024-03-02T12:00:00Z"));
    let runs = due(&hpa, now);
    let wanted = [
        Due { scheduled: at("2024-03-01T20:00:00Z"), rule: 0 },
        Due { scheduled: at("2024-03-02T08:00:00Z"), rule: 1 },
    ];
    assert_eq!(runs, wanted);
    assert_eq!(scaling(&hpa, &runs), Ok(Scaling::Replicas(7)), "as if the hub had been there all the time");
    hpa.status = status(&hpa, &runs, &Ok(()), now);
    let told = json!(hpa.status.execution_histories);
    assert_eq!(told[0]["successfulExecutions"][0]["scheduleTime"], "2024-03-01T20:00:00Z");
    assert_eq!(told[0]["successfulExecutions"][0]["executionTime"], "2024-03-02T12:00:00Z");
    assert_eq!(told[0]["nextExecutionTime"], "2024-03-02T20:00:00Z");
    assert_eq!(told[1]["nextExecutionTime"], "2024-03-03T08:00:00Z");
    assert_eq!((due(&hpa, now), rests(&hpa.status, now).unwrap().as_hours()), (Vec::new(), 8));
}

#[test]
fn what_was_told_of_another_schedule_is_not_run() {
    let told = json!([{"ruleName": "r", "nextExecutionTime": "2024-02-28T08:00:00Z"}]);
    let rule_at = |now: &str, schedule: &str, zone: &str| {
        let now = at(now);
        let rule = json!([{"name": "r", "schedule": schedule, "timeZone": zone, "targetReplicas": 7}]);
        let hpa = hpa(&rule, &told);
        (
            due(&hpa, now).len(),
            json!(status(&hpa, &[], &Ok(()), now).execution_histories[0].next_execution_time),
        )
    };
    let rule = |schedule: &str, zone: &str| rule_at("2024-02-28T12:00:00Z", schedule, zone);
    assert_eq!(rule("30 9 * * *", ""), (0, json!("2024-02-29T09:30:00Z")));
    assert_eq!(rule("0 8 * * *", "Asia/Tokyo"), (0, json!("2024-02-28T23:00:00Z")));
    assert_eq!(rule("0 8 * * 3", "").0, 1, "the run is one of this schedule as well");
    let sooner = rule_at("2024-02-27T12:00:00Z", "0 * * * *", "");
    assert_eq!(sooner, (0, json!("2024-02-27T13:00:00Z")), "and so is one before it");
}

#[test]
fn a_rule_that_cannot_be_read_or_rests_runs_never_and_says_so() {
    let rules = json!([
        {"name": "zone", "schedule": "0 8 * * *", "timeZone": "Mars/Base", "targetReplicas": 7},
        {"name": "rests", "schedule": "0 8 * * *", "suspend": true, "targetReplicas": 7},
        {"name": "bad", "schedule": "0 0 L * *", "targetReplicas": 7}]);
    let past = "2024-02-28T08:00:00Z";
    let told = ["zone", "rests", "bad"].map(|name| json!({"ruleName": name, "nextExecutionTime": past}));
    let (mut hpa, now) = (hpa(&rules, &json!(told)), at("2024-02-28T12:00:00Z"));
    assert_eq!(due(&hpa, now), []);
    let words = unreadable(&hpa);
    assert_eq!(words[0], ("zone", "unknown time zone Mars/Base".to_owned()));
    assert_eq!((words.len(), words[1].0), (2, "bad"));
    hpa.status = status(&hpa, &[], &Ok(()), now);
    assert!(hpa.status.execution_histories.iter().all(|history| history.next_execution_time.is_none()));
    assert_eq!(rests(&hpa.status, now), None);
}

#[test]
fn of_several_runs_at_once_the_last_ones_bounds_hold_and_no_limit_keeps_less_than_nothing() {
    let rules = json!([
        {"name": "a", "schedule": "0 8 * * *", "targetMinReplicas": 2, "targetMaxReplicas": 4},
        {"name": "b", "schedule": "0 8 * * *", "targetMaxReplicas": 9, "successfulHistoryLimit": 0},
        {"name": "c", "schedule": "0 8 * * *", "targetMaxReplicas": 9, "successfulHistoryLimit": -1}]);
    let past = "2024-02-28T08:00:00Z";
    let told = ["a", "b", "c"].map(|name| json!({"ruleName": name, "nextExecutionTime": past}));
    let (mut hpa, now) = (hpa(&rules, &json!(told)), at(past));
    let runs = due(&hpa, now);
    assert!(scaling(&hpa, &runs).is_err(), "no rule says how many replicas a Deployment is to have");
    hpa.spec.scale_target_ref = serde_json::from_value(
        json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "h"}),
    )
    .unwrap();
    assert_eq!(scaling(&hpa, &runs), Ok(Scaling::Bounds { min: Some(2), max: Some(9) }));
    let told = status(&hpa, &runs, &Ok(()), now).execution_histories;
    assert_eq!(told.iter().map(|one| one.successful_executions.len()).collect::<Vec<_>>(), [1, 0, 0]);
    let told = status(&hpa, &runs, &Err("é".repeat(5000)), now).execution_histories;
    assert_eq!(told[0].failed_executions[0].message.chars().count(), 1024, "what others say may be long");
    let bounds = json!({"spec": {"minReplicas": 2, "maxReplicas": 9}});
    assert_eq!(bounded(&bounds, Some(2), Some(9)), None, "nothing is written where nothing changes");
    assert_eq!(bounded(&json!({}), Some(2), None), None, "what has no spec is left alone");
}

/// Where each rule runs next must fit beside the rules, or none of them ever runs.
#[test]
fn what_could_not_note_when_its_rules_ran_is_refused() {
    let rules = |count: usize, schedule: &str| -> Value {
        let rule = |at: usize| json!({"name": format!("r{at}"), "schedule": schedule, "targetReplicas": 1});
        (0..count).map(rule).collect()
    };
    let errors = |rules: Value| {
        let object = serde_json::to_value(hpa(&rules, &json!([]))).unwrap();
        let errors = validate_cron_federated_hpa(&object);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(rules(1000, "0 8 * * *")), Vec::<String>::new());
    assert_eq!(
        errors(rules(15_000, "0 8 * * *")),
        ["spec.rules: Too many: 15000: must have at most 1000 items"]
    );
    let long = format!("0 {} * * *", ["8"; 500].join(","));
    assert_eq!(errors(rules(600, &long)), ["spec.rules: Too long: may not be more than 524288 bytes"]);
    let stored = hpa(&rules(1001, "0 8 * * *"), &json!([]));
    assert!(
        too_large(&stored).is_some_and(|words| words.starts_with("no rule is run: spec.rules: Too many"))
    );
    assert_eq!(too_large(&hpa(&rules(3, "0 8 * * *"), &json!([]))), None);
}

/// A thousand rules whose every run fails, with the longest histories: the oldest runs go, and each rule runs on.
#[test]
fn histories_that_do_not_fit_lose_their_oldest_runs() {
    let rule = |at: usize| json!({"name": format!("r{at}"), "schedule": "0 * * * *", "targetReplicas": 1, "failedHistoryLimit": 32});
    let mut hpa = hpa(&(0..1000).map(rule).collect(), &json!([]));
    let why = Err("x".repeat(1024));
    for hour in 0..6 {
        let now = at(&format!("2026-05-01T{hour:02}:00:30Z"));
        let runs = due(&hpa, now);
        assert_eq!(runs.len(), if hour == 0 { 0 } else { 1000 });
        let whole = status(&hpa, &runs, &why, now);
        hpa.status = fitting(&hpa, whole);
        let object = serde_json::to_string(&hpa).unwrap();
        assert!(object.len() <= karmada_core::object_size::LARGEST, "{}", object.len());
        let nexts = hpa.status.execution_histories.iter().filter(|one| one.next_execution_time.is_some());
        assert_eq!(nexts.count(), 1000);
        assert_eq!(fitting(&hpa, status(&hpa, &[], &Ok(()), now)), hpa.status, "at rest");
    }
}
