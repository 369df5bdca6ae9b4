//! When and where bindings are scheduled.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::division::{self, Candidate, Division, Mode};
use karmada_core::scheduler::trigger::{SchedulingCause, Trigger, trigger};
use karmada_core::scheduler::{
    self, ClusterVerdict, Decision, Failure, Input, Outcome, cluster_changes, webster,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{binding, later, member, now};

fn members(names: &[&str]) -> Vec<Cluster> {
    names.iter().map(|name| member(name)).collect()
}

fn schedule(binding: &ResourceBinding, clusters: &[Cluster]) -> Decision {
    schedule_with(false, binding, clusters)
}

fn schedule_with(keeps_empty: bool, binding: &ResourceBinding, clusters: &[Cluster]) -> Decision {
    let input = Input { keeps_empty, ..Input::plain(binding, clusters) };
    let explained = scheduler::explained(&input);
    let unexplained = Decision { report: Default::default(), ..explained.clone() };
    assert_eq!(scheduler::schedule(&input), unexplained, "to explain it decides nothing");
    explained
}

fn result(decision: &Decision) -> Value {
    match &decision.outcome {
        Outcome::Scheduled(targets) => {
            json!(targets.iter().map(|t| (t.name.clone(), t.replicas)).collect::<Vec<_>>())
        }
        Outcome::Failed(failure) => json!({failure.reason(): failure.to_string()}),
        Outcome::NotOurs => json!("not ours"),
        Outcome::UpToDate => json!("up to date"),
    }
}

/// Writes a decision down as the controller does.
fn written(binding: &ResourceBinding, decision: &Decision) -> ResourceBinding {
    let mut written = scheduler::apply(binding, decision).unwrap_or_else(|| binding.clone());
    if let Some(status) = scheduler::status(&written, &binding.spec.clusters, decision, now()) {
        written.status = status;
    }
    written
}

fn static_weights(pairs: &[(&str, i64)]) -> Value {
    let list: Vec<Value> = pairs
        .iter()
        .map(|(name, weight)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight}))
        .collect();
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                                 "weightPreference": {"staticWeightList": list}}})
}

#[test]
fn the_tutorials_placements() {
    let clusters = members(&["m1", "m2", "m3"]);
    let table = [
        (json!({}), json!([["m1", 6], ["m2", 6], ["m3", 6]])),
        (json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}), json!([["m1", 6], ["m2", 6]])),
        (json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"name": "m3"}}}}), json!([["m3", 6]])),
        (json!({"clusterAffinity": {"exclude": ["m1"]}}), json!([["m2", 6], ["m3", 6]])),
        (static_weights(&[("m1", 2), ("m2", 1)]), json!([["m1", 4], ["m2", 2]])),
        (
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}),
            json!([["m1", 2], ["m2", 2], ["m3", 2]]),
        ),
        (
            json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}),
            json!([["m1", 6]]),
        ),
    ];
    for (placement, wanted) in table {
        assert_eq!(result(&schedule(&binding(placement.clone()), &clusters)), wanted, "{placement}");
    }
}

