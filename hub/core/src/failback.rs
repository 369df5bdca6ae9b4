//! Workloads that had to go to a later group of clusters return to an earlier one, once that has been well for long enough.
//!
//! In: a binding with ordered groups of clusters; its policy's annotation `edge.karmada.io/failback-after`, a duration such as `10m` (without it
//! nothing returns, as in Karmada); what the scheduler would decide if it began with the first group; the moment. Out: how long to wait, or
//! the binding as it returns: placed in the earlier group, with tasks by which it leaves the later one.
//!
//! What runs in the later group is well, so its tasks do not end by time, as those of a cluster that fails do: they end once the workload is
//! healthy where it returned to. Where that does not come in time, or the workload is evicted from there, the return is taken back
//! ([`given_up`]): the later group has it again, and the next try is an hour off.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{BindingStatus, GracefulEvictionTask, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::policy::{PropagationPolicy, PurgeMode};
use karmada_api::strings::{annotations, conditions, eviction};
use serde::{Deserialize, Serialize};

use crate::binding::suspended;
use crate::eviction::no_execute::{Borne, borne};
use crate::eviction::{evict, is_failback, is_replaced};
use crate::scheduler::{Decision, Outcome};

/// After a return that was taken back, the next is tried no sooner than this.
const NEXT_TRY: SignedDuration = SignedDuration::from_hours(1);

/// Times are stored in seconds.
const NEXT_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// How long an earlier group must have been well before workloads of a policy return to it; none where they stay where they are.
pub fn window(policy: &PropagationPolicy) -> Option<SignedDuration> {
    let notes = policy.metadata.annotations.as_ref()?;
    let window: SignedDuration = notes.get(annotations::FAILBACK_AFTER)?.parse().ok()?;
    (!window.is_negative()).then_some(window)
}

/// Where a binding stands between its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In its first group, or nowhere; or it is not to move: it is being deleted, leaves a cluster, or a person holds its scheduling.
    AtRest,
    /// In a later group, and its newest generation is not scheduled yet.
    Unsettled,
    /// In a later group, scheduled as it is.
    Away,
    /// On its way back: it is placed in an earlier group, and runs in the later one too.
    Returning,
}

/// Where a binding stands between its groups.
pub fn standing(binding: &ResourceBinding) -> Standing {
    let spec = &binding.spec;
    let is_held = spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true));
    if binding.metadata.deletion_timestamp.is_some() {
        return Standing::AtRest;
    }
    if spec.graceful_eviction_tasks.iter().any(is_failback) {
        return Standing::Returning;
    }
    let is_away = group(binding, observed(binding)) > Some(0) && !spec.clusters.is_empty();
    if !is_away || is_held || !spec.graceful_eviction_tasks.is_empty() {
        return Standing::AtRest;
    }
    let is_settled = binding.metadata.generation == Some(binding.status.scheduler_observed_generation);
    if is_settled { Standing::Away } else { Standing::Unsettled }
}

/// From where a binding returned last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ReturnOrigin {
    group: String,
    clusters: Vec<TargetCluster>,
}

impl ReturnOrigin {
    /// As it stands on the binding; none where it does not, or nobody can read it.
    fn of(binding: &ResourceBinding) -> Option<ReturnOrigin> {
        serde_json::from_str(binding.annotation(annotations::FAILBACK_FROM)?).ok()
    }
}

fn observed(binding: &ResourceBinding) -> &str {
    &binding.status.scheduler_observing_affinity_name
}

/// Which of the binding's groups has this name.
fn group(binding: &ResourceBinding, name: &str) -> Option<usize> {
    let groups = binding.spec.placement.as_ref()?.cluster_affinities.iter();
    groups.enumerate().find(|(_, group)| group.affinity_name == name).map(|(index, _)| index)
}

/// The binding as it asks to be placed anew: the scheduler then begins with the first group. It asks at `now`, or later where it was scheduled
/// later than that, by a clock that was set back since.
pub fn asking(binding: &ResourceBinding, now: Timestamp) -> ResourceBinding {
    let after =
        binding.status.last_scheduled_time.as_ref().and_then(|last| last.0.checked_add(NEXT_SECOND).ok());
    let mut asking = binding.clone();
    asking.spec.reschedule_triggered_at = Some(Time(after.map_or(now, |after| after.max(now))));
    asking
}

