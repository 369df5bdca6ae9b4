//! Replicas that found no node in their cluster for a while are given up there, so that the scheduler places them where there is room.
//!
//! In: a binding as it is placed; how many of its replicas each cluster's agent says are unschedulable. Out: which agents are to be asked, and
//! the binding's clusters with fewer replicas. The scheduler then finds fewer placed than wanted, and places the rest.

use std::collections::BTreeMap;

use karmada_api::binding::{AggregatedStatusItem, ResourceBinding, TargetCluster};
use karmada_api::policy::{ReplicaDivisionPreference, ReplicaSchedulingType};
use karmada_core::scheduler::trigger;

/// Unschedulable replicas by cluster, where its agent said so.
pub type Unschedulable = BTreeMap<String, i64>;

/// Whether a binding's replicas are given up where they find no room: those of Deployments that are divided by room. What a person placed by
/// fixed weights stays where it was placed. While the scheduler, which goes by the name `scheduler`, has not yet seen the binding as it is, or where it places it no more, nothing is given
/// up.
pub fn considers(binding: &ResourceBinding, scheduler: &str) -> bool {
    could_consider(binding) && is_scheduled(binding, scheduler)
}

/// Whether that can come to be without a change of the binding's spec.
pub fn could_consider(binding: &ResourceBinding) -> bool {
    let resource = &binding.spec.resource;
    let is_deployment = (resource.api_version.as_str(), resource.kind.as_str()) == ("apps/v1", "Deployment");
    is_deployment && binding.metadata.deletion_timestamp.is_none() && is_divided_by_room(binding)
}

fn is_divided_by_room(binding: &ResourceBinding) -> bool {
    let placement = binding.spec.placement.as_ref();
    let Some(strategy) = placement.and_then(|placement| placement.replica_scheduling.as_ref()) else {
        return false;
    };
    let weights = strategy.weight_preference.as_ref();
    binding.spec.replica_scheduling_type() == ReplicaSchedulingType::Divided
        && match strategy.replica_division_preference {
            Some(ReplicaDivisionPreference::Aggregated) => true,
            Some(ReplicaDivisionPreference::Weighted) => {
                weights.is_some_and(|weights| weights.dynamic_weight.is_some())
            }
            None => false,
        }
}

fn is_scheduled(binding: &ResourceBinding, scheduler: &str) -> bool {
    let is_seen = binding
        .metadata
        .generation
        .is_none_or(|generation| generation == binding.status.scheduler_observed_generation);
    is_seen && trigger::is_ours(binding, scheduler)
}

/// The clusters whose agents are to be asked, in the order of the binding: those in which fewer replicas are ready than placed, and those of
/// which that is not known.
pub fn asked(binding: &ResourceBinding) -> Vec<&str> {
    let ready = ready(binding);
    let asked = binding.spec.clusters.iter().filter(|target| lacks(target, &ready));
    asked.map(|target| target.name.as_str()).collect()
}

/// Whether fewer replicas are ready in a cluster than placed, or that is not known.
fn lacks(target: &TargetCluster, ready: &BTreeMap<&str, i64>) -> bool {
    ready.get(&*target.name).is_none_or(|ready| *ready < i64::from(target.replicas))
}

/// The ready replicas that clusters reported.
fn ready(binding: &ResourceBinding) -> BTreeMap<&str, i64> {
    let items = binding.status.aggregated_status.iter();
    let of = |item: &'_ AggregatedStatusItem| item.status.as_ref()?["readyReplicas"].as_i64();
    items.filter_map(|item| Some((&*item.cluster_name, of(item)?))).collect()
}

/// The binding's clusters as they are to be; none where nothing is given up. Never fewer replicas stay than are ready; an answer that gives up
/// more than were placed was of another number of replicas, and is not acted on.
pub fn deschedule(binding: &ResourceBinding, unschedulable: &Unschedulable) -> Option<Vec<TargetCluster>> {
    let ready = ready(binding);
    let mut wanted = binding.spec.clusters.clone();
    for target in wanted.iter_mut().filter(|target| lacks(target, &ready)) {
        let given_up = unschedulable.get(&target.name).copied().unwrap_or(0);
        let placed = i64::from(target.replicas);
        if given_up <= 0 || given_up > placed {
            continue;
        }
        let stay = (placed - given_up).max(ready.get(&*target.name).copied().unwrap_or(0)).min(placed);
        target.replicas = i32::try_from(stay).unwrap_or(target.replicas);
    }
    (wanted != binding.spec.clusters).then_some(wanted)
}
