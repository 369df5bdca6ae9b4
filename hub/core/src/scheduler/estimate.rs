//! How many more replicas a cluster could hold, from what it reports of itself. In: a Cluster, what a replica asks for, what was placed
//! there since the report. Out: a number of replicas, 0 where nothing is reported. Pure.

use std::borrow::Cow;
use std::sync::Arc;

use karmada_api::binding::{Component, ReplicaRequirements, ResourceList};
use karmada_api::cluster::{AllocatableModeling, Cluster, ResourceModel, ResourceSummary};
use karmada_quantity::Quantity;

use super::assumptions::Assumed;

/// Pods on one node, where nothing else limits them.
const PODS_PER_NODE: i64 = 110;

/// How many more replicas with these requirements fit; 0 where the cluster reports no resources.
pub fn max_available(cluster: &Cluster, requirements: Option<&ReplicaRequirements>) -> i64 {
    let Some(summary) = &cluster.status.resource_summary else { return 0 };
    room(&cluster.spec.resource_models, summary, requirements)
}

/// How many fit into what a summary leaves.
fn room(
    models: &[ResourceModel],
    summary: &ResourceSummary,
    requirements: Option<&ReplicaRequirements>,
) -> i64 {
    let places = left(summary, "pods").units();
    if places <= 0 {
        return 0;
    }
    let Some(request) = requirements.map(|r| &r.resource_request) else { return places };
    if !models.is_empty() && !summary.allocatable_modelings.is_empty() {
        return by_models(models, &summary.allocatable_modelings, request).min(places);
    }
    by_sums(summary, request).min(places)
}

/// The same beside what is taken of the cluster and not in its report yet.
pub fn max_beside(
    cluster: &Cluster,
    requirements: Option<&ReplicaRequirements>,
    taken: &[Arc<Assumed>],
) -> i64 {
    let Some(summary) = cluster.status.resource_summary.as_ref().filter(|_| !taken.is_empty()) else {
        return max_available(cluster, requirements);
    };
    let left = beside(summary, taken);
    let (models, counts) = (&cluster.spec.resource_models, &summary.allocatable_modelings);
    let Some(request) = requirements.map(|r| &r.resource_request) else { return room(&[], &left, None) };
    if models.is_empty() || counts.is_empty() {
        return room(&[], &left, requirements);
    }
    Nodes::beside(models, counts, taken).room(request).min(room(&[], &left, None))
}

/// What a summary says where those that were placed since count as waiting for a node.
pub(super) fn beside<'a>(summary: &'a ResourceSummary, taken: &[Arc<Assumed>]) -> Cow<'a, ResourceSummary> {
    let mut left = Cow::Borrowed(summary);
    for part in taken.iter().flat_map(|assumed| &assumed.components) {
        wait_for(&mut left.to_mut().allocating, part);
    }
    left
}

/// Nodes that are looked at to count sets, beyond which those that were found are enough: a workload goes to a cluster once.
const MOST_STEPS: usize = 50_000;

/// How many whole sets of parts fit on a cluster's nodes, set after set on the first nodes that they fit on, `most` at most, and fewer where nodes and
/// parts are so many that counting on would take long; none where the cluster does not tell its nodes by grades.
pub(super) fn sets_by_grades(
    cluster: &Cluster,
    parts: &[Component],
    taken: &[Arc<Assumed>],
    most: i64,
) -> Option<i64> {
    let (models, summary) = (&cluster.spec.resource_models, cluster.status.resource_summary.as_ref()?);
    if models.is_empty() || summary.allocatable_modelings.is_empty() {
        return None;
    }
    let mut nodes = Nodes::beside(models, &summary.allocatable_modelings, taken);
    let mut steps = 0;
    let fits = |set: &i64| {
        let mut goes_on = |nodes: &Nodes| {
            steps += nodes.0.len();
            *set == 0 || steps <= MOST_STEPS
        };
        parts.iter().all(|part| goes_on(&nodes) && nodes.take(part) == 0)
    };
    i64::try_from((0..most).take_while(fits).count()).ok()
}

