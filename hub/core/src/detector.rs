//! Which policy takes a template, and the binding that comes of it.
//!
//! In: a template, the policies, the binding as it is. Out: who claims it, the marks of the claim, the binding as it
//! shall be. What others decide in a binding (clusters, evictions, who requires it, suspended scheduling) is never
//! touched here.

pub mod activation;
mod preemption;
mod reading;

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karmada_api::binding::{
    BindingSpec, BindingSuspension, ObjectReference, ResourceBinding, SchedulePriority,
    WorkloadAffinityGroups,
};
use karmada_api::policy::{PropagationPolicy, ResourceSelector, WorkloadAffinityTerm};
use karmada_api::strings::{DEFAULT_SCHEDULER, annotations, finalizers, labels};
use karmada_api::{names, object, selector};
use karmada_interpreter::InterpretError;
use serde_json::Value;

use self::activation::Activation;
pub use self::preemption::Takeover;
pub use self::reading::{Parts, Reading};
use crate::cluster_expressions;
use crate::skipped_resources::{self, SkipRules};
use crate::template_ownership;

/// How closely a selector means an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Not at all.
    None = 0,
    /// As one of all of its kind.
    All = 1,
    /// By its labels.
    Labels = 2,
    /// By its name.
    Name = 3,
}

/// What selectors look at of an object.
pub struct Subject<'a> {
    /// Group and version.
    pub api_version: Cow<'a, str>,
    /// Kind.
    pub kind: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> Subject<'a> {
    /// What they look at of this one.
    pub fn of(object: &'a Value) -> Self {
        Self {
            api_version: Cow::Borrowed(object::api_version(object)),
            kind: object::kind(object),
            namespace: object::namespace(object),
            name: object::name(object),
            labels: Cow::Owned(object::labels(object)),
        }
    }
}

fn rank_of_selector(subject: &Subject<'_>, wanted: &ResourceSelector) -> Rank {
    let elsewhere = !wanted.namespace.is_empty() && wanted.namespace != subject.namespace;
    if wanted.kind != subject.kind || wanted.api_version != subject.api_version || elsewhere {
        return Rank::None;
    }
    if !wanted.name.is_empty() {
        return if wanted.name == subject.name { Rank::Name } else { Rank::None };
    }
    match &wanted.label_selector {
        None => Rank::All,
        // A selector that cannot be read means nothing.
        Some(labels) if selector::labels_match(labels, &subject.labels).unwrap_or(false) => Rank::Labels,
        Some(_) => Rank::None,
    }
}

/// The closest rank of several selectors.
pub fn rank(subject: &Subject<'_>, selectors: &[ResourceSelector]) -> Rank {
    selectors.iter().map(|wanted| rank_of_selector(subject, wanted)).max().unwrap_or(Rank::None)
}

/// The policy of one kind that wins an object: higher priority, then closer rank, then smaller name. A policy on its
/// way out never wins.
pub fn best<'a>(
    subject: &Subject<'_>,
    policies: impl IntoIterator<Item = &'a PropagationPolicy>,
) -> Option<&'a PropagationPolicy> {
    policies
        .into_iter()
        .filter(|policy| !policy.deleting())
        .map(|policy| (policy, rank(subject, &policy.spec.resource_selectors)))
        .filter(|(_, rank)| *rank != Rank::None)
        .max_by(|(a, a_rank), (b, b_rank)| {
            a.priority().cmp(&b.priority()).then(a_rank.cmp(b_rank)).then(b.name().cmp(a.name()))
        })
        .map(|(policy, _)| policy)
}

/// What shall happen with a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'a> {
    /// It is never propagated, or something else than the detector propagates it.
    Leave,
    /// This policy has it, or takes it now.
    Claimed(&'a PropagationPolicy),
    /// The first policy takes it from the second.
    TakenOver(&'a PropagationPolicy, &'a PropagationPolicy),
    /// No policy means it: it loses marks of a claim, and waits.
    Waits,
}

