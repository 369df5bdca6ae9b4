//! MultiClusterService: a Service that Pods of some clusters provide and others reach. Pure.
//!
//! In: the MultiClusterService, its Service, the clusters, what is there already. Out: the Service and its binding as they are to be, so that the
//! Service is in all these clusters; the Works by which providers' agents are asked where it is reached; what is wrong with the clusters that are
//! named. What of the answers counts is [`told`]'s, what is done with them [`dispatch`]'s.

pub mod dispatch;
pub mod shared_addresses;
pub mod told;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use karmada_api::binding::{BindingSpec, ObjectReference, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::manifest::record_managed;
use karmada_api::multi_cluster_service::{CROSS_CLUSTER, ClusterSelector, MultiClusterService};
use karmada_api::policy::{ClusterAffinity, ConflictResolution, Placement};
use karmada_api::strings::{annotations, conditions as c, events, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde_json::{Value, json};

use crate::detector::unclaim;
use crate::skipped_resources::SkipRules;
use crate::{condition, object_size, set_condition};

/// `apiVersion` of MultiClusterServices.
pub const API: &str = "networking.karmada.io/v1alpha1";
/// `apiVersion` of what is dispatched.
pub const SLICES: &str = "discovery.k8s.io/v1";

/// Bytes of what a MultiClusterService says that go along with each question.
const LARGEST_SPEC_ASKED: usize = 16 << 10;

/// Whether clusters are to reach each other by it; where not, what it brought goes.
pub fn is_exposed(service: &MultiClusterService) -> bool {
    !service.deleting() && service.spec.types.iter().any(|one| one == CROSS_CLUSTER)
}

/// The clusters of one side: those that are named, or all.
fn side<'a>(named: &'a [ClusterSelector], all: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    if named.is_empty() { all.collect() } else { named.iter().map(|one| one.name.as_str()).collect() }
}

/// Between which clusters traffic goes, also where one of them is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides<'a> {
    /// Where the Pods are.
    pub providers: BTreeSet<&'a str>,
    /// From where they are reached.
    pub consumers: BTreeSet<&'a str>,
}

impl<'a> Sides<'a> {
    /// By name, or all clusters.
    pub fn of<C: AsRef<Cluster>>(service: &'a MultiClusterService, clusters: &'a [C]) -> Self {
        let all = || clusters.iter().map(|cluster| cluster.as_ref().name());
        Sides {
            providers: side(&service.spec.provider_clusters, all()),
            consumers: side(&service.spec.consumer_clusters, all()),
        }
    }

    /// The clusters of both sides, each once.
    pub fn both(&self) -> BTreeSet<&'a str> {
        self.providers.union(&self.consumers).copied().collect()
    }
}

/// Why nothing is asked of a cluster, or given to it, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is on its way out.
    Leaving,
    /// It is not ready.
    NotReady,
    /// It does not serve EndpointSlices.
    ApiIncompatible,
}

/// Whether a cluster can tell and take EndpointSlices.
///
/// # Errors
/// Why not: [`Unfit::Leaving`], [`Unfit::NotReady`] or [`Unfit::ApiIncompatible`], in this order.
pub fn takes_part(cluster: &Cluster) -> Result<(), Unfit> {
    if cluster.deleting() {
        return Err(Unfit::Leaving);
    }
    if cluster.condition(c::READY).is_none_or(|ready| ready.status != c::TRUE) {
        return Err(Unfit::NotReady);
    }
    if cluster.serves(SLICES, "EndpointSlice") { Ok(()) } else { Err(Unfit::ApiIncompatible) }
}