/// However replicas are divided; only clusters that were selected, and once they are placed so nothing moves.
#[test]
fn clusters_that_get_no_replicas_are_targets_where_that_is_wanted() {
    let clusters = members(&["m1", "m2", "m3"]);
    let divided = |more: Value| {
        let mut scheduling = json!({"replicaSchedulingType": "Divided"});
        scheduling.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"clusterAffinity": {"exclude": ["m3"]}, "replicaScheduling": scheduling})
    };
    let dynamic = json!({"replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let mut one_group = static_weights(&[("m1", 1)]);
    one_group["clusterAffinity"] = json!({"exclude": ["m3"]});
    for (placement, replicas, without, with) in [
        (
            divided(json!({"replicaDivisionPreference": "Weighted"})),
            0,
            json!([]),
            json!([["m1", 0], ["m2", 0]]),
        ),
        (
            divided(json!({"replicaDivisionPreference": "Aggregated"})),
            0,
            json!([]),
            json!([["m1", 0], ["m2", 0]]),
        ),
        (divided(dynamic), 0, json!([]), json!([["m1", 0], ["m2", 0]])),
        (
            divided(json!({"replicaDivisionPreference": "Aggregated"})),
            4,
            json!([["m1", 4]]),
            json!([["m1", 4], ["m2", 0]]),
        ),
        (one_group, 4, json!([["m1", 4]]), json!([["m1", 4], ["m2", 0]])),
        (json!({"clusterAffinity": {"exclude": ["m3"]}}), 0, json!([]), json!([["m1", 0], ["m2", 0]])),
    ] {
        let mut asked = binding(placement.clone());
        asked.spec.replicas = replicas;
        asked.spec.replica_requirements = Some(Default::default());
        for (keeps_empty, wanted) in [(false, without), (true, with)] {
            let decision = schedule_with(keeps_empty, &asked, &clusters);
            assert_eq!(result(&decision), wanted, "{placement} {replicas} {keeps_empty}");
            let again = schedule_with(keeps_empty, &written(&asked, &decision), &clusters);
            let stands = if again.outcome == Outcome::UpToDate { wanted.clone() } else { result(&again) };
            assert_eq!(stands, wanted, "{placement} {replicas} {keeps_empty}");
        }
    }
}

#[test]
fn every_cluster_says_why() {
    let mut clusters = members(&["m1", "m2", "m3", "m4", "m5"]);
    clusters[1].spec.taints =
        serde_json::from_value(json!([{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]))
            .unwrap();
    clusters[2].status.api_enablements = Arc::default();
    clusters[3].metadata.deletion_timestamp = Some(Time(now()));
    let fits = binding(json!({"clusterAffinity": {"exclude": ["m5"]}}));
    let decision = schedule(&fits, &clusters);
    assert_eq!(result(&decision), json!([["m1", 6]]));
    let texts: Vec<String> = decision
        .report
        .values()
        .map(|verdict| match verdict {
            ClusterVerdict::Unfit(reason) => reason.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "Chosen(6)",
            "cluster(s) had untolerated taint {cluster.karmada.io/not-ready:NoSchedule}",
            "cluster(s) did not have the API resource",
            "Deleting",
            "cluster(s) did not match the placement cluster affinity constraint"
        ]
    );
    let nothing = binding(json!({"clusterAffinity": {"clusterNames": ["m2", "m3"]}}));
    assert_eq!(
        result(&schedule(&nothing, &clusters)),
        json!({"NoClusterFit":
        "0/5 clusters are available: 1 cluster(s) did not have the API resource, 1 cluster(s) had untolerated taint \
         {cluster.karmada.io/not-ready:NoSchedule}, 2 cluster(s) did not match the placement cluster affinity constraint."})
    );
    assert_eq!(
        result(&schedule(&nothing, &[])),
        json!({"NoClusterFit": "0/0 clusters are available: no cluster exists."})
    );
}

#[test]
fn a_kind_is_placed_once_the_site_gains_it() {
    let mut clusters = members(&["m1", "m2"]);
    let enablements = std::mem::take(&mut clusters[1].status.api_enablements);
    let first = binding(json!({}));
    let placed = written(&first, &schedule(&first, &clusters));
    assert_eq!(placed.spec.clusters.len(), 1);
    clusters[1].status.api_enablements = enablements;
    assert_eq!(result(&schedule(&placed, &clusters)), json!([["m1", 6], ["m2", 6]]));
    // What is placed is not taken back when discovery hiccups.
    let placed = written(&placed, &schedule(&placed, &clusters));
    clusters[0].status.api_enablements = Arc::default();
    assert_eq!(result(&schedule(&placed, &clusters)), json!([["m1", 6], ["m2", 6]]));
}

#[test]
fn what_triggers_scheduling() {
    let clusters = members(&["m1", "m2"]);
    let first = binding(static_weights(&[("m1", 1), ("m2", 1)]));
    let placed = written(&first, &schedule(&first, &clusters));
    let of = |binding: &ResourceBinding| {
        trigger(binding, &clusters.iter().collect::<Vec<_>>(), "default-scheduler")
    };
    let steady = |cause| Trigger::Schedule { mode: Mode::Steady, cause };
    assert_eq!(of(&first), steady(SchedulingCause::Placement));
    assert_eq!(of(&placed), Trigger::UpToDate);

    let changed = |change: &dyn Fn(&mut ResourceBinding)| {
        let mut binding = placed.clone();
        change(&mut binding);
        of(&binding)
    };
    let labels = |b: &mut ResourceBinding| b.metadata.labels = None;
    assert_eq!(changed(&labels), Trigger::NotOurs);
    assert_eq!(changed(&|b| b.spec.placement = None), Trigger::NotOurs);
    assert_eq!(changed(&|b| b.spec.scheduler_name = "mine".to_owned()), Trigger::NotOurs);
    assert_eq!(changed(&|b| b.metadata.deletion_timestamp = Some(Time(now()))), Trigger::NotOurs);
    assert_eq!(
        changed(&|b| b.spec.suspension = serde_json::from_value(json!({"scheduling": true})).unwrap()),
        Trigger::NotOurs
    );
    assert_eq!(changed(&|b| b.spec.replicas = 7), steady(SchedulingCause::Replicas));
    assert_eq!(
        changed(&|b| b.spec.clusters[0].name = "gone".to_owned()),
        steady(SchedulingCause::Terminating)
    );
    assert_eq!(
        changed(&|b| b.status = Default::default()),
        steady(SchedulingCause::Untold),
        "the hub ended in between"
    );
    assert_eq!(
        changed(&|b| b.spec.reschedule_triggered_at = Some(Time(later()))),
        Trigger::Schedule { mode: Mode::Fresh, cause: SchedulingCause::Rebalance }
    );
    assert_eq!(
        changed(&|b| b.spec.placement.as_mut().unwrap().cluster_tolerations =
            serde_json::from_value(json!([{"operator": "Exists"}])).unwrap()),
        steady(SchedulingCause::Placement)
    );
    assert_eq!(
        changed(&|b| b.spec.placement.as_mut().unwrap().workload_affinity =
            serde_json::from_value(json!({"affinity": {"groupByLabelKey": "k"}})).unwrap()),
        steady(SchedulingCause::Placement)
    );

    let copied = binding(json!({}));
    let copied = written(&copied, &schedule(&copied, &clusters));
    assert_eq!(of(&copied), steady(SchedulingCause::EveryCluster));
    let mut more = copied;
    more.spec.replicas = 7;
    more.spec.placement.as_mut().unwrap().replica_scheduling =
        serde_json::from_value(json!({"replicaSchedulingType": "Duplicated"})).unwrap();
    more.metadata.annotations.as_mut().unwrap().insert(
        "policy.karmada.io/applied-placement".to_owned(),
        serde_json::to_string(&more.spec.placement).unwrap(),
    );
    assert_eq!(of(&more), steady(SchedulingCause::Replicas));
}

#[test]
fn scheduling_again_writes_nothing() {
    let clusters = members(&["m1", "m2"]);
    for placement in [json!({}), static_weights(&[("m1", 2), ("m2", 1)])] {
        let first = binding(placement);
        let decision = schedule(&first, &clusters);
        let placed = written(&first, &decision);
        assert_eq!(placed.status.conditions[0].reason, "Success");
        assert_eq!(placed.status.scheduler_observed_generation, 1);
        let again = schedule(&placed, &clusters);
        assert_eq!(scheduler::apply(&placed, &again), None);
        assert_eq!(scheduler::status(&placed, &placed.spec.clusters, &again, later()), None);
    }
}

/// What is placed and not told of yet is in no report: room by which it was placed does not count once more.
#[test]
fn what_was_written_before_the_status_is_told_and_not_decided_once_more() {
    let overflow = json!({"clusterAffinities": [{"affinityName": "first", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "then", "clusterNames": ["b"]}]}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let aggregated = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    for placement in [overflow, aggregated] {
        let clusters: Vec<Cluster> = ["a", "b"]
            .into_iter()
            .map(|name| {
                let mut cluster = serde_json::to_value(member(name)).unwrap();
                cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "100"}});
                serde_json::from_value(cluster).unwrap()
            })
            .collect();
        let mut new = binding(placement.clone());
        new.spec.replicas = 8;
        new.spec.replica_requirements =
            serde_json::from_value(json!({"resourceRequest": {"cpu": "1"}})).unwrap();
        let placed = scheduler::apply(&new, &schedule(&new, &clusters)).unwrap();
        assert_eq!(placed.spec.clusters.iter().map(|target| target.replicas).sum::<i32>(), 8);
        let told = schedule(&placed, &clusters);
        assert_eq!(result(&told), result(&schedule(&new, &clusters)), "{placement}");
        assert!(scheduler::status(&placed, &placed.spec.clusters, &told, now()).is_some());
        // Nor where its clusters would not be chosen any more: they were chosen.
        let mut chosen = placed.clone();
        let term = json!({"labelSelector": {"matchLabels": {"gone": "by now"}}});
        let placement = chosen.spec.placement.as_mut().unwrap();
        placement.cluster_affinities.clear();
        placement.cluster_affinity = serde_json::from_value(term).unwrap();
        let applied = serde_json::to_string(&placement).unwrap();
        chosen
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert("policy.karmada.io/applied-placement".into(), applied);
        assert_eq!(scheduler::apply(&chosen, &schedule(&chosen, &clusters)), None);
    }
}

