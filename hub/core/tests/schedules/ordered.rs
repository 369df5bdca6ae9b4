//! Ordered groups of clusters: which holds, what is told of those that do not do, and how many are tried.

use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::{self, Decision, Failure, Input, Outcome, Retry, events};
use serde_json::{Value, json};

fn member(name: &str, cpu: i64) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"syncMode": "Pull"}, "status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
        "resourceSummary": {"allocatable": {"pods": "100", "cpu": cpu.to_string()}}}}))
    .unwrap()
}

fn binding(groups: Value, replicas: i64) -> ResourceBinding {
    serde_json::from_value(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "w-deployment", "namespace": "ns", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "w", "uid": "u"},
            "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {"clusterAffinities": groups, "replicaScheduling":
                {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}}}))
    .unwrap()
}

fn schedule(binding: &ResourceBinding, clusters: &[Cluster]) -> Decision {
    scheduler::schedule(&Input::plain(binding, clusters))
}

fn place(binding: &mut ResourceBinding, clusters: &[Cluster], at: &str) -> Vec<String> {
    let decision = schedule(binding, clusters);
    let before = binding.spec.clusters.clone();
    if let Some(wanted) = scheduler::apply(binding, &decision) {
        *binding = wanted;
    }
    if let Some(status) = scheduler::status(binding, &before, &decision, at.parse().unwrap()) {
        binding.status = status;
    }
    binding.spec.clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect()
}

#[test]
fn statement_26_a_group_that_holds_is_left_only_when_asked() {
    let groups = json!([{"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2"]}]);
    let mut binding = binding(groups, 3);
    assert_eq!(place(&mut binding, &[member("m1", 2), member("m2", 9)], "2026-01-01T00:00:00Z"), ["m2:3"]);
    let roomy = [member("m1", 9), member("m2", 9)];
    binding.spec.replicas = 4;
    assert_eq!(
        place(&mut binding, &roomy, "2026-01-01T00:01:00Z"),
        ["m2:4"],
        "it does not move back by itself"
    );
    binding.spec.reschedule_triggered_at =
        Some(serde_json::from_value(json!("2026-01-01T00:02:00Z")).unwrap());
    assert_eq!(place(&mut binding, &roomy, "2026-01-01T00:03:00Z"), ["m1:4"], "only when a person asks");
}

/// Scaled and asked for anew at once: what was asked counts.
#[test]
fn a_rebalance_counts_beside_another_change() {
    let mut binding = binding(json!([{"affinityName": "all"}]), 3);
    assert_eq!(place(&mut binding, &[member("m1", 3)], "2026-01-01T00:00:00Z"), ["m1:3"]);
    binding.spec.replicas = 6;
    binding.spec.reschedule_triggered_at =
        Some(serde_json::from_value(json!("2026-01-01T00:02:00Z")).unwrap());
    let clusters = [member("m1", 1), member("m2", 50)];
    assert_eq!(place(&mut binding, &clusters, "2026-01-01T00:03:00Z"), ["m2:6"]);
}

#[test]
fn thousands_of_groups_over_a_large_fleet_are_bounded_work() {
    let groups: Vec<Value> = (0..5000)
        .map(|at| json!({"affinityName": format!("g{at}"), "clusterNames": [format!("none{at}")]}))
        .collect();
    let clusters: Vec<Cluster> = (0..4000).map(|at| member(&format!("m{at}"), 9)).collect();
    let all = schedule(&binding(json!(&groups[..125]), 3), &clusters);
    assert_eq!(all.tried.len(), 125);
    let Outcome::Failed(Failure::NoClusterFit(text)) = &all.outcome else { panic!("{all:?}") };
    assert!(!text.contains("further groups"), "none is left out: {text}");
    let binding = binding(json!(groups), 3);
    let decision = schedule(&binding, &clusters);
    assert_eq!(decision.tried.len(), 125);
    assert_eq!(left_out(&decision), "4875");
    assert!(events::events(&binding, &decision).len() <= 8);
    // Those before the group that holds are not to be tried, so nobody left them out.
    let mut holding = binding;
    holding.status.scheduler_observing_affinity_name = "g100".to_owned();
    holding.spec.clusters = serde_json::from_value(json!([{"name": "m1", "replicas": 2}])).unwrap();
    let decision = schedule(&holding, &clusters);
    assert_eq!((decision.tried[0].affinity_name.as_str(), decision.tried.len()), ("g100", 125));
    assert_eq!(left_out(&decision), "4775");
}

