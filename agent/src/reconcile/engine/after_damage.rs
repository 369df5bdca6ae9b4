//! Rows of the ledger were lost, as it was damaged. The hub lists everything anew; what it has no Work for any more, nobody would look for.
//!
//! In: how often rows were lost. Out: what is known of those is forgotten, and objects with our marks are looked at again.

use std::collections::BTreeSet;

use super::Engine;
use crate::ledger::LedgerError;

impl Engine {
    /// Takes in what is left of the ledger, where rows of it were lost since that was done last.
    pub(super) fn after_damage(&mut self) -> Result<(), LedgerError> {
        let ledger = &self.parts.shared.ledger;
        let relists = ledger.relists();
        if relists == self.relists {
            return Ok(());
        }
        self.relists = relists;
        let mut keys: BTreeSet<String> = ledger.keys()?.into_iter().collect();
        keys.extend(self.statuses.keys().cloned());
        keys.extend(self.parts.shared.outbox.lock().removals().cloned());
        keys.iter().try_for_each(|key| self.entry_changed(key, false))?;
        // A watch that lists anew tells of what no row names any more.
        for (gvk, watch) in std::mem::take(&mut self.watches) {
            watch.abort();
            self.listed.remove(&gvk);
            self.watch(&gvk);
        }
        self.looks.went_back();
        Ok(())
    }
}
