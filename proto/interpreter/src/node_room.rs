//! How many more replicas, or sets of parts, a member's nodes have room for, and how many pods found none:
//! what an agent answers when the hub's scheduler or descheduler asks.
//!
//! In: the member's nodes and pods, trimmed; its quotas where they are to be heeded; what was placed but is not seen
//! as pods yet; what is asked for. Out: whole numbers, never below nothing, [`i32::MAX`] where there is no bound. A
//! resource that clusters do not report is no bound, and neither is an amount of zero.
//!
//! The order of nodes matters only where several sorts of pods are laid onto them, which is done first fit: for what
//! is assumed, and for sets of parts. No other order matters.

mod claim;
mod first_fit;
mod free;
mod quota;
mod unschedulable;

use std::collections::BTreeMap;

use karmada_api::binding::{Component, NodeClaim, ReplicaRequirements, ResourceList};
use serde::{Deserialize, Serialize};

use self::claim::Claim;
use self::first_fit::Layer;
use self::free::{Free, Resources};
pub use self::quota::Quota;
pub use self::unschedulable::{UnschedulableError, unschedulable};
use crate::nodes_and_pods::{NodeOffer, PodUse};

/// What is known of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeRoom<'a> {
    /// Its nodes, in the order in which they are filled.
    pub nodes: &'a [NodeOffer],
    /// Its pods.
    pub pods: &'a [PodUse],
    /// Its quotas; none where they are not to be heeded (gate ResourceQuotaEstimate).
    pub quotas: &'a [Quota],
    /// What else takes up room; none where that is not asked for (gate SchedulingOvercommitProtection).
    pub assumed: &'a [Assumed],
}

/// A workload that was placed on the member, and whose pods are not there yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assumed {
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its parts; one without a name where it has one pod template.
    #[serde(default)]
    pub components: Vec<Component>,
}

/// So many pods of one sort.
struct Ask<'a> {
    claim: Option<&'a NodeClaim>,
    request: &'a ResourceList,
    priority_class: &'a str,
    count: i64,
}

/// Of a best-effort pod.
static NOTHING: ResourceList = BTreeMap::new();

impl<'a> Ask<'a> {
    fn best_effort(count: i64) -> Self {
        Self { claim: None, request: &NOTHING, priority_class: "", count }
    }

    fn of_replica(requirements: Option<&'a ReplicaRequirements>) -> Self {
        let Some(wanted) = requirements else { return Self::best_effort(1) };
        Self {
            claim: wanted.node_claim.as_ref(),
            request: &wanted.resource_request,
            priority_class: &wanted.priority_class_name,
            count: 1,
        }
    }

    fn of_component(component: &'a Component) -> Self {
        let count = i64::from(component.replicas.max(0));
        let Some(wanted) = &component.replica_requirements else { return Self::best_effort(count) };
        Self {
            claim: wanted.node_claim.as_ref(),
            request: &wanted.resource_request,
            priority_class: &wanted.priority_class_name,
            count,
        }
    }

    fn of_components(components: &'a [Component]) -> Vec<Self> {
        components.iter().map(Self::of_component).collect()
    }
}

/// How many more replicas with these requirements the member has room for; without any, places for pods are counted.
/// Quotas of the requirements' namespace bound it, and those of every namespace where they name none.
pub fn replicas(room: &NodeRoom<'_>, requirements: Option<&ReplicaRequirements>) -> i32 {
    let ask = Ask::of_replica(requirements);
    let assumed = assumed(room);
    let (resources, mut free) = counted(room, std::slice::from_ref(&ask), &assumed);
    place_assumed(room, &resources, &mut free, &assumed);
    let (claim, request) = (Claim::of(ask.claim), resources.request(ask.request));
    let open = (0..room.nodes.len()).filter(|&node| claim.allows(&room.nodes[node]));
    let on_nodes = open.fold(0, |sum: i64, node| sum.saturating_add(free.times(node, &request)));
    let applies = |quota: &Quota| {
        requirements.is_some_and(|wanted| wanted.namespace.is_empty() || wanted.namespace == quota.namespace)
    };
    bounded(on_nodes.min(quota::bound(room.quotas, applies, &[ask], &assumed)))
}

/// How many whole sets of these parts the member has room for. Parts without any pod are no bound. Quotas of
/// `namespace` bound it, and none where it is empty.
pub fn component_sets(room: &NodeRoom<'_>, namespace: &str, components: &[Component]) -> i32 {
    let asks = Ask::of_components(components);
    if asks.iter().all(|ask| ask.count == 0) {
        return i32::MAX;
    }
    let assumed = assumed(room);
    let (resources, mut free) = counted(room, &asks, &assumed);
    place_assumed(room, &resources, &mut free, &assumed);
    let mut layers: Vec<Layer> = asks.iter().map(|ask| Layer::of(ask, &resources)).collect();
    let on_nodes = first_fit::sets(room.nodes, &mut free, &mut layers);
    let applies = |quota: &Quota| quota.namespace == namespace;
    bounded(on_nodes.min(quota::bound(room.quotas, applies, &asks, &assumed)))
}

type AssumedAsks<'a> = Vec<(&'a str, Vec<Ask<'a>>)>;

fn assumed<'a>(room: &NodeRoom<'a>) -> AssumedAsks<'a> {
    let asks = |workload: &'a Assumed| Ask::of_components(&workload.components);
    room.assumed.iter().map(|workload| (workload.namespace.as_str(), asks(workload))).collect()
}

/// The resources that anything here asks for, and what is free of them on each node.
fn counted<'a>(
    room: &NodeRoom<'_>,
    asks: &[Ask<'a>],
    assumed: &[(&str, Vec<Ask<'a>>)],
) -> (Resources<'a>, Free) {
    let all = asks.iter().chain(assumed.iter().flat_map(|(_, asks)| asks));
    let resources = Resources::of(all.map(|ask| ask.request));
    let free = Free::of(room.nodes, room.pods, &resources);
    (resources, free)
}

/// Lays what is assumed onto the nodes, in order; each sort of each workload goes over the nodes once. A workload that
/// does not fit keeps what room it found.
fn place_assumed(
    room: &NodeRoom<'_>,
    resources: &Resources<'_>,
    free: &mut Free,
    assumed: &[(&str, Vec<Ask<'_>>)],
) {
    for (_, asks) in assumed {
        let mut layers: Vec<Layer> = asks.iter().map(|ask| Layer::of(ask, resources)).collect();
        first_fit::set(room.nodes, free, &mut layers);
    }
}

fn bounded(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(i32::MAX)
}
