//! What remedies ask to be done for a cluster.
//!
//! In: a cluster with its conditions, all remedies. Out: the actions of those that mean it and of which a reason holds, sorted, each once.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use karmada_api::cluster::Cluster;
use karmada_api::policy::ClusterAffinity;
use karmada_api::remedy::{DecisionMatch, Remedy};
use karmada_api::selector::affinity_matches;

/// The actions.
pub fn actions<R: Borrow<Remedy>>(cluster: &Cluster, remedies: &[R]) -> Vec<String> {
    let asked = remedies.iter().map(Borrow::borrow).filter(|remedy| asks(remedy, cluster));
    let all: BTreeSet<&String> = asked.flat_map(|remedy| &remedy.spec.actions).collect();
    all.into_iter().cloned().collect()
}

/// Whether a remedy is for a cluster as it is.
fn asks(remedy: &Remedy, cluster: &Cluster) -> bool {
    let spec = &remedy.spec;
    let reasons = &spec.decision_matches;
    means(remedy, cluster) && (reasons.is_empty() || reasons.iter().any(|reason| holds(reason, cluster)))
}

/// Whether a remedy is about a cluster, however it is. As in Karmada, one without an affinity is about every cluster, and one with an empty
/// affinity about none.
pub fn means(remedy: &Remedy, cluster: &Cluster) -> bool {
    let Some(affinity) = &remedy.spec.cluster_affinity else { return true };
    *affinity != ClusterAffinity::default() && affinity_matches(affinity, cluster)
}

/// Whether a reason holds. Of a condition that the cluster does not have nothing is known.
fn holds(reason: &DecisionMatch, cluster: &Cluster) -> bool {
    let Some(wanted) = &reason.cluster_condition_match else { return false };
    let Some(condition) = cluster.condition(&wanted.condition_type) else { return false };
    let equal = condition.status == wanted.condition_status;
    match wanted.operator.as_str() {
        "Equal" => equal,
        "NotEqual" => !equal,
        _ => false,
    }
}