/// Where it would return to: the decision on [`asking`], if that is of an earlier group.
pub fn earlier<'a>(binding: &ResourceBinding, decision: &'a Decision) -> Option<&'a [TargetCluster]> {
    let Outcome::Scheduled(targets) = &decision.outcome else { return None };
    let is_earlier = group(binding, &decision.affinity_name)? < group(binding, observed(binding))?;
    (is_earlier && !targets.is_empty()).then_some(targets)
}

/// Since when all of these clusters are ready; none while one is not, is sent nothing of the binding, or has a taint for which the binding
/// would leave it again, now or later.
pub fn well_since<'a>(
    binding: &ResourceBinding,
    targets: &[TargetCluster],
    cluster: impl Fn(&str) -> Option<&'a Cluster>,
) -> Option<Timestamp> {
    let tolerations = binding.spec.placement.as_ref().map(|placement| &placement.cluster_tolerations[..]);
    let since = |target: &TargetCluster| {
        let cluster = cluster(&target.name).filter(|_| !suspended(binding, &target.name))?;
        let ready = cluster.condition(conditions::READY)?;
        let since = ready.last_transition_time.0;
        let stays = borne(&cluster.spec.taints, tolerations.unwrap_or_default(), since) == Borne::Forever;
        (ready.status == conditions::TRUE && stays).then_some(since)
    };
    targets.iter().map(since).try_fold(Timestamp::MIN, |latest, since| Some(latest.max(since?)))
}

/// The binding as it returns. What it leaves goes once it is healthy where it returns to, or at once, where nothing leaves `gracefully` here.
pub fn returned(
    binding: &ResourceBinding,
    targets: &[TargetCluster],
    gracefully: bool,
    now: Timestamp,
) -> ResourceBinding {
    let mut wanted = asking(binding, now);
    let stays: BTreeSet<&str> = targets.iter().map(|new| &*new.name).collect();
    let leaves = |old: &&TargetCluster| !stays.contains(&*old.name);
    let left: Vec<String> = binding.spec.clusters.iter().filter(leaves).map(|old| old.name.clone()).collect();
    for cluster in left.into_iter().filter(|_| gracefully) {
        let task = GracefulEvictionTask {
            from_cluster: cluster,
            purge_mode: Some(PurgeMode::Gracefully),
            reason: eviction::FAILBACK.to_owned(),
            message: "it returns to the clusters that its policy prefers".to_owned(),
            producer: eviction::FAILBACK_CONTROLLER.to_owned(),
            ..GracefulEvictionTask::default()
        };
        evict(&mut wanted.spec, task);
    }
    let from = ReturnOrigin { group: observed(binding).to_owned(), clusters: binding.spec.clusters.clone() };
    let notes = wanted.metadata.annotations.get_or_insert_default();
    notes.remove(annotations::FAILBACK_GIVEN_UP);
    if let Ok(text) = serde_json::to_string(&from) {
        notes.insert(annotations::FAILBACK_FROM.to_owned(), text);
    }
    wanted.spec.clusters = targets.to_vec();
    wanted
}

