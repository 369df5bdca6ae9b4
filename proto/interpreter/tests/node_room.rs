//! Room on a member's nodes: recorded cases of the reference implementation; beyond them, what holds for any member.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/recorded/mod.rs"]
mod recorded;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{Component, ReplicaRequirements};
use karmada_interpreter::node_room::{
    Assumed, NodeRoom, Quota, UnschedulableError, component_sets, replicas, unschedulable,
};
use karmada_interpreter::nodes_and_pods::{NodeOffer, PodUse};
use recorded::{Differences, Verdict, compare};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const OVERFLOW: &str =
    "recorded bug: the sum over nodes was counted in 32 bits and wrapped; ours is the most there can be";
const OVERUSED: &str = "recorded bug: an overused quota gave an answer below nothing; ours is nothing";
const BOTH: &str = "recorded bug: of `cpu` and `requests.cpu` in one quota the latter alone counted; Kubernetes holds to both, so the smaller remainder counts";
const DEFAULTED: &str = "API servers write a limit without a request as request too, so no pod looks like this; the summary counts it as well";

const NODE_ROOM: Differences =
    &[(17, DEFAULTED), (34, OVERFLOW), (35, OVERFLOW), (64, OVERUSED), (66, OVERUSED), (69, BOTH)];

fn list(case: &Value, key: &str) -> Vec<Value> {
    case[key].as_array().cloned().unwrap_or_default()
}

fn read<T: DeserializeOwned>(case: &Value, key: &str) -> T {
    serde_json::from_value(case[key].clone()).unwrap()
}

fn asked(case: &Value) -> Value {
    let nodes: Vec<NodeOffer> = list(case, "nodes").iter().map(NodeOffer::of).collect();
    let pods: Vec<PodUse> = list(case, "pods").iter().map(PodUse::of).collect();
    let heeded = if case["quotaEstimate"] == true { list(case, "quotas") } else { Vec::new() };
    let quotas: Vec<Quota> = heeded.iter().map(Quota::of).collect();
    let protected = if case["overcommitProtection"] == true { list(case, "assumed") } else { Vec::new() };
    let assumed: Vec<Assumed> = serde_json::from_value(json!(protected)).unwrap();
    let room = NodeRoom { nodes: &nodes, pods: &pods, quotas: &quotas, assumed: &assumed };
    match case["kind"].as_str().unwrap() {
        "replicas" => {
            let requirements: Option<ReplicaRequirements> = read(case, "requirements");
            json!(replicas(&room, requirements.as_ref()))
        }
        _ => {
            let components: Vec<Component> = read(case, "components");
            json!(component_sets(&room, case["namespace"].as_str().unwrap_or(""), &components))
        }
    }
}

fn waiting(case: &Value) -> Verdict {
    let pods: Vec<PodUse> = list(case, "pods").iter().map(PodUse::of).collect();
    let threshold = SignedDuration::from_secs(case["thresholdSeconds"].as_i64().unwrap());
    let now: Timestamp = read(case, "now");
    match unschedulable(&case["object"], &list(case, "replicaSets"), &pods, threshold, now) {
        Ok(count) => compare(&case["count"], &json!(count)),
        Err(error) => compare(&case["error"], &json!(error.to_string())),
    }
}

#[test]
fn recorded_node_room() {
    recorded::run("nodeestimate.json", "recorded_node_room", NODE_ROOM, |case| {
        match case["kind"].as_str().unwrap() {
            "unschedulable" => waiting(case),
            _ => compare(&case["max"], &asked(case)),
        }
    });
}

fn requirements(json: &Value) -> ReplicaRequirements {
    serde_json::from_value(json.clone()).unwrap()
}

/// How many replicas with this claim a node of 7 places has room for.
fn claimed(node: &Value, claim: &Value) -> i32 {
    let mut node = node.clone();
    node["status"]["allocatable"]["pods"] = json!("7");
    let nodes = [NodeOffer::of(&node)];
    let wanted = requirements(&json!({"nodeClaim": claim}));
    replicas(&NodeRoom { nodes: &nodes, ..NodeRoom::default() }, Some(&wanted))
}