/// A changed binding is scheduled anew also where that comes to the same; a look at one that nobody changed is no schedule.
#[test]
fn the_time_of_the_last_schedule_moves_with_each_schedule() {
    let clusters = members(&["m1"]);
    let first = binding(json!({"clusterAffinity": {"clusterNames": ["m1"]}}));
    let placed = written(&first, &schedule(&first, &clusters));
    let again = |binding: &ResourceBinding| {
        let decision = schedule(binding, &clusters);
        assert!(matches!(decision.outcome, Outcome::Scheduled(_)), "{:?}", decision.outcome);
        assert_eq!(
            scheduler::apply(binding, &decision).unwrap_or_else(|| binding.clone()).spec,
            binding.spec
        );
        scheduler::status(binding, &binding.spec.clusters, &decision, later())
    };
    assert_eq!(again(&placed), None, "it is looked at, as every cluster's change asks for that");
    let mut changed = placed;
    changed.metadata.generation = changed.metadata.generation.map(|generation| generation + 1);
    changed.spec.placement =
        serde_json::from_value(json!({"clusterAffinity": {"clusterNames": ["m1", "none"]}})).unwrap();
    let status = again(&changed).unwrap();
    assert_eq!(status.last_scheduled_time.unwrap().0, later());
    assert_eq!(Some(status.scheduler_observed_generation), changed.metadata.generation);
}

