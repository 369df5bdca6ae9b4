//! Lays pods of several sorts onto nodes: each on the first node that still has room for it.
//!
//! In: nodes, what is free on them, sorts of pods with how many of each make a set. Out: whether a set fits, or how
//! many do; what is free is less by what was laid, and a set that does not fit keeps what of it could be laid.
//!
//! Room only shrinks, so a node that was full for a sort stays full for it: each sort goes over the nodes once, however
//! many sets there are. Sets that stay on the nodes where the sorts stand are laid at once, so that every set that is
//! laid pod by pod moves a sort on. Looks at nodes are bounded by nodes and sorts, however large the amounts are.

use std::collections::BTreeMap;

use super::Ask;
use super::claim::Claim;
use super::free::{Free, Resources};
use crate::nodes_and_pods::NodeOffer;

/// A sort of pods, and how far its walk over the nodes has come.
pub(super) struct Layer<'a> {
    claim: Claim<'a>,
    request: Vec<(usize, i64)>,
    count: i64,
    /// The first node that may have room; those before it have none.
    node: usize,
    /// How often a node was looked at.
    #[cfg(test)]
    looks: usize,
}

impl<'a> Layer<'a> {
    pub(super) fn of(ask: &Ask<'a>, resources: &Resources<'_>) -> Self {
        Self {
            claim: Claim::of(ask.claim),
            request: resources.request(ask.request),
            count: ask.count,
            node: 0,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Lays the pods of one set; false where not all of them fit.
    fn lay(&mut self, nodes: &[NodeOffer], free: &mut Free) -> bool {
        let mut left = self.count;
        while left > 0 {
            let Some(node) = nodes.get(self.node) else { return false };
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let room = if self.claim.allows(node) { free.times(self.node, &self.request) } else { 0 };
            let here = room.min(left);
            free.take(self.node, &self.request, here);
            left -= here;
            if left > 0 {
                self.node += 1;
            }
        }
        true
    }
}

/// Lays one set; false at the first sort that does not fit, those after it are not laid.
pub(super) fn set(nodes: &[NodeOffer], free: &mut Free, layers: &mut [Layer<'_>]) -> bool {
    layers.iter_mut().all(|layer| layer.lay(nodes, free))
}

/// Lays set after set; how many fit, at most [`i32::MAX`]. There must be a sort with a pod.
pub(super) fn sets(nodes: &[NodeOffer], free: &mut Free, layers: &mut [Layer<'_>]) -> i64 {
    let most = i64::from(i32::MAX);
    let mut sets = 0;
    while sets < most && set(nodes, free, layers) {
        sets += 1 + repeat(free, layers).min(most);
    }
    sets.min(most)
}

/// Lays whole sets on the nodes where the sorts stand, as often as those have room; how often that was. The next set
/// would be laid there just so: each sort stands on the first node that may have room for it.
fn repeat(free: &mut Free, layers: &[Layer<'_>]) -> i64 {
    let mut shares: BTreeMap<usize, BTreeMap<usize, i64>> = BTreeMap::new();
    for layer in layers.iter().filter(|layer| layer.count > 0) {
        let share = shares.entry(layer.node).or_default();
        for &(at, amount) in &layer.request {
            let sum = share.entry(at).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(layer.count));
        }
    }
    let shares: Vec<(usize, Vec<(usize, i64)>)> =
        shares.into_iter().map(|(node, share)| (node, share.into_iter().collect())).collect();
    let times = shares.iter().map(|(node, share)| free.times(*node, share)).min().unwrap_or(0);
    for (node, share) in &shares {
        free.take(*node, share, times);
    }
    times
}

#[cfg(test)]
mod tests {
    use karmada_api::binding::ResourceList;
    use serde_json::json;

    use super::*;
    use crate::node_room::Free;
    use crate::nodes_and_pods::PodUse;

    fn list(cpu: &str, memory: &str) -> ResourceList {
        serde_json::from_value(json!({"cpu": cpu, "memory": memory})).unwrap()
    }

    /// A member of 10,000 nodes with 10 pods each.
    fn large(places: &str) -> (Vec<NodeOffer>, Vec<PodUse>) {
        let allocatable: ResourceList =
            serde_json::from_value(json!({"cpu": "64", "memory": "256Gi", "pods": places})).unwrap();
        let node = |n: usize| NodeOffer {
            name: format!("node-{n}"),
            allocatable: allocatable.clone(),
            ..NodeOffer::default()
        };
        let request: ResourceList =
            serde_json::from_value(json!({"cpu": "500m", "memory": "1Gi", "pods": "1"})).unwrap();
        let pod = |n: usize| PodUse {
            node: format!("node-{}", n / 10),
            request: request.clone(),
            ..PodUse::default()
        };
        ((0..10_000).map(node).collect(), (0..100_000).map(pod).collect())
    }

    fn layer<'a>(request: &'a ResourceList, count: i64, resources: &Resources<'_>) -> Layer<'a> {
        Layer::of(&Ask { claim: None, request, priority_class: "", count }, resources)
    }

    /// How many sets fit, and with how many looks at nodes.
    fn looks(nodes: &[NodeOffer], pods: &[PodUse], sorts: &[(ResourceList, i64)]) -> (i64, usize) {
        let resources = Resources::of(sorts.iter().map(|(request, _)| request));
        let mut free = Free::of(nodes, pods, &resources);
        let mut layers: Vec<Layer<'_>> =
            sorts.iter().map(|(request, count)| layer(request, *count, &resources)).collect();
        let sets = sets(nodes, &mut free, &mut layers);
        (sets, layers.iter().map(|layer| layer.looks).sum())
    }

    #[test]
    fn work_grows_with_nodes_not_with_pods_laid() {
        let (nodes, pods) = large("110");
        let one = [(list("1m", "1"), 1)];
        assert_eq!(looks(&nodes, &pods, &one), (1_000_000, 2 * 10_000));
        let three = [(list("1", "2Gi"), 1), (list("2", "4Gi"), 3), (list("100m", "16Gi"), 2)];
        let (sets, looks) = looks(&nodes, &pods, &three);
        assert!(sets > 50_000, "{sets}");
        assert!(looks < 2 * 3 * 3 * 10_000, "{looks}");
    }

    #[test]
    fn work_does_not_grow_with_amounts() {
        let (nodes, pods) = large("1E");
        let (sets, looks) =
            looks(&nodes, &pods, &[(ResourceList::new(), 1), (ResourceList::new(), i64::from(i32::MAX))]);
        assert_eq!(sets, i64::from(i32::MAX));
        assert!(looks < 100, "{looks}");
    }
}
