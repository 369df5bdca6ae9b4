//! Taints: those that evict, those that policies give, and how fast a cluster is emptied.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;
use karmada_api::binding::{BindingSpec, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::policy::PurgeMode;
use karmada_api::taint_policy::ClusterTaintPolicy;
use karmada_core::eviction::evict;
use karmada_core::eviction::no_execute::{Rules, Stay, evicts, look};
use karmada_core::eviction::rate_limit::interval;
use karmada_core::taint_policy;
use serde_json::{Value, json};

use crate::recorded::{self, Differences, Verdict, compare};
use crate::{time, without_nulls};

const NEVER: &str =
    "recorded bug: what is never purged went when its time was over; here it waits for a person";

const TAINTS: Differences = &[(176, NEVER), (177, NEVER)];

fn taints(case: &Value) -> Vec<Taint> {
    serde_json::from_value::<Option<Vec<Taint>>>(case["taints"].clone()).unwrap().unwrap_or_default()
}

/// The binding that a case of toleration times is about, placed in `m1`.
fn placed(case: &Value) -> ResourceBinding {
    let text = match case.get("placementAnnotation") {
        Some(text) => text.as_str().unwrap().to_owned(),
        None => without_nulls(json!({"clusterTolerations": case["tolerations"]})).to_string(),
    };
    let notes = if case["noPlacement"] == true {
        json!({})
    } else {
        json!({"policy.karmada.io/applied-placement": text})
    };
    let metadata = json!({"name": "b", "namespace": "d", "annotations": notes, "labels": claimed()});
    let spec = json!({"resource": {}, "clusters": [{"name": "m1", "replicas": 2}]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The mark of a policy, without which nothing is evicted here: the recordings are of what Karmada evicts, marked or not.
fn claimed() -> Option<BTreeMap<String, String>> {
    Some([("propagationpolicy.karmada.io/permanent-id".to_owned(), "p-1".to_owned())].into())
}

const PLAIN: Rules = Rules { purge_mode: PurgeMode::Gracefully, preserves_state: false };

const OFF: &str = "what is switched off is not started: no decision is asked for";

fn times(case: &Value) -> Verdict {
    if case["enabled"] == false {
        return Verdict::Skip(OFF);
    }
    let taints = taints(case);
    let queued = match look(&placed(case), "m1", &taints, PLAIN, time(&case["now"])) {
        Ok(Stay::Stays) => json!([false, null]),
        Ok(Stay::StaysFor(left)) => json!([false, left.as_secs()]),
        Ok(Stay::Leaves(_)) => json!([true, 0]),
        Err(_) if case.get("error").is_some() => return Verdict::Agrees,
        Err(error) => json!(error.to_string()),
    };
    if case["queuedAfterSeconds"] != case["toleratedSeconds"] {
        return Verdict::Differs("it is queued at another time than it leaves".to_owned());
    }
    compare(&json!([case["evictNow"], case["toleratedSeconds"]]), &queued)
}

fn evictions(case: &Value) -> Verdict {
    let mut binding: ResourceBinding =
        serde_json::from_value(without_nulls(case["binding"].clone())).unwrap();
    binding.metadata.labels = claimed();
    let purge_mode = match case["defaultPurgeMode"].as_str().unwrap() {
        "Directly" => PurgeMode::Directly,
        // The flag knows no others.
        _ => PurgeMode::Gracefully,
    };
    let rules = Rules { purge_mode, preserves_state: case["statefulFailoverInjection"] == true };
    let came = look(&binding, case["cluster"].as_str().unwrap(), &taints(case), rules, time(&case["now"]));
    let (mut spec, mut again): (BindingSpec, i64) = (binding.spec, 0);
    match came {
        Ok(Stay::Stays) => {}
        Ok(Stay::StaysFor(left)) => again = left.as_secs(),
        Ok(Stay::Leaves(task)) => drop(evict(&mut spec, *task)),
        Err(_) if case.get("error").is_some() => return Verdict::Agrees,
        Err(error) => return Verdict::Differs(error.to_string()),
    }
    let wanted: BindingSpec = serde_json::from_value(without_nulls(case["spec"].clone())).unwrap();
    let wanted = json!([wanted, case["requeueAfterSeconds"].as_i64().unwrap_or(0)]);
    compare(&wanted, &json!([spec, again]))
}

/// A cluster as the recordings tell it.
fn cluster(told: &Value) -> Cluster {
    let mut conditions = told["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        for (field, value) in
            [("lastTransitionTime", "2000-01-01T00:00:00Z"), ("reason", "R"), ("message", "")]
        {
            condition[field] = json!(value);
        }
    }
    let value = json!({"metadata": {"name": told["name"], "labels": told["labels"]},
        "spec": {"syncMode": "Pull", "taints": told["taints"]}, "status": {"conditions": conditions}});
    serde_json::from_value(without_nulls(value)).unwrap()
}

fn policies(case: &Value) -> Verdict {
    let policies: Option<Vec<ClusterTaintPolicy>> =
        serde_json::from_value(without_nulls(case["policies"].clone())).unwrap();
    let cluster = cluster(&case["cluster"]);
    let got = taint_policy::taints(&cluster, &policies.unwrap_or_default(), time(&case["now"]));
    compare(&case["taints"], &json!(got.unwrap_or(cluster.spec.taints)))
}

#[test]
fn recorded_taints() {
    recorded::run("taints.json", "recorded_taints", TAINTS, |case| match case["kind"].as_str().unwrap() {
        "evictionTime" => times(case),
        "evictBinding" => evictions(case),
        "taintPolicy" => policies(case),
        "pace" => {
            let rate = case["resourcesPerSecond"].as_f64().unwrap() as f32;
            let wanted = case["delaySeconds"].as_f64().unwrap();
            let close = (interval(rate).as_secs_f64() - wanted).abs() < 1e-6;
            compare(&json!(true), &json!(close))
        }
        kind => panic!("nothing is known of {kind}"),
    });
}

fn tainted(seconds_ago: i64) -> Vec<Taint> {
    let added = now() - SignedDuration::from_secs(seconds_ago);
    serde_json::from_value(json!([{"key": "outage", "effect": "NoExecute", "timeAdded": added.to_string()}]))
        .unwrap()
}

fn now() -> jiff::Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

#[test]
fn statement_66_who_does_not_tolerate_a_taint_leaves_at_once_and_who_does_for_a_while_leaves_then() {
    let seconds =
        json!([{"key": "outage", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    let forever = json!([{"key": "outage", "operator": "Exists", "effect": "NoExecute"}]);
    let look = |tolerations: &Value, ago: i64| {
        look(&placed(&json!({"tolerations": tolerations})), "m1", &tainted(ago), PLAIN, now()).unwrap()
    };
    assert!(matches!(look(&json!([]), 0), Stay::Leaves(_)));
    assert_eq!(look(&forever, 90_000), Stay::Stays);
    assert_eq!(look(&seconds, 10), Stay::StaysFor(SignedDuration::from_secs(290)));
    assert!(matches!(look(&seconds, 300), Stay::Leaves(_)));
    let Stay::Leaves(task) = look(&json!([]), 0) else { panic!() };
    let told = [&task.from_cluster, &task.reason, &task.producer];
    assert_eq!(told, ["m1", "TaintUntolerated", "TaintManager"]);
    assert!(tainted(0).iter().all(evicts));
}

/// What is never purged waits for a person, whoever moved it: else it would go like any other when its time is over.
#[test]
fn a_cluster_that_is_left_and_never_purged_waits_for_a_person() {
    let mut binding = placed(&json!({"tolerations": []}));
    binding.spec.failover = serde_json::from_value(json!({"cluster": {"purgeMode": "Never"}})).unwrap();
    let Stay::Leaves(task) = look(&binding, "m1", &tainted(0), PLAIN, now()).unwrap() else { panic!() };
    assert_eq!(task.suppress_deletion, Some(true));
}

#[test]
fn statement_71_all_conditions_of_a_policy_must_hold_and_the_younger_of_two_policies_wins() {
    let one = cluster(
        &json!({"name": "m1", "conditions": [{"type": "Ready", "status": "False"}, {"type": "Net", "status": "True"}]}),
    );
    let policy = |name: &str, created: &str, spec: Value| -> ClusterTaintPolicy {
        serde_json::from_value(
            json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}),
        )
        .unwrap()
    };
    let says = |kind: &str, operator: &str, status: &str| json!({"conditionType": kind, "operator": operator, "statusValues": [status]});
    let taint = json!([{"key": "outage", "effect": "NoSchedule"}]);
    let add = |conditions: Value| {
        policy("add", "2026-01-01T00:00:00Z", json!({"addOnConditions": conditions, "taints": taint}))
    };
    let keys = |policies: &[ClusterTaintPolicy]| {
        taint_policy::taints(&one, policies, now()).map_or(0, |list| list.len())
    };
    let [down, unreached, other] =
        [says("Ready", "In", "False"), says("Net", "In", "False"), says("Disk", "NotIn", "True")];
    assert_eq!(keys(&[add(json!([down]))]), 1);
    assert_eq!(keys(&[add(json!([down, unreached]))]), 0, "all must hold");
    assert_eq!(keys(&[add(json!([]))]), 0, "none at all never do");
    assert_eq!(keys(&[add(json!([other]))]), 0, "of a condition that is not there nothing is known");
    let remove =
        policy("remove", "2026-02-01T00:00:00Z", json!({"removeOnConditions": [down], "taints": taint}));
    assert_eq!(
        keys(&[remove.clone(), add(json!([down]))]),
        0,
        "the younger takes it away, in whatever order they are listed"
    );
    let older = ClusterTaintPolicy {
        metadata: policy("remove", "2025-01-01T00:00:00Z", json!({})).metadata,
        ..remove
    };
    assert_eq!(keys(&[add(json!([down])), older]), 1);
}