#[test]
fn failures_say_so_and_take_back_only_what_cannot_stay() {
    let clusters = members(&["m1"]);
    let first = binding(json!({"clusterAffinity": {"clusterNames": ["m1"]}}));
    let placed = written(&first, &schedule(&first, &clusters));
    let mut moved = placed.clone();
    moved.spec.placement =
        serde_json::from_value(json!({"clusterAffinity": {"clusterNames": ["nowhere"]}})).unwrap();
    let decision = schedule(&moved, &clusters);
    let failed = written(&moved, &decision);
    assert!(failed.spec.clusters.is_empty());
    let condition = failed.status.condition("Scheduled").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "NoClusterFit"));
    assert_eq!(failed.status.last_scheduled_time, placed.status.last_scheduled_time);

    let mut big = binding(
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}),
    );
    big.spec.replicas = 1000;
    big.spec.clusters =
        vec![TargetCluster { name: "m1".to_owned(), replicas: 3, ..TargetCluster::default() }];
    let decision = schedule(&big, &clusters);
    assert_eq!(
        result(&decision),
        json!({"Unschedulable":
        "failed to assign replicas: failed to scale up: Clusters available replicas 100 are not enough to schedule."})
    );
    assert_eq!(scheduler::apply(&big, &decision), None);
    let spread = binding(json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 9}]}));
    assert!(matches!(schedule(&spread, &clusters).outcome, Outcome::Failed(Failure::Error(_))));
}

