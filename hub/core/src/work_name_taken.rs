//! Whose a Work is, and how it is called where the usual name is another's. Pure.
//!
//! In: the Work that shall be, and the one that is there under its name. Out: what is to be written. Usual names end with a hash of
//! 32 bits over namespace, name and kind, as Karmada's do: two objects can have one, and who may choose a namespace's name finds such
//! a pair at once. A Work of somebody else is never written over; the second one gets a name of its own and keeps it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karmada_api::strings::{annotations, labels};
use karmada_api::work::Work;
use karmada_api::{names, object};

use crate::binding::merged;

/// What is to be done about a Work that shall be.
#[derive(Clone, Debug, PartialEq)]
pub enum Placing {
    /// There is none: it is created.
    Create,
    /// It is there, and shall be like this.
    Update(Box<Work>),
    /// It is there, and as it shall be.
    Nothing,
    /// An earlier life of it is on its way out.
    Wait,
    /// The name is another's: whose.
    Taken(String),
}

/// What is to be done about `wanted` where `existing` has its name.
pub fn placing(existing: Option<&Work>, wanted: &Work) -> Placing {
    let Some(existing) = existing else { return Placing::Create };
    let holder = owner(existing);
    if let Some(holder) = holder.filter(|holder| Some(holder) != owner(wanted).as_ref()) {
        return Placing::Taken(holder);
    }
    if existing.metadata.deletion_timestamp.is_some() || is_of_an_earlier_life(existing, wanted) {
        return Placing::Wait;
    }
    merged(existing, wanted).map_or(Placing::Nothing, |merged| Placing::Update(Box::new(merged)))
}

/// The name that `wanted` has where its usual one is another's. What identifies the owner is drawn by the hub: nobody can choose it so
/// that this name is taken, too.
pub fn of_its_own(wanted: &Work) -> String {
    let label = |key: &str| wanted.metadata.labels.as_ref()?.get(key).cloned();
    let id = label(labels::RESOURCE_BINDING_ID)
        .or_else(|| label(labels::CLUSTER_RESOURCE_BINDING_ID))
        .or_else(|| namespace_of(wanted).map(|(_, uid)| uid.to_owned()));
    let id = id.filter(|id| !id.is_empty()).or_else(|| owner(wanted)).unwrap_or_default();
    names::second_work_name(wanted.metadata.name.as_deref().unwrap_or_default(), &id)
}

/// `wanted` under another name, which its objects tell as well.
pub fn renamed(wanted: &Work, name: &str) -> Work {
    let mut work = wanted.clone();
    work.metadata.name = Some(name.to_owned());
    for manifest in &mut work.spec.workload.manifests {
        object::set_annotation(manifest, annotations::WORK_NAME, name);
    }
    work
}

/// What a Work is made from; `None` for one that somebody made by hand.
fn owner(work: &Work) -> Option<String> {
    let note = |key: &str| work.metadata.annotations.as_ref()?.get(key);
    if let Some(name) = note(annotations::RESOURCE_BINDING_NAME) {
        let namespace = note(annotations::RESOURCE_BINDING_NAMESPACE).map_or("", String::as_str);
        return Some(format!("ResourceBinding {namespace}/{name}"));
    }
    if let Some(name) = note(annotations::CLUSTER_RESOURCE_BINDING_NAME) {
        return Some(format!("ClusterResourceBinding {name}"));
    }
    let label = |key: &str| work.metadata.labels.as_ref()?.get(key);
    if let (Some(namespace), Some(name)) = (label(labels::QUOTA_NAMESPACE), label(labels::QUOTA_NAME)) {
        return Some(format!("FederatedResourceQuota {namespace}/{name}"));
    }
    if let (Some(namespace), Some(name)) =
        (label(labels::MULTI_CLUSTER_SERVICE_NAMESPACE), label(labels::MULTI_CLUSTER_SERVICE_NAME))
    {
        // Slices of two clusters may have one name.
        let from = note(annotations::PROVISION_CLUSTER).map_or("", String::as_str);
        return Some(format!("MultiClusterService {namespace}/{name} {from}").trim_end().to_owned());
    }
    if let (Some(namespace), Some(name)) = (label(labels::SLICE_OF_NAMESPACE), label(labels::SLICE_OF_NAME)) {
        return Some(format!("ServiceExport {namespace}/{name}"));
    }
    if let Some(cluster) = owning(work, "Cluster") {
        return Some(owning_cluster(&cluster.name));
    }
    namespace_of(work).map(|(name, _)| format!("Namespace {name}"))
}

