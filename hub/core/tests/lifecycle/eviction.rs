//! Tasks by which bindings leave clusters: made, kept, ended; and which Works stay meanwhile.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{BindingSpec, GracefulEvictionTask, ResourceBinding};

use karmada_api::names::execution_namespace;
use karmada_api::policy::PurgeMode;
use karmada_api::strings::eviction::FAILBACK_CONTROLLER;
use karmada_core::eviction::no_execute::{self, Rules, Stay};
use karmada_core::eviction::{Facts, assess, evict};
use karmada_core::targets::{Places, leaving, target_clusters};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::{seconds, time, without_nulls};

const TO_THE_SECOND: &str =
    "recorded bug: a task exactly as old as its time-out was not looked at again; here it is, a second later";

const RECONCILE: Differences = &[
    (10, TO_THE_SECOND),
    (14, TO_THE_SECOND),
    (31, TO_THE_SECOND),
    (60, TO_THE_SECOND),
    (74, TO_THE_SECOND),
    (102, TO_THE_SECOND),
    (107, TO_THE_SECOND),
];

/// What is reported is of what runs now, and no cluster has left.
const CURRENT: Facts<'static> = Facts { is_current: true, is_gone: &|_| false };

fn assessed(case: &Value) -> (Value, Value, i64) {
    let binding: ResourceBinding = serde_json::from_value(without_nulls(case["binding"].clone())).unwrap();
    let timeout = SignedDuration::from_secs(case["timeoutSeconds"].as_i64().unwrap());
    let came = assess(&binding, CURRENT, timeout, time(&case["now"]));
    (json!(came.tasks), json!(came.ended), seconds(came.look_again))
}

#[test]
fn recorded_assessments() {
    recorded::run("eviction.json", "recorded_assessments", RECONCILE, |case| {
        if case["kind"] != "reconcile" {
            return Verdict::Skip(BESIDE);
        }
        let (tasks, ended, again) = assessed(case);
        let wanted = json!([case["tasks"], case["dropped"], case["requeueAfterSeconds"]]);
        compare(&wanted, &json!([tasks, ended, again]))
    });
}

/// What is listed above differs in when to look again, and in nothing else.
#[test]
fn recorded_assessments_whenever_they_are_made() {
    recorded::run("eviction.json", "recorded_assessments_whenever_they_are_made", &[], |case| {
        if case["kind"] != "reconcile" {
            return Verdict::Skip(BESIDE);
        }
        let (tasks, ended, _) = assessed(case);
        compare(&json!([case["tasks"], case["dropped"]]), &json!([tasks, ended]))
    });
}

#[test]
fn recorded_evictions() {
    recorded::run("eviction.json", "recorded_evictions", &[], |case| {
        if case["kind"] != "evict" {
            return Verdict::Skip(BESIDE);
        }
        let mut spec: BindingSpec = serde_json::from_value(case["spec"].clone()).unwrap();
        for op in case["ops"].as_array().unwrap() {
            if let Some(name) = op.get("remove") {
                spec.clusters.retain(|target| *name != json!(target.name));
                continue;
            }
            let mut task = op.clone();
            task["fromCluster"] = op["evict"].clone();
            evict(&mut spec, serde_json::from_value(task).unwrap());
        }
        compare(&case["result"], &json!(spec))
    });
}

#[test]
fn recorded_works_that_are_kept() {
    recorded::run("eviction.json", "recorded_works_that_are_kept", &[], |case| {
        if case["kind"] != "worksKept" {
            return Verdict::Skip(BESIDE);
        }
        let binding: ResourceBinding =
            serde_json::from_value(json!({"metadata": {}, "spec": case["spec"]})).unwrap();
        let kept: Vec<&str> = target_clusters(&binding).union(&leaving(&binding)).copied().collect();
        let places = Places::of(&binding);
        let first = ["m1", "m2", "m3", "m4", "m5", "m6", "dep"]
            .into_iter()
            .filter(|cluster| places.is_purged(&execution_namespace(cluster)));
        compare(
            &json!([case["keptClusters"], case["purgeDirectly"]]),
            &json!([kept, first.collect::<Vec<_>>()]),
        )
    });
}

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// A binding in `m2`, which is healthy or not, that leaves `m1` by a task as old as that.
fn leaving_for(age: i64, health: &str, task: Value) -> ResourceBinding {
    let begun = now() - SignedDuration::from_secs(age);
    let mut task = task;
    for (field, value) in [
        ("fromCluster", json!("m1")),
        ("producer", json!("TaintManager")),
        ("reason", json!("TaintUntolerated")),
        ("creationTimestamp", json!(begun.to_string())),
    ] {
        task[field] = value;
    }
    let labels = json!({"propagationpolicy.karmada.io/permanent-id": "p-1"});
    serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "n", "generation": 3, "labels": labels},
        "spec": {"resource": {}, "clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": [task]},
        "status": {"schedulerObservedGeneration": 3, "aggregatedStatus": [{"clusterName": "m2", "health": health}]}}))
    .unwrap()
}