#[test]
fn the_next_group_is_tried_and_kept() {
    let mut clusters = members(&["m1", "m2"]);
    let groups = json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "b", "clusterNames": ["m2"]}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let first = binding(groups);
    let on_a = written(&first, &schedule(&first, &clusters));
    assert_eq!(
        (on_a.spec.clusters[0].name.as_str(), on_a.status.scheduler_observing_affinity_name.as_str()),
        ("m1", "a")
    );
    clusters[0].metadata.deletion_timestamp = Some(Time(now()));
    let on_b = written(&on_a, &schedule(&on_a, &clusters));
    assert_eq!(
        (on_b.spec.clusters[0].name.as_str(), on_b.status.scheduler_observing_affinity_name.as_str()),
        ("m2", "b")
    );
    clusters[0].metadata.deletion_timestamp = None;
    assert_eq!(schedule(&on_b, &clusters).outcome, Outcome::UpToDate);
    let mut asked = on_b.clone();
    asked.spec.reschedule_triggered_at = Some(Time(later()));
    let back = written(&asked, &schedule(&asked, &clusters));
    assert_eq!(back.spec.clusters[0].name, "m1");
    // A term that is not observed may change without effect.
    let mut edited = on_b;
    edited.spec.placement.as_mut().unwrap().cluster_affinities[0].affinity.cluster_names.push("x".to_owned());
    assert_eq!(schedule(&edited, &clusters).outcome, Outcome::UpToDate);
    let nowhere: Vec<Cluster> = Vec::new();
    let lost = schedule(&edited, &nowhere);
    assert!(matches!(lost.outcome, Outcome::Failed(Failure::NoClusterFit(_))));
}

#[test]
fn groups_that_all_failed_are_tried_from_the_first_again() {
    let mut clusters = members(&["m1", "m2"]);
    let taint = json!([{"key": "cluster.karmada.io/unreachable", "effect": "NoSchedule"}]);
    for cluster in &mut clusters {
        cluster.spec.taints = serde_json::from_value(taint.clone()).unwrap();
    }
    let groups = json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "b", "clusterNames": ["m2"]}]});
    let first = binding(groups);
    let failed = written(&first, &schedule(&first, &clusters));
    assert_eq!(failed.status.scheduler_observing_affinity_name, "", "what failed holds nothing");
    clusters.iter_mut().for_each(|cluster| cluster.spec.taints.clear());
    let placed = written(&failed, &schedule(&failed, &clusters));
    assert_eq!(placed.status.scheduler_observing_affinity_name, "a");

    // The same where the second group held it, until no cluster was left: nothing is placed there that could stay.
    let mut on_b = placed;
    on_b.status.scheduler_observing_affinity_name = "b".to_owned();
    on_b.spec.clusters[0].name = "m2".to_owned();
    let lost = written(&on_b, &schedule(&on_b, &[]));
    assert!(lost.spec.clusters.is_empty());
    assert_eq!(written(&lost, &schedule(&lost, &clusters)).status.scheduler_observing_affinity_name, "a");
}

#[test]
fn a_cluster_on_its_way_out_is_lost_whoever_placed_what_is_there() {
    let mut clusters = members(&["m1", "m2"]);
    clusters[0].metadata.deletion_timestamp = Some(Time(now()));
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let mut claimed = binding(divided);
    claimed.spec.clusters =
        serde_json::from_value(json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 3}]))
            .unwrap();
    let mut of_no_policy = claimed.clone();
    of_no_policy.metadata.labels.as_mut().unwrap().remove("propagationpolicy.karmada.io/permanent-id");
    let mut held_back = claimed.clone();
    held_back.spec.suspension = serde_json::from_value(json!({"scheduling": true})).unwrap();
    let mut anothers = claimed.clone();
    anothers.spec.scheduler_name = "another".to_owned();
    let mut too_big = claimed;
    too_big.spec.replicas = 100_000;
    too_big.spec.placement = serde_json::from_value(json!({"replicaScheduling":
        {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}))
    .unwrap();
    for (what, binding) in [
        ("of no policy", &of_no_policy),
        ("held back", &held_back),
        ("another scheduler's", &anothers),
        ("no room elsewhere", &too_big),
    ] {
        let after = written(binding, &schedule(binding, &clusters));
        let names: Vec<&str> = after.spec.clusters.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["m2"], "{what}");
        assert_eq!(after.spec.clusters[0].replicas, 3, "{what}: what stands elsewhere stays");
        assert_eq!(scheduler::apply(&after, &schedule(&after, &clusters)), None, "{what}: written once");
    }
    assert_eq!(
        of_no_policy.metadata.annotations,
        written(&of_no_policy, &schedule(&of_no_policy, &clusters)).metadata.annotations
    );
}

