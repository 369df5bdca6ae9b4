//! WorkloadRebalancers, step by step over the bindings that they ask.

use std::collections::BTreeMap;

use karmada_api::binding::ResourceBinding;
use karmada_api::rebalancer::{RebalancerStatus, WorkloadRebalancer, WorkloadReference};
use karmada_core::rebalancer::{
    RescheduleOutcome, asking, binding_of, fitting, observed, open, status, stays,
};
use karmada_core::scheduler::{self, trigger};
use serde_json::{Value, json};

use crate::recorded::{self, Differences, compare};
use crate::{time, without_nulls};

const AT_ONCE: &str =
    "recorded: the controller's own write stood in the way of the deletion, which came with the next pass";
const NOTHING: &str =
    "a rebalancer of nothing, which cannot be made, is finished once, not anew with each pass";

const REBALANCER: Differences = &[(7, AT_ONCE), (8, AT_ONCE), (19, NOTHING)];

/// What went wrong is told first, and in the order in which it was; at the next look the rest is asked for once more.
#[test]
fn a_status_that_does_not_fit_leaves_out_what_was_asked_for() {
    let workload = |at: usize| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": format!("{at:0>200}")});
    let workloads: Vec<Value> = (0..2_500).map(workload).collect();
    let rebalancer: WorkloadRebalancer = serde_json::from_value(
        json!({"metadata": {"name": "all", "generation": 1}, "spec": {"workloads": workloads}}),
    )
    .unwrap();
    let seen = observed(&rebalancer);
    let came =
        |at: usize| if at.is_multiple_of(3) { RescheduleOutcome::NoBinding } else { RescheduleOutcome::Done };
    let asked = open(&seen).into_iter().enumerate().map(|(at, one)| (one, came(at))).collect();
    let now = time(&json!("2026-05-01T12:00:00Z"));
    let whole = status(&rebalancer, seen, &asked, now);
    let (same, untold) = fitting(&rebalancer, whole.clone());
    assert!(same == whole && untold == 0, "it fits");
    let mut annotated = rebalancer;
    annotated.metadata.annotations = Some([("note".to_owned(), "x".repeat(250_000))].into());
    let (told, untold) = fitting(&annotated, whole.clone());
    assert!(untold > 0 && told.finish_time == whole.finish_time);
    assert_eq!(told.observed_workloads.len() + untold, 2_500);
    let failed = |status: &RebalancerStatus| {
        status.observed_workloads.iter().filter(|one| !one.reason.is_empty()).cloned().collect::<Vec<_>>()
    };
    assert!(failed(&told) == failed(&whole));
    annotated.status = told.clone();
    let again = observed(&annotated);
    assert_eq!(open(&again).len(), untold);
    let asked = open(&again).into_iter().map(|one| (one, RescheduleOutcome::Done)).collect();
    assert!(fitting(&annotated, status(&annotated, again, &asked, now)) == (told, untold), "at rest");
}

/// The bindings by key, as they are recorded: since when each asks to be placed anew.
type Bindings = BTreeMap<String, Value>;

fn key(workload: &WorkloadReference) -> String {
    let (namespace, name) = binding_of(workload);
    let wide = workload.kind == "ClusterRole";
    match (namespace.as_str(), wide) {
        ("", true) => format!("/{name}"),
        ("", false) => format!("nowhere/{name}"),
        _ => name,
    }
}

fn ask(
    bindings: &mut Bindings,
    rebalancer: &WorkloadRebalancer,
    workload: &WorkloadReference,
    fails: &Value,
) -> RescheduleOutcome {
    let key = key(workload);
    let Some(when) = bindings.get_mut(&key) else { return RescheduleOutcome::NoBinding };
    let binding = json!({"metadata": {}, "spec": {"resource": {}, "rescheduleTriggeredAt": when}});
    let binding: ResourceBinding = serde_json::from_value(without_nulls(binding)).unwrap();
    let created = rebalancer.metadata.creation_timestamp.as_ref().unwrap().0;
    match asking(&binding, created) {
        Some(_) if *fails == json!(key) => RescheduleOutcome::NotYet,
        Some(wanted) => {
            *when = json!(wanted.spec.reschedule_triggered_at);
            RescheduleOutcome::Done
        }
        None => RescheduleOutcome::Done,
    }
}

