//! Which changes of a cluster concern which bindings: whom to schedule again, and whom not to wake.
//!
//! In: a cluster as it was and as it is, and what a binding asks for. Out: yes or no. A yes that leads to nothing costs one look;
//! a no that should have been a yes would leave a binding where it is.

use karmada_api::binding::BindingSpec;
use karmada_api::cluster::Cluster;
use karmada_api::policy::{ClusterAffinityTerm, Placement, ReplicaSchedulingType};
use karmada_api::selector::affinity_matches;

/// Whether placement can tell two states of a cluster apart: its labels, what it is, what it serves, whether it goes. How it
/// fares and how much room it has moves nothing by itself.
pub fn matters_to_placement(before: &Cluster, now: &Cluster) -> bool {
    before.metadata.labels != now.metadata.labels
        || before.metadata.uid != now.metadata.uid
        || before.deleting() != now.deleting()
        || before.spec != now.spec
        || before.status.api_enablements != now.status.api_enablements
}

/// Whether a binding looks at every cluster each time that it is scheduled: it wants a copy in each that fits. One whose replicas
/// are divided and placed stays where it is until one of its clusters goes.
pub fn seeks_clusters(spec: &BindingSpec) -> bool {
    spec.replica_scheduling_type() == ReplicaSchedulingType::Duplicated || !spec.is_workload()
}

/// Whether one of a placement's sets means a cluster, whichever of them holds now.
pub fn may_use(placement: &Placement, cluster: &Cluster) -> bool {
    if let Some(affinity) = &placement.cluster_affinity {
        return affinity_matches(affinity, cluster);
    }
    if placement.cluster_affinities.is_empty() {
        return true;
    }
    placement.cluster_affinities.iter().any(|term| term_means(term, cluster))
}

/// Whether a group, or what it overflows to, means a cluster.
pub(super) fn term_means(term: &ClusterAffinityTerm, cluster: &Cluster) -> bool {
    let mut overflow = term.overflow_affinities.iter();
    affinity_matches(&term.affinity, cluster)
        || overflow.any(|overflow| affinity_matches(&overflow.affinity, cluster))
}
