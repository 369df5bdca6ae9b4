//! Drift: somebody changed or removed at the member what the hub wants there.
//!
//! In: an object as a watch or a look at it told of it, or that it is gone. Out: its Work is to be worked on, where the object is not what the ledger
//! says.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::Engine;
use crate::ledger::LedgerError;
use crate::member::ObjectId;
use crate::reconcile::apply::InSync;
use crate::reconcile::targets::Target;
use crate::reconcile::workqueue::WorkReason;
use crate::reconcile::{apply, catch_panics, manifests, member_body, order};
use crate::session::Phase;

/// Who is named as the cause when an object had to be created again. The watch selects by our label, so that an object whose label was removed looks
/// like one that was deleted.
pub(super) const REMOVED: &str = "somebody who removed it, or took our label off";

impl Engine {
    /// Something but the status changed: is it still what the ledger says?
    pub(super) fn check(&mut self, target: &Target, object: &Value, digest: u64) -> Result<(), LedgerError> {
        let Target { key, ordinal, id, .. } = target;
        let Some(entry) = self.parts.shared.ledger.entry(key)? else { return Ok(()) };
        if !entry.is_applied() || entry.phase != Phase::Desired {
            return Ok(());
        }
        let manifests = manifests::parse_manifests(&entry.body).unwrap_or_default();
        let interpreter = &*self.interpreter;
        let cluster = &self.parts.cluster.now;
        let written = entry.written.get(*ordinal);
        let in_sync = |manifest| {
            catch_panics::read(|| apply::in_sync(interpreter, cluster, key, manifest, written, object))
        };
        let found =
            manifests.get(*ordinal).map_or(InSync::No, |manifest| in_sync(manifest).unwrap_or(InSync::Yes));
        match found {
            InSync::Yes => {
                self.targets.set_digest(key, id, Some(digest));
                return Ok(());
            }
            InSync::No => self.drifted(id, &member_body::changed_by(object)),
            InSync::Unknown => {}
        }
        self.workqueue.push(key, order::of_manifests(&manifests), WorkReason::Drift);
        Ok(())
    }

    /// The member is not known to have the object any more. True where it is wanted, and nobody works on it.
    pub(super) fn gone(&mut self, there: &ObjectId) -> bool {
        self.strays.gone(there);
        let Some(owner) = self.targets.owner(there, None).cloned() else { return false };
        let claims: Vec<Target> = self.targets.of(there).cloned().collect();
        for Target { key, ordinal, id, .. } in &claims {
            if self.workqueue.is_running(key) {
                self.observed.gone(id);
                return false;
            }
            self.statuses.gone(key, *ordinal);
            self.tell(key);
        }
        self.workqueue.push(&owner.key, order::class(&there.gvk), WorkReason::Drift);
        true
    }

    /// Counts and logs an object that is about to be written again, with who changed it there.
    pub(super) fn drifted(&self, id: &ObjectId, by: &str) {
        self.parts.shared.counts.drifted.fetch_add(1, Ordering::Relaxed);
        tracing::info!(object = %id, by, "it is not as the hub says: it is brought back");
    }
}
