//! A workload that leaves a cluster gracefully is kept there for as long as its policy promises.

use jiff::SignedDuration;
use karmada_api::binding::ResourceBinding;
use karmada_api::strings::eviction::{FAILBACK_CONTROLLER, TAINT_MANAGER};
use karmada_core::eviction::{Facts, assess};
use karmada_core::targets::{leaving, target_clusters};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::now;

/// The time that holds for tasks that say none.
const TIMEOUT: i64 = 600;

/// A task: its age, its grace period, whether a person holds it (or lets it go), whether its cluster has left the fleet.
#[derive(Clone, Copy, Debug)]
struct Told {
    age: Option<i64>,
    grace: Option<i64>,
    held: Option<bool>,
    gone: bool,
    failback: bool,
}

fn told() -> impl Strategy<Value = Told> {
    let grace = prop::option::of(0_i64..900);
    (
        prop::option::of(-60_i64..1200),
        grace,
        prop::option::weighted(0.3, any::<bool>()),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(age, grace, held, gone, failback)| Told { age, grace, held, gone, failback })
}

fn task(index: usize, told: &Told) -> Value {
    let begun = told.age.map(|age| (now() - SignedDuration::from_secs(age)).to_string());
    let producer = if told.failback { FAILBACK_CONTROLLER } else { TAINT_MANAGER };
    let mut task =
        json!({"fromCluster": format!("old{index}"), "reason": "r", "producer": producer, "replicas": 2});
    for (field, value) in [
        ("creationTimestamp", json!(begun)),
        ("gracePeriodSeconds", json!(told.grace)),
        ("suppressDeletion", json!(told.held)),
    ] {
        if !value.is_null() {
            task[field] = value;
        }
    }
    task
}

/// Whether a task may be over: its cluster is gone, a person says so, or, where no person holds it, its time is over or all that replaces it is healthy.
fn may_end(told: &Told, replaced: bool, has_targets: bool) -> bool {
    let begun = told.age.filter(|age| *age >= 0);
    let is_late = begun.is_some_and(|age| age > told.grace.unwrap_or(TIMEOUT));
    match (told.gone, told.held) {
        (true, _) => true,
        (_, Some(held)) => !held && begun.is_some(),
        _ if told.failback => replaced && has_targets && begun.is_some(),
        _ => begun.is_some() && (replaced || is_late),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn statement_67_what_leaves_gracefully_is_kept_for_as_long_as_its_policy_says(
        tasks in prop::collection::vec(told(), 1..5), health in prop::collection::vec(0_u8..4, 0..4), seen in any::<bool>(), current in any::<bool>(),
    ) {
        let word = |number: u8| ["Healthy", "Healthy", "Unhealthy", "Unknown"][usize::from(number)];
        let targets: Vec<Value> = (0..health.len()).map(|at| json!({"name": format!("new{at}"), "replicas": 1})).collect();
        let status: Vec<Value> = health.iter().enumerate().map(|(at, number)| json!({"clusterName": format!("new{at}"), "health": word(*number)})).collect();
        let list: Vec<Value> = tasks.iter().enumerate().map(|(at, told)| task(at, told)).collect();
        let mut binding: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "n", "generation": 2},
            "spec": {"resource": {}, "clusters": targets, "gracefulEvictionTasks": list},
            "status": {"schedulerObservedGeneration": if seen { 2 } else { 1 }, "aggregatedStatus": status}})).unwrap();
        let is_gone = |cluster: &str| tasks[cluster[3..].parse::<usize>().unwrap()].gone;
        let came = assess(&binding, Facts { is_current: current, is_gone: &is_gone }, SignedDuration::from_secs(TIMEOUT), now());
        let replaced = seen && current && health.iter().all(|number| *number < 2);
        for (at, told) in tasks.iter().enumerate() {
            let name = format!("old{at}");
            let ended = came.ended.contains(&name);
            prop_assert_eq!(ended, !came.tasks.iter().any(|task| task.from_cluster == name), "it ends or stays");
            prop_assert!(!ended || may_end(told, replaced, !health.is_empty()), "{} ended: {:?}", name, told);
            // But for a failback, which settles first, what may end does.
            prop_assert!(ended || told.failback || !may_end(told, replaced, !health.is_empty()), "{} stays: {:?}", name, told);
        }
        // What stays keeps its Work, and nothing else that was placed goes with it.
        binding.spec.graceful_eviction_tasks = came.tasks;
        let kept = leaving(&binding);
        for task in &binding.spec.graceful_eviction_tasks {
            prop_assert!(kept.contains(&*task.from_cluster), "{} is kept", task.from_cluster);
        }
        prop_assert_eq!(target_clusters(&binding).len(), health.len());
    }
}
