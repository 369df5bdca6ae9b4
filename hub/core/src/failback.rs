//! Workloads that had to go to a later group of clusters return to an earlier one, once that has been well for long enough.
//!
//! In: a binding with ordered groups of clusters; its policy's annotation `edge.karmada.io/failback-after`, a duration such as `10m` (without it
//! nothing returns, as in Karmada); what the scheduler would decide if it began with the first group; the moment. Out: how long to wait, or
//! the binding as it returns: placed in the earlier group, and leaving the later one as it leaves a cluster that fails, which keeps it there
//! until it is healthy where it returns to.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{GracefulEvictionTask, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::policy::{PropagationPolicy, PurgeMode};
use karmada_api::strings::{annotations, conditions, eviction};

use crate::eviction::evict;
use crate::eviction::no_execute::{Borne, borne};
use crate::scheduler::{Decision, Outcome};

/// Times are stored in seconds.
const NEXT_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// How long an earlier group must have been well before workloads of a policy return to it; none where they stay where they are.
pub fn window(policy: &PropagationPolicy) -> Option<SignedDuration> {
    let notes = policy.metadata.annotations.as_ref()?;
    let window: SignedDuration = notes.get(annotations::FAILBACK_AFTER)?.parse().ok()?;
    (!window.is_negative()).then_some(window)
}

/// Whether a binding is in a later group than its first, and nothing else is going on with it: it leaves no cluster, it is scheduled as it is,
/// and nobody holds its scheduling.
pub fn is_away(binding: &ResourceBinding) -> bool {
    let spec = &binding.spec;
    let is_held = spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true));
    let is_settled = !spec.clusters.is_empty()
        && spec.graceful_eviction_tasks.is_empty()
        && binding.metadata.generation == Some(binding.status.scheduler_observed_generation);
    is_settled
        && !is_held
        && binding.metadata.deletion_timestamp.is_none()
        && group(binding, observed(binding)) > Some(0)
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

/// Since when all of these clusters are ready; none while one is not, or has a taint for which the binding would leave it again, now or later.
pub fn well_since<'a>(
    binding: &ResourceBinding,
    targets: &[TargetCluster],
    cluster: impl Fn(&str) -> Option<&'a Cluster>,
) -> Option<Timestamp> {
    let tolerations = binding.spec.placement.as_ref().map(|placement| &placement.cluster_tolerations[..]);
    let since = |target: &TargetCluster| {
        let cluster = cluster(&target.name)?;
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
    let leaves = |old: &&TargetCluster| !targets.iter().any(|new| new.name == old.name);
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
    wanted.spec.clusters = targets.to_vec();
    wanted
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
        Decision { outcome, affinity_name: group.to_owned(), tried: Vec::new(), report: Default::default() }
    }

    fn targets(names: &[&str]) -> Vec<TargetCluster> {
        names
            .iter()
            .map(|name| TargetCluster { name: (*name).to_owned(), ..TargetCluster::default() })
            .collect()
    }

    #[test]
    fn only_what_is_settled_in_a_later_group_is_away() {
        assert!(is_away(&binding(|_| {})));
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
