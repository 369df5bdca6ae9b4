//! Sequences of schedules over ordered groups of clusters, and what a user is told of each outcome.

use jiff::Timestamp;
use karmada_api::binding::{BindingSpec, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::strings::annotations::APPLIED_PLACEMENT;
use karmada_core::scheduler::trigger::{SchedulingCause, Trigger, trigger};
use karmada_core::scheduler::{self, Decision, Failure, Input, Outcome, Retry, events};
use serde_json::{Value, json};

use crate::recorded::{self, Differences, Verdict, compare};

const SCHEDULER: &str = "default-scheduler";

fn pairs(targets: &[TargetCluster]) -> Value {
    json!(targets.iter().map(|target| json!([target.name, target.replicas])).collect::<Vec<_>>())
}

fn class(failure: &Failure) -> &'static str {
    match failure {
        Failure::NoClusterFit(_) => "noClusterFit",
        Failure::Unschedulable(_) => "unschedulable",
        _ => "error",
    }
}

fn attempts(decision: &Decision) -> Value {
    let told = decision.tried.iter().map(|attempt| {
        let mut told = match &attempt.result {
            Ok(targets) => json!({"result": pairs(targets)}),
            Err(failure) => json!({"error": failure.to_string(), "class": class(failure)}),
        };
        if !attempt.affinity_name.is_empty() {
            told["affinity"] = json!(attempt.affinity_name);
        }
        told
    });
    let told: Vec<Value> = told.collect();
    if told.is_empty() { Value::Null } else { json!(told) }
}

/// What was recorded of an attempt, as ours is told: plain errors have a class there by another name.
fn recorded_attempts(step: &Value) -> Value {
    let mut attempts = step["attempts"].clone();
    for attempt in attempts.as_array_mut().into_iter().flatten() {
        let class = attempt.get("class").and_then(Value::as_str).unwrap_or_default();
        if attempt.get("error").is_some() && !["noClusterFit", "unschedulable"].contains(&class) {
            attempt["class"] = json!("error");
        }
    }
    attempts
}

fn retry(decision: &Decision) -> &'static str {
    match decision.outcome.retry() {
        Retry::Never => "forget",
        Retry::Soon => "backoff",
        Retry::ForRoom => "unschedulable",
    }
}

/// What conditions must have, and the recordings leave out.
fn fill_conditions(object: &mut Value) {
    let said = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in said.into_iter().flatten() {
        condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        for text in ["message", "reason"] {
            condition[text] = condition.get(text).cloned().unwrap_or_else(|| json!(""));
        }
    }
}

/// The binding as the recordings have it, of a policy.
fn of_a_policy(binding: &Value) -> ResourceBinding {
    let mut binding = binding.clone();
    fill_conditions(&mut binding);
    if let Some(observed) = binding.pointer("/status/schedulerObservedAffinityName").cloned() {
        binding["status"]["schedulerObservingAffinityName"] = observed;
    }
    binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("p");
    serde_json::from_value(binding).unwrap()
}

/// Clusters as they are told; how the hub reaches them is left open there.
fn clusters(list: &Value) -> Vec<Cluster> {
    let mut list = list.clone();
    for cluster in list.as_array_mut().into_iter().flatten() {
        cluster["spec"]["syncMode"] = json!("Pull");
        fill_conditions(cluster);
    }
    if list.is_null() { Vec::new() } else { serde_json::from_value(list).unwrap() }
}

/// A binding after one schedule, and what a user sees of it.
struct Step {
    binding: ResourceBinding,
    decision: Decision,
    /// Why it was scheduled, where it was, in Karmada's words.
    schedule_type: Option<&'static str>,
    /// Whether the placement was noted as applied, and whether this counts as the hour of the last schedule.
    records_placement: bool,
    sets_time: bool,
}

/// The name of the cause.
fn schedule_type(binding: &ResourceBinding, clusters: &[Cluster]) -> Option<&'static str> {
    let mut clusters: Vec<&Cluster> = clusters.iter().collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    match trigger(binding, &clusters, SCHEDULER) {
        Trigger::Schedule { cause: SchedulingCause::Replicas, .. } => Some("ScaleSchedule"),
        Trigger::Schedule { .. } => Some("ReconcileSchedule"),
        Trigger::NotOurs | Trigger::UpToDate => None,
    }
}

