//! What is looked at before a binding is scheduled, what a schedule writes, and which changes of a cluster matter.

use karmada_api::binding::{BindingSpec, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::policy::Placement;
use karmada_api::strings::{DEFAULT_SCHEDULER, annotations};
use karmada_core::scheduler::trigger::{SchedulingCause, Trigger, rebalance_asked, trigger};
use karmada_core::scheduler::{self, Decision, Outcome, cluster_changes};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, alike, compare};

const UNREADABLE: &str = "recorded bug: a mark that cannot be read counted as an unchanged placement";
const GONE: &str = "a cluster that is not there any more is left, as one on its way out";
const PARTS: &str = "recorded bug: that parts were scaled was not noticed";
const NOTHING_PLACED: &str = "nothing is placed that could stay: the first group is tried first";
const NUMBERS: &str = "of a workload of several parts no number of replicas is compared";
const NOWHERE: &str =
    "what has parts and is nowhere is placed whatever the gate, which decides whether a binding has any";

const NOW: &str = "2026-02-01T00:00:00Z";

/// A binding as the recordings have it, of a policy, and as its status says placed where it has a place.
fn of_a_policy(binding: &Value) -> ResourceBinding {
    let mut binding = binding.clone();
    binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("p");
    binding["status"]["conditions"] = json!([{"type": "Scheduled", "status": "True", "reason": "Success",
        "message": "Binding has been scheduled successfully.", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    serde_json::from_value(binding).unwrap()
}

fn clusters(case: &Value) -> Vec<Cluster> {
    let cluster = |told: &Value| -> Cluster {
        let gone = if told["deleting"] == true { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        serde_json::from_value(json!({"metadata": {"name": told["name"], "deletionTimestamp": gone},
            "spec": {"syncMode": "Pull"}}))
        .unwrap()
    };
    let mut clusters: Vec<Cluster> = case["clusters"].as_array().unwrap().iter().map(cluster).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    clusters
}

/// The trigger of whichever scheduler the binding names.
fn triggered(binding: &ResourceBinding, clusters: &[Cluster]) -> Trigger {
    let named = binding.spec.scheduler_name.as_str();
    let clusters: Vec<&Cluster> = clusters.iter().collect();
    trigger(binding, &clusters, if named.is_empty() { DEFAULT_SCHEDULER } else { named })
}

fn cause(binding: &ResourceBinding, clusters: &[Cluster]) -> Option<SchedulingCause> {
    match triggered(binding, clusters) {
        Trigger::Schedule { cause, .. } => Some(cause),
        Trigger::NotOurs | Trigger::UpToDate => None,
    }
}

/// The same as if its placement were the one that was applied.
fn as_applied(mut binding: ResourceBinding) -> ResourceBinding {
    let text = serde_json::to_string(&binding.spec.placement).unwrap();
    let notes = binding.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::APPLIED_PLACEMENT.to_owned(), text);
    binding
}

/// The same of which nothing but a cluster can be the matter: divided, placed as wanted.
fn settled(binding: ResourceBinding) -> ResourceBinding {
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}});
    let placement: Placement = serde_json::from_value(placement).unwrap();
    let spec = BindingSpec {
        replicas: binding.spec.clusters.iter().map(|target| target.replicas).sum(),
        replica_requirements: Some(Default::default()),
        components: Vec::new(),
        placement: Some(placement),
        reschedule_triggered_at: None,
        ..binding.spec
    };
    as_applied(ResourceBinding { spec, ..binding })
}

/// What each look says by itself, as the trigger tells it where no look before it has anything to say.
fn checks(mut binding: ResourceBinding, clusters: &[Cluster]) -> Value {
    // Neither held back nor going away: else nothing is looked at.
    binding.spec.suspension = None;
    binding.metadata.deletion_timestamp = None;
    json!({
        "placementChanged": cause(&binding, clusters) == Some(SchedulingCause::Placement),
        "replicasChanged": cause(&as_applied(binding.clone()), clusters) == Some(SchedulingCause::Replicas),
        "rescheduleRequired": rebalance_asked(&binding),
        "schedulingType": binding.spec.replica_scheduling_type(),
        "workload": binding.spec.is_workload(),
        "targetTerminating": cause(&settled(binding), clusters) == Some(SchedulingCause::Terminating),
    })
}

