//! The watches of the member, one for each kind that a Work names, and what becomes of their events.
//!
//! In: kinds, and what their watches tell: lists, objects, objects that are gone. Out: drift, statuses or why they cannot be read, and objects
//! of Works that nobody holds.

use std::collections::BTreeSet;

use karmada_proto::v1::EventReport;
use serde_json::Value;

use super::Engine;
use super::drift::REMOVED;
use crate::ledger::LedgerError;
use crate::member::{Gvk, MemberEvent, ObjectId};
use crate::reconcile::targets::Target;
use crate::reconcile::{catch_panics, member_body, orphan_candidates, watcher};
use crate::work_statuses::Trouble;

impl Engine {
    /// A kind is watched from now on.
    pub(super) fn watch(&mut self, gvk: &Gvk) {
        if self.watches.contains_key(gvk) {
            return;
        }
        let (member, events) = (self.parts.member.clone(), self.events.clone());
        let (namespaces, failure_log) = (self.parts.namespaces.clone(), self.failure_log.clone());
        let handle = self.watchers.spawn(watcher::run(member, gvk.clone(), namespaces, failure_log, events));
        self.watches.insert(gvk.clone(), handle);
    }

    /// Kinds that nothing names any more are not watched.
    pub(super) fn end_unused_watches(&mut self) {
        let (targets, orphans) = (&self.targets, &self.orphans);
        self.watches.retain(|gvk, handle| {
            let used = targets.has_kind(gvk) || orphans.has_kind(gvk);
            if !used {
                handle.abort();
                self.listed.remove(gvk);
            }
            used
        });
    }

    /// Takes what a watch tells.
    pub(super) fn member_event(&mut self, gvk: Gvk, event: MemberEvent) -> Result<(), LedgerError> {
        match event {
            MemberEvent::Listing => {
                if self.listed.contains(&gvk) {
                    self.looks.went_back();
                }
                self.listings.insert(gvk, BTreeSet::new());
            }
            MemberEvent::Object(object) => {
                let id = ObjectId::of(&object);
                if let Some(listing) = self.listings.get_mut(&gvk) {
                    listing.insert(id.clone());
                }
                self.observed(&id, &object)?;
            }
            MemberEvent::Gone(id) => {
                if self.gone(&id) {
                    self.drifted(&id, REMOVED);
                }
                self.lost(&id)?;
            }
            MemberEvent::Listed => self.listed(&gvk)?,
        }
        Ok(())
    }

    /// A watch has listed all objects of a kind: what it did not name is not there, or was made since.
    fn listed(&mut self, gvk: &Gvk) -> Result<(), LedgerError> {
        let Some(listed) = self.listings.remove(gvk) else { return Ok(()) };
        self.strays.listed(gvk, &listed);
        self.listed.insert(gvk.clone());
        let in_none = |id: &ObjectId| ObjectId { namespace: String::new(), ..id.clone() };
        let is_there = |id: &ObjectId| listed.contains(id) || listed.contains(&in_none(id));
        let missing = self.targets.of_kind(gvk).filter(|id| !is_there(id));
        let missing: Vec<ObjectId> = missing.cloned().collect();
        for id in missing {
            if self.gone(&id) {
                self.unlisted.insert(id);
            }
        }
        let lost = self.orphans.of_kind(gvk).filter(|id| !listed.contains(id));
        let lost: Vec<ObjectId> = lost.cloned().collect();
        for id in &lost {
            self.lost(id)?;
        }
        Ok(())
    }

    /// An object as it is now: it is compared with what is wanted, and its status is told.
    fn observed(&mut self, id: &ObjectId, object: &Value) -> Result<(), LedgerError> {
        let marked = catch_panics::read(|| member_body::owning_work(object, &self.parts.cluster)).flatten();
        let Some(target) = self.targets.owner(id, marked).cloned() else {
            return self.observed_unclaimed(id, object);
        };
        let Some(digest) = catch_panics::read(|| member_body::digest(object)) else { return Ok(()) };
        let same_version = self.targets.of(id).filter(|target| target.id.gvk == id.gvk);
        let claims: Vec<Target> = same_version.cloned().collect();
        let mut is_worked_on = false;
        for claim in claims.iter().filter(|claim| self.workqueue.is_running(&claim.key)) {
            is_worked_on = true;
            self.observed.here(&claim.id, digest, object);
        }
        // Of a Work that is suspended it is left as it is.
        let is_left =
            self.targets.of(id).any(|claim| !claim.is_enforced && Some(claim.key.as_str()) == marked);
        // Another version of it is told by another watch.
        if !is_worked_on && !is_left && target.id.gvk == id.gvk && target.digest != Some(digest) {
            self.check(&target, object, digest)?;
        }
        let resource = self.plural(id);
        for Target { key, ordinal, .. } in claims {
            self.read_status(&key, ordinal, &resource, object);
            self.tell(&key);
        }
        Ok(())
    }

    /// What the interpreter reads of the object of manifest `ordinal` goes into the Work's report; what it cannot read is an event.
    pub(super) fn read_status(&mut self, key: &str, ordinal: usize, resource: &str, object: &Value) {
        let now = self.now();
        let troubles = self.statuses.observe(&*self.interpreter, (key, ordinal), resource, object, now);
        for Trouble { uid, reason, why } in troubles {
            let cluster = &self.parts.cluster.now;
            let message = format!("{}, in cluster {cluster}: {why}", ObjectId::of(object));
            let (key, kind) = (key.to_owned(), "Warning".to_owned());
            let event = EventReport { key, uid, r#type: kind, reason: reason.to_owned(), message };
            self.parts.shared.report(|outbox| {
                outbox.event(event);
                true
            });
        }
    }

    /// An object that no Work names: it is noted where it bears our marks.
    fn observed_unclaimed(&mut self, id: &ObjectId, object: &Value) -> Result<(), LedgerError> {
        let names = catch_panics::read(|| orphan_candidates::work_of(object, &self.parts.cluster)).flatten();
        match names {
            Some(key) => self.found(id.clone(), key),
            None => {
                self.strays.gone(id);
                // What is on its way out may take its time.
                if karmada_api::object::deleting(object) { Ok(()) } else { self.lost(id) }
            }
        }
    }

    /// The resource that objects like `id` are of.
    pub(super) fn plural(&self, id: &ObjectId) -> String {
        self.plurals.get(&id.gvk).cloned().unwrap_or_default()
    }
}