/// That no cluster fits is a result, too.
fn result(step: &Step) -> Option<&'static str> {
    step.schedule_type?;
    match step.decision.outcome {
        Outcome::Failed(Failure::NoClusterFit(_)) => Some("scheduled"),
        Outcome::Failed(_) => Some("error"),
        _ => Some("scheduled"),
    }
}

fn step(binding: ResourceBinding, clusters: &[Cluster], minute: usize) -> Step {
    let schedule_type = schedule_type(&binding, clusters);
    let decision = decided(&binding, clusters);
    let before = binding.spec.clusters.clone();
    let applied = scheduler::apply(&binding, &decision);
    let noted = |binding: &ResourceBinding| binding.annotation(APPLIED_PLACEMENT).map(str::to_owned);
    let records_placement = applied.as_ref().is_some_and(|after| noted(after) != noted(&binding));
    let mut binding = applied.unwrap_or(binding);
    let now: Timestamp = format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap();
    if let Some(status) = scheduler::status(&binding, &before, &decision, now) {
        binding.status = status;
    }
    let sets_time = binding.status.last_scheduled_time.as_ref().is_some_and(|time| time.0 == now);
    Step { binding, decision, schedule_type, records_placement, sets_time }
}

fn decided(binding: &ResourceBinding, clusters: &[Cluster]) -> Decision {
    scheduler::schedule(&Input::plain(binding, clusters))
}

/// What was recorded, less what ours has no part of.
fn wanted(step: &Value) -> Value {
    json!({"attempts": recorded_attempts(step), "assigned": step["assigned"], "observedAffinity": step["observedAffinity"],
        "condition": step["condition"], "observedGeneration": step["observedGeneration"], "retry": step["retry"],
        "scheduleType": step["scheduleType"], "result": step["result"], "placementRecorded": step["placementRecorded"] == true})
}

fn got(step: &Step) -> Value {
    let binding = &step.binding;
    let said = binding.status.condition("Scheduled");
    let condition = said.map_or(
        Value::Null,
        |said| json!({"message": said.message, "reason": said.reason, "status": said.status}),
    );
    let mut assigned = binding.spec.clusters.clone();
    assigned.sort_by(|a, b| a.name.cmp(&b.name));
    json!({"attempts": attempts(&step.decision), "assigned": pairs(&assigned),
        "observedAffinity": binding.status.scheduler_observing_affinity_name,
        "condition": condition, "observedGeneration": binding.status.scheduler_observed_generation,
        "retry": retry(&step.decision), "scheduleType": step.schedule_type, "result": result(step),
        "placementRecorded": step.records_placement})
}

const NONE_HELD: &str = "of a placement without groups none holds: its name does not stay";
const NOTHING_PLACED: &str = "nothing is placed that could stay: the first group is tried first";
const GONE: &str = "a cluster that is not there any more is left, as one on its way out";

const GROUPS: Differences = &[
    (10, NONE_HELD),
    (40, NOTHING_PLACED),
    (45, NOTHING_PLACED),
    (49, NOTHING_PLACED),
    (82, NOTHING_PLACED),
    (104, GONE),
    (105, GONE),
    (173, NOTHING_PLACED),
    (188, NOTHING_PLACED),
];

/// Every step of a sequence, as ours takes it.
fn taken(case: &Value) -> Vec<Step> {
    let mut binding = of_a_policy(&case["binding"]);
    let (mut members, mut all) = (Vec::new(), Vec::new());
    for (index, recorded) in case["steps"].as_array().unwrap().iter().enumerate() {
        if let Some(list) = recorded.get("clusters") {
            members = clusters(list);
        }
        if let Some(spec) = recorded.get("spec") {
            binding.spec = serde_json::from_value::<BindingSpec>(spec.clone()).unwrap();
        }
        if let Some(observed) = recorded["status"].get("schedulerObservedAffinityName") {
            binding.status.scheduler_observing_affinity_name = observed.as_str().unwrap().to_owned();
        }
        let steps = i64::from(recorded.get("spec").is_some());
        binding.metadata.generation = binding.metadata.generation.map(|told| told + steps);
        let taken = step(binding, &members, index + 1);
        binding = taken.binding.clone();
        all.push(taken);
    }
    all
}

#[test]
fn recorded_affinity_groups() {
    recorded::run("affinitygroups.json", "recorded_affinity_groups", GROUPS, |case| {
        let recorded = case["steps"].as_array().unwrap();
        for (index, (recorded, taken)) in recorded.iter().zip(taken(case)).enumerate() {
            if let Verdict::Differs(how) = compare(&wanted(recorded), &got(&taken)) {
                return Verdict::Differs(format!("at step {index}: {how}"));
            }
        }
        Verdict::Agrees
    });
}