#[test]
fn affinity_that_can_and_that_cannot_be_read() {
    let node = json!({"metadata": {"name": "n", "labels": {"gen": "3", "pool": "a"}}});
    let expression = |key: &str, operator: &str, values: &[&str]| json!([{"key": key, "operator": operator, "values": values}]);
    let labels: &[(&str, &str, &[&str], i32)] = &[
        ("gen", "Gt", &["2"], 7),
        ("gen", "Gt", &["3"], 0),
        ("gen", "Lt", &["4"], 7),
        ("gen", "Lt", &["3"], 0),
        ("gen", "Lt", &["4", "5"], 0),
        ("gen", "Lt", &["x"], 0),
        ("pool", "Gt", &["0"], 0),
        ("gone", "Lt", &["9"], 0),
        ("pool", "NotIn", &["b"], 7),
        ("pool", "NotIn", &[], 0),
        ("pool", "Exists", &[], 7),
        ("pool", "Exists", &["a"], 0),
        ("gone", "DoesNotExist", &[], 7),
        ("gone", "DoesNotExist", &["a"], 0),
    ];
    for (key, operator, values, room) in labels {
        let term = json!({"matchExpressions": expression(key, operator, values)});
        let claim = json!({"hardNodeAffinity": {"nodeSelectorTerms": [term]}});
        assert_eq!(claimed(&node, &claim), *room, "{key} {operator} {values:?}");
    }
    let fields: &[(&str, &str, &[&str], i32)] = &[
        ("metadata.name", "In", &["n"], 7),
        ("metadata.name", "NotIn", &["n"], 0),
        ("metadata.name", "NotIn", &["m"], 7),
        ("metadata.name", "In", &["n", "m"], 0),
        ("metadata.name", "Exists", &[], 0),
        ("spec.podCIDR", "NotIn", &["n"], 0),
    ];
    for (key, operator, values, room) in fields {
        let term = json!({"matchFields": expression(key, operator, values)});
        let claim = json!({"hardNodeAffinity": {"nodeSelectorTerms": [term]}});
        assert_eq!(claimed(&node, &claim), *room, "{key} {operator} {values:?}");
    }
}

#[test]
fn a_cordon_is_one_taint_whoever_writes_it() {
    let written = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]);
    for spec in [
        json!({"unschedulable": true}),
        json!({"taints": written, "unschedulable": true}),
        json!({"taints": written}),
    ] {
        let node = json!({"metadata": {"name": "n"}, "spec": spec});
        assert_eq!(NodeOffer::of(&node).taints.len(), 1, "{spec}");
        assert_eq!(claimed(&node, &json!({})), 0, "{spec}");
        let tolerated =
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
        assert_eq!(claimed(&node, &tolerated), 7, "{spec}");
    }
    assert_eq!(
        NodeOffer::of(&json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}})).taints,
        []
    );
}