fn step(rebalancer: &mut WorkloadRebalancer, bindings: &mut Bindings, step: &Value) -> Value {
    if let Some(spec) = step.get("newSpec") {
        rebalancer.spec = serde_json::from_value(spec.clone()).unwrap();
        rebalancer.metadata.generation = rebalancer.metadata.generation.map(|generation| generation + 1);
    }
    let news = step["newBindings"].as_array().into_iter().flatten();
    news.for_each(|name| drop(bindings.insert(name.as_str().unwrap().to_owned(), Value::Null)));
    let seen = observed(rebalancer);
    let asked: BTreeMap<WorkloadReference, RescheduleOutcome> = open(&seen)
        .into_iter()
        .map(|one| (one.clone(), ask(bindings, rebalancer, &one, &step["updateFailsFor"])))
        .collect();
    let now = time(&step["now"]);
    rebalancer.status = status(rebalancer, seen, &asked, now);
    let failed = asked.values().any(|came| *came == RescheduleOutcome::NotYet);
    let left = stays(rebalancer, &rebalancer.status, now);
    let mut out = json!({"bindings": bindings, "now": step["now"],
        "requeueAfterSeconds": left.map_or(0, |left| left.as_secs())});
    if left.is_some_and(|left| left.is_zero()) {
        out["deleted"] = json!(true);
    } else {
        out["status"] = json!(rebalancer.status);
    }
    if failed {
        out["error"] = step["error"].clone();
    }
    out
}

#[test]
fn recorded_rebalancers() {
    recorded::run("rebalancer.json", "recorded_rebalancers", REBALANCER, |case| {
        let mut rebalancer: WorkloadRebalancer =
            serde_json::from_value(without_nulls(case["rebalancer"].clone())).unwrap();
        let mut bindings: Bindings = serde_json::from_value(case["bindings"].clone()).unwrap();
        let steps = case["steps"].as_array().unwrap();
        let got: Vec<Value> = steps.iter().map(|one| step(&mut rebalancer, &mut bindings, one)).collect();
        let wanted: Vec<Value> = steps
            .iter()
            .map(|one| {
                let mut one = one.clone();
                for told in ["newSpec", "newBindings", "updateFailsFor"] {
                    one.as_object_mut().unwrap().remove(told);
                }
                one
            })
            .collect();
        compare(&json!(wanted), &json!(got))
    });
}

#[test]
fn statement_72_each_workload_is_asked_for_once_and_what_nothing_places_fails() {
    let mut rebalancer: WorkloadRebalancer = serde_json::from_value(json!({
        "metadata": {"name": "r", "generation": 1, "creationTimestamp": "2026-05-01T12:00:00Z"},
        "spec": {"ttlSecondsAfterFinished": 60, "workloads": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "a"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "gone"}]}}))
    .unwrap();
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let seen = observed(&rebalancer);
    let asked = open(&seen).into_iter().map(|one| {
        let came = if one.name == "gone" { RescheduleOutcome::NoBinding } else { RescheduleOutcome::Done };
        (one, came)
    });
    rebalancer.status = status(&rebalancer, seen, &asked.collect(), at("2026-05-01T12:00:05Z"));
    let told: Vec<String> = rebalancer
        .status
        .observed_workloads
        .iter()
        .map(|one| format!("{:?} {}", one.result, one.reason))
        .collect();
    assert_eq!(told, ["Some(Successful) ", "Some(Failed) ReferencedBindingNotFound"]);
    assert!(open(&observed(&rebalancer)).is_empty(), "once");
    let left = |now: &str| stays(&rebalancer, &rebalancer.status, at(now)).unwrap().as_secs();
    assert_eq!((left("2026-05-01T12:00:06Z"), left("2026-05-01T12:01:05Z")), (59, 0));
}

/// In the very second of the last decision, before it as a rebalancer is that asks for more later, and after a clock that was ahead.
#[test]
fn whoever_asks_is_heard_and_once() {
    for scheduled in ["2026-05-01T12:00:00Z", "2026-05-01T13:00:00Z", "2028-05-01T12:00:00Z"] {
        let binding: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "d"},
            "spec": {"resource": {}, "clusters": [{"name": "m1"}]}, "status": {"lastScheduledTime": scheduled}}))
        .unwrap();
        let when = time(&json!("2026-05-01T12:00:00Z"));
        let mut asked = asking(&binding, when).unwrap();
        assert!(trigger::rebalance_asked(&asked), "{scheduled}");
        assert_eq!(asking(&asked, when), None, "asking twice is asking once");
        let targets = asked.spec.clusters.clone();
        let decision = scheduler::Decision {
            outcome: scheduler::Outcome::Scheduled(targets.clone()),
            affinity_name: String::new(),
            tried: Vec::new(),
            going: Default::default(),
            report: BTreeMap::new(),
        };
        asked.status = scheduler::status(&asked, &targets, &decision, when).unwrap();
        assert!(!trigger::rebalance_asked(&asked), "{scheduled}: it was decided");
    }
}