/// Webster's method as its definition says it, seat by seat.
fn slow_webster(seats: i64, votes: &[(String, i64)]) -> Vec<(String, i64)> {
    let mut held: Vec<(String, i64, i64)> =
        votes.iter().map(|(name, votes)| (name.clone(), *votes, 0)).collect();
    held.sort();
    for _ in 0..seats {
        let worth = |(_, votes, seats): &(String, i64, i64)| *votes as f64 / (2 * seats + 1) as f64;
        let mut best = 0;
        for index in 1..held.len() {
            let (a, b) = (worth(&held[index]), worth(&held[best]));
            if a > b || (a == b && held[index].2 < held[best].2) {
                best = index;
            }
        }
        held[best].2 += 1;
    }
    held.into_iter().map(|(name, _, seats)| (name, seats)).collect()
}

fn votes() -> impl Strategy<Value = Vec<(String, i64)>> {
    prop::collection::btree_map("[a-f]{1,2}", 1_i64..1000, 1..8).prop_map(|map| map.into_iter().collect())
}

/// Two whose next seats are worth the same to the last bit, where the estimate of how many are worth more rounds down.
#[test]
fn bulk_is_the_same_where_an_estimate_rounds() {
    let votes = [("a", 72), ("b", 379), ("c", 424), ("d", 798)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(webster::divide(3868, &votes, &[], ""), slow_webster(3868, &votes));
}

proptest! {
    #[test]
    fn bulk_is_the_same_as_seat_by_seat(votes in votes(), seats in 1000_i64..4000) {
        prop_assert_eq!(webster::divide(seats, &votes, &[], ""), slow_webster(seats, &votes));
    }

    #[test]
    fn any_number_of_seats_is_divided(votes in votes(), seats in 0_i64..=i64::from(i32::MAX)) {
        let total: i64 = webster::divide(seats, &votes, &[], "u").iter().map(|(_, n)| n).sum();
        prop_assert_eq!(total, seats);
    }

    #[test]
    fn replicas_add_up_and_stay(free in prop::collection::vec(0_i64..60, 1..8), held in prop::collection::vec(0_i32..9, 1..8),
                                replicas in 1_i64..80, kind in 0_u8..3) {
        let names: Vec<String> = (0..free.len()).map(|i| format!("m{i}")).collect();
        let clusters: Vec<Cluster> = names.iter().map(|name| member(name)).collect();
        let strategy = match kind {
            0 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
            1 => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
            _ => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        };
        let strategy = serde_json::from_value(strategy).unwrap();
        let previous: Vec<TargetCluster> = names.iter().zip(&held)
            .map(|(name, n)| TargetCluster { name: name.clone(), replicas: *n, ..TargetCluster::default() }).collect();
        let candidates: Vec<Candidate<'_>> = clusters.iter().zip(&free).map(|(cluster, free)| Candidate { cluster, free: *free, tier: 0, score: 0 }).collect();
        let divide = |candidates: &[Candidate<'_>], previous: &[TargetCluster]| division::divide(&Division {
            candidates, replicas, strategy: Some(&strategy), previous, uid: "u", mode: Mode::Steady, tiers: false, workload: true, keeps_empty: false });
        if let Ok(result) = divide(&candidates, &previous) {
            prop_assert_eq!(result.iter().map(|t| i64::from(t.replicas)).sum::<i64>(), replicas);
            // Once placed, placing again moves nothing.
            let again = divide(&candidates, &result).unwrap();
            prop_assert_eq!(&again, &result);
            if kind > 0 {
                for target in &result {
                    let index = names.iter().position(|name| *name == target.name).unwrap();
                    let had = i64::from(held.get(index).copied().unwrap_or(0));
                    prop_assert!(i64::from(target.replicas) <= had + free[index]);
                }
            }
        }
    }

    #[test]
    fn the_order_of_clusters_does_not_matter(rotation in 0_usize..5, aggregated in any::<bool>(), replicas in 1_i32..50) {
        let mut clusters = members(&["m1", "m2", "m3", "m4", "m5"]);
        let preference = if aggregated { "Aggregated" } else { "Weighted" };
        let mut first = binding(json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}]}));
        first.spec.replicas = replicas;
        let forth = schedule(&first, &clusters);
        clusters.rotate_left(rotation);
        prop_assert_eq!(forth, schedule(&first, &clusters));
    }
}