#[test]
fn the_scarcest_resource_of_each_node_decides() {
    let pod = json!({"spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}}}]}});
    let pods = [PodUse::of(&pod)];
    let table = [
        (json!({"cpu": "8", "memory": "64Gi", "pods": "110"}), json!({"cpu": "1", "memory": "2Gi"}), 6),
        (json!({"cpu": "8", "memory": "8Gi", "pods": "110"}), json!({"cpu": "1", "memory": "2Gi"}), 2),
        (json!({"cpu": "8", "memory": "64Gi", "pods": "4"}), json!({"cpu": "1", "memory": "2Gi"}), 3),
        (json!({"cpu": "8", "memory": "64Gi", "pods": "110"}), json!({"cpu": "100u"}), 109),
        (json!({"cpu": "3500m", "memory": "64Gi", "pods": "110"}), json!({"cpu": "100m"}), 20),
        (json!({"cpu": "1", "memory": "64Gi", "pods": "110"}), json!({"cpu": "1m"}), 0),
        (json!({"cpu": "1", "memory": "64Gi", "pods": "110"}), json!({"memory": "1Gi"}), 61),
        (
            json!({"cpu": "8", "pods": "110", "x.io/gpu": "3"}),
            json!({"x.io/gpu": "2", "storage": "9Ti", "pods": "50"}),
            1,
        ),
        (json!({"cpu": "8", "pods": "110"}), json!({"x.io/gpu": "1"}), 0),
        (json!({"cpu": "8", "pods": "110"}), json!({"cpu": "0"}), 109),
        (json!({"cpu": "8"}), json!({"cpu": "1"}), 0),
    ];
    for (offered, asked, wanted) in table {
        let nodes = [NodeOffer::of(&json!({"metadata": {"name": "n"}, "status": {"allocatable": offered}}))];
        let room = NodeRoom { nodes: &nodes, pods: &pods, ..NodeRoom::default() };
        let got = replicas(&room, Some(&requirements(&json!({"resourceRequest": asked}))));
        assert_eq!(got, wanted, "{offered} {asked}");
    }
}

fn parts(json: &Value) -> Vec<Component> {
    serde_json::from_value(json.clone()).unwrap()
}

#[test]
fn parts_without_pods_are_no_bound() {
    let nodes =
        [NodeOffer::of(&json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "3"}}}))];
    let room = NodeRoom { nodes: &nodes, ..NodeRoom::default() };
    let none = parts(&json!([{"name": "a", "replicas": 0}, {"name": "b", "replicas": -4}]));
    assert_eq!(component_sets(&room, "ns", &none), i32::MAX);
    assert_eq!(component_sets(&NodeRoom::default(), "ns", &none), i32::MAX);
    let some = parts(&json!([{"name": "a", "replicas": 0}, {"name": "b", "replicas": 2}]));
    assert_eq!(component_sets(&room, "ns", &some), 1);
}

/// Replicas of 1 CPU and priority `high`, and sets of one, on a node of 64 under a quota of namespace `ns`.
fn under(quota: &Value, assumed_cpu: &str) -> (i32, i32) {
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "110"}}});
    let mut quota = quota.clone();
    quota["metadata"] = json!({"namespace": "ns"});
    let quotas = [Quota::of(&quota)];
    let taken = json!([{"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": assumed_cpu}, "priorityClassName": "high"}}]);
    let assumed = [Assumed { namespace: "ns".into(), components: parts(&taken) }];
    let nodes = [NodeOffer::of(&node)];
    let room = NodeRoom { nodes: &nodes, pods: &[], quotas: &quotas, assumed: &assumed };
    let wanted = json!({"namespace": "ns", "priorityClassName": "high", "resourceRequest": {"cpu": "1"}});
    let sets = parts(&json!([{"replicas": 1, "replicaRequirements": wanted}]));
    (replicas(&room, Some(&requirements(&wanted))), component_sets(&room, "ns", &sets))
}

#[test]
fn quotas_bound_what_they_mean() {
    let status = |name: &str, hard: &str, used: &str| json!({"hard": {name: hard}, "used": {name: used}});
    let both = |plain: &str, requests: &str, used: &str| json!({"hard": {"cpu": plain, "requests.cpu": requests}, "used": {"cpu": used, "requests.cpu": used}});
    let spec = json!({});
    let scoped = |operator: &str, values: &[&str]| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    let table = [
        (&spec, status("cpu", "9", "2"), "0", 7),
        (&spec, status("requests.cpu", "9", "2"), "0", 7),
        (&spec, both("3", "9", "0"), "0", 3),
        (&spec, both("9", "3", "0"), "0", 3),
        (&spec, both("9", "12", "5"), "2", 2),
        (
            &spec,
            json!({"hard": {"cpu": "20", "requests.cpu": "9"}, "used": {"cpu": "16", "requests.cpu": "2"}}),
            "0",
            4,
        ),
        (&spec, json!({"hard": {"cpu": "4", "requests.cpu": "9"}, "used": {"requests.cpu": "2"}}), "0", 7),
        (
            &spec,
            json!({"hard": {"cpu": "9", "limits.cpu": "3"}, "used": {"cpu": "2", "limits.cpu": "3"}}),
            "0",
            7,
        ),
        (&spec, status("limits.cpu", "9", "2"), "0", 64),
        (&spec, json!({"hard": {"cpu": "9"}}), "0", 64),
        (&spec, status("cpu", "9", "10"), "0", 0),
        (&spec, status("cpu", "9", "2"), "3", 4),
        (&spec, status("cpu", "9", "2"), "8", 0),
        (&scoped("In", &["high", "top"]), status("cpu", "9", "2"), "3", 4),
        (&scoped("In", &["low"]), status("cpu", "9", "2"), "3", 61),
        (&scoped("NotIn", &["low"]), status("cpu", "9", "2"), "0", 7),
        (&scoped("Exists", &[]), status("cpu", "9", "2"), "0", 7),
        (&scoped("DoesNotExist", &[]), status("cpu", "9", "2"), "0", 64),
        (&scoped("In", &[]), status("cpu", "9", "2"), "0", 64),
        (&scoped("DoesNotExist", &[]), status("cpu", "9", "9"), "3", 61),
        (&json!({"scopes": ["NotBestEffort"]}), status("cpu", "9", "2"), "0", 64),
        (&json!({"scopes": ["NotBestEffort", "PriorityClass"]}), status("cpu", "9", "2"), "0", 7),
    ];
    for (spec, status, assumed, room) in table {
        assert_eq!(
            under(&json!({"spec": spec, "status": status}), assumed),
            (room, room),
            "{spec} {status} {assumed}"
        );
    }
}

