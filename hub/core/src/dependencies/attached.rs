//! Attached bindings: a referrer is entered into one, or taken out.
//!
//! In: the binding that there is, the referrer, the object that follows it, and what the other referrers wish. Out: the binding as it shall be. A
//! listed referrer that is none any more is taken out on the way. (Karmada fails until it returns.)

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karmada_api::binding::{BindingSnapshot, BindingSpec, ObjectReference, ResourceBinding, TargetCluster};
use karmada_api::names;
use karmada_api::policy::PurgeMode;
use karmada_api::strings::{annotations, finalizers, labels};

use super::agreement::{DependencyPreferences, agree};
use super::label_key;
use crate::targets::target_clusters;
use crate::template_ownership;

/// What another referrer wishes, by namespace and name; none where there is no such referrer.
pub type Wishes<'a> = &'a dyn Fn(&str, &str) -> Option<DependencyPreferences>;

/// Why a referrer cannot be entered now. Both end with the binding that stands in the way; try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The binding of that name was made for another object.
    #[error(
        "binding {0} belongs to another object of the same name: what is to follow is placed once that binding is gone"
    )]
    OtherOwner(String),
    /// It is on its way out.
    #[error("binding {0} is being deleted")]
    Leaving(String),
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new binding.
    Create(Box<ResourceBinding>),
    /// The binding as it shall be now.
    Update(Box<ResourceBinding>),
    /// Nothing.
    Nothing,
}

/// What comes of entering a referrer.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// What to write.
    pub change: Change,
    /// What its referrers disagree about, in words.
    pub dispute: Option<String>,
}

/// The clusters in which a referrer needs what follows it: those chosen, and those that it is leaving for as long as its own Works stay there.
/// (Karmada takes the first alone, so that what leaves gracefully runs on without its Secrets.)
pub fn clusters(referrer: &BindingSpec) -> Vec<TargetCluster> {
    let mut clusters = referrer.clusters.clone();
    for task in &referrer.graceful_eviction_tasks {
        let stays = task.purge_mode != Some(PurgeMode::Directly);
        if stays && clusters.iter().all(|target| target.name != task.from_cluster) {
            clusters.push(TargetCluster { name: task.from_cluster.clone(), ..TargetCluster::default() });
        }
    }
    clusters
}

/// Whether a referrer is nowhere and has been nowhere: nothing need follow it until it is placed.
pub fn is_unplaced(referrer: &ResourceBinding) -> bool {
    clusters(&referrer.spec).is_empty() && referrer.annotation(annotations::DEPENDENCIES).is_none()
}

/// A referrer with its clusters, as attached bindings list it.
fn snapshot(referrer: &ResourceBinding) -> BindingSnapshot {
    BindingSnapshot {
        namespace: referrer.namespace().to_owned(),
        name: referrer.name().to_owned(),
        clusters: clusters(&referrer.spec),
    }
}

/// Puts a referrer in: in its place where it is listed, else at the end.
pub fn list(listed: &mut Vec<BindingSnapshot>, referrer: &BindingSnapshot) {
    let mut known = false;
    for entry in listed.iter_mut().filter(|entry| is(entry, &referrer.namespace, &referrer.name)) {
        entry.clone_from(referrer);
        known = true;
    }
    if !known {
        listed.push(referrer.clone());
    }
}

/// Why a referrer is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is gone, or on its way out, as a person deleted its template or the binding.
    Deleted,
    /// It is there, and what followed it does not follow it any more.
    Otherwise,
}

/// Takes a referrer out.
pub fn unlist(listed: &mut Vec<BindingSnapshot>, namespace: &str, name: &str) {
    listed.retain(|entry| !is(entry, namespace, name));
}

fn is(entry: &BindingSnapshot, namespace: &str, name: &str) -> bool {
    entry.namespace == namespace && entry.name == name
}

