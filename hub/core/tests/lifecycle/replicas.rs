//! Who decides a workload's replicas: members that scale it.

use std::collections::BTreeSet;

use karmada_api::binding::ResourceBinding;
use karmada_core::deployment_replicas_syncer::{Replicas, concerns, replicas};
use karmada_core::hpa_scale_target::{scaled, with_retain_replicas};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::without_nulls;

const UNPLACED: &str = "recorded: a binding without placement ends the process";

const SYNCED: Differences = &[(1, UNPLACED)];

fn binding(case: &Value) -> ResourceBinding {
    let mut binding = without_nulls(case.clone());
    if binding.get("status").is_none() {
        binding["status"] = json!({});
    }
    serde_json::from_value(binding).unwrap()
}

#[test]
fn statement_76_a_divided_deployment_says_how_many_its_members_have() {
    recorded::run(
        "syncer.json",
        "statement_76_a_divided_deployment_says_how_many_its_members_have",
        SYNCED,
        |case| {
            if case["kind"] != "reconcile" {
                return Verdict::Skip(BESIDE);
            }
            let (said, running) =
                (&case["deployment"]["specReplicas"], &case["deployment"]["statusReplicas"]);
            let deployment = json!({"spec": {"replicas": said}, "status": {"replicas": running}});
            let is_there = case.get("deployment").is_some() && case.get("binding").is_some();
            let came =
                if is_there { replicas(&deployment, &binding(&case["binding"])) } else { Replicas::Stay };
            let (after, waits) = match came {
                Replicas::Stay => (said.clone(), 0),
                Replicas::Wait => (said.clone(), 1),
                Replicas::Become(replicas) => (json!(replicas), 0),
            };
            let wanted = json!([case["specReplicasAfter"], case["requeueAfterSeconds"], case["panic"]]);
            compare(&wanted, &json!([after, waits, Value::Null]))
        },
    );
}

const EQUAL: &str = "what changed is not asked: each change of such a Deployment is looked at, and nothing comes of one that counts for nothing";

const WATCHED: Differences = &[(130, EQUAL), (133, EQUAL), (134, EQUAL)];

/// Ours looks at the present state and never at what changed: it looks at every Deployment that Karmada looks at.
#[test]
fn every_change_that_karmada_looks_at_is_looked_at() {
    recorded::run("syncer.json", "every_change_that_karmada_looks_at_is_looked_at", WATCHED, |case| {
        if case["kind"] != "watched" {
            return Verdict::Skip(BESIDE);
        }
        let deployment = json!({"metadata": {"labels": case["new"]["labels"]}});
        compare(&case["reconciled"], &json!(concerns(&deployment)))
    });
}

const LEFT: &str = "recorded: the mark stays where the autoscaler is propagated no more";

const MARKED: Differences = &[(167, LEFT), (177, LEFT), (187, LEFT)];

/// The names of targets that are marked after an event, where `n0` and `n1` can be.
fn marked_after(case: &Value) -> BTreeSet<String> {
    let hpa = |said: &Value| {
        let labels = without_nulls(
            json!({"metadata": {"name": "h", "labels": said["labels"]}, "spec": {"scaleTargetRef": said["scaleTargetRef"]}}),
        );
        (!said.is_null()).then_some(labels)
    };
    let before = if case["event"] == "create" { None } else { hpa(case.get("old").unwrap_or(&case["hpa"])) };
    let after = if case["event"] == "delete" { None } else { hpa(&case["hpa"]) };
    let mark = |target: Value, hpa: Option<&Value>| {
        let scales =
            hpa.and_then(scaled).is_some_and(|scaled| target["metadata"]["name"] == scaled.name.as_str());
        with_retain_replicas(&target, scales.then_some("h")).unwrap_or(target)
    };
    let targets = ["n0", "n1"].map(|name| json!({"metadata": {"name": name}}));
    let seen = targets.map(|target| mark(mark(target, before.as_ref()), after.as_ref()));
    seen.iter()
        .filter(|target| concerns(target))
        .map(|target| target["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The same by what was recorded: the mark that was there before the event, and what the event did.
fn marked_by(case: &Value) -> BTreeSet<String> {
    let old = case.get("old").unwrap_or(&case["hpa"]);
    let mut marked = BTreeSet::new();
    if case["event"] != "create" && old["labels"].is_object() {
        marked.insert(old["scaleTargetRef"]["name"].as_str().unwrap().to_owned());
    }
    for act in case["labelActions"].as_array().into_iter().flatten() {
        let name = act["target"]["name"].as_str().unwrap().to_owned();
        match act["action"].as_str().unwrap() {
            "add" => drop(marked.insert(name)),
            _ => drop(marked.remove(&name)),
        }
    }
    marked
}

#[test]
fn what_a_propagated_autoscaler_scales_is_marked() {
    recorded::run("syncer.json", "what_a_propagated_autoscaler_scales_is_marked", MARKED, |case| {
        match case["kind"] == "mark" {
            true => compare(&json!(marked_by(case)), &json!(marked_after(case))),
            false => Verdict::Skip(BESIDE),
        }
    });
}
