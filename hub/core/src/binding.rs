//! A binding and its template become one Work per cluster.
//!
//! In: the binding, the template, the clusters, the override policies. Out: the Works as they shall be, one after the
//! other, and what stands in the way of single ones.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::defaulting::work::default_manifests;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::{ConflictResolution, ReplicaSchedulingType};
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{manifest, names, object};
use karmada_interpreter::{InterpretError, Interpreter, Operation};
use serde_json::Value;

use crate::failover::preservation;
use crate::kind_facts::{self, KindFacts};
use crate::overrides::{self, Applied, AppliedOverrides, OverrideError};
use crate::residency::Residency;
use crate::scheduler::{components, webster};
use crate::targets::target_clusters;

/// How many bytes a Work's note of what overrides did may have: all annotations of an object together have 256 KiB.
const LONGEST_NOTE: usize = 64 << 10;

/// What the Works of a binding are made from.
pub struct Input<'a, C, O> {
    /// The binding.
    pub binding: &'a ResourceBinding,
    /// Its template.
    pub template: &'a Value,
    /// The clusters, sorted by name as lists are; a target that is not here gets nothing.
    pub clusters: &'a [C],
    /// Every ClusterOverridePolicy.
    pub cluster_overrides: &'a [O],
    /// Every OverridePolicy (of the template's namespace at least).
    pub overrides: &'a [O],
    /// Who knows the kind.
    pub interpreter: &'a dyn Interpreter,
    /// Whether status that the workload took along when it left a cluster becomes labels where it comes to.
    pub injects_state: bool,
    /// The ResidencyRules that cover the template.
    pub residency: &'a Residency,
}

/// Why there is no Work for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The cluster does not exist.
    #[error("cluster {0} does not exist")]
    NoCluster(String),
    /// The cluster is on its way out.
    #[error("cluster {0} is being removed")]
    Leaving(String),
    /// A ResidencyRule covers the template, whatever overrides make of it, and does not allow the cluster.
    #[error("residency rule {0} does not allow it there")]
    Residency(String),
    /// An override cannot be applied.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The template cannot be changed.
    #[error("the template cannot be interpreted: {0}")]
    Interpret(#[from] InterpretError),
}

/// The Work for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterWork {
    /// The cluster.
    pub cluster: String,
    /// The Work, or why there is none.
    pub work: Result<Work, WorkError>,
    /// Which overrides were applied, for the event on the template.
    pub applied: AppliedOverrides,
}

/// The Works of a binding, one per target, sorted by cluster, each made when it is asked for. A failure in one cluster
/// leaves the others alone.
pub fn render_works<'a, C: Borrow<Cluster>, O: Borrow<OverridePolicy>>(
    input: &'a Input<'a, C, O>,
) -> impl Iterator<Item = ClusterWork> + 'a {
    let replicas = replicas_by_cluster(input.binding);
    let shares = shares(input, &replicas);
    target_clusters(input.binding).into_iter().map(move |cluster| {
        let share = Share {
            replicas: replicas.get(cluster).copied(),
            of_total: shares.as_ref().and_then(|shares| shares.of(cluster)),
        };
        match one_work(input, cluster, share) {
            Ok((work, applied)) => ClusterWork { cluster: cluster.to_owned(), work: Ok(work), applied },
            Err(error) => {
                let applied = AppliedOverrides::default();
                ClusterWork { cluster: cluster.to_owned(), work: Err(error), applied }
            }
        }
    })
}

/// What one cluster gets of the whole.
#[derive(Clone, Copy)]
struct Share {
    replicas: Option<i32>,
    /// Its part of a total that is divided as replicas are, and where that stands.
    of_total: Option<(&'static [&'static str], i64)>,
}

/// A total that is divided, by cluster.
struct Shares {
    path: &'static [&'static str],
    by_cluster: BTreeMap<String, i64>,
}

impl Shares {
    fn of(&self, cluster: &str) -> Option<(&'static [&'static str], i64)> {
        Some((self.path, *self.by_cluster.get(cluster)?))
    }
}

/// The replicas of clusters that were chosen. A cluster that only a referrer requires has none.
fn replicas_by_cluster(binding: &ResourceBinding) -> BTreeMap<&str, i32> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

/// The total of a divided template that is divided as its replicas were (a Job's completions), and by cluster.
fn shares<C, O>(input: &Input<'_, C, O>, replicas: &BTreeMap<&str, i32>) -> Option<Shares> {
    let divided = input.binding.spec.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    let path = facts(input.template).divided_total.filter(|_| divided)?;
    let total = object::get(input.template, path).and_then(Value::as_i64)?;
    let votes: Vec<(String, i64)> =
        replicas.iter().map(|(name, replicas)| ((*name).to_owned(), i64::from(*replicas))).collect();
    let by_cluster = webster::divide(total, &votes, &[], object::uid(input.template)).into_iter().collect();
    Some(Shares { path, by_cluster })
}

