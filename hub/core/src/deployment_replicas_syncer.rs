//! A Deployment whose members decide its replicas (their HorizontalPodAutoscalers scale it) says how many it has in all.
//!
//! In: the Deployment as the hub has it, its binding. Out: the replicas to write into its spec, or that the members' reports are waited for.
//! Without it the hub's Deployment keeps the number that a person once wrote, and the next schedule would divide that.

use std::collections::BTreeSet;

use karmada_api::binding::{AggregatedStatusItem, ResourceBinding};
use karmada_api::object;
use karmada_api::policy::ReplicaSchedulingType;
use karmada_api::strings::labels;
use serde_json::Value;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// Nothing: they agree, or they are not the members' to decide.
    Stay,
    /// A report or a schedule is still on its way; it is looked at again when it comes.
    Wait,
    /// The Deployment has these.
    Become(i64),
}

/// Whether the members decide a Deployment's replicas.
pub fn concerns(deployment: &Value) -> bool {
    object::label(deployment, labels::RETAIN_REPLICAS) == Some("true")
}

/// The replicas that a Deployment's spec is to say.
///
/// They follow `status.replicas` once everybody has caught up: the binding with the Deployment, the scheduler with the binding, a report of
/// every cluster, and the sum of the reports with the Deployment's status. Only what is divided is followed: of a duplicated Deployment each
/// member has all replicas, so that the sum says nothing.
pub fn replicas(deployment: &Value, binding: &ResourceBinding) -> Replicas {
    if binding.spec.replica_scheduling_type() != ReplicaSchedulingType::Divided {
        return Replicas::Stay;
    }
    let said = deployment["spec"]["replicas"].as_i64();
    let running = deployment["status"]["replicas"].as_i64().unwrap_or(0);
    if said == Some(running) {
        return Replicas::Stay;
    }
    let is_scheduled = said == Some(i64::from(binding.spec.replicas))
        && binding.metadata.generation == Some(binding.status.scheduler_observed_generation);
    if is_scheduled && reported(binding) == Some(running) {
        return Replicas::Become(running);
    }
    Replicas::Wait
}

/// The sum over all clusters of the binding; none while one has not reported, or a cluster reports that is none of them.
fn reported(binding: &ResourceBinding) -> Option<i64> {
    let items = &binding.status.aggregated_status;
    let targets: BTreeSet<&str> = binding.spec.clusters.iter().map(|target| target.name.as_str()).collect();
    let reporting: BTreeSet<&str> = items.iter().map(|item| item.cluster_name.as_str()).collect();
    if reporting != targets {
        return None;
    }
    items.iter().try_fold(0_i64, |sum, item| sum.checked_add(of_one(item)?))
}

/// What one cluster has; none while its controller has not looked at what it was given last. No replicas are believed only if it says that
/// it looked: a Deployment that was made a moment ago has none either. (Karmada waits for ever for a cluster that has none.)
fn of_one(item: &AggregatedStatusItem) -> Option<i64> {
    let status = item.status.as_ref()?;
    let number = |field: &str| status[field].as_i64();
    let (given, seen) = (number("generation").unwrap_or(0), number("observedGeneration").unwrap_or(0));
    let replicas = number("replicas").unwrap_or(0);
    let is_seen = seen >= given && (replicas > 0 || seen > 0);
    is_seen.then_some(replicas)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(said: i64, running: i64) -> Value {
        json!({"metadata": {"labels": {labels::RETAIN_REPLICAS: "true"}}, "spec": {"replicas": said}, "status": {"replicas": running}})
    }

    fn binding(said: i64, items: &Value) -> ResourceBinding {
        serde_json::from_value(json!({"metadata": {"name": "n", "generation": 2}, "spec": {
            "resource": {}, "replicas": said, "clusters": [{"name": "a"}, {"name": "b"}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}},
            "status": {"schedulerObservedGeneration": 2, "aggregatedStatus": items}}))
        .unwrap()
    }

    fn item(cluster: &str, status: &Value) -> Value {
        json!({"clusterName": cluster, "status": status})
    }

    #[test]
    fn a_cluster_that_scaled_to_nothing_counts_once_it_has_looked() {
        let busy = item("a", &json!({"replicas": 2, "generation": 1, "observedGeneration": 1}));
        let fresh = item("b", &json!({"generation": 1}));
        assert_eq!(replicas(&deployment(4, 2), &binding(4, &json!([busy, fresh]))), Replicas::Wait);
        let empty = item("b", &json!({"generation": 1, "observedGeneration": 1}));
        assert_eq!(replicas(&deployment(4, 2), &binding(4, &json!([busy, empty]))), Replicas::Become(2));
    }

    #[test]
    fn a_status_of_an_earlier_generation_is_waited_for() {
        let behind = item("a", &json!({"replicas": 2, "generation": 5, "observedGeneration": 4}));
        let other = item("b", &json!({"replicas": 1}));
        assert_eq!(replicas(&deployment(4, 3), &binding(4, &json!([behind, other]))), Replicas::Wait);
    }

    #[test]
    fn as_many_reports_of_other_clusters_are_not_enough() {
        let items = json!([item("a", &json!({"replicas": 2})), item("c", &json!({"replicas": 1}))]);
        assert_eq!(replicas(&deployment(4, 3), &binding(4, &items)), Replicas::Wait);
    }

    #[test]
    fn sums_beyond_all_bounds_are_waited_for() {
        let items =
            json!([item("a", &json!({"replicas": i64::MAX})), item("b", &json!({"replicas": i64::MAX}))]);
        assert_eq!(replicas(&deployment(4, 3), &binding(4, &items)), Replicas::Wait);
    }
}
