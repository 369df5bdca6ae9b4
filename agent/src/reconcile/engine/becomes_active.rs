//! What is done when an agent may act again that had to rest, as another one with its identity had the member until now, perhaps over the
//! same ledger. What was read of the ledger at the start is out of date then, and of the objects of what the other took, this one's watches
//! have told nothing.
//!
//! In: the link's view. Out: every Work of the ledger taken in anew, and its objects compared.

use std::collections::BTreeSet;

use super::Engine;
use crate::LinkView;
use crate::ledger::LedgerError;
use crate::reconcile::manifests;
use crate::reconcile::order;
use crate::reconcile::workqueue::WorkReason;
use crate::session::Phase;

impl Engine {
    /// The link stands like this now.
    pub(super) fn link_moved(&mut self, view: &LinkView) -> Result<(), LedgerError> {
        let rested = self.fence.rests();
        self.fence.sees(view, self.now());
        if matches!(view, LinkView::Connected { .. }) {
            self.hub_is_there();
        }
        if rested && !self.fence.rests() { self.take_over() } else { Ok(()) }
    }

    fn take_over(&mut self) -> Result<(), LedgerError> {
        let ledger = &self.parts.shared.ledger;
        // What this process itself still has under way is no work of the other's.
        if self.running.is_empty() {
            ledger.after_another()?.iter().for_each(|key| self.workqueue.suspect(key));
        }
        let mut keys: BTreeSet<String> = ledger.keys()?.into_iter().collect();
        keys.extend(self.statuses.keys().cloned());
        keys.extend(self.parts.shared.outbox.lock().removals().cloned());
        for key in keys {
            self.entry_changed(&key, true)?;
            self.look_at(&key)?;
        }
        Ok(())
    }

    /// Its objects are compared, at the pace of drift.
    fn look_at(&mut self, key: &str) -> Result<(), LedgerError> {
        let entry = self.parts.shared.ledger.entry(key)?;
        let Some(entry) = entry.filter(|entry| entry.phase == Phase::Desired && !entry.suspended) else {
            return Ok(());
        };
        if let Ok(manifests) = manifests::parse_manifests(&entry.body) {
            self.workqueue.push(key, order::of_manifests(&manifests), WorkReason::Drift);
        }
        Ok(())
    }
}
