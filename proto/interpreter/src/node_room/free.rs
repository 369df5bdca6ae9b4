//! What is free on each node, in whole numbers: thousandths of a CPU, units of everything else.
//!
//! In: nodes, pods, and which resources anybody asks for. Out: one row of amounts per node, and how often a request
//! goes into one. Only what is asked for is counted: one pass over nodes and pods, and a few numbers per node.

use std::collections::BTreeMap;

use karmada_api::binding::ResourceList;
use karmada_quantity::Quantity;

use crate::nodes_and_pods::{NodeOffer, PodUse};
use crate::pod_request::schedulable;

/// Places for pods: the first number of each row, and every pod takes one.
const PODS: &str = "pods";

/// An amount in the unit in which its resource is counted.
pub(super) fn whole(name: &str, amount: Quantity) -> i64 {
    if name == "cpu" { amount.milli() } else { amount.units() }
}

/// Whether a request of this name is bounded by nodes. Places for pods are counted by pods, not asked for.
pub(super) fn bounding(name: &str) -> bool {
    name != PODS && schedulable(name)
}

/// Which resources are counted, and where in a row.
pub(super) struct Resources<'a> {
    index: BTreeMap<&'a str, usize>,
}

impl<'a> Resources<'a> {
    /// Those that requests name, and places for pods.
    pub(super) fn of(requests: impl Iterator<Item = &'a ResourceList>) -> Self {
        let mut index = BTreeMap::from([(PODS, 0)]);
        for name in requests.flat_map(BTreeMap::keys).filter(|name| bounding(name)) {
            let next = index.len();
            index.entry(name.as_str()).or_insert(next);
        }
        Self { index }
    }

    /// A request for one pod as pairs of place in the row and amount, all above nothing.
    pub(super) fn request(&self, list: &ResourceList) -> Vec<(usize, i64)> {
        let asked = list.iter().filter(|(name, _)| name.as_str() != PODS).filter_map(|(name, amount)| {
            let amount = whole(name, *amount);
            self.index.get(name.as_str()).filter(|_| amount > 0).map(|&at| (at, amount))
        });
        std::iter::once((0, 1)).chain(asked).collect()
    }

    /// The counted amounts of a list.
    fn amounts<'b>(&'b self, list: &'b ResourceList) -> impl Iterator<Item = (usize, i64)> + 'b {
        list.iter()
            .filter_map(|(name, amount)| self.index.get(name.as_str()).map(|&at| (at, whole(name, *amount))))
    }
}

/// What is free, node by node; below nothing where a node is overcommitted.
pub(super) struct Free {
    width: usize,
    amounts: Vec<i64>,
}

impl Free {
    /// What nodes offer, less what is asked for by the pods on them that are not over.
    pub(super) fn of(nodes: &[NodeOffer], pods: &[PodUse], resources: &Resources<'_>) -> Self {
        let width = resources.index.len();
        let mut free = Self { width, amounts: vec![0; width * nodes.len()] };
        for (node, offer) in nodes.iter().enumerate() {
            for (at, amount) in resources.amounts(&offer.allocatable) {
                free.row(node)[at] = amount;
            }
        }
        let by_name: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(node, offer)| (offer.name.as_str(), node)).collect();
        for pod in pods.iter().filter(|pod| !pod.finished) {
            let Some(&node) = by_name.get(pod.node.as_str()) else { continue };
            for (at, amount) in resources.amounts(&pod.request) {
                let left = &mut free.row(node)[at];
                *left = left.saturating_sub(amount);
            }
        }
        free
    }

    fn row(&mut self, node: usize) -> &mut [i64] {
        &mut self.amounts[node * self.width..][..self.width]
    }

    /// How often `request` goes into what is free of a node.
    pub(super) fn times(&self, node: usize, request: &[(usize, i64)]) -> i64 {
        let row = &self.amounts[node * self.width..][..self.width];
        request.iter().map(|&(at, amount)| row[at].max(0) / amount).min().unwrap_or(i64::MAX)
    }

    /// Takes `request` from a node `times` times.
    pub(super) fn take(&mut self, node: usize, request: &[(usize, i64)], times: i64) {
        let row = self.row(node);
        for &(at, amount) in request {
            row[at] = row[at].saturating_sub(amount.saturating_mul(times));
        }
    }
}