/// A new attached binding for an object, in the namespace of its referrer. What both agree on is not in it yet.
pub fn built(referrer: &ResourceBinding, object: &ObjectReference) -> ResourceBinding {
    let mut binding = ResourceBinding {
        api_version: "work.karmada.io/v1alpha2".to_owned(),
        kind: "ResourceBinding".to_owned(),
        metadata: ObjectMeta {
            name: Some(names::binding_name(&object.kind, &object.name)),
            namespace: Some(referrer.namespace().to_owned()),
            finalizers: Some(vec![finalizers::BINDING.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: object.api_version.clone(),
                kind: object.kind.clone(),
                name: object.name.clone(),
                uid: object.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: BindingSpec {
            resource: object.clone(),
            conflict_resolution: referrer.spec.conflict_resolution,
            preserve_resources_on_deletion: referrer.spec.preserve_resources_on_deletion,
            ..BindingSpec::default()
        },
        ..ResourceBinding::default()
    };
    enter(&mut binding, referrer);
    binding
}

fn enter(binding: &mut ResourceBinding, referrer: &ResourceBinding) {
    list(&mut binding.spec.required_by, &snapshot(referrer));
    let id = referrer.label(labels::RESOURCE_BINDING_ID).unwrap_or("").to_owned();
    let key = label_key(referrer.namespace(), referrer.name());
    binding.metadata.labels.get_or_insert_default().insert(key, id);
}

/// The binding of `object` with `referrer` entered; `existing` is what has its name now.
///
/// # Errors
/// `existing` is on its way out ([`AttachError::Leaving`]), or is of another object of that name ([`AttachError::OtherOwner`]).
pub fn attach(
    existing: Option<&ResourceBinding>,
    referrer: &ResourceBinding,
    object: &ObjectReference,
    wishes: Wishes<'_>,
) -> Result<Attach, AttachError> {
    let its_own = (referrer.namespace(), referrer.name());
    let wishes = |namespace: &str, name: &str| match (namespace, name) == its_own {
        true => Some(DependencyPreferences::of(&referrer.spec)),
        false => wishes(namespace, name),
    };
    let Some(existing) = existing else {
        let mut binding = built(referrer, object);
        let dispute = drop_gone_referrers(&mut binding, &wishes);
        return Ok(Attach { change: Change::Create(Box::new(binding)), dispute });
    };
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(AttachError::Leaving(existing.name().to_owned()));
    }
    let mut owners = existing.metadata.owner_references.iter().flatten();
    let is_anothers = owners.any(|owner| owner.controller == Some(true) && owner.uid != object.uid);
    if is_anothers || template_ownership::is_of_another_kind(existing, &object.api_version, &object.kind) {
        return Err(AttachError::OtherOwner(existing.name().to_owned()));
    }
    let mut wanted = existing.clone();
    // Of the same object it may tell another version, as who made it reads it.
    if wanted.spec.resource.uid != object.uid {
        wanted.spec.resource = object.clone();
    }
    let held = wanted.metadata.finalizers.get_or_insert_default();
    if !held.iter().any(|finalizer| finalizer == finalizers::BINDING) {
        held.push(finalizers::BINDING.to_owned());
    }
    enter(&mut wanted, referrer);
    let dispute = drop_gone_referrers(&mut wanted, &wishes);
    let noted = let_go(&wanted);
    note_let_go(&mut wanted, noted);
    let change = if wanted == *existing { Change::Nothing } else { Change::Update(Box::new(wanted)) };
    Ok(Attach { change, dispute })
}

/// The binding without a referrer that left it so, listed or labelled; none where it is so already. One that nobody requires any more stays, without clusters:
/// it goes with its object.
pub fn detach(
    existing: &ResourceBinding,
    namespace: &str,
    name: &str,
    wishes: Wishes<'_>,
    left: Left,
) -> Option<ResourceBinding> {
    let mut wanted = existing.clone();
    unlist(&mut wanted.spec.required_by, namespace, name);
    unlabel(&mut wanted, namespace, name);
    if wanted == *existing {
        return None;
    }
    drop_gone_referrers(&mut wanted, wishes);
    let mut noted = let_go(existing);
    if left == Left::Deleted {
        noted.extend(target_clusters(existing).into_iter().map(str::to_owned));
    }
    note_let_go(&mut wanted, noted);
    Some(wanted)
}

/// The binding without a cluster that is on its way out, in every entry but those of referrers that `still_say` so: who listens to those would enter it
/// again. None where it is so. What stayed would place the objects in the next cluster of that name.
pub fn without_cluster(
    existing: &ResourceBinding,
    cluster: &str,
    still_say: &dyn Fn(&str, &str) -> bool,
) -> Option<ResourceBinding> {
    let mut wanted = existing.clone();
    let is_named = |entry: &BindingSnapshot| entry.clusters.iter().any(|target| target.name == cluster);
    for entry in wanted.spec.required_by.iter_mut().filter(|entry| is_named(entry)) {
        if !still_say(&entry.namespace, &entry.name) {
            entry.clusters.retain(|target| target.name != cluster);
        }
    }
    (wanted != *existing).then_some(wanted)
}

/// The clusters that what a person deleted let go of: Works there need nobody's word. What a policy places is placed by that alone.
pub fn let_go(binding: &ResourceBinding) -> BTreeSet<String> {
    let noted = binding.annotation(annotations::LET_GO).filter(|_| binding.spec.placement.is_none());
    noted.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect()
}

/// Notes those of these clusters in which nobody wants the binding.
fn note_let_go(binding: &mut ResourceBinding, noted: BTreeSet<String>) {
    let wanted: BTreeSet<String> = target_clusters(binding).into_iter().map(str::to_owned).collect();
    let names: Vec<String> = noted.into_iter().filter(|name| !wanted.contains(name)).collect();
    let notes = binding.metadata.annotations.get_or_insert_default();
    if names.is_empty() {
        notes.remove(annotations::LET_GO);
    } else {
        notes.insert(annotations::LET_GO.to_owned(), names.join(","));
    }
    if notes.is_empty() {
        binding.metadata.annotations = None;
    }
}

fn unlabel(binding: &mut ResourceBinding, namespace: &str, name: &str) {
    let Some(labels) = &mut binding.metadata.labels else { return };
    labels.remove(&label_key(namespace, name));
    if labels.is_empty() {
        binding.metadata.labels = None;
    }
}

/// Takes out who is no referrer any more, and writes what the others agree on. A policy's own binding is as that policy says. Returns what they
/// disagree about.
fn drop_gone_referrers(binding: &mut ResourceBinding, wishes: Wishes<'_>) -> Option<String> {
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for entry in std::mem::take(&mut binding.spec.required_by) {
        match wishes(&entry.namespace, &entry.name) {
            Some(wish) => kept.push((entry, wish)),
            None => gone.push(entry),
        }
    }
    gone.iter().for_each(|entry| unlabel(binding, &entry.namespace, &entry.name));
    let agreement = agree(kept.iter().map(|(_, wish)| *wish));
    let nobody = kept.is_empty();
    binding.spec.required_by = kept.into_iter().map(|(entry, _)| entry).collect();
    if binding.spec.placement.is_some() {
        return None;
    }
    binding.spec.conflict_resolution = (!nobody).then(|| agreement.conflict_resolution());
    binding.spec.preserve_resources_on_deletion = (!nobody).then_some(agreement.holds.preserve);
    agreement.dispute()
}

#[cfg(test)]
mod tests;