/// What is wrong with the clusters that are named: the reason of an event, and its words.
pub fn complaints<C: AsRef<Cluster>>(
    service: &MultiClusterService,
    clusters: &[C],
) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let spec = &service.spec;
    let known: BTreeMap<&str, &Cluster> =
        clusters.iter().map(AsRef::as_ref).map(|cluster| (cluster.name(), cluster)).collect();
    for (side, named) in [("provider", &spec.provider_clusters), ("consumer", &spec.consumer_clusters)] {
        let names: BTreeSet<&str> = named.iter().map(|one| one.name.as_str()).collect();
        for name in names {
            match known.get(name) {
                None => all.push((events::CLUSTER_NOT_FOUND, format!("{side} cluster {name} is not found"))),
                Some(cluster) if takes_part(cluster) == Err(Unfit::ApiIncompatible) => {
                    let words = format!("{side} cluster {name} does not serve EndpointSlices of {SLICES}");
                    all.push((events::API_INCOMPATIBLE, words));
                }
                Some(_) => {}
            }
        }
    }
    all
}

fn id(service: &MultiClusterService) -> String {
    service.label(labels::MULTI_CLUSTER_SERVICE_ID).unwrap_or_default().to_owned()
}

/// Labels by which the Works of a MultiClusterService are found.
fn work_labels(service: &MultiClusterService) -> BTreeMap<String, String> {
    let pairs = [
        (labels::MULTI_CLUSTER_SERVICE_NAMESPACE, service.namespace()),
        (labels::MULTI_CLUSTER_SERVICE_NAME, service.name()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Name of the Work by which a provider's agent is asked. Karmada derives it without the kind, and so does this.
pub fn question_name(service_namespace: &str, service_name: &str) -> String {
    names::work_name("", service_name, service_namespace)
}

/// What makes a question: of which object, by which Work.
pub(crate) struct Question<'a> {
    /// Namespace of the Service.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What a MultiClusterService says: a question is one, whoever asks.
    pub spec: Value,
    /// The uid of the object on the hub for which it is asked.
    pub uid: &'a str,
    /// Name of the Work.
    pub work_name: String,
    /// Labels by which the Work is found.
    pub labels: BTreeMap<String, String>,
}

/// The Work by which the agent of a cluster is asked where a Service is reached there: it holds a MultiClusterService, and is held back, so that
/// nothing is made of it. Its status is the answer.
pub(crate) fn asking(question: Question<'_>, cluster: &str) -> Work {
    let namespace = names::execution_namespace(cluster);
    let mut manifest = json!({"apiVersion": API, "kind": "MultiClusterService",
        "metadata": {"name": question.name, "namespace": question.namespace}, "spec": question.spec});
    object::set_label(&mut manifest, labels::MANAGED, labels::MANAGED_VALUE);
    if let Some(id) = question.labels.get(labels::MULTI_CLUSTER_SERVICE_ID) {
        object::set_label(&mut manifest, labels::MULTI_CLUSTER_SERVICE_ID, id);
    }
    object::set_annotation(&mut manifest, annotations::WORK_NAMESPACE, &namespace);
    object::set_annotation(&mut manifest, annotations::WORK_NAME, &question.work_name);
    object::set_annotation(&mut manifest, annotations::TEMPLATE_UID, question.uid);
    record_managed(&mut manifest);
    Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: ObjectMeta {
            name: Some(question.work_name),
            namespace: Some(namespace),
            labels: Some(question.labels),
            ..ObjectMeta::default()
        },
        spec: WorkSpec {
            workload: WorkloadTemplate { manifests: vec![manifest] },
            suspend_dispatching: Some(true),
            ..WorkSpec::default()
        },
        ..Work::default()
    }
}

/// The question to a provider. What the MultiClusterService says goes along, as in Karmada, where it is not so much that the questions to as many
/// clusters as it names would fill the hub: nobody reads it there.
pub fn question(service: &MultiClusterService, cluster: &str) -> Work {
    let mut marks = work_labels(service);
    marks.insert(labels::MULTI_CLUSTER_SERVICE_ID.to_owned(), id(service));
    let question = Question {
        namespace: service.namespace(),
        name: service.name(),
        spec: match object_size::bytes(&service.spec) <= LARGEST_SPEC_ASKED {
            true => serde_json::to_value(&service.spec).unwrap_or_default(),
            false => json!({"types": service.spec.types}),
        },
        uid: service.metadata.uid.as_deref().unwrap_or_default(),
        work_name: question_name(service.namespace(), service.name()),
        labels: marks,
    };
    asking(question, cluster)
}

/// What is asked of whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Clusters whose question is to stand.
    pub ask: Vec<String>,
    /// Clusters whose question is to go. A provider that is not well now keeps its own.
    pub remove: BTreeSet<String>,
}