#[test]
fn statement_67_what_leaves_gracefully_stays_until_its_replacement_is_healthy_or_its_time_is_over() {
    let timeout = SignedDuration::from_mins(10);
    let table = [
        (59, "Unhealthy", json!({}), Some(541)),
        (59, "Healthy", json!({}), None),
        (600, "Unhealthy", json!({}), Some(1)),
        (601, "Unhealthy", json!({}), None),
        (59, "Unhealthy", json!({"gracePeriodSeconds": 30}), None),
        (601, "Unhealthy", json!({"gracePeriodSeconds": 3600}), Some(2999)),
    ];
    for (age, health, task, stays) in table {
        let binding = leaving_for(age, health, task.clone());
        let came = assess(&binding, CURRENT, timeout, now());
        assert_eq!(came.tasks.len(), usize::from(stays.is_some()), "{age} {health} {task}");
        assert_eq!(came.ended.len(), 1 - came.tasks.len());
        assert_eq!(came.look_again.map(|wait| wait.as_secs()), stays, "{age} {health} {task}");
        let places = Places::of(&binding);
        assert!(!places.is_unwanted("karmada-es-m1") && !places.goes_first("karmada-es-m1"));
    }
}

/// The same by a failback's task.
fn returning_for(age: i64, health: &str, suppressed: Option<bool>) -> ResourceBinding {
    let mut binding = leaving_for(age, health, json!({"suppressDeletion": suppressed}));
    binding.spec.graceful_eviction_tasks[0].producer = FAILBACK_CONTROLLER.to_owned();
    binding
}

/// What a failback leaves is well where it is: it goes for a healthy replacement alone, however long that takes, and not before health is known of what
/// runs now.
#[test]
fn what_a_failback_leaves_goes_for_a_settled_replacement_alone() {
    let timeout = SignedDuration::from_mins(10);
    let came = |binding: &ResourceBinding| {
        let came = assess(binding, CURRENT, timeout, now());
        (came.ended.len(), came.look_again.map(|wait| wait.as_secs()))
    };
    assert_eq!(came(&returning_for(9, "Healthy", None)), (0, Some(1)));
    assert_eq!(came(&returning_for(10, "Healthy", None)), (0, Some(1)), "in this very second");
    assert_eq!(came(&returning_for(11, "Healthy", None)), (1, None));
    assert_eq!(came(&returning_for(3, "Unhealthy", None)), (0, Some(7)));
    assert_eq!(came(&returning_for(90_000, "Unhealthy", None)), (0, None), "no time ends it");
    assert_eq!(came(&returning_for(90_000, "Healthy", Some(true))), (0, None));
    assert_eq!(came(&returning_for(1, "Unhealthy", Some(false))), (1, None));
    let mut nowhere = returning_for(90_000, "Healthy", None);
    nowhere.spec.clusters.clear();
    assert_eq!(came(&nowhere), (0, None), "nothing is there in its place");
    // Another's task ends then by its time.
    let mut nowhere = leaving_for(601, "Unhealthy", json!({}));
    nowhere.spec.clusters.clear();
    assert_eq!(came(&nowhere).0, 1);
}

/// A toleration that ends after the last moment that there is does not end.
#[test]
fn a_toleration_of_ages_has_no_end() {
    let taints: Vec<Taint> = serde_json::from_value(
        json!([{"key": "down", "effect": "NoExecute", "timeAdded": "2024-05-06T07:00:00Z"}]),
    )
    .unwrap();
    let borne = |seconds: i64| {
        let tolerations = serde_json::from_value::<Vec<_>>(
            json!([{"key": "down", "operator": "Exists", "tolerationSeconds": seconds}]),
        );
        no_execute::borne(&taints, &tolerations.unwrap(), now())
    };
    assert_eq!(borne(i64::MAX), no_execute::Borne::Forever);
    assert!(matches!(borne(100_000_000_000), no_execute::Borne::For(_)));
}

/// A taint of a cluster that a binding is not in, or is to leave anyway, makes no task.
#[test]
fn a_taint_moves_who_is_there_and_stays() {
    let taints = |effect: &str| {
        serde_json::from_value::<Vec<Taint>>(json!([{"key": "down", "effect": effect}])).unwrap()
    };
    let rules = || Rules { purge_mode: PurgeMode::Gracefully, preserves_state: false };
    let leaves = |binding: &ResourceBinding, cluster: &str, effect: &str| {
        matches!(no_execute::look(binding, cluster, &taints(effect), rules(), now()), Ok(Stay::Leaves(_)))
    };
    let mut binding = leaving_for(1, "Healthy", json!({}));
    let placement = [("policy.karmada.io/applied-placement".to_owned(), "{}".to_owned())];
    binding.metadata.annotations = Some(placement.into());
    assert!(leaves(&binding, "m2", "NoExecute"));
    assert!(!leaves(&binding, "m2", "NoSchedule"));
    assert!(!leaves(&binding, "m3", "NoExecute"));
    // What nobody places anew stays: of no policy any more, or held back by a person.
    let mut left = binding.clone();
    left.metadata.labels = None;
    assert!(!leaves(&left, "m2", "NoExecute"));
    let mut held = binding.clone();
    held.spec.suspension = serde_json::from_value(json!({"scheduling": true})).unwrap();
    assert!(!leaves(&held, "m2", "NoExecute"));
    let mut others = binding.clone();
    others.spec.scheduler_name = "mine".to_owned();
    assert!(leaves(&others, "m2", "NoExecute"));
    binding.metadata.deletion_timestamp = Some(Time(now()));
    assert!(!leaves(&binding, "m2", "NoExecute"));
}

