//! How many more replicas a cluster could hold, from what it reports of itself.

use karmada_api::binding::{ReplicaRequirements, ResourceList};
use karmada_api::cluster::{AllocatableModeling, Cluster, ResourceModel, ResourceSummary};
use karmada_api::quantity::Quantity;

/// Pods on one node, where nothing else limits them.
const PODS_PER_NODE: i64 = 110;

/// How many more replicas with these requirements fit; 0 where the cluster reports no resources.
pub fn max_available(cluster: &Cluster, requirements: Option<&ReplicaRequirements>) -> i64 {
    let Some(summary) = &cluster.status.resource_summary else { return 0 };
    let places = left(summary, "pods").units();
    if places <= 0 {
        return 0;
    }
    let Some(request) = requirements.map(|r| &r.resource_request) else { return places };
    let models = &cluster.spec.resource_models;
    if !models.is_empty() && !summary.allocatable_modelings.is_empty() {
        return by_models(models, &summary.allocatable_modelings, request).min(places);
    }
    by_sums(summary, request).min(places)
}

/// What is neither taken nor waited for.
pub(super) fn left(summary: &ResourceSummary, name: &str) -> Quantity {
    let of = |list: &ResourceList| list.get(name).copied().unwrap_or_default();
    of(&summary.allocatable).minus(of(&summary.allocated)).minus(of(&summary.allocating))
}

/// How often `request` fits into `room`: CPU in thousandths, everything else in whole units.
pub(super) fn times(name: &str, room: Quantity, request: Quantity) -> i64 {
    let (room, request) =
        if name == "cpu" { (room.milli(), request.milli()) } else { (room.units(), request.units()) };
    if request <= 0 { i64::MAX } else { (room / request).max(0) }
}

/// As if the cluster were one big node.
fn by_sums(summary: &ResourceSummary, request: &ResourceList) -> i64 {
    let fits = request.iter().filter(|(_, amount)| !amount.is_zero());
    fits.map(|(name, amount)| times(name, left(summary, name), *amount)).min().unwrap_or(i64::MAX)
}

/// Node by node, each as small as its grade allows.
fn by_models(models: &[ResourceModel], counts: &[AllocatableModeling], request: &ResourceList) -> i64 {
    let mut total = 0_i64;
    for model in models {
        let nodes = counts.iter().find(|count| count.grade == model.grade).map_or(0, |count| count.count);
        total = total.saturating_add(nodes.saturating_mul(per_node(model, request)));
    }
    total
}

fn per_node(model: &ResourceModel, request: &ResourceList) -> i64 {
    let mut fits = PODS_PER_NODE;
    for (name, amount) in request.iter().filter(|(_, amount)| !amount.is_zero()) {
        let min =
            model.ranges.iter().find(|range| range.name == *name).map_or(Quantity::ZERO, |range| range.min);
        fits = fits.min(times(name, min, *amount));
    }
    fits
}
