//! Exact room: what members' agents say of their own nodes, beside what the hub reckons from their summaries.
//!
//! In: a binding that is to be placed, and all clusters. Out: which agents are worth asking first ([`asked`]), and what for ([`wanted`]). What
//! they answer comes back as [`Exact`], a part of the scheduler's input: of a cluster that did not answer, the summary is believed alone.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::{BindingSpec, Component, ReplicaRequirements};
use karmada_api::cluster::Cluster;
use karmada_api::policy::{Placement, ReplicaDivisionPreference, ReplicaSchedulingType};

use super::trigger::{self, Trigger};
use super::{Input, cluster_affinities, components};

/// Replicas that have room, or whole sets of parts, by cluster, where its agent said so.
pub type Exact = BTreeMap<String, i64>;

/// Agents that are asked for one decision. In a larger fleet those are asked where the binding is, and whose summaries promise the most room.
const MOST: usize = 1_000;

/// What agents are asked to find room for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted<'a> {
    /// Replicas that ask for this; `None`: for a place and nothing else.
    Replicas(Option<&'a ReplicaRequirements>),
    /// Whole sets of these parts.
    Sets(&'a [Component]),
}

/// What a binding is to have room for.
pub fn wanted(spec: &BindingSpec) -> Wanted<'_> {
    match spec.placement.as_ref() {
        Some(placement) if components::goes_by_sets(spec, placement) => Wanted::Sets(&spec.components),
        _ => Wanted::Replicas(spec.replica_requirements.as_ref()),
    }
}

/// The clusters whose agents are to be asked for room before the binding is scheduled, sorted by name: those that it may go to. None where
/// nothing is to be placed now, or where what is placed does not depend on room.
pub fn asked<'a, C: Borrow<Cluster>>(input: &Input<'a, C>) -> Vec<&'a str> {
    let spec = &input.binding.spec;
    let Some(placement) = spec.placement.as_ref().filter(|placement| depends_on_room(spec, placement)) else {
        return Vec::new();
    };
    let mut clusters: Vec<&Cluster> = input.clusters.iter().map(Borrow::borrow).collect();
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    if !matches!(trigger::trigger(input.binding, &clusters, input.scheduler), Trigger::Schedule { .. }) {
        return Vec::new();
    }
    let mut may = cluster_affinities::eligible(input, &clusters, placement);
    let placed: BTreeSet<&str> = spec.clusters.iter().map(|target| &*target.name).collect();
    may.sort_by_key(|(name, free)| (!placed.contains(name), Reverse(*free), *name));
    may.truncate(MOST);
    let mut names: Vec<&str> = may.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

/// Whether where a binding goes depends on room.
fn depends_on_room(spec: &BindingSpec, placement: &Placement) -> bool {
    if components::has_several(spec) {
        return components::goes_by_sets(spec, placement);
    }
    let is_divided = spec.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    spec.is_workload() && is_divided && counts_room(placement)
}

/// Whether the division depends on room: dynamic weights, as few clusters as possible, or a selection by groups of clusters.
fn counts_room(placement: &Placement) -> bool {
    let strategy = placement.replica_scheduling.as_ref();
    let is_aggregated = strategy.and_then(|strategy| strategy.replica_division_preference)
        == Some(ReplicaDivisionPreference::Aggregated);
    let weights = strategy.and_then(|strategy| strategy.weight_preference.as_ref());
    let is_dynamic = weights.is_some_and(|weights| weights.dynamic_weight.is_some());
    is_aggregated || is_dynamic || !placement.spread_constraints.is_empty()
}