/// An override that takes the address away which the hub gave to a Service takes the list of addresses with it: a member refuses
/// one without the other.
fn drop_addresses(template: &Value, wanted: &mut Value) {
    let Some([address, addresses]) = facts(template).filled_in_together else { return };
    let given = template["spec"][address].as_str().is_some_and(|address| address != "None");
    let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if given && !spec.contains_key(address) {
        spec.remove(addresses);
    }
}

fn facts(template: &Value) -> &'static KindFacts {
    kind_facts::of_kind(object::api_version(template), object::kind(template))
}

fn one_work<C: Borrow<Cluster>, O: Borrow<OverridePolicy>>(
    input: &Input<'_, C, O>,
    cluster_name: &str,
    share: Share,
) -> Result<(Work, AppliedOverrides), WorkError> {
    let at = input.clusters.binary_search_by(|cluster| cluster.borrow().name().cmp(cluster_name));
    let cluster: &Cluster = at
        .map(|at| input.clusters[at].borrow())
        .map_err(|_| WorkError::NoCluster(cluster_name.to_owned()))?;
    if cluster.deleting() {
        return Err(WorkError::Leaving(cluster_name.to_owned()));
    }
    input.residency.admits(cluster).map_err(|rule| WorkError::Residency(rule.to_owned()))?;
    let mut wanted = input.template.clone();
    let (api_version, kind) = (object::api_version(&wanted), object::kind(&wanted));
    let revises = input.interpreter.enabled(api_version, kind, Operation::ReviseReplica);
    // Of several parts each cluster gets all as they are: the binding says no number of replicas then.
    let is_divided = input.binding.spec.is_workload() && !components::has_several(&input.binding.spec);
    if let Some(replicas) = share.replicas.filter(|_| revises && is_divided) {
        input.interpreter.revise_replica(&mut wanted, i64::from(replicas))?;
    }
    if let Some((path, part)) = share.of_total {
        object::set(&mut wanted, path, Value::from(part));
    }
    if let Some(labels) = preservation::brought(input.binding, cluster_name).filter(|_| input.injects_state) {
        preservation::put_on(&mut wanted, labels);
    }
    // Overriders see the template as it is on the hub; what one API server filled in for itself goes afterwards.
    let applied = overrides::apply(&mut wanted, cluster, input.cluster_overrides, input.overrides)?;
    drop_addresses(input.template, &mut wanted);
    manifest::prune(&mut wanted, true);
    let namespace = names::execution_namespace(cluster_name);
    let name = names::work_name(
        object::kind(input.template),
        object::name(input.template),
        object::namespace(input.template),
    );
    let reference = BindingReference::of(input.binding);
    let resolution = conflict_resolution(&wanted, input.binding);
    stamp(&mut wanted, input.template, &namespace, &name, resolution, &reference);
    let work = Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: metadata(namespace, name, reference, &applied),
        spec: WorkSpec {
            workload: WorkloadTemplate { manifests: vec![wanted] },
            suspend_dispatching: suspended(input.binding, cluster_name).then_some(true),
            preserve_resources_on_deletion: input.binding.spec.preserve_resources_on_deletion,
        },
        ..Work::default()
    };
    Ok((work, applied))
}

/// How a Work and its manifest tell which binding they come from.
pub struct BindingReference {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl BindingReference {
    fn of(binding: &ResourceBinding) -> Self {
        let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let (id_key, name_key) = if binding.namespace().is_empty() {
            (labels::CLUSTER_RESOURCE_BINDING_ID, annotations::CLUSTER_RESOURCE_BINDING_NAME)
        } else {
            (labels::RESOURCE_BINDING_ID, annotations::RESOURCE_BINDING_NAME)
        };
        let mut annotations = BTreeMap::from([text(name_key, binding.name())]);
        if !binding.namespace().is_empty() {
            annotations.extend([text(annotations::RESOURCE_BINDING_NAMESPACE, binding.namespace())]);
        }
        Self { labels: BTreeMap::from([text(id_key, binding.label(id_key).unwrap_or(""))]), annotations }
    }
}

/// What happens to an object of the member that is in the way: the template with its overrides says, else the binding.
fn conflict_resolution(manifest: &Value, binding: &ResourceBinding) -> &'static str {
    match said_resolution(manifest) {
        Some(said) => said,
        None if binding.spec.conflict_resolution == Some(ConflictResolution::Overwrite) => {
            annotations::CONFLICT_OVERWRITE
        }
        None => annotations::CONFLICT_ABORT,
    }
}

/// What a manifest itself says of an object that is in its way; a word that nobody knows says nothing.
pub(crate) fn said_resolution(manifest: &Value) -> Option<&'static str> {
    match object::annotation(manifest, annotations::CONFLICT_RESOLUTION) {
        Some(annotations::CONFLICT_OVERWRITE) => Some(annotations::CONFLICT_OVERWRITE),
        Some(annotations::CONFLICT_ABORT) => Some(annotations::CONFLICT_ABORT),
        _ => None,
    }
}