const CHECKS: Differences = &[
    (10, UNREADABLE),
    (11, UNREADABLE),
    (92, PARTS),
    (93, PARTS),
    (100, PARTS),
    (101, PARTS),
    (110, UNREADABLE),
    (112, UNREADABLE),
    (113, UNREADABLE),
    (116, GONE),
    (119, UNREADABLE),
    (120, UNREADABLE),
    (134, UNREADABLE),
    (139, GONE),
    (152, GONE),
    (153, UNREADABLE),
    (157, UNREADABLE),
    (161, UNREADABLE),
    (162, UNREADABLE),
    (167, GONE),
    (175, UNREADABLE),
    (184, UNREADABLE),
    (186, UNREADABLE),
    (187, GONE),
    (189, GONE),
    (195, GONE),
    (209, GONE),
    (214, GONE),
    (218, GONE),
    (236, NUMBERS),
    (243, UNREADABLE),
    (255, UNREADABLE),
    (260, UNREADABLE),
    (270, GONE),
    (277, NUMBERS),
    (280, UNREADABLE),
    (291, GONE),
    (302, UNREADABLE),
    (308, NUMBERS),
    (309, UNREADABLE),
    (334, UNREADABLE),
    (340, GONE),
    (86, NOWHERE),
    (87, NOWHERE),
    (90, NOWHERE),
    (91, NOWHERE),
    (136, NOWHERE),
];

#[test]
fn recorded_looks_before_a_schedule() {
    recorded::run("trigger.json", "recorded_looks_before_a_schedule", CHECKS, |case| {
        if case["kind"] != "decision" || case["checks"].is_null() {
            return Verdict::Skip(BESIDE);
        }
        compare(&case["checks"], &checks(of_a_policy(&case["binding"]), &clusters(case)))
    });
}

/// Which fields a pass changes, and into what, from all its patches.
fn written(case: &Value) -> Value {
    let (mut metadata, mut status) = (json!({}), json!({}));
    for patch in case["patches"].as_array().unwrap() {
        let applied = &patch["patch"]["metadata"]["annotations"][annotations::APPLIED_PLACEMENT];
        if let Some(text) = applied.as_str() {
            metadata["appliedPlacement"] = serde_json::from_str(text).unwrap();
        }
        for (field, value) in patch["patch"]["status"].as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
    }
    json!([metadata, status])
}

/// The same of ours, where the clusters that it has are chosen again.
fn writes(binding: &ResourceBinding, clusters: &[Cluster]) -> Value {
    let outcome = match triggered(binding, clusters) {
        Trigger::NotOurs => Outcome::NotOurs,
        Trigger::UpToDate => Outcome::UpToDate,
        Trigger::Schedule { .. } => Outcome::Scheduled(binding.spec.clusters.clone()),
    };
    let groups = binding.spec.placement.iter().flat_map(|placement| &placement.cluster_affinities);
    let groups: Vec<_> = groups.collect();
    let observed = &binding.status.scheduler_observing_affinity_name;
    let holds = groups
        .iter()
        .copied()
        .find(|group| group.affinity_name == *observed)
        .filter(|_| !rebalance_asked(binding) && !binding.spec.clusters.is_empty());
    let group = holds.or(groups.first().copied());
    let decision = Decision {
        outcome,
        affinity_name: group.map(|group| group.affinity_name.clone()).unwrap_or_default(),
        tried: Vec::new(),
        going: Vec::new(),
        report: Default::default(),
    };
    let after = scheduler::apply(binding, &decision);
    let noted =
        |binding: &ResourceBinding| binding.annotation(annotations::APPLIED_PLACEMENT).map(str::to_owned);
    let mut metadata = json!({});
    if let Some(after) = &after
        && noted(after) != noted(binding)
    {
        metadata["appliedPlacement"] = serde_json::from_str(&noted(after).unwrap()).unwrap();
    }
    let now = NOW.parse().unwrap();
    let status = scheduler::status(after.as_ref().unwrap_or(binding), &binding.spec.clusters, &decision, now);
    let (before, mut after) = (json!(binding.status), json!(status.as_ref().unwrap_or(&binding.status)));
    let fields = after.as_object_mut().unwrap();
    fields.retain(|field, value| before[field] != *value);
    for value in fields.values_mut().filter(|value| **value == NOW) {
        *value = json!("NOW");
    }
    json!([metadata, after])
}