#[cfg(test)]
mod tests {
    use karmada_api::binding::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, labels: &Value, pods: u32) -> Cluster {
        let enablements = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels},
            "spec": {}, "status": {"apiEnablements": enablements, "resourceSummary": {"allocatable": {"pods": pods.to_string()}}}}))
        .unwrap()
    }

    fn names(placement: &Value, spec: &Value, clusters: &[Cluster]) -> Vec<String> {
        let mut binding = json!({"metadata": {"name": "b", "namespace": "d", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}}, "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "n"},
            "replicas": 3, "schedulerName": "default-scheduler", "placement": placement}});
        for (field, value) in spec.as_object().unwrap() {
            binding["spec"][field] = value.clone();
        }
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        let input = Input { exact: Exact::new(), ..Input::plain(&binding, clusters) };
        asked(&input).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn those_are_asked_whom_the_decision_depends_on() {
        let clusters = [
            cluster("b", &json!({"tier": "gold"}), 5),
            cluster("a", &json!({"tier": "gold"}), 5),
            cluster("c", &json!({}), 5),
        ];
        let divided = |more: Value| {
            let mut placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}});
            for (field, value) in more.as_object().unwrap() {
                placement[field] = value.clone();
            }
            placement
        };
        let gold = json!({"labelSelector": {"matchLabels": {"tier": "gold"}}});
        let aggregated =
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
        let dynamic = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
        let none = json!({});
        for scheduling in [&aggregated, &dynamic] {
            let placement = json!({"clusterAffinity": gold, "replicaScheduling": scheduling});
            assert_eq!(names(&placement, &none, &clusters), ["a", "b"]);
        }
        let groups = json!({"replicaScheduling": aggregated, "clusterAffinities": [
            {"affinityName": "x", "clusterNames": ["c"]}, {"affinityName": "y", "clusterNames": ["b"]}]});
        assert_eq!(names(&groups, &none, &clusters), ["b", "c"]);
        let spread = divided(
            json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]}),
        );
        assert_eq!(names(&spread, &none, &clusters), ["a", "b", "c"]);
        let placement = json!({"replicaScheduling": aggregated});
        let evicting =
            json!({"gracefulEvictionTasks": [{"fromCluster": "a", "reason": "r", "producer": "p"}]});
        assert_eq!(names(&placement, &evicting, &clusters), ["b", "c"], "what it cannot go to is not asked");
        // Where room decides nothing, nobody is.
        for (placement, spec) in [
            (divided(json!({})), json!({})),
            (json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}), json!({})),
            (placement.clone(), json!({"replicas": 0})),
            (placement.clone(), json!({"schedulerName": "other"})),
            (
                placement.clone(),
                json!({"replicas": 0, "components": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]}),
            ),
            (placement, json!({"suspension": {"scheduling": true}})),
        ] {
            assert!(names(&placement, &spec, &clusters).is_empty(), "{placement} {spec}");
        }
    }

    /// What has several parts goes to one cluster whole, and is asked about as a whole.
    #[test]
    fn sets_of_parts_are_asked_about_where_one_cluster_is_to_take_them() {
        let clusters = [cluster("a", &json!({}), 5), cluster("b", &json!({}), 5)];
        let placement =
            json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]});
        let parts = json!([{"name": "head", "replicas": 1}, {"name": "worker", "replicas": 2}]);
        let several = json!({"replicas": 0, "components": parts});
        assert_eq!(names(&placement, &several, &clusters), ["a", "b"]);
        let spec = |components: &Value, placement: &Value| -> BindingSpec {
            serde_json::from_value(
                json!({"resource": {"apiVersion": "a/v1", "kind": "K", "name": "n"}, "components": components,
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "placement": placement}),
            )
            .unwrap()
        };
        let both = spec(&parts, &placement);
        assert_eq!(wanted(&both), Wanted::Sets(&both.components));
        let one = spec(&json!([{"name": "head", "replicas": 1}]), &placement);
        assert_eq!(
            wanted(&one),
            Wanted::Replicas(one.replica_requirements.as_ref()),
            "one part is its replicas"
        );
    }

    #[test]
    fn in_a_large_fleet_those_are_asked_that_promise_most() {
        let clusters: Vec<Cluster> =
            (0..1500_u32).map(|n| cluster(&format!("m{n:04}"), &json!({}), n + 1)).collect();
        let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
        let asked = names(&placement, &json!({}), &clusters);
        assert_eq!((asked.len(), asked[0].as_str()), (1000, "m0500"));
    }
}
