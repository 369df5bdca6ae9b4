//! The ResourceQuotas that clusters are given by a FederatedResourceQuota's static assignments.
//!
//! In: the quota, whether a cluster is there, the clusters that have a Work of it. Out: Works to write, and clusters whose Work goes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::ResourceList;
use karmada_api::federated_resource_quota::FederatedResourceQuota;
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde_json::json;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Works as they shall be, by cluster.
    pub put: Vec<Work>,
    /// Clusters whose Work is to go.
    pub remove: BTreeSet<String>,
}

/// The Works of a quota, none where it is gone. `is_there` tells which clusters can be sent anything; `held` are those that have a Work of it.
///
/// Of several assignments of one cluster the first holds. One that says nothing of what is allowed makes no Work, and leaves one alone.
pub fn plan<'a>(
    quota: Option<&FederatedResourceQuota>,
    is_there: impl Fn(&str) -> bool,
    held: impl IntoIterator<Item = &'a str>,
) -> Plan {
    let quota = quota.filter(|quota| !quota.deleting());
    let mut given: BTreeMap<&str, Option<&ResourceList>> = BTreeMap::new();
    for assignment in quota.iter().flat_map(|quota| &quota.spec.static_assignments) {
        given.entry(&assignment.cluster_name).or_insert(assignment.hard.as_ref());
    }
    let stays = |cluster: &&str| given.contains_key(cluster);
    let remove = held.into_iter().filter(|cluster| !stays(cluster)).map(str::to_owned).collect();
    let works = quota.iter().flat_map(|quota| {
        let wanted = given.iter().filter(|(cluster, _)| is_there(cluster));
        wanted.filter_map(|(cluster, hard)| Some(work(quota, cluster, (*hard)?)))
    });
    Plan { put: works.collect(), remove }
}

/// The Work that carries a ResourceQuota to a cluster.
fn work(quota: &FederatedResourceQuota, cluster: &str, hard: &ResourceList) -> Work {
    let (namespace, name) = (quota.namespace(), quota.name());
    let work_name = names::work_name("ResourceQuota", name, namespace);
    let execution = names::execution_namespace(cluster);
    let spec = if hard.is_empty() { json!({}) } else { json!({"hard": hard}) };
    let mut manifest = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    object::set_label(&mut manifest, labels::MANAGED, labels::MANAGED_VALUE);
    object::set_annotation(&mut manifest, annotations::WORK_NAMESPACE, &execution);
    object::set_annotation(&mut manifest, annotations::WORK_NAME, &work_name);
    let uid = quota.metadata.uid.as_deref().unwrap_or_default();
    object::set_annotation(&mut manifest, annotations::TEMPLATE_UID, uid);
    let marks = [(labels::QUOTA_NAMESPACE, namespace), (labels::QUOTA_NAME, name)];
    Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: ObjectMeta {
            name: Some(work_name),
            namespace: Some(execution),
            labels: Some(marks.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: WorkSpec { workload: WorkloadTemplate { manifests: vec![manifest] }, ..WorkSpec::default() },
        ..Work::default()
    }
}