#[test]
fn statement_68_never_waits_for_a_person_and_directly_for_nothing() {
    let timeout = SignedDuration::from_mins(10);
    let never = |suppressed: bool| {
        leaving_for(90_000, "Healthy", json!({"purgeMode": "Never", "suppressDeletion": suppressed}))
    };
    let held = assess(&never(true), CURRENT, timeout, now());
    assert_eq!((held.tasks.len(), held.look_again), (1, None));
    assert_eq!(assess(&never(false), CURRENT, timeout, now()).ended, ["m1"]);
    assert!(!Places::of(&never(true)).is_unwanted("karmada-es-m1"));
    let directly = leaving_for(1, "Unhealthy", json!({"purgeMode": "Directly"}));
    let places = Places::of(&directly);
    assert!(places.is_unwanted("karmada-es-m1") && places.goes_first("karmada-es-m1"));
    assert!(!places.is_unwanted("karmada-es-m2") && !places.goes_first("karmada-es-m2"));
}

/// The Work of a cluster that somebody else needs is never removed: who waited for that would wait for ever.
#[test]
fn a_work_that_another_binding_requires_is_waited_for_by_nobody() {
    let mut binding = leaving_for(1, "Unhealthy", json!({"purgeMode": "Directly"}));
    binding.spec.required_by =
        serde_json::from_value(json!([{"namespace": "n", "name": "app", "clusters": [{"name": "m1"}]}]))
            .unwrap();
    let places = Places::of(&binding);
    assert!(!places.is_unwanted("karmada-es-m1") && !places.goes_first("karmada-es-m1"));
}

#[test]
fn the_names_that_older_versions_have_for_how_things_leave_are_understood() {
    let mode = |text: &str| {
        let task: GracefulEvictionTask =
            serde_json::from_value(json!({"fromCluster": "m1", "purgeMode": text})).unwrap();
        json!(task)["purgeMode"].clone()
    };
    assert_eq!(
        (mode("Immediately"), mode("Graciously"), mode("Never")),
        (json!("Directly"), json!("Gracefully"), json!("Never"))
    );
}

/// The clock was two years ahead when it was made, and is right again.
#[test]
fn a_task_of_the_future_begins_now() {
    let task = |created: &str| -> ResourceBinding {
        let task = json!({"fromCluster": "m1", "reason": "r", "producer": "p", "creationTimestamp": created});
        serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "d", "generation": 2},
            "spec": {"resource": {}, "clusters": [{"name": "m2"}], "gracefulEvictionTasks": [task]}}))
        .unwrap()
    };
    let timeout = SignedDuration::from_mins(10);
    let came = assess(&task("2028-05-01T12:00:00Z"), CURRENT, timeout, now());
    assert_eq!(came.tasks, task(&now().to_string()).spec.graceful_eviction_tasks);
    assert_eq!(came.look_again, Some(timeout));
}

/// What the others say may be of what ran there before.
#[test]
fn nothing_is_replaced_by_what_is_not_reported_yet() {
    let binding: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "d", "generation": 2},
        "spec": {"resource": {}, "clusters": [{"name": "m2", "replicas": 4}],
            "gracefulEvictionTasks": [{"fromCluster": "m1", "reason": "r", "producer": "p", "creationTimestamp": now().to_string()}]},
        "status": {"schedulerObservedGeneration": 2, "aggregatedStatus": [{"clusterName": "m2", "health": "Healthy"}]}}))
    .unwrap();
    let timeout = SignedDuration::from_mins(10);
    let stale = Facts { is_current: false, ..CURRENT };
    let came = assess(&binding, stale, timeout, now());
    assert_eq!((came.ended.len(), came.look_again), (0, Some(SignedDuration::from_secs(1))));
    assert_eq!(assess(&binding, CURRENT, timeout, now()).ended, ["m1"]);
    assert_eq!(assess(&binding, stale, timeout, now() + timeout * 2).ended, ["m1"], "it took too long");
    let gone = Facts { is_gone: &|cluster| cluster == "m1", ..stale };
    assert_eq!(assess(&binding, gone, timeout, now()).ended, ["m1"]);
}