/// Adds a part to what pods without a node ask for.
fn wait_for(list: &mut ResourceList, part: &Component) {
    let replicas = i64::from(part.replicas.max(0));
    let request = part.replica_requirements.iter().flat_map(|wanted| &wanted.resource_request);
    let pods = ("pods".to_owned(), Quantity::from_units(replicas));
    let amounts = request.map(|(name, amount)| (name.clone(), amount.times(replicas))).chain([pods]);
    for (name, amount) in amounts {
        let waiting = list.entry(name).or_default();
        *waiting = waiting.plus(amount);
    }
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

/// The nodes of a cluster, each as small as its grade allows, in order of their grades; alike ones together.
struct Nodes(Vec<Alike>);

/// Nodes that have the same left.
#[derive(Clone)]
struct Alike {
    count: i64,
    left: ResourceList,
    pods: i64,
}

impl Nodes {
    fn of(models: &[ResourceModel], counts: &[AllocatableModeling]) -> Self {
        let alike = models.iter().map(|model| {
            let count = counts.iter().find(|count| count.grade == model.grade).map_or(0, |count| count.count);
            let left = model.ranges.iter().map(|range| (range.name.clone(), range.min)).collect();
            Alike { count, left, pods: PODS_PER_NODE }
        });
        Nodes(alike.collect())
    }

    /// The same with what was placed since on them.
    fn beside(models: &[ResourceModel], counts: &[AllocatableModeling], taken: &[Arc<Assumed>]) -> Self {
        let mut nodes = Nodes::of(models, counts);
        for part in taken.iter().flat_map(|assumed| &assumed.components) {
            nodes.take(part);
        }
        nodes
    }

    /// Puts the pods of a part on the first nodes that they fit on. How many fit on none: they are left out.
    fn take(&mut self, part: &Component) -> i64 {
        let none = ResourceList::new();
        let request = part.replica_requirements.as_ref().map_or(&none, |wanted| &wanted.resource_request);
        let (mut pods, mut nodes) = (i64::from(part.replicas.max(0)), Vec::new());
        for alike in std::mem::take(&mut self.0) {
            let each = if pods == 0 || alike.count <= 0 { 0 } else { alike.fits(request) };
            if each == 0 {
                nodes.push(alike);
                continue;
            }
            let full = (pods / each).min(alike.count);
            let rest = if full < alike.count { pods - full * each } else { 0 };
            pods -= full * each + rest;
            nodes.extend(
                [(full, each), (i64::from(rest > 0), rest)]
                    .map(|(count, pods)| alike.with(count, request, pods)),
            );
            nodes.push(Alike { count: alike.count - full - i64::from(rest > 0), ..alike });
        }
        nodes.retain(|alike| alike.count > 0);
        nodes.dedup_by(|next, kept| {
            let is_alike = (next.pods, &next.left) == (kept.pods, &kept.left);
            kept.count += if is_alike { next.count } else { 0 };
            is_alike
        });
        self.0 = nodes;
        pods
    }

    /// How many replicas fit on all of them.
    fn room(&self, request: &ResourceList) -> i64 {
        let fits = self.0.iter().map(|alike| alike.count.saturating_mul(alike.fits(request)));
        fits.fold(0, i64::saturating_add)
    }
}

impl Alike {
    /// How many pods fit on one of them.
    fn fits(&self, request: &ResourceList) -> i64 {
        let asked = request.iter().filter(|(_, amount)| !amount.is_zero());
        let left = |name: &str| self.left.get(name).copied().unwrap_or_default();
        asked.map(|(name, amount)| times(name, left(name), *amount)).fold(self.pods, i64::min)
    }

    /// So many of them, with so many pods on each.
    fn with(&self, count: i64, request: &ResourceList, pods: i64) -> Self {
        let mut taken = Alike { count, pods: self.pods - pods, left: self.left.clone() };
        for (name, amount) in request {
            let left = taken.left.entry(name.clone()).or_default();
            *left = left.minus(amount.times(pods));
        }
        taken
    }
}