/// How many groups it says that it did not try.
fn left_out(decision: &Decision) -> &str {
    let Outcome::Failed(Failure::NoClusterFit(text)) = &decision.outcome else { panic!("{decision:?}") };
    let end = " further groups of clusterAffinities were not tried: with so many clusters, 125 are";
    let before = text.strip_suffix(end).unwrap_or_else(|| panic!("{text}"));
    before.rsplit(' ').next().unwrap()
}

/// The room for a binding is asked of the groups that a schedule would try.
#[test]
fn room_is_that_of_the_groups_that_are_tried() {
    let mut groups: Vec<Value> = (0..200)
        .map(|at| json!({"affinityName": format!("g{at}"), "clusterNames": [format!("none{at}")]}))
        .collect();
    groups[124]["clusterNames"] = json!(["m1"]);
    groups[125]["clusterNames"] = json!(["m2"]);
    let binding = binding(json!(groups), 3);
    let names = |count: usize| {
        let clusters: Vec<Cluster> = (0..count).map(|at| member(&format!("m{at}"), 9)).collect();
        let room = scheduler::room(&Input::plain(&binding, &clusters));
        room.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names(4000), ["m1"]);
    assert_eq!(names(3), ["m1", "m2"], "a small fleet has all groups tried");
}

#[test]
fn statement_73_a_quota_that_refuses_is_told_and_tried_again() {
    let binding = binding(json!([{"affinityName": "all"}]), 3);
    let decision = schedule(&binding, &[member("m1", 9)]).refused("QuotaExceeded", "more than q allows");
    let Outcome::Failed(failure) = &decision.outcome else { panic!("{decision:?}") };
    assert_eq!((failure.reason(), failure.to_string().as_str()), ("QuotaExceeded", "more than q allows"));
    assert_eq!(decision.outcome.retry(), Retry::Soon);
    assert_eq!(events::events(&binding, &decision), [(false, "more than q allows".to_owned())]);
}

/// What the first group lacks for good, a later one may have some day.
#[test]
fn a_group_without_room_is_waited_for_also_behind_one_that_nobody_fits() {
    let groups = json!([{"affinityName": "first", "labelSelector": {"matchLabels": {"g": "none"}}}, {"affinityName": "second", "clusterNames": ["m2"]}]);
    let full = schedule(&binding(groups.clone(), 3), &[member("m2", 1)]);
    assert!(matches!(full.outcome, Outcome::Failed(Failure::NoClusterFit(_))));
    assert_eq!(full.retry(), Retry::ForRoom);
    let nobody = schedule(&binding(groups, 3), &[member("m3", 9)]);
    assert_eq!(nobody.retry(), Retry::Never);
}

/// The hub ended between the two writes of a decision, and since then there is room in the first group.
#[test]
fn what_was_placed_and_not_said_is_said_of_its_own_group() {
    let groups = json!([{"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2"]}]);
    let mut binding = binding(groups, 3);
    let decision = schedule(&binding, &[member("m1", 0), member("m2", 9)]);
    binding = scheduler::apply(&binding, &decision).unwrap();
    let roomy = [member("m1", 9), member("m2", 9)];
    assert_eq!(place(&mut binding, &roomy, "2026-01-01T00:00:00Z"), ["m2:3"]);
    assert_eq!(binding.status.scheduler_observing_affinity_name, "second");
}

/// What is asked of groups that are not tried would be work as well: with so many clusters, 125 are tried.
#[test]
fn nothing_is_asked_of_groups_that_are_not_tried() {
    let labels = |at: usize| if at == 127 { json!({}) } else { json!({"none": "such"}) };
    let groups: Vec<Value> = (0..130)
        .map(|at| json!({"affinityName": format!("g{at}"), "labelSelector": {"matchLabels": labels(at)}}))
        .collect();
    let clusters: Vec<Cluster> = (0..4000).map(|at| member(&format!("m{at}"), 9)).collect();
    let mut binding = binding(json!(groups), 3);
    binding.spec.clusters =
        vec![TargetCluster { name: "m7".into(), replicas: 3, ..TargetCluster::default() }];
    let scored = |binding: &ResourceBinding| scheduler::scores(&Input::plain(binding, &clusters));
    assert!(scored(&binding).is_empty(), "the group that means it is the 128th");
    binding.status.scheduler_observing_affinity_name = "g120".into();
    assert_eq!(
        scored(&binding).into_keys().collect::<Vec<_>>(),
        ["m7"],
        "they are tried from the one that holds"
    );
}