const NO_MAXIMUM: &str = "recorded bug: an absent maxGroups counted as 0; here it is no limit";
const FIELDS: &str = "other groups than clusters and regions were refused; here they are formed";
const UNWRITTEN: &str =
    "the hub's store does not answer: its word cannot be written either, and it is tried again";
const BY_NAME: &str = "the event tells the result by name";
const READ_AGAIN: &str =
    "it changed meanwhile: it is read again and decided again at once, and nobody is told";
const REFUSED: &str = "what was not written holds no group";

const EXPLAIN: Differences = &[
    (7, NO_MAXIMUM),
    (8, FIELDS),
    (20, NO_MAXIMUM),
    (21, FIELDS),
    (33, NO_MAXIMUM),
    (34, FIELDS),
    (46, NO_MAXIMUM),
    (47, FIELDS),
    (95, UNWRITTEN),
    (96, UNWRITTEN),
    (99, REFUSED),
    (101, REFUSED),
    (102, UNWRITTEN),
    (103, UNWRITTEN),
    (104, REFUSED),
    (116, BY_NAME),
    (135, BY_NAME),
    (225, BY_NAME),
];

/// What comes of one schedule; none where the binding is read and decided anew at once.
fn explained(case: &Value) -> Option<Step> {
    let (binding, members) = (of_a_policy(&case["binding"]), clusters(&case["clusters"]));
    match case.get("patchRefused") {
        None => Some(step(binding, &members, 0)),
        Some(answer) if answer["code"] == 409 => None,
        Some(answer) => Some(refused(binding, &members, answer)),
    }
}

#[test]
fn recorded_explanations() {
    recorded::run("explain.json", "recorded_explanations", EXPLAIN, |case| {
        let Some(taken) = explained(case) else { return Verdict::Skip(READ_AGAIN) };
        let (mut wanted, mut got) = (wanted(case), got(&taken));
        wanted["events"] = case["events"].clone();
        let told = events::events(&taken.binding, &taken.decision).into_iter().map(|(placed, text)| {
            let kind = if placed { "Normal ScheduleBindingSucceed" } else { "Warning ScheduleBindingFailed" };
            format!("{kind} {text}")
        });
        got["events"] = json!(told.collect::<Vec<_>>());
        compare(&wanted, &got)
    });
}

/// A schedule whose result the hub does not take.
fn refused(mut binding: ResourceBinding, clusters: &[Cluster], answer: &Value) -> Step {
    let schedule_type = schedule_type(&binding, clusters);
    let decision = decided(&binding, clusters);
    let decision = decision.refused(answer["reason"].as_str().unwrap(), answer["message"].as_str().unwrap());
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    if let Some(status) = scheduler::status(&binding, &[], &decision, now) {
        binding.status = status;
    }
    Step { binding, decision, schedule_type, records_placement: false, sets_time: false }
}

const STANDS: &str = "a schedule with the same result is no news: its hour stays, unless it was asked for";

const HOURS_OF_GROUPS: Differences = &[(1, STANDS), (12, STANDS), (49, NOTHING_PLACED), (105, GONE)];

/// Beside the results, when the hour of the last schedule moves.
#[test]
fn recorded_hours_of_schedules() {
    recorded::run("affinitygroups.json", "recorded_hours_of_schedules", HOURS_OF_GROUPS, |case| {
        let recorded = case["steps"].as_array().unwrap();
        let wanted: Vec<Value> = recorded.iter().map(|step| step["scheduledTimeSet"].clone()).collect();
        let taken: Vec<bool> = taken(case).iter().map(|step| step.sets_time).collect();
        compare(&json!(wanted), &json!(taken))
    });
}

const HOURS: Differences = &[
    (7, NO_MAXIMUM),
    (8, FIELDS),
    (20, NO_MAXIMUM),
    (21, FIELDS),
    (33, NO_MAXIMUM),
    (34, FIELDS),
    (46, NO_MAXIMUM),
    (47, FIELDS),
    (95, UNWRITTEN),
    (102, UNWRITTEN),
];

#[test]
fn recorded_hours_of_single_schedules() {
    recorded::run("explain.json", "recorded_hours_of_single_schedules", HOURS, |case| {
        match explained(case) {
            Some(taken) => compare(&case["scheduledTimeSet"], &json!(taken.sets_time)),
            None => Verdict::Skip(READ_AGAIN),
        }
    });
}