/// Who is asked of the providers of a Service; `held` are the clusters that have one.
pub fn questions<'a, C: AsRef<Cluster>>(
    service: &MultiClusterService,
    clusters: &[C],
    held: impl IntoIterator<Item = &'a str>,
) -> Questions {
    if !is_exposed(service) {
        return Questions { ask: Vec::new(), remove: held.into_iter().map(str::to_owned).collect() };
    }
    let sides = Sides::of(service, clusters);
    let provides = |cluster: &&Cluster| sides.providers.contains(cluster.name());
    let asked = clusters.iter().map(AsRef::as_ref).filter(provides);
    let ask = asked.filter(|cluster| takes_part(cluster).is_ok()).map(|one| one.name().to_owned());
    let remove = held.into_iter().filter(|cluster| !sides.providers.contains(cluster)).map(str::to_owned);
    Questions { ask: ask.collect(), remove: remove.collect() }
}

/// The Service as it is to be: placed by the MultiClusterService, and by no policy. `None` where it is so.
pub fn claimed(template: &Value, service: &MultiClusterService) -> Option<Value> {
    let mut wanted = template.clone();
    unclaim(&mut wanted);
    object::set_label(&mut wanted, labels::CLAIMED_BY, labels::BY_MULTI_CLUSTER_SERVICE);
    object::set_label(&mut wanted, labels::MULTI_CLUSTER_SERVICE_ID, &id(service));
    note(&mut wanted, service);
    (wanted != *template).then_some(wanted)
}

/// Notes of whose an object is.
fn note(wanted: &mut Value, service: &MultiClusterService) {
    for (key, value) in work_labels(service) {
        object::set_annotation(wanted, &key, &value);
    }
}

/// The Service, or its binding, without the marks of this MultiClusterService: policies may place it again. `None` where it has none.
pub fn released(template: &Value, service: &MultiClusterService) -> Option<Value> {
    let is_its = object::label(template, labels::MULTI_CLUSTER_SERVICE_ID) == Some(id(service).as_str());
    if !is_its {
        return None;
    }
    let mut wanted = template.clone();
    for label in [labels::CLAIMED_BY, labels::BINDING_MANAGED_BY, labels::MULTI_CLUSTER_SERVICE_ID] {
        object::remove_label(&mut wanted, label);
    }
    for annotation in work_labels(service).into_keys() {
        object::remove_annotation(&mut wanted, &annotation);
    }
    Some(wanted)
}

/// Name of the binding of the Service: the one that a policy's would have.
pub fn binding_name(service: &MultiClusterService) -> String {
    names::binding_name("Service", service.name())
}

