//! Hub namespaces go along to every cluster, so that what is placed there has a place. In: a namespace, a cluster, ClusterOverridePolicies.
//! Out: whether it goes along, and its Work. Pure.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{manifest, names, object};
use serde_json::Value;

use crate::binding::said_resolution;
use crate::overrides::{self, OverrideError};
use crate::skipped_resources::SkipRules;

/// Whether a hub namespace is carried along.
pub fn is_carried_along(namespace: &Value, skip: &SkipRules) -> bool {
    let name = object::name(namespace);
    let kept_back = object::label(namespace, labels::SKIP_AUTO_PROPAGATION)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let skipped = name == "default" || skip.skips_namespace(name);
    !(skipped || kept_back || object::deleting(namespace))
}

/// The Work that carries a namespace to a cluster. Owned by the namespace: it goes when the namespace goes.
///
/// # Errors
/// A ClusterOverridePolicy cannot be applied.
pub fn namespace_work<O: Borrow<OverridePolicy>>(
    namespace: &Value,
    cluster: &Cluster,
    cluster_overrides: &[O],
) -> Result<Work, OverrideError> {
    let mut wanted = namespace.clone();
    let applied = overrides::apply(&mut wanted, cluster, cluster_overrides, &[])?;
    manifest::prune(&mut wanted, true);
    // What the API server of the hub keeps in the namespace is the hub's.
    if let Some(root) = wanted.as_object_mut() {
        root.remove("spec");
    }
    let name = names::work_name("Namespace", object::name(namespace), "");
    let execution = names::execution_namespace(cluster.name());
    object::set_label(&mut wanted, labels::MANAGED, labels::MANAGED_VALUE);
    object::set_annotation(&mut wanted, annotations::WORK_NAMESPACE, &execution);
    object::set_annotation(&mut wanted, annotations::WORK_NAME, &name);
    object::set_annotation(&mut wanted, annotations::TEMPLATE_UID, object::uid(namespace));
    // A namespace that the member had before stays the member's, unless the namespace or an override says otherwise:
    // taken over, it would be deleted with the hub's, and with it everything in it.
    let resolution = said_resolution(&wanted).unwrap_or(annotations::CONFLICT_ABORT);
    object::set_annotation(&mut wanted, annotations::CONFLICT_RESOLUTION, resolution);
    let mut notes = BTreeMap::new();
    if let Ok(text) = serde_json::to_string(&applied.cluster.applied_items)
        && !applied.cluster.applied_items.is_empty()
    {
        notes.insert(annotations::APPLIED_CLUSTER_OVERRIDES.to_owned(), text);
    }
    Ok(Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(execution),
            annotations: (!notes.is_empty()).then_some(notes),
            finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Namespace".to_owned(),
                name: object::name(namespace).to_owned(),
                uid: object::uid(namespace).to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: WorkSpec { workload: WorkloadTemplate { manifests: vec![wanted] }, ..WorkSpec::default() },
        ..Work::default()
    })
}