#[test]
fn what_is_more_than_can_be_counted_is_the_most() {
    let node = |name: &str| {
        NodeOffer::of(&json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "5G"}}}))
    };
    let nodes = [node("a"), node("b")];
    assert_eq!(replicas(&NodeRoom { nodes: &nodes, ..NodeRoom::default() }, None), i32::MAX);
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "ns", "uid": "dep"},
        "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"app": "w"}}, "spec": {"nodeName": "a"}}}})
}

fn replica_set(name: &str, created: &str, selector: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": name, "creationTimestamp": created,
                        "ownerReferences": [{"kind": "Deployment", "uid": "dep", "controller": true}]},
        "spec": {"selector": selector, "template": {
            "metadata": {"labels": {"app": "w", "pod-template-hash": name}}, "spec": {"nodeName": "a"}}}})
}

fn stuck(owner: &str, phase: &str) -> PodUse {
    PodUse::of(
        &json!({"metadata": {"labels": {"app": "w"}, "ownerReferences": [{"uid": "other"}, {"uid": owner, "controller": true}]},
        "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                                   "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
    )
}

#[test]
fn waiting_pods_are_those_of_the_present_template() {
    let count = |sets: &[Value], pods: &[PodUse]| {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        unschedulable(&deployment(), sets, pods, SignedDuration::from_secs(60), now)
    };
    let selector = json!({"matchLabels": {"app": "w"}});
    let (early, late) = (
        replica_set("z", "2025-01-01T00:00:00Z", &selector),
        replica_set("a", "2025-06-01T00:00:00Z", &selector),
    );
    let pods = [
        stuck("z", "Pending"),
        stuck("z", "Pending"),
        stuck("z", "Failed"),
        stuck("a", "Pending"),
        stuck("", "Pending"),
    ];
    assert_eq!(count(&[late.clone(), early], &pods), Ok(2), "the older of two with the same template");
    assert_eq!(count(&[late], &pods), Ok(1));
    let broken = replica_set(
        "z",
        "",
        &json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w"]}]}),
    );
    assert!(matches!(count(&[broken], &pods), Err(UnschedulableError::Selector { .. })));
    let odd = replica_set("z", "", &json!({"matchLabels": 3}));
    assert!(matches!(count(&[odd], &pods), Err(UnschedulableError::Selector { .. })));
    let kind = unschedulable(&json!({"kind": "Job"}), &[], &[], SignedDuration::ZERO, Timestamp::UNIX_EPOCH);
    assert!(matches!(kind, Err(UnschedulableError::Kind { .. })));
}

#[test]
fn a_pod_that_runs_or_waits_since_an_unknown_time_carries_nothing_of_waiting() {
    assert!(stuck("z", "Pending").waiting.is_some());
    for condition in [
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}),
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "then"}),
    ] {
        assert_eq!(PodUse::of(&json!({"status": {"conditions": [condition]}})).waiting, None);
    }
}
