//! What a member has: nodes, resources offered and asked for, and free nodes by grade.
//!
//! In: the member's nodes and pods, trimmed, and the grades of its Cluster.
//! Out: the pieces of `Cluster.status`.

use std::collections::BTreeMap;

use karmada_api::binding::ResourceList;
use karmada_api::cluster::{AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary};
use karmada_quantity::Quantity;

use crate::nodes_and_pods::{NodeOffer, PodUse};
use crate::pod_request::add;

/// How many nodes there are, and how many are ready.
pub fn node_summary(nodes: &[NodeOffer]) -> NodeSummary {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    NodeSummary {
        total_num: count(nodes.len()),
        ready_num: count(nodes.iter().filter(|node| node.ready).count()),
    }
}

/// What nodes offer, and what pods ask for. Nodes that are not ready or cordoned count in full; a pod without a node
/// counts as waiting even when it is over.
pub fn resource_summary(nodes: &[NodeOffer], pods: &[PodUse], models: &[ResourceModel]) -> ResourceSummary {
    let mut summary = ResourceSummary::default();
    for node in nodes {
        add(&mut summary.allocatable, &node.allocatable);
    }
    for pod in pods {
        if pod.node.is_empty() {
            add(&mut summary.allocating, &pod.request);
        } else if !pod.finished {
            add(&mut summary.allocated, &pod.request);
        }
    }
    for list in [&mut summary.allocatable, &mut summary.allocating, &mut summary.allocated] {
        list.retain(|_, amount| !amount.is_zero());
    }
    summary.allocatable_modelings = modelings(nodes, pods, models);
    summary
}

/// How many nodes are free by each grade. A node without a free place for a pod is in none, and so is one that has
/// less than nothing left of a resource.
pub fn modelings(nodes: &[NodeOffer], pods: &[PodUse], models: &[ResourceModel]) -> Vec<AllocatableModeling> {
    let mut used: BTreeMap<&str, ResourceList> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty() && !pod.finished) {
        add(used.entry(pod.node.as_str()).or_default(), &pod.request);
    }
    let mut counts: Vec<AllocatableModeling> =
        models.iter().map(|model| AllocatableModeling { grade: model.grade, count: 0 }).collect();
    for node in nodes {
        let left = |name: &str| {
            let amount =
                |list: Option<&ResourceList>| list.and_then(|l| l.get(name)).copied().unwrap_or_default();
            amount(Some(&node.allocatable)).minus(amount(used.get(node.name.as_str())))
        };
        let places = left("pods");
        if places.is_zero() || places.is_negative() {
            continue;
        }
        if let Some(index) = grade(models, &left) {
            counts[index].count += 1;
        }
    }
    counts
}

/// The highest grade whose minimum is there of every resource.
fn grade(models: &[ResourceModel], left: &dyn Fn(&str) -> Quantity) -> Option<usize> {
    models.iter().rposition(|model| model.ranges.iter().all(|range| left(&range.name) >= range.min))
}