/// The binding whose return is taken back; none where it goes on. It is taken back where the workload is evicted from where it returned to,
/// is placed nowhere, or is not healthy there after `patience`. What a person holds or ends is the person's.
pub fn given_up(
    binding: &ResourceBinding,
    patience: SignedDuration,
    now: Timestamp,
) -> Option<ResourceBinding> {
    let spec = &binding.spec;
    let (back, others): (Vec<_>, Vec<_>) =
        spec.graceful_eviction_tasks.iter().cloned().partition(is_failback);
    if back.is_empty() || back.iter().any(|task| task.suppress_deletion.is_some()) {
        return None;
    }
    let begun = |task: &GracefulEvictionTask| task.creation_timestamp.as_ref().map(|begun| begun.0);
    let is_late = back.iter().filter_map(begun).any(|begun| now.duration_since(begun) > patience);
    let fails = spec.clusters.is_empty() || !others.is_empty();
    if !fails && (!is_late || is_replaced(binding)) {
        return None;
    }
    let left = |name: &str| others.iter().any(|task| task.from_cluster == name);
    let of_task = |task: &GracefulEvictionTask| TargetCluster {
        name: task.from_cluster.clone(),
        replicas: task.replicas.unwrap_or_default(),
        ..TargetCluster::default()
    };
    let from =
        ReturnOrigin::of(binding).map_or_else(|| back.iter().map(of_task).collect(), |from| from.clusters);
    let mut wanted = binding.clone();
    wanted.spec.clusters = from.into_iter().filter(|target| !left(&target.name)).collect();
    wanted.spec.graceful_eviction_tasks = others;
    let notes = wanted.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::FAILBACK_GIVEN_UP.to_owned(), crate::seconds(now).to_string());
    Some(wanted)
}

fn given_up_at(binding: &ResourceBinding) -> Option<Timestamp> {
    binding.annotation(annotations::FAILBACK_GIVEN_UP)?.parse().ok()
}

/// The status of a binding whose return was taken back: in the later group again, so that the scheduler goes on with that one. None where it
/// says so, or was scheduled since.
pub fn status_after_giving_up(binding: &ResourceBinding) -> Option<BindingStatus> {
    let (at, from) = (given_up_at(binding)?, ReturnOrigin::of(binding)?);
    let last = binding.status.last_scheduled_time.as_ref().map(|last| last.0);
    let is_returning = binding.spec.graceful_eviction_tasks.iter().any(is_failback);
    if is_returning || last > Some(at) || observed(binding) == from.group {
        return None;
    }
    let mut status = binding.status.clone();
    status.scheduler_observing_affinity_name = from.group;
    Some(status)
}