/// The binding that places the Service in the clusters of both sides. `None` where it is so.
pub fn binding(
    service: &MultiClusterService,
    template: &Value,
    clusters: &BTreeSet<&str>,
    existing: Option<&ResourceBinding>,
) -> Option<ResourceBinding> {
    let mut wanted = existing.cloned().unwrap_or_else(|| ResourceBinding {
        api_version: "work.karmada.io/v1alpha2".to_owned(),
        kind: "ResourceBinding".to_owned(),
        metadata: ObjectMeta {
            name: Some(binding_name(service)),
            namespace: Some(service.namespace().to_owned()),
            finalizers: Some(vec![finalizers::BINDING.to_owned()]),
            ..ObjectMeta::default()
        },
        ..ResourceBinding::default()
    });
    marked(&mut wanted.metadata, service, template);
    let before = wanted.spec;
    let affinity = ClusterAffinity {
        cluster_names: clusters.iter().map(|name| (*name).to_owned()).collect(),
        ..ClusterAffinity::default()
    };
    // Where it is now, what else follows it, what a person holds back and whether it is kept when it goes, stays; the rest that a policy said
    // goes.
    wanted.spec = BindingSpec {
        resource: ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace: service.namespace().to_owned(),
            name: service.name().to_owned(),
            uid: object::uid(template).to_owned(),
            resource_version: String::new(),
        },
        placement: Some(Placement { cluster_affinity: Some(affinity), ..Placement::default() }),
        conflict_resolution: Some(ConflictResolution::Overwrite),
        clusters: before.clusters,
        graceful_eviction_tasks: before.graceful_eviction_tasks,
        required_by: before.required_by,
        reschedule_triggered_at: before.reschedule_triggered_at,
        scheduler_name: before.scheduler_name,
        suspension: before.suspension,
        preserve_resources_on_deletion: before.preserve_resources_on_deletion,
        ..BindingSpec::default()
    };
    (existing != Some(&wanted)).then_some(wanted)
}

/// Whose the binding is: no policy's, and the Service's to end with.
fn marked(metadata: &mut ObjectMeta, service: &MultiClusterService, template: &Value) {
    let have = metadata.labels.get_or_insert_default();
    have.remove(labels::PROPAGATION_POLICY_ID);
    have.remove(labels::CLUSTER_PROPAGATION_POLICY_ID);
    have.insert(labels::BINDING_MANAGED_BY.to_owned(), labels::BY_MULTI_CLUSTER_SERVICE.to_owned());
    have.insert(labels::MULTI_CLUSTER_SERVICE_ID.to_owned(), id(service));
    let have = metadata.annotations.get_or_insert_default();
    let policys = [
        annotations::PROPAGATION_POLICY_NAMESPACE,
        annotations::PROPAGATION_POLICY_NAME,
        annotations::CLUSTER_PROPAGATION_POLICY_NAME,
        annotations::LAZILY_SEEN,
    ];
    policys.into_iter().for_each(|key| drop(have.remove(key)));
    have.extend(work_labels(service));
    let owned = metadata.owner_references.get_or_insert_default();
    if !owned.iter().any(|owner| owner.uid == object::uid(template)) {
        *owned = vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: service.name().to_owned(),
            uid: object::uid(template).to_owned(),
            ..OwnerReference::default()
        }];
    }
}

/// The conditions of a MultiClusterService, of which carrying it out came to this. `None` where they say so.
pub fn conditions(
    service: &MultiClusterService,
    came: Result<(), &str>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let (status, reason, message) = match came {
        Ok(()) => (c::TRUE, c::SERVICE_APPLIED_SUCCEED, c::SERVICE_APPLIED_MESSAGE),
        Err(why) => (c::FALSE, c::SERVICE_APPLIED_FAILED, why),
    };
    let mut all = service.status.conditions.clone();
    set_condition(&mut all, condition(c::SERVICE_APPLIED, status, reason, message, now)).then_some(all)
}

/// Why a Service crosses no clusters, where it is never propagated: what every cluster has of its own, and what is the clusters' own.
pub fn kept_out(service: &MultiClusterService, skip: &SkipRules) -> Option<String> {
    let meant = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": service.namespace(), "name": service.name()}});
    let (namespace, name) = (service.namespace(), service.name());
    skip.skips(&meant)
        .then(|| format!("Service {namespace}/{name} is never propagated: each cluster has its own"))
}

/// Why a Service is not placed whose binding's name is another object's.
pub fn name_is_taken(binding: &str) -> String {
    format!(
        "ResourceBinding {binding} is of another object: the Service cannot be placed while that one is there"
    )
}

/// Why a Service is not placed that is not there.
pub fn not_found(name: &str) -> String {
    format!("services \"{name}\" not found")
}
