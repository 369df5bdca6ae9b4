//! What is told of a FederatedResourceQuota.
//!
//! In: the Works that carry its ResourceQuotas, what the namespace's bindings use. Out: `status`.

use karmada_api::binding::ResourceList;
use karmada_api::federated_resource_quota::{
    ClusterQuotaStatus, FederatedResourceQuota, FederatedResourceQuotaStatus,
};
use karmada_api::names;
use karmada_api::strings::conditions;
use karmada_api::work::Work;
use karmada_interpreter::pod_request::add;
use karmada_quantity::Quantity;
use karmada_resource_quota::amounts;

/// Where what is used is counted.
#[derive(Clone, Copy, Debug)]
pub enum Counted<'a> {
    /// In the bindings, which all together use this: where quotas are enforced.
    InBindings(&'a ResourceList),
    /// In the members, by their ResourceQuotas.
    InMembers,
}

/// What the member of one Work says; none where its ResourceQuota is not applied, or was not counted yet.
pub fn of_member(work: &Work) -> Option<ClusterQuotaStatus> {
    let applied = work.status.condition(conditions::APPLIED)?;
    let status = work.status.manifest_statuses.first()?.status.as_ref()?;
    let cluster = names::cluster_of_execution_namespace(work.metadata.namespace.as_deref()?)?;
    (applied.status == conditions::TRUE).then(|| ClusterQuotaStatus {
        cluster_name: cluster.to_owned(),
        hard: amounts(&status["hard"]),
        used: amounts(&status["used"]),
    })
}

/// What of an amount is told for a quota: of the resources that it limits, those of which something is used.
pub fn tracked(quota: &FederatedResourceQuota, used: &ResourceList) -> ResourceList {
    let limited = used
        .iter()
        .filter(|(resource, amount)| **amount > Quantity::ZERO && quota.spec.overall.contains_key(*resource));
    limited.map(|(resource, amount)| (resource.clone(), *amount)).collect()
}

/// The whole status.
pub fn status(
    quota: &FederatedResourceQuota,
    members: impl IntoIterator<Item = ClusterQuotaStatus>,
    counted: Counted<'_>,
) -> FederatedResourceQuotaStatus {
    let mut members: Vec<ClusterQuotaStatus> = members.into_iter().collect();
    members.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    let overall_used = match counted {
        Counted::InBindings(used) => tracked(quota, used),
        Counted::InMembers => {
            let mut used = ResourceList::new();
            members.iter().for_each(|member| add(&mut used, &member.used));
            used
        }
    };
    FederatedResourceQuotaStatus {
        overall: quota.spec.overall.clone(),
        overall_used,
        aggregated_status: members,
    }
}