/// Who has an object according to its marks: label key and value.
fn claim_of(object: &Value) -> Option<(&'static str, &str)> {
    [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID]
        .into_iter()
        .find_map(|key| object::label(object, key).filter(|id| !id.is_empty()).map(|id| (key, id)))
}

/// Whether the policy that an object's marks name is this one, or they name none. A policy that was copied has the permanent id of another.
fn is_named(object: &Value, policy: &PropagationPolicy) -> bool {
    let names = |key: &str, name: &str| object::annotation(object, key).is_none_or(|named| named == name);
    match policy.namespace() {
        "" => names(annotations::CLUSTER_PROPAGATION_POLICY_NAME, policy.name()),
        namespace => {
            names(annotations::PROPAGATION_POLICY_NAMESPACE, namespace)
                && names(annotations::PROPAGATION_POLICY_NAME, policy.name())
        }
    }
}

/// Whether an object, a template or a binding, bears the marks of this policy's claim.
pub fn is_claimed_by(object: &Value, policy: &PropagationPolicy) -> bool {
    let is_its_id = |(key, id): (&str, &str)| policy.label(key) == Some(id);
    claim_of(object).is_some_and(is_its_id) && is_named(object, policy)
}

/// Which policy has a template. A policy that claimed it keeps it as long as it means it, even where a better one came later, save one that
/// takes it over. `namespaced` are PropagationPolicies of any namespace, `cluster_wide`
/// ClusterPropagationPolicies.
pub fn decide<'a, P: Borrow<PropagationPolicy>>(
    template: &Value,
    namespaced: &'a [P],
    cluster_wide: &'a [P],
    skip: &SkipRules,
    takeover: Takeover,
) -> Decision<'a> {
    if skip.skips(template)
        || skipped_resources::is_told_to_api_servers(template)
        || object::label(template, labels::CLAIMED_BY).is_some()
    {
        return Decision::Leave;
    }
    let namespace = object::namespace(template);
    let near = || {
        let all = namespaced.iter().map(Borrow::borrow);
        all.filter(|policy: &&PropagationPolicy| !namespace.is_empty() && policy.namespace() == namespace)
    };
    let wide = || cluster_wide.iter().map(Borrow::borrow);
    let subject = Subject::of(template);
    if let Some((key, id)) = claim_of(template) {
        let is_of = |policy: &&PropagationPolicy| policy.label(key) == Some(id) && is_named(template, policy);
        let claiming = near().chain(wide()).find(is_of);
        let keeps = |policy: &&PropagationPolicy| {
            !policy.deleting() && rank(&subject, &policy.spec.resource_selectors) != Rank::None
        };
        if let Some(policy) = claiming.filter(keeps) {
            let taker = match takeover {
                Takeover::Never => None,
                Takeover::AsPoliciesSay => preemption::taker(&subject, policy, near(), wide()),
            };
            return match taker {
                Some(taker) => Decision::TakenOver(taker, policy),
                None => Decision::Claimed(policy),
            };
        }
    }
    match best(&subject, near()).or_else(|| best(&subject, wide())) {
        Some(policy) => Decision::Claimed(policy),
        None => Decision::Waits,
    }
}

/// What a claim puts on a template: labels and annotations.
struct ClaimMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn claim_metadata(policy: &PropagationPolicy) -> ClaimMetadata {
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    if policy.namespace().is_empty() {
        let id = policy.label(labels::CLUSTER_PROPAGATION_POLICY_ID).unwrap_or("");
        ClaimMetadata {
            labels: BTreeMap::from([text(labels::CLUSTER_PROPAGATION_POLICY_ID, id)]),
            annotations: BTreeMap::from([text(annotations::CLUSTER_PROPAGATION_POLICY_NAME, policy.name())]),
        }
    } else {
        let id = policy.label(labels::PROPAGATION_POLICY_ID).unwrap_or("");
        ClaimMetadata {
            labels: BTreeMap::from([text(labels::PROPAGATION_POLICY_ID, id)]),
            annotations: BTreeMap::from([
                text(annotations::PROPAGATION_POLICY_NAMESPACE, policy.namespace()),
                text(annotations::PROPAGATION_POLICY_NAME, policy.name()),
            ]),
        }
    }
}

