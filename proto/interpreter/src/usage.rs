//! What a binding uses of a quota: the requests of one replica, or of one set of its parts, taken as often as they are placed.
//!
//! In: a binding's spec. Out: amounts by resource, nothing left out but zeros.

use karmada_api::binding::{BindingSpec, Component, ResourceList};

use crate::pod_request::add;

fn times(amounts: &ResourceList, times: i64) -> ResourceList {
    amounts.iter().map(|(name, amount)| (name.clone(), amount.times(times))).collect()
}

/// What one set of parts asks for.
pub fn of_components(parts: &[Component]) -> ResourceList {
    let mut total = ResourceList::new();
    for part in parts {
        if let Some(wanted) = &part.replica_requirements {
            add(&mut total, &times(&wanted.resource_request, i64::from(part.replicas.max(0))));
        }
    }
    total.retain(|_, amount| !amount.is_zero());
    total
}

/// What a binding uses in all its clusters. A workload of several parts has one set in each; one of a single part that is divided has it once. (Karmada
/// counts that part whole in each cluster.)
pub fn of_binding(spec: &BindingSpec) -> ResourceList {
    let mut usage = if spec.has_whole_sets() {
        times(&of_components(&spec.components), i64::try_from(spec.clusters.len()).unwrap_or(i64::MAX))
    } else {
        let replicas = spec.clusters.iter().map(|cluster| i64::from(cluster.replicas.max(0))).sum();
        let of_part = || Some(&spec.components.first()?.replica_requirements.as_ref()?.resource_request);
        let request = spec.replica_requirements.as_ref().map(|wanted| &wanted.resource_request);
        of_part().or(request).map(|request| times(request, replicas)).unwrap_or_default()
    };
    usage.retain(|_, amount| !amount.is_zero());
    usage
}