/// Whether nothing is sent to a cluster now.
pub(crate) fn suspended(binding: &ResourceBinding, cluster: &str) -> bool {
    binding.spec.suspension.as_ref().is_some_and(|suspension| {
        let named = suspension.dispatching_on_clusters.as_ref();
        suspension.dispatching == Some(true)
            || named.is_some_and(|named| named.cluster_names.iter().any(|name| name == cluster))
    })
}

/// Stamps a manifest with where it comes from. Which keys are the hub's is recorded last, when the
/// Work is admitted.
fn stamp(
    manifest: &mut Value,
    template: &Value,
    namespace: &str,
    name: &str,
    conflict_resolution: &str,
    reference: &BindingReference,
) {
    object::set_label(manifest, labels::MANAGED, labels::MANAGED_VALUE);
    reference.labels.iter().for_each(|(key, value)| object::set_label(manifest, key, value));
    reference.annotations.iter().for_each(|(key, value)| object::set_annotation(manifest, key, value));
    object::set_annotation(manifest, annotations::WORK_NAMESPACE, namespace);
    object::set_annotation(manifest, annotations::WORK_NAME, name);
    object::set_annotation(manifest, annotations::TEMPLATE_UID, object::uid(template));
    let generation = object::generation(template);
    if generation > 0 {
        object::set_annotation(manifest, annotations::TEMPLATE_GENERATION, &generation.to_string());
    }
    object::set_annotation(manifest, annotations::CONFLICT_RESOLUTION, conflict_resolution);
}

fn metadata(
    namespace: String,
    name: String,
    reference: BindingReference,
    applied: &AppliedOverrides,
) -> ObjectMeta {
    let mut notes = reference.annotations;
    let mut record = |key: &str, applied: &Applied| {
        if let Ok(text) = serde_json::to_string(&applied.applied_items)
            && !applied.applied_items.is_empty()
        {
            let fits = text.len() <= LONGEST_NOTE;
            notes.insert(key.to_owned(), if fits { text } else { applied.names_alone(LONGEST_NOTE) });
        }
    };
    record(annotations::APPLIED_CLUSTER_OVERRIDES, &applied.cluster);
    record(annotations::APPLIED_OVERRIDES, &applied.namespaced);
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace),
        labels: Some(reference.labels),
        annotations: Some(notes),
        finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
        ..ObjectMeta::default()
    }
}

/// The Work to write where one exists: the wanted spec, labels and annotations in the existing object; none if
/// nothing changed. The manifest is completed as admission completes it, so that the comparison is exact.
pub fn merged(existing: &Work, wanted: &Work) -> Option<Work> {
    let metadata = merged_metadata(&existing.metadata, &wanted.metadata);
    let id = metadata.labels.as_ref().and_then(|labels| labels.get(labels::WORK_ID));
    let mut spec = wanted.spec.clone();
    default_manifests(&mut spec.workload.manifests, id.map_or("", String::as_str));
    let is_same = metadata == existing.metadata && spec == existing.spec;
    (!is_same).then(|| Work {
        api_version: existing.api_version.clone(),
        kind: existing.kind.clone(),
        metadata,
        spec,
        status: existing.status.clone(),
    })
}

fn merged_metadata(existing: &ObjectMeta, wanted: &ObjectMeta) -> ObjectMeta {
    let mut merged = existing.clone();
    let have = merged.labels.get_or_insert_default();
    // It is wanted again.
    have.remove(labels::REMOVAL_HELD);
    have.extend(wanted.labels.clone().unwrap_or_default());
    have.entry(labels::WORK_ID.to_owned()).or_default();
    let have = merged.annotations.get_or_insert_default();
    have.remove(annotations::APPLIED_OVERRIDES);
    have.remove(annotations::APPLIED_CLUSTER_OVERRIDES);
    have.extend(wanted.annotations.clone().unwrap_or_default());
    let have = merged.finalizers.get_or_insert_default();
    for finalizer in wanted.finalizers.iter().flatten() {
        if !have.contains(finalizer) {
            have.push(finalizer.clone());
        }
    }
    // An absent map or list and an empty one are the same to the API, and must be here.
    merged.finalizers = merged.finalizers.filter(|list| !list.is_empty());
    merged.annotations = merged.annotations.filter(|map| !map.is_empty());
    merged
}

/// The label and value by which the Works of a binding are found.
pub fn work_selector(binding: &ResourceBinding) -> (&'static str, String) {
    let key = if binding.namespace().is_empty() {
        labels::CLUSTER_RESOURCE_BINDING_ID
    } else {
        labels::RESOURCE_BINDING_ID
    };
    (key, binding.label(key).unwrap_or("").to_owned())
}