const CLAIM_LABELS: [&str; 2] = [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID];
const CLAIM_ANNOTATIONS: [&str; 3] = [
    annotations::PROPAGATION_POLICY_NAMESPACE,
    annotations::PROPAGATION_POLICY_NAME,
    annotations::CLUSTER_PROPAGATION_POLICY_NAME,
];

/// Marks a template (or a binding) as claimed by `policy`, and by no other. Whether it changed.
pub fn claim(object: &mut Value, policy: &PropagationPolicy) -> bool {
    let before = (object::labels(object), object::annotations(object));
    let claim = claim_metadata(policy);
    for key in CLAIM_LABELS.iter().filter(|key| !claim.labels.contains_key(**key)) {
        object::remove_label(object, key);
    }
    for key in CLAIM_ANNOTATIONS.iter().filter(|key| !claim.annotations.contains_key(**key)) {
        object::remove_annotation(object, key);
    }
    claim.labels.iter().for_each(|(key, value)| object::set_label(object, key, value));
    claim.annotations.iter().for_each(|(key, value)| object::set_annotation(object, key, value));
    before != (object::labels(object), object::annotations(object))
}

/// Takes the marks of any claim away; the object, its binding and what runs in members stay. Whether
/// it changed.
pub fn unclaim(object: &mut Value) -> bool {
    let mut changed = false;
    for key in CLAIM_LABELS {
        changed |= object::remove_label(object, key);
    }
    for key in CLAIM_ANNOTATIONS.into_iter().chain([annotations::LAZILY_SEEN]) {
        changed |= object::remove_annotation(object, key);
    }
    changed
}

/// The override policies that a policy waits for and that do not exist. `existing` are names of
/// OverridePolicies of the policy's namespace, or of ClusterOverridePolicies.
pub fn missing_overrides(policy: &PropagationPolicy, existing: &BTreeSet<String>) -> Vec<String> {
    policy.spec.dependent_overrides.iter().filter(|name| !existing.contains(*name)).cloned().collect()
}

