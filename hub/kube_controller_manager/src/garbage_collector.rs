//! Collects what has lost its owners, and lets owners go as they were deleted: dependants first, after, or never.
//!
//! In: every listable resource. Out: deletes and updates of dependants, owners without the `orphan` or `foregroundDeletion`
//! finalizer. The semantics are those of Kubernetes' garbage collector:
//! - an owner is absent where no object of that name, or one of another uid, exists in the dependant's namespace (or in the
//!   cluster scope); an object all of whose owners are absent goes, one of whose owners remains only loses the references;
//! - a cluster-scoped object cannot have a namespaced owner: such a reference is never resolved and nothing is deleted by it;
//! - an owner whose kind is not served is not absent, it is unknown: nothing is deleted until it is known.
//!
//! One thing is a hub's own: orphaning is about what a user made. The binding or Work that the hub made for an object goes with it, also
//! where its dependants are to stay, which is the default for Jobs and so mostly nobody's wish: left over, it would hold the object
//! in the members for ever, and keep the next one of its name from being made there. Who wants it to stay in the members says so by
//! `preserveResourcesOnDeletion`. No mark is needed for that: such a dependant keeps its reference to an owner that is then absent, and
//! is collected, after a restart as well.

mod attempt_to_delete;
mod graph;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::attempt_to_delete::{OwnerState, Verdict, decide, is_of_the_hub};
use self::graph::Graph;
pub use self::graph::ObjectId;
use super::{find, gone_is_fine, mentions};
use karmada_controller_runtime::informer::{Informers, Notice};
use karmada_controller_runtime::port::{Api, ApiError, Change, DeletionPropagation, Object, Resource};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Controller, Error};

/// How soon to ask again for an owner whose kind is not served, and to look again at an owner that waits.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: bool,
    block_owner_deletion: bool,
}

impl Default for OwnerReference {
    fn default() -> Self {
        OwnerReference {
            api_version: "".into(),
            kind: "".into(),
            name: "".into(),
            uid: "".into(),
            controller: false,
            block_owner_deletion: false,
        }
    }
}

/// What is read of an object here.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    owner_references: Vec<OwnerReference>,
    finalizers: Vec<String>,
}

