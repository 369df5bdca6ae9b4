//! What a cluster's conditions lead to: taints, silence, remedies, thresholds.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::cluster::Cluster;
use karmada_api::readiness::{Probe, Readiness, Thresholds};
use karmada_api::remedy::Remedy;
use karmada_core::cluster::{Contact, Grace, silent, taints};
use karmada_core::{remedy, set_condition};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::{time, without_nulls};

fn filled(mut conditions: Value) -> Value {
    for condition in conditions.as_array_mut().into_iter().flatten() {
        for (field, value) in
            [("lastTransitionTime", "2000-01-01T00:00:00Z"), ("reason", "R"), ("message", "")]
        {
            condition[field] = condition.get(field).cloned().unwrap_or(json!(value));
        }
    }
    conditions
}

fn cluster(conditions: Value, taints: &Value) -> Cluster {
    let value = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Pull", "taints": taints},
        "status": {"conditions": filled(conditions)}});
    serde_json::from_value(without_nulls(value)).unwrap()
}

fn ready(status: &Value) -> Value {
    if *status == "" { json!([]) } else { json!([{"type": "Ready", "status": status}]) }
}

#[test]
fn recorded_remedies() {
    recorded::run("remedy.json", "recorded_remedies", &[], |case| {
        let remedies: Option<Vec<Remedy>> =
            serde_json::from_value(without_nulls(case["remedies"].clone())).unwrap();
        let mut cluster = cluster(case["conditions"].clone(), &Value::Null);
        cluster.metadata.name = case["cluster"].as_str().map(str::to_owned);
        compare(&case["remedyActions"], &json!(remedy::actions(&cluster, &remedies.unwrap_or_default())))
    });
}

#[test]
fn statement_80_the_actions_of_all_remedies_of_which_a_reason_holds_are_united() {
    let down =
        cluster(json!([{"type": "ServiceDomainNameResolutionReady", "status": "False"}]), &Value::Null);
    let remedy = |spec: Value| -> Remedy { serde_json::from_value(json!({"spec": spec})).unwrap() };
    let says = |status: &str| {
        json!([{"clusterConditionMatch": {"conditionType": "ServiceDomainNameResolutionReady",
        "operator": "Equal", "conditionStatus": status}}])
    };
    let control = remedy(json!({"actions": ["TrafficControl"], "decisionMatches": says("False")}));
    let never = remedy(json!({"actions": ["Other"], "decisionMatches": says("True")}));
    let always = remedy(json!({"actions": ["Tell", "TrafficControl"]}));
    let elsewhere = remedy(json!({"actions": ["Elsewhere"], "clusterAffinity": {"clusterNames": ["m2"]}}));
    assert_eq!(remedy::actions(&down, &[control, never, always, elsewhere]), ["Tell", "TrafficControl"]);
}

const BOTH: &str =
    "a taint that contradicts the condition goes, also where the one that agrees is there already";
const UNWRITTEN: &str = "the recorder's store refused the write: nothing is known of the taints";
const TAINTS: Differences = &[(4, BOTH)];

#[test]
fn recorded_taints_by_condition() {
    recorded::run("clusterlife.json", "recorded_taints_by_condition", TAINTS, |case| {
        if case["kind"] != "sync" {
            return Verdict::Skip(BESIDE);
        }
        let Some(wanted) = case.get("taintsAfter") else { return Verdict::Skip(UNWRITTEN) };
        let cluster = cluster(ready(&case["ready"]), &case["taints"]);
        let got = taints(&cluster, time(&case["now"])).unwrap_or(cluster.spec.taints);
        compare(wanted, &json!(got))
    });
}

const AT_THE_END: &str = "the verdict falls when the grace ends; there it fell with the monitor's next look";
const PUSH: &str = "here every cluster has an agent, and its silence counts";
const SILENCE: Differences = &[
    (43, AT_THE_END),
    (45, AT_THE_END),
    (49, PUSH),
    (50, PUSH),
    (51, PUSH),
    (52, PUSH),
    (53, PUSH),
    (54, PUSH),
];

/// The contact of an agent that was heard in steps, and the hub's word on it.
fn lease(case: &Value) -> Vec<Value> {
    let start: Timestamp = "2000-01-01T12:00:00Z".parse().unwrap();
    let (mut now, mut cluster) = (start, cluster(ready(&case["ready"]), &Value::Null));
    let mut contact = Contact { last_heard: None, listening_since: start };
    let mut told = Vec::new();
    for step in case["steps"].as_array().unwrap() {
        now += SignedDuration::from_secs(step["afterSeconds"].as_i64().unwrap());
        if step["leaseRenewed"] == true || step.get("posted").is_some() {
            contact.last_heard = Some(now);
        }
        if let Some(posted) = step.get("posted") {
            cluster.status.conditions = serde_json::from_value(filled(ready(posted))).unwrap();
        }
        if let Some(silent) = silent(&cluster, &contact, &Grace::default(), now) {
            set_condition(&mut cluster.status.conditions, silent);
        }
        told.push(json!(
            cluster
                .status
                .conditions
                .iter()
                .map(|one| (one.status.clone(), one.reason.clone()))
                .collect::<Vec<_>>()
        ));
    }
    told
}

#[test]
fn recorded_silence() {
    recorded::run("clusterlife.json", "recorded_silence", SILENCE, |case| {
        if case["kind"] != "lease" {
            return Verdict::Skip(BESIDE);
        }
        let steps = case["steps"].as_array().unwrap().iter();
        let wanted = steps.map(|step| {
            let said = step["conditions"].as_array().unwrap().iter();
            json!(said.map(|one| (one["status"].clone(), one["reason"].clone())).collect::<Vec<_>>())
        });
        compare(&json!(wanted.collect::<Vec<_>>()), &json!(lease(case)))
    });
}

const UNKNOWN: &str = "a probe finds a cluster ready or not; that nothing is known is the hub's word, and no third turn between both";
const THRESHOLDS: Differences = &[
    (57, UNKNOWN),
    (66, UNKNOWN),
    (68, UNKNOWN),
    (71, UNKNOWN),
    (74, UNKNOWN),
    (75, UNKNOWN),
    (78, UNKNOWN),
    (84, UNKNOWN),
    (85, UNKNOWN),
    (86, UNKNOWN),
    (89, UNKNOWN),
    (90, UNKNOWN),
];

#[test]
fn recorded_thresholds() {
    recorded::run("clusterlife.json", "recorded_thresholds", THRESHOLDS, |case| {
        if case["kind"] != "threshold" {
            return Verdict::Skip(BESIDE);
        }
        let wait = |field: &str| SignedDuration::from_secs(case[field].as_i64().unwrap());
        let thresholds = Thresholds { success: wait("successSeconds"), failure: wait("failureSeconds") };
        let (mut readiness, mut now) = (Readiness::new(thresholds), Duration::ZERO);
        let steps = case["steps"].as_array().unwrap();
        let reported = steps.iter().map(|step| {
            now += Duration::from_secs(step["afterSeconds"].as_u64().unwrap());
            // That nobody knows is the hub's word, not a probe's: a probe that fails takes its place.
            let probe = if step["observed"] == "True" { Probe::Ok } else { Probe::Unhealthy };
            if readiness.observe(probe, now) == Probe::Ok { "True" } else { "False" }
        });
        let reported: Vec<&str> = reported.collect();
        let known = |status: &Value| if *status == "Unknown" { json!("False") } else { status.clone() };
        let wanted: Vec<Value> = steps.iter().map(|step| known(&step["reported"])).collect();
        compare(&json!(wanted), &json!(reported))
    });
}