const WRITES: Differences = &[
    (10, UNREADABLE),
    (11, UNREADABLE),
    (112, UNREADABLE),
    (161, UNREADABLE),
    (162, UNREADABLE),
    (223, NOTHING_PLACED),
    (255, UNREADABLE),
    (302, UNREADABLE),
];

#[test]
fn recorded_writes_of_a_schedule() {
    recorded::run("trigger.json", "recorded_writes_of_a_schedule", WRITES, |case| {
        if case["kind"] != "decision" {
            return Verdict::Skip(BESIDE);
        }
        let (mut wanted, mut got) = (written(case), writes(&of_a_policy(&case["binding"]), &clusters(case)));
        for told in [&mut wanted, &mut got] {
            told[1].as_object_mut().unwrap().remove("lastScheduledTime");
        }
        compare(&wanted, &got)
    });
}

const STANDS: &str = "a schedule with the same result is no news: its hour stays, unless it was asked for";

const SAME_RESULT: [(usize, &str); 92] = alike(
    [
        14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 28, 29, 30, 31, 32, 33, 40, 41, 44, 45, 52, 53, 54,
        55, 56, 57, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 82, 83, 84, 85, 90, 91, 94, 95, 98, 99,
        103, 109, 120, 127, 157, 158, 168, 173, 175, 184, 191, 193, 194, 198, 203, 205, 208, 211, 216, 222,
        223, 228, 239, 242, 243, 245, 248, 259, 266, 270, 271, 281, 292, 294, 295, 297, 310, 311, 315, 317,
        328, 338,
    ],
    STANDS,
);

const OTHERS: [(usize, &str); 5] =
    [(112, UNREADABLE), (161, UNREADABLE), (187, GONE), (302, UNREADABLE), (209, GONE)];

/// Beside what is written, whether it counts as a schedule of this hour.
#[test]
fn recorded_hours_after_a_schedule() {
    let differences = [&SAME_RESULT[..], &OTHERS[..]].concat().leak();
    recorded::run("trigger.json", "recorded_hours_after_a_schedule", differences, |case| {
        if case["kind"] != "decision" {
            return Verdict::Skip(BESIDE);
        }
        let (wanted, got) = (written(case), writes(&of_a_policy(&case["binding"]), &clusters(case)));
        compare(&wanted[1]["lastScheduledTime"], &got[1]["lastScheduledTime"])
    });
}

const COUNTED: &str = "another generation alone is no change: its spec is compared";

const CLUSTER_UPDATES: Differences = &[(477, COUNTED), (482, COUNTED)];

/// Which of its two states is looked at is of no matter here: bindings are woken by both.
#[test]
fn recorded_changes_of_clusters_that_matter() {
    recorded::run("trigger.json", "recorded_changes_of_clusters_that_matter", CLUSTER_UPDATES, |case| {
        if case["kind"] != "clusterUpdate" {
            return Verdict::Skip(BESIDE);
        }
        let cluster = |told: &Value| -> Cluster {
            let mut told = told.clone();
            told["spec"]["syncMode"] = json!("Pull");
            serde_json::from_value(told).unwrap()
        };
        let matters = cluster_changes::matters_to_placement(&cluster(&case["old"]), &cluster(&case["new"]));
        compare(&json!(!case["reconciles"].as_array().unwrap().is_empty()), &json!(matters))
    });
}