/// How long a binding still rests after a return that was taken back. A time that is still to come counts for nothing: the clock was ahead.
pub fn rests_after_giving_up(
    binding: &ResourceBinding,
    window: SignedDuration,
    now: Timestamp,
) -> SignedDuration {
    let since = given_up_at(binding).filter(|at| *at <= now).map(|at| now.duration_since(at));
    since.map_or(SignedDuration::ZERO, |since| (window.max(NEXT_TRY) - since).max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(edit: impl FnOnce(&mut Value)) -> ResourceBinding {
        let mut object = json!({"metadata": {"name": "b", "namespace": "d", "generation": 3}, "spec": {"resource": {},
            "clusters": [{"name": "far", "replicas": 2}, {"name": "both", "replicas": 1}],
            "placement": {"clusterAffinities": [{"affinityName": "one"}, {"affinityName": "two"}, {"affinityName": "three"}]}},
            "status": {"schedulerObservedGeneration": 3, "schedulerObservingAffinityName": "two"}});
        edit(&mut object);
        serde_json::from_value(object).unwrap()
    }

    fn decision(group: &str, outcome: Outcome) -> Decision {
        Decision {
            outcome,
            affinity_name: group.to_owned(),
            tried: Vec::new(),
            going: Vec::new(),
            report: Default::default(),
        }
    }

    fn targets(names: &[&str]) -> Vec<TargetCluster> {
        names
            .iter()
            .map(|name| TargetCluster { name: (*name).to_owned(), ..TargetCluster::default() })
            .collect()
    }

    #[test]
    fn only_what_is_settled_in_a_later_group_is_away() {
        let is_away = |binding: &ResourceBinding| standing(binding) == Standing::Away;
        assert!(is_away(&binding(|_| {})));
        let newer = binding(|object| object["metadata"]["generation"] = json!(4));
        assert_eq!(standing(&newer), Standing::Unsettled);
        for (path, value) in [
            ("/status/schedulerObservingAffinityName", json!("one")),
            ("/status/schedulerObservingAffinityName", json!("of an earlier policy")),
            ("/status/schedulerObservedGeneration", json!(2)),
            ("/spec/clusters", json!([])),
            ("/spec/placement", json!({})),
        ] {
            assert!(!is_away(&binding(|object| *object.pointer_mut(path).unwrap() = value)), "{path}");
        }
        let leaving = json!([{"fromCluster": "x", "reason": "r", "producer": "p"}]);
        assert!(!is_away(&binding(|object| object["spec"]["gracefulEvictionTasks"] = leaving)));
        assert!(!is_away(&binding(|object| object["spec"]["suspension"] = json!({"scheduling": true}))));
    }

    #[test]
    fn it_returns_to_an_earlier_group_alone() {
        let binding = binding(|_| {});
        let near = targets(&["near"]);
        for (group, returns) in [("one", true), ("two", false), ("three", false), ("", false)] {
            let decision = decision(group, Outcome::Scheduled(near.clone()));
            assert_eq!(earlier(&binding, &decision).is_some(), returns, "{group}");
        }
        assert_eq!(earlier(&binding, &decision("one", Outcome::Scheduled(Vec::new()))), None);
        assert_eq!(earlier(&binding, &decision("one", Outcome::UpToDate)), None);
    }

    #[test]
    fn what_it_leaves_stays_until_it_is_healthy_where_it_returns_to() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let back = returned(&binding(|_| {}), &targets(&["near", "both"]), true, now);
        assert_eq!(back.spec.clusters, targets(&["near", "both"]));
        let left: Vec<&str> =
            back.spec.graceful_eviction_tasks.iter().map(|task| &*task.from_cluster).collect();
        assert_eq!(left, ["far"]);
        assert_eq!(back.spec.reschedule_triggered_at, Some(Time(now)));
        let ahead = binding(|object| object["status"]["lastScheduledTime"] = json!("2026-05-01T13:00:00Z"));
        let asks = asking(&ahead, now).spec.reschedule_triggered_at.unwrap();
        assert_eq!(asks.0.to_string(), "2026-05-01T13:00:01Z", "a clock that was set back");
        let at_once = returned(&binding(|_| {}), &targets(&["near"]), false, now);
        assert_eq!(at_once.spec.graceful_eviction_tasks, []);
    }

    fn returning(edit: impl FnOnce(&mut ResourceBinding)) -> ResourceBinding {
        let begun = "2026-05-01T12:00:00Z".parse().unwrap();
        let mut back = returned(&binding(|_| {}), &targets(&["near"]), true, begun);
        for task in &mut back.spec.graceful_eviction_tasks {
            task.creation_timestamp = Some(Time(begun));
        }
        edit(&mut back);
        back
    }

    /// Nothing of what was well is lost for a return that does not come to anything.
    #[test]
    fn a_return_that_fails_is_taken_back_to_where_it_was_well() {
        let patience = SignedDuration::from_mins(10);
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (early, late) = (at("2026-05-01T12:09:00Z"), at("2026-05-01T12:11:00Z"));
        assert_eq!(standing(&returning(|_| {})), Standing::Returning);
        assert_eq!(given_up(&returning(|_| {}), patience, early), None, "it has time");
        let before = binding(|_| {}).spec.clusters;
        let back = given_up(&returning(|_| {}), patience, late).unwrap();
        assert_eq!((&back.spec.clusters, back.spec.graceful_eviction_tasks.len()), (&before, 0));
        let healthy = returning(|binding| {
            binding.status.aggregated_status =
                serde_json::from_value(json!([{"clusterName": "near", "health": "Healthy"}])).unwrap();
        });
        assert_eq!(given_up(&healthy, patience, late), None, "its tasks are about to end");
        let evicted = returning(|binding| {
            let task =
                GracefulEvictionTask { producer: "other".to_owned(), ..GracefulEvictionTask::default() };
            evict(&mut binding.spec, GracefulEvictionTask { from_cluster: "near".to_owned(), ..task });
        });
        let back = given_up(&evicted, patience, early).unwrap();
        assert_eq!(back.spec.clusters, before, "at once");
        assert_eq!(back.spec.graceful_eviction_tasks[0].from_cluster, "near");
        let nowhere = returning(|binding| binding.spec.clusters.clear());
        assert_eq!(given_up(&nowhere, patience, early).unwrap().spec.clusters, before);
        let held =
            returning(|binding| binding.spec.graceful_eviction_tasks[0].suppress_deletion = Some(true));
        assert_eq!(given_up(&held, patience, late), None, "a person holds it");
    }

    #[test]
    fn after_a_failed_return_it_is_in_the_later_group_and_rests() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let given = given_up(&returning(|_| {}), SignedDuration::ZERO, at("2026-05-01T12:11:00Z"));
        let mut given = given.unwrap();
        given.status.scheduler_observing_affinity_name = "one".to_owned();
        let status = status_after_giving_up(&given).unwrap();
        assert_eq!(status.scheduler_observing_affinity_name, "two");
        let mut scheduled = given.clone();
        scheduled.status.last_scheduled_time = Some(Time(at("2026-05-01T12:12:00Z")));
        assert_eq!(status_after_giving_up(&scheduled), None, "the scheduler decided since");
        given.status = status;
        assert_eq!((status_after_giving_up(&given), standing(&given)), (None, Standing::Away));
        let rests = |window: i64, now: &str| {
            rests_after_giving_up(&given, SignedDuration::from_mins(window), at(now))
        };
        assert_eq!(rests(10, "2026-05-01T12:21:00Z"), SignedDuration::from_mins(50));
        assert_eq!(rests(120, "2026-05-01T13:11:00Z"), SignedDuration::from_mins(60));
        assert_eq!(rests(10, "2026-05-01T13:12:00Z"), SignedDuration::ZERO);
        assert_eq!(rests(10, "2026-05-01T10:00:00Z"), SignedDuration::ZERO, "the clock was ahead");
        let again = returned(&given, &targets(&["near"]), true, at("2026-05-01T14:00:00Z"));
        assert_eq!(again.annotation(annotations::FAILBACK_GIVEN_UP), None);
    }

    #[test]
    fn a_group_is_well_since_the_last_of_its_clusters_became_ready() {
        let cluster = |status: &str, since: &str| -> Cluster {
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": [
                {"type": "Ready", "status": status, "reason": "r", "message": "", "lastTransitionTime": since}]}}))
            .unwrap()
        };
        let (early, late) = ("2026-05-01T12:00:00Z", "2026-05-01T13:00:00Z");
        let (a, b, down) = (cluster("True", early), cluster("True", late), cluster("False", early));
        let find = |name: &str| match name {
            "a" => Some(&a),
            "b" => Some(&b),
            "down" => Some(&down),
            _ => None,
        };
        let since = |names: &[&str], binding: &ResourceBinding| well_since(binding, &targets(names), find);
        let plain = binding(|_| {});
        assert_eq!(since(&["a", "b"], &plain), Some(late.parse().unwrap()));
        assert_eq!(since(&["a", "down"], &plain), None);
        assert_eq!(since(&["a", "gone"], &plain), None);
        let held = json!({"dispatchingOnClusters": {"clusterNames": ["b"]}});
        let held = binding(|object| object["spec"]["suspension"] = held);
        assert_eq!(since(&["a", "b"], &held), None, "b is sent nothing");
        let mut tainted = a.clone();
        tainted.spec.taints = serde_json::from_value(json!([{"key": "k", "effect": "NoExecute"}])).unwrap();
        let tolerates = |seconds: Value| {
            let toleration = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
            binding(|object| object["spec"]["placement"]["clusterTolerations"] = toleration)
        };
        let of_tainted =
            |binding: &ResourceBinding| well_since(binding, &targets(&["a"]), |_| Some(&tainted));
        assert_eq!(of_tainted(&plain), None, "it would leave at once");
        assert_eq!(of_tainted(&tolerates(json!(60))), Some(early.parse().unwrap()), "a taint without a time");
        tainted.spec.taints[0].time_added = Some(Time(late.parse().unwrap()));
        let of_tainted =
            |binding: &ResourceBinding| well_since(binding, &targets(&["a"]), |_| Some(&tainted));
        assert_eq!(of_tainted(&tolerates(json!(60))), None, "it would leave after a minute");
        assert_eq!(of_tainted(&tolerates(Value::Null)), Some(early.parse().unwrap()));
    }
}
