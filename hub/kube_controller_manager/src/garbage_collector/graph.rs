//! Who depends on whom: objects with owners, and only those, by their owners' uids. Pure.
//!
//! In: changes of every resource. Out: the objects that must be looked at because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::mentions;
use super::{Metadata, OwnerReference};
use karmada_controller_runtime::port::{Change, Key, Object, Resource};

/// An object of some resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Which resource.
    pub resource: Resource,
    /// Where it stands.
    pub key: Key,
}

/// The graph.
#[derive(Default)]
pub(super) struct Graph {
    owned: BTreeMap<ObjectId, Vec<OwnerReference>>,
    dependants: BTreeMap<Box<str>, BTreeSet<ObjectId>>,
}

/// Resolves an apiVersion and kind to what is served.
type Resolve<'a> = dyn Fn(&str, &str) -> Option<Resource> + 'a;

impl Graph {
    /// Takes one change in; returns what to look at.
    pub(super) fn take(
        &mut self,
        resource: &Resource,
        change: &Change,
        resolve: &Resolve<'_>,
    ) -> Vec<ObjectId> {
        match change {
            Change::Applied(object) => self.applied(resource, object, resolve),
            Change::Deleted(object) => self.deleted(resource, object, resolve),
        }
    }

    /// The objects that name this uid as an owner, and whether they block its deletion in the foreground.
    pub(super) fn dependants(&self, uid: &str) -> impl Iterator<Item = (&ObjectId, bool)> {
        self.dependants.get(uid).into_iter().flatten().map(move |id| {
            let references = self.owned.get(id).into_iter().flatten();
            (id, references.filter(|r| *r.uid == *uid).any(|r| r.block_owner_deletion))
        })
    }

    fn applied(&mut self, resource: &Resource, object: &Arc<Object>, resolve: &Resolve<'_>) -> Vec<ObjectId> {
        let id = ObjectId { resource: resource.clone(), key: object.key.clone() };
        let owners = if mentions(object, "\"ownerReferences\"") {
            Metadata::of(object).map(|metadata| metadata.owner_references).unwrap_or_default()
        } else {
            Vec::new()
        };
        let before = self.set(&id, owners.clone());
        let mut woken = Vec::new();
        if object.deleting || (!owners.is_empty() && before != owners) {
            woken.push(id.clone());
        }
        // An owner that waited for this one may wait for it no longer.
        let lost = before.iter().filter(|owner| !owners.contains(owner));
        woken.extend(lost.filter_map(|owner| owner_id(&id, owner, resolve)));
        woken
    }

    fn deleted(&mut self, resource: &Resource, object: &Arc<Object>, resolve: &Resolve<'_>) -> Vec<ObjectId> {
        let id = ObjectId { resource: resource.clone(), key: object.key.clone() };
        let before = self.set(&id, Vec::new());
        let mut woken: Vec<ObjectId> = self.dependants(&object.uid).map(|(id, _)| id.clone()).collect();
        woken.extend(before.iter().filter_map(|owner| owner_id(&id, owner, resolve)));
        woken
    }

    /// Remembers the owners of an object; returns those remembered before.
    fn set(&mut self, id: &ObjectId, owners: Vec<OwnerReference>) -> Vec<OwnerReference> {
        let before = self.owned.remove(id).unwrap_or_default();
        for owner in &before {
            if let Some(ids) = self.dependants.get_mut(&owner.uid) {
                ids.remove(id);
                if ids.is_empty() {
                    self.dependants.remove(&owner.uid);
                }
            }
        }
        for owner in &owners {
            self.dependants.entry(owner.uid.clone()).or_default().insert(id.clone());
        }
        if !owners.is_empty() {
            self.owned.insert(id.clone(), owners);
        }
        before
    }
}

fn owner_id(dependant: &ObjectId, owner: &OwnerReference, resolve: &Resolve<'_>) -> Option<ObjectId> {
    let resource = resolve(&owner.api_version, &owner.kind)?;
    let namespace = if resource.namespaced { dependant.key.namespace.clone() } else { "".into() };
    Some(ObjectId { key: Key { namespace, name: (&*owner.name).into() }, resource })
}