/// Why a binding cannot be made now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// A binding of that name belongs to an older template of the same name; it goes when its owner is collected.
    /// Try again.
    #[error("binding {name} belongs to another object (uid {owner}); waiting for it to be collected")]
    OtherOwner {
        /// The binding.
        name: String,
        /// Uid of its owner.
        owner: String,
    },
    /// A binding of that name places an object of another kind. Try again: with that one it may go.
    #[error(
        "binding {name} places {places} of the same name: this object is placed once that binding is gone"
    )]
    OtherKind {
        /// The binding.
        name: String,
        /// The kind that it places.
        places: String,
    },
    /// The template cannot be read.
    #[error("the template cannot be interpreted: {0}")]
    Interpret(#[from] InterpretError),
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingChange {
    /// A new binding.
    Create(Box<ResourceBinding>),
    /// The binding as it shall be now.
    Update(Box<ResourceBinding>),
    /// This one is of an earlier template and nobody's any more: it goes, with its Works, and then a new one is made.
    Replace,
    /// Nothing. A template whose resourceVersion alone changed leaves its binding as it is.
    Nothing,
}

/// The binding of a claimed template. `priority` is the value of the policy's PriorityClass, where it names one:
/// the caller looks it up first, and makes no binding where it does not exist.
///
/// # Errors
/// `existing` is of an older template ([`BindingError::OtherOwner`]) or of another kind ([`BindingError::OtherKind`]), or this one cannot be read ([`BindingError::Interpret`]).
pub fn plan_binding(
    template: &Value,
    policy: &PropagationPolicy,
    existing: Option<&ResourceBinding>,
    reading: Reading<'_>,
    priority: Option<i32>,
) -> Result<BindingChange, BindingError> {
    let activation = activation::decide(template, policy, existing);
    let Some(existing) = existing else {
        if activation == Activation::WithTheNextChange {
            return Ok(BindingChange::Nothing);
        }
        let spec = spec(template, policy, BindingSpec::default(), reading, priority)?;
        let mut binding = ResourceBinding {
            api_version: "work.karmada.io/v1alpha2".to_owned(),
            kind: binding_kind(template).to_owned(),
            metadata: metadata(template, policy),
            spec,
            ..ResourceBinding::default()
        };
        cluster_expressions::carry(&mut binding.metadata, &policy.metadata);
        return Ok(BindingChange::Create(Box::new(binding)));
    };
    let owner = existing.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    if let Some(owner) = owner.filter(|owner| owner.uid != object::uid(template)) {
        let (name, owner) = (existing.name().to_owned(), owner.uid.clone());
        return Err(BindingError::OtherOwner { name, owner });
    }
    if template_ownership::is_of_another_kind(existing, object::api_version(template), object::kind(template))
    {
        let placed = &existing.spec.resource;
        let places = format!("{} of {}", placed.kind, placed.api_version);
        return Err(BindingError::OtherKind { name: existing.name().to_owned(), places });
    }
    if template_ownership::is_left_over(existing, Some(template)) {
        return Ok(BindingChange::Replace);
    }
    let mut wanted = existing.clone();
    wanted.spec = match activation {
        Activation::Now => spec(template, policy, existing.spec.clone(), reading, priority)?,
        Activation::WithTheNextChange => of_template(template, existing.spec.clone(), reading)?,
    };
    adopt(&mut wanted.metadata, metadata(template, policy));
    if activation == Activation::Now {
        cluster_expressions::carry(&mut wanted.metadata, &policy.metadata);
    }
    let mut compared = wanted.clone();
    compared.spec.resource.resource_version.clone_from(&existing.spec.resource.resource_version);
    if compared == *existing {
        return Ok(BindingChange::Nothing);
    }
    Ok(BindingChange::Update(Box::new(wanted)))
}

/// The kind of a template's binding.
pub fn binding_kind(template: &Value) -> &'static str {
    if object::namespace(template).is_empty() { "ClusterResourceBinding" } else { "ResourceBinding" }
}

