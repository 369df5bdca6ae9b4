//! Sequences of schedules over ordered groups of clusters, and what a user is told of each outcome.

use karmada_api::binding::{BindingSpec, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::workload_affinity::AllowedClusters;
use karmada_core::scheduler::{self, Decision, Failure, Input, Retry, events};
use serde_json::{Value, json};

use crate::recorded::{self, Differences, Verdict, compare};

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
}

fn step(mut binding: ResourceBinding, clusters: &[Cluster], minute: usize) -> Step {
    let scheduler = "default-scheduler";
    let decision = scheduler::schedule(&Input {
        binding: &binding,
        clusters,
        scheduler,
        neighbours: AllowedClusters::default(),
        taken: Default::default(),
        exact: Default::default(),
        residency: Default::default(),
        expressions: None,
    });
    let before = binding.spec.clusters.clone();
    if let Some(wanted) = scheduler::apply(&binding, &decision) {
        binding = wanted;
    }
    let now = format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap();
    if let Some(status) = scheduler::status(&binding, &before, &decision, now) {
        binding.status = status;
    }
    Step { binding, decision }
}

/// What was recorded, less what ours has no part of.
fn wanted(step: &Value) -> Value {
    json!({"attempts": recorded_attempts(step), "assigned": step["assigned"], "observedAffinity": step["observedAffinity"],
        "condition": step["condition"], "observedGeneration": step["observedGeneration"], "retry": step["retry"]})
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
        "retry": retry(&step.decision)})
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

#[test]
fn recorded_affinity_groups() {
    recorded::run("affinitygroups.json", GROUPS, |case| {
        let mut binding = of_a_policy(&case["binding"]);
        let mut members = Vec::new();
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
            if let Verdict::Differs(how) = compare(&wanted(recorded), &got(&taken)) {
                return Verdict::Differs(format!("at step {index}: {how}"));
            }
            binding = taken.binding;
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
    (93, READ_AGAIN),
    (95, UNWRITTEN),
    (96, UNWRITTEN),
    (99, REFUSED),
    (100, READ_AGAIN),
    (101, REFUSED),
    (102, UNWRITTEN),
    (103, UNWRITTEN),
    (104, REFUSED),
    (116, BY_NAME),
    (135, BY_NAME),
    (225, BY_NAME),
];

#[test]
fn recorded_explanations() {
    recorded::run("explain.json", EXPLAIN, |case| {
        let binding = of_a_policy(&case["binding"]);
        let members = clusters(&case["clusters"]);
        let taken = match case.get("patchRefused") {
            None => step(binding, &members, 0),
            Some(answer) if answer["code"] == 409 => return Verdict::Differs(READ_AGAIN.to_owned()),
            Some(answer) => refused(binding, &members, answer),
        };
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
    let decision = scheduler::schedule(&Input {
        binding: &binding,
        clusters,
        scheduler: "default-scheduler",
        neighbours: AllowedClusters::default(),
        taken: Default::default(),
        exact: Default::default(),
        residency: Default::default(),
        expressions: None,
    });
    let decision = decision.refused(answer["reason"].as_str().unwrap(), answer["message"].as_str().unwrap());
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    if let Some(status) = scheduler::status(&binding, &[], &decision, now) {
        binding.status = status;
    }
    Step { binding, decision }
}