/// A cluster as one of the states that placement can tell apart.
fn state(name: &str, number: u8) -> Option<Cluster> {
    let mut cluster = member(name);
    let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
    match number {
        0 => return None,
        1 => {}
        2 => cluster.metadata.labels = serde_json::from_value(json!({"group": "a"})).unwrap(),
        3 => cluster.metadata.labels = serde_json::from_value(json!({"group": "b"})).unwrap(),
        4 => cluster.spec.taints = serde_json::from_value(taint).unwrap(),
        5 => cluster.metadata.deletion_timestamp = Some(Time(now())),
        6 => cluster.spec.region = "r".to_owned(),
        7 => cluster.status.api_enablements = Arc::default(),
        _ => cluster.status.resource_summary = None,
    }
    Some(cluster)
}

fn placement(number: u8) -> Value {
    let labels = |group: &str| json!({"labelSelector": {"matchLabels": {"group": group}}});
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    match number {
        0 => json!({}),
        1 => json!({"clusterAffinity": labels("a")}),
        2 => json!({"clusterAffinity": {"clusterNames": ["m0", "m1"]}, "replicaScheduling": divided}),
        3 => json!({"replicaScheduling": divided}),
        4 => json!({"clusterAffinity": {"exclude": ["m2"]}}),
        5 => {
            json!({"clusterAffinities": [{"affinityName": "first", "labelSelector": {"matchLabels": {"group": "a"}}},
            {"affinityName": "second", "clusterNames": ["m0"]}]})
        }
        6 => json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 2, "minGroups": 1}]}),
        _ => {
            json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["r"]}]}}})
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whom a change of a cluster does not wake has nothing to decide: had it been scheduled, nothing would have been written.
    #[test]
    fn a_cluster_that_concerns_no_binding_changes_nothing(before in prop::collection::vec(0_u8..9, 4), which in 0_usize..4,
                                                          after in 0_u8..9, placed in 0_u8..8, replicas in 0_i32..7) {
        let fleet = |states: &[u8]| -> Vec<Cluster> {
            states.iter().enumerate().filter_map(|(n, number)| state(&format!("m{n}"), *number)).collect()
        };
        let mut states = before;
        let mut settled = binding(placement(placed));
        settled.spec.replicas = replicas;
        let clusters = fleet(&states);
        for _ in 0..4 {
            settled = written(&settled, &schedule(&settled, &clusters));
        }
        let unplaced = matches!(schedule(&settled, &clusters).outcome, Outcome::Failed(_));
        let name = format!("m{which}");
        let was = state(&name, states[which]);
        states[which] = after;
        let is = state(&name, after);
        let differs = match (&was, &is) {
            (Some(was), Some(is)) => cluster_changes::matters_to_placement(was, is),
            (None, None) => false,
            _ => true,
        };
        let named = settled.spec.clusters.iter().any(|target| target.name == name);
        let mut both = was.iter().chain(&is);
        let sought = cluster_changes::seeks_clusters(&settled.spec)
            && both.any(|cluster| cluster_changes::may_use(settled.spec.placement.as_ref().unwrap(), cluster));
        if !(differs && (named || sought || unplaced)) {
            let decision = schedule(&settled, &fleet(&states));
            prop_assert_eq!(scheduler::apply(&settled, &decision).map(|changed| changed.spec), None);
            // Room alone wakes nobody: who found none is tried again from time to time.
            if !unplaced {
                prop_assert_eq!(scheduler::status(&settled, &settled.spec.clusters, &decision, now()), None);
            }
        }
    }
}