/// Name and uid of the namespace that a Work carries to its cluster.
fn namespace_of(work: &Work) -> Option<(&str, &str)> {
    let owner = owning(work, "Namespace").filter(|owner| owner.api_version == "v1")?;
    Some((&owner.name, &owner.uid))
}

/// Whose a Work is that a Cluster has for itself.
pub(crate) fn owning_cluster(name: &str) -> String {
    format!("Cluster {name}")
}

/// The owner of this kind.
fn owning<'a>(work: &'a Work, kind: &str) -> Option<&'a OwnerReference> {
    work.metadata.owner_references.iter().flatten().find(|owner| owner.kind == kind)
}

/// Whether a Work is of a namespace that is gone, and whose name another one has now: it goes with the one that it is of.
fn is_of_an_earlier_life(existing: &Work, wanted: &Work) -> bool {
    match (namespace_of(existing), namespace_of(wanted)) {
        (Some((_, before)), Some((_, now))) => before != now,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(notes: &serde_json::Value, id: &str) -> Work {
        serde_json::from_value(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "a-1", "namespace": "karmada-es-m", "annotations": notes, "labels": {"resourcebinding.karmada.io/permanent-id": id}},
            "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}}))
        .unwrap()
    }

    fn bound(namespace: &str, name: &str) -> Work {
        let notes = json!({"resourcebinding.karmada.io/namespace": namespace, "resourcebinding.karmada.io/name": name});
        work(&notes, &format!("id-of-{namespace}-{name}"))
    }

    #[test]
    fn a_work_of_another_binding_is_never_written_over() {
        let (mine, theirs) = (bound("a", "x"), bound("b", "x"));
        assert_eq!(placing(None, &mine), Placing::Create);
        assert_eq!(placing(Some(&theirs), &mine), Placing::Taken("ResourceBinding b/x".into()));
        let cluster_wide = work(&json!({"clusterresourcebinding.karmada.io/name": "x"}), "");
        assert_eq!(placing(Some(&cluster_wide), &mine), Placing::Taken("ClusterResourceBinding x".into()));
        let mut going = bound("a", "x");
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(placing(Some(&going), &mine), Placing::Wait);
        let mut of_quota = work(&json!({}), "");
        let marks = [(labels::QUOTA_NAMESPACE, "a"), (labels::QUOTA_NAME, "q")];
        of_quota.metadata.labels = Some(marks.map(|(key, value)| (key.into(), value.into())).into());
        assert_eq!(placing(Some(&of_quota), &mine), Placing::Taken("FederatedResourceQuota a/q".into()));
        assert!(matches!(placing(Some(&of_quota), &of_quota), Placing::Update(_)));
        let mut asking = work(&json!({}), "");
        let marks = [(labels::SLICE_OF_NAMESPACE, "a"), (labels::SLICE_OF_NAME, "s")];
        asking.metadata.labels = Some(marks.map(|(key, value)| (key.into(), value.into())).into());
        assert_eq!(placing(Some(&asking), &mine), Placing::Taken("ServiceExport a/s".into()));
        let by_hand = work(&json!({}), "");
        assert!(matches!(placing(Some(&by_hand), &mine), Placing::Update(_)), "nobody's is taken over");
        let Placing::Update(written) = placing(Some(&mine), &mine) else { panic!("it is completed") };
        assert_eq!(placing(Some(&written), &mine), Placing::Nothing);
    }

    #[test]
    fn the_second_name_is_the_owners_own_and_told_by_its_objects() {
        let (mine, theirs) = (bound("a", "x"), bound("b", "x"));
        let name = of_its_own(&mine);
        assert!(name.starts_with("a-1-") && name != of_its_own(&theirs) && name == of_its_own(&mine));
        let renamed = renamed(&mine, &name);
        assert_eq!(renamed.metadata.name.as_deref(), Some(name.as_str()));
        let manifest = &renamed.spec.workload.manifests[0];
        assert_eq!(object::annotation(manifest, annotations::WORK_NAME), Some(name.as_str()));
    }
}