fn metadata(template: &Value, policy: &PropagationPolicy) -> ObjectMeta {
    let mut claim = claim_metadata(policy);
    let seen =
        activation::template_digest(template, policy).map(|seen| (annotations::LAZILY_SEEN.to_owned(), seen));
    claim.annotations.extend(seen);
    let namespace = object::namespace(template);
    let finalizer = if namespace.is_empty() { finalizers::CLUSTER_BINDING } else { finalizers::BINDING };
    ObjectMeta {
        name: Some(names::binding_name(object::kind(template), object::name(template))),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        labels: Some(claim.labels),
        annotations: Some(claim.annotations),
        finalizers: Some(vec![finalizer.to_owned()]),
        owner_references: Some(vec![OwnerReference {
            api_version: object::api_version(template).to_owned(),
            kind: object::kind(template).to_owned(),
            name: object::name(template).to_owned(),
            uid: object::uid(template).to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// Puts what is wanted into metadata that exists: other policies' marks go, everything else stays.
fn adopt(metadata: &mut ObjectMeta, wanted: ObjectMeta) {
    let have = metadata.labels.get_or_insert_default();
    CLAIM_LABELS.iter().for_each(|key| drop(have.remove(*key)));
    have.extend(wanted.labels.unwrap_or_default());
    let have = metadata.annotations.get_or_insert_default();
    CLAIM_ANNOTATIONS.iter().chain(&[annotations::LAZILY_SEEN]).for_each(|key| drop(have.remove(*key)));
    have.extend(wanted.annotations.unwrap_or_default());
    for finalizer in wanted.finalizers.unwrap_or_default() {
        let have = metadata.finalizers.get_or_insert_default();
        if !have.contains(&finalizer) {
            have.push(finalizer);
        }
    }
    let owned = metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    if !owned {
        metadata.owner_references.get_or_insert_default().extend(wanted.owner_references.unwrap_or_default());
    }
}

/// The spec: what the policy and the template say, on top of what others decided in `existing`.
fn spec(
    template: &Value,
    policy: &PropagationPolicy,
    existing: BindingSpec,
    reading: Reading<'_>,
    priority: Option<i32>,
) -> Result<BindingSpec, InterpretError> {
    let scheduler = &policy.spec.scheduler_name;
    let existing = of_template(template, existing, reading)?;
    Ok(BindingSpec {
        propagate_deps: policy.spec.propagate_deps,
        scheduler_name: if scheduler.is_empty() { DEFAULT_SCHEDULER.to_owned() } else { scheduler.clone() },
        placement: Some(policy.spec.placement.clone()),
        failover: policy.spec.failover.clone(),
        conflict_resolution: policy.spec.conflict_resolution,
        suspension: suspension(policy, existing.suspension.as_ref()),
        preserve_resources_on_deletion: policy.spec.preserve_resources_on_deletion,
        schedule_priority: priority.map(|priority| SchedulePriority { priority }),
        workload_affinity_groups: workload_affinity_groups(template, policy),
        ..existing
    })
}

/// The spec with what the template alone says.
fn of_template(
    template: &Value,
    existing: BindingSpec,
    reading: Reading<'_>,
) -> Result<BindingSpec, InterpretError> {
    let workload = reading.workload(template)?;
    Ok(BindingSpec {
        resource: reference(template),
        replicas: workload.replicas.count,
        replica_requirements: workload.replicas.requirements,
        components: workload.components,
        ..existing
    })
}

/// The groups of workloads to be with, and apart from: the value that the template has for the label by which the policy groups them. Without
/// the label it is in no group.
fn workload_affinity_groups(template: &Value, policy: &PropagationPolicy) -> Option<WorkloadAffinityGroups> {
    let wanted = policy.spec.placement.workload_affinity.as_ref()?;
    let group = |term: &Option<WorkloadAffinityTerm>| {
        let key = term.as_ref().map(|term| term.group_by_label_key.as_str()).filter(|key| !key.is_empty());
        let value = key.and_then(|key| Some((key, object::label(template, key)?)));
        value.map(|(key, value)| format!("{key}={value}")).unwrap_or_default()
    };
    let groups = WorkloadAffinityGroups {
        affinity_group: group(&wanted.affinity),
        anti_affinity_group: group(&wanted.anti_affinity),
    };
    (groups != WorkloadAffinityGroups::default()).then_some(groups)
}

pub(crate) fn reference(template: &Value) -> ObjectReference {
    ObjectReference {
        api_version: object::api_version(template).to_owned(),
        kind: object::kind(template).to_owned(),
        namespace: object::namespace(template).to_owned(),
        name: object::name(template).to_owned(),
        uid: object::uid(template).to_owned(),
        resource_version: object::resource_version(template).to_owned(),
    }
}

/// What is held back: dispatching as the policy says, scheduling as it was.
fn suspension(policy: &PropagationPolicy, existing: Option<&BindingSuspension>) -> Option<BindingSuspension> {
    let wanted = policy.spec.suspension.clone().unwrap_or_default();
    let suspension = BindingSuspension {
        dispatching: wanted.dispatching,
        dispatching_on_clusters: wanted.dispatching_on_clusters,
        scheduling: existing.and_then(|suspension| suspension.scheduling),
    };
    (suspension != BindingSuspension::default()).then_some(suspension)
}