impl Metadata {
    fn of(object: &Object) -> Result<Metadata, ApiError> {
        Ok(object.parse::<Head>()?.metadata)
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// Runs the collector until told to stop.
pub async fn run(informers: impl Into<Informers>, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let queue: Arc<Queue<ObjectId>> = Arc::new(Queue::default());
    let graph: Arc<Mutex<Graph>> = Arc::default();
    let collector = Arc::new(Collector { api: api.clone(), graph: graph.clone(), queue: queue.clone() });
    let handler = {
        let (api, queue) = (api.clone(), queue.clone());
        move |resource: &Resource, change: &Change| {
            let woken = graph.lock().take(resource, change, &|version, kind| api.resource_of(version, kind));
            woken.into_iter().for_each(|id| queue.add(id));
        }
    };
    // Events own nothing, are owned by nothing, and are many.
    let wanted = |resource: &Resource| &*resource.kind != "Event";
    tokio::join!(
        informers.handle_all(wanted, Notice::All, &stop, Arc::new(handler)),
        runner::run(informers.clone(), collector, queue, Vec::new(), 4, stop.clone()),
    );
}

struct Collector {
    api: Arc<dyn Api>,
    graph: Arc<Mutex<Graph>>,
    queue: Arc<Queue<ObjectId>>,
}

#[async_trait::async_trait]
impl Controller for Collector {
    type Key = ObjectId;

    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    async fn reconcile(&self, id: &ObjectId) -> Result<Action, Error> {
        let found = find(&*self.api, &id.resource, &id.key.namespace, &id.key.name).await?;
        let Some(object) = found else { return Ok(Action::Done) };
        let metadata = Metadata::of(&object)?;
        if object.deleting {
            return if metadata.has(ORPHAN) {
                self.orphan(id, &object).await
            } else if metadata.has(FOREGROUND) {
                self.foreground(id, &object).await
            } else {
                Ok(Action::Done)
            };
        }
        self.collect(id, &object, &metadata).await
    }
}

impl Collector {
    /// Decides about an object by its owners.
    async fn collect(&self, id: &ObjectId, object: &Object, metadata: &Metadata) -> Result<Action, Error> {
        let mut owners = Vec::with_capacity(metadata.owner_references.len());
        for owner in &metadata.owner_references {
            owners.push(self.state_of(id, owner).await?);
        }
        let has_dependants = self.graph.lock().dependants(&object.uid).next().is_some();
        match decide(&owners, &metadata.finalizers, has_dependants) {
            Verdict::Keep => Ok(Action::Done),
            Verdict::AskAgain => Ok(Action::RequeueAfter(LOOK_AGAIN)),
            Verdict::DropOwners => {
                let lost = metadata.owner_references.iter().zip(&owners);
                let lost = lost.filter(|(_, state)| **state != OwnerState::Present);
                let lost: BTreeSet<&str> = lost.map(|(owner, _)| &*owner.uid).collect();
                self.release(&id.resource, object, &lost).await?;
                Ok(Action::Done)
            }
            Verdict::Delete(propagation) => {
                if propagation == DeletionPropagation::Foreground && self.is_in_a_circle(object).await? {
                    self.unblock(&id.resource, object).await?;
                }
                gone_is_fine(self.api.delete(&id.resource, &id.key, &object.uid, propagation).await)?;
                Ok(Action::Done)
            }
        }
    }

    /// Whether an object that is to wait for its dependants has one that waits itself: perhaps, by others, for this one.
    async fn is_in_a_circle(&self, object: &Object) -> Result<bool, ApiError> {
        let dependants: Vec<ObjectId> =
            self.graph.lock().dependants(&object.uid).map(|(id, _)| id.clone()).collect();
        for id in dependants {
            let found = find(&*self.api, &id.resource, &id.key.namespace, &id.key.name).await?;
            if let Some(found) = found.filter(|found| found.deleting)
                && Metadata::of(&found)?.has(FOREGROUND)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The object's owners wait for it no longer.
    async fn unblock(&self, resource: &Resource, object: &Object) -> Result<(), ApiError> {
        let mut value = object.value()?;
        for reference in value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            reference["blockOwnerDeletion"] = Value::Bool(false);
        }
        gone_is_fine(self.api.update(resource, value).await)
    }

    async fn state_of(&self, id: &ObjectId, owner: &OwnerReference) -> Result<OwnerState, ApiError> {
        let Some(resource) = self.api.resource_of(&owner.api_version, &owner.kind) else {
            return Ok(OwnerState::Unknown);
        };
        if resource.namespaced && !id.resource.namespaced {
            return Ok(OwnerState::Unknown);
        }
        let namespace = if resource.namespaced { &*id.key.namespace } else { "" };
        match find(&*self.api, &resource, namespace, &owner.name).await? {
            Some(found) if *found.uid == *owner.uid => {
                let waits = found.deleting && Metadata::of(&found)?.has(FOREGROUND);
                Ok(if waits { OwnerState::Waiting } else { OwnerState::Present })
            }
            _ => Ok(OwnerState::Absent),
        }
    }

    /// Takes the references to these owners off a dependant.
    async fn release(
        &self,
        resource: &Resource,
        object: &Object,
        owners: &BTreeSet<&str>,
    ) -> Result<(), ApiError> {
        let mut value = object.value()?;
        let Some(references) = value["metadata"]["ownerReferences"].as_array_mut() else { return Ok(()) };
        references.retain(|reference| !owners.contains(reference["uid"].as_str().unwrap_or("")));
        gone_is_fine(self.api.update(resource, value).await)
    }

    /// An owner that was deleted with its dependants to stay: they lose the reference, then it may go. What the hub made for it keeps the
    /// reference, and is collected once it is gone.
    async fn orphan(&self, id: &ObjectId, owner: &Object) -> Result<Action, Error> {
        for (resource, dependant) in self.scan(id, &owner.uid).await? {
            if is_of_the_hub(&resource, &Metadata::of(&dependant)?.owner_references, &owner.uid) {
                continue;
            }
            self.release(&resource, &dependant, &BTreeSet::from([&*owner.uid])).await?;
        }
        self.let_go(id, owner, ORPHAN).await?;
        Ok(Action::Done)
    }

    /// An owner that was deleted with its dependants to go first: it may go when none blocks it.
    async fn foreground(&self, id: &ObjectId, owner: &Object) -> Result<Action, Error> {
        let dependants: Vec<(ObjectId, bool)> =
            self.graph.lock().dependants(&owner.uid).map(|(id, blocks)| (id.clone(), blocks)).collect();
        let mut blocked = dependants.iter().any(|(_, blocks)| *blocks);
        for (id, _) in dependants {
            // One that is on its way out tells when it is gone; those in a circle would wake each other without end.
            let found = find(&*self.api, &id.resource, &id.key.namespace, &id.key.name).await?;
            if found.is_some_and(|found| !found.deleting) {
                self.queue.add(id);
            }
        }
        if !blocked {
            // The graph may lag behind the cache: the cache has the last word.
            for (resource, dependant) in self.scan(id, &owner.uid).await? {
                let references = Metadata::of(&dependant)?.owner_references;
                blocked |= references.iter().any(|r| *r.uid == *owner.uid && r.block_owner_deletion);
                if !dependant.deleting {
                    self.queue.add(ObjectId { resource, key: dependant.key.clone() });
                }
            }
        }
        if blocked {
            return Ok(Action::RequeueAfter(LOOK_AGAIN));
        }
        self.let_go(id, owner, FOREGROUND).await?;
        Ok(Action::Done)
    }

    async fn let_go(&self, id: &ObjectId, owner: &Object, finalizer: &str) -> Result<(), ApiError> {
        let mut value = owner.value()?;
        if let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|f: &Value| f != finalizer);
        }
        gone_is_fine(self.api.update(&id.resource, value).await)
    }

    /// Every object that names `uid` as an owner, straight from the cache.
    async fn scan(&self, owner: &ObjectId, uid: &str) -> Result<Vec<(Resource, Arc<Object>)>, ApiError> {
        let mut found = Vec::new();
        let served = self.api.resources();
        let possible = served.iter().filter(|r| r.namespaced || !owner.resource.namespaced);
        for resource in possible.filter(|r| &*r.kind != "Event") {
            let listed = match self.api.list(resource, &owner.key.namespace).await {
                Err(ApiError::NotFound(_)) => continue,
                other => other?,
            };
            for object in listed.into_iter().filter(|object| mentions(object, uid)) {
                let references = Metadata::of(&object)?.owner_references;
                if references.iter().any(|reference| *reference.uid == *uid) {
                    found.push((resource.clone(), object));
                }
            }
        }
        Ok(found)
    }
}

/// How a deletion that the collector begins goes on.
fn propagation_of(finalizers: &[String]) -> DeletionPropagation {
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => DeletionPropagation::Orphan,
        (_, true) => DeletionPropagation::Foreground,
        _ => DeletionPropagation::Background,
    }
}

#[cfg(test)]
mod tests;
