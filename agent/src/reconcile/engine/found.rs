//! Marked objects of Works that nobody holds: noted in the ledger as what they are, and told to the hub as it is told of every Work that
//! it does not know. What becomes of them is a person's word.

use std::time::Duration;

use super::{Engine, look};
use crate::ledger::LedgerError;
use crate::member::ObjectId;

impl Engine {
    /// When something is to be done about them.
    pub(super) fn found_due(&self) -> Duration {
        self.strays.due().map_or(self.looks.due(), |due| due.min(self.looks.due()))
    }

    /// `id` names Work `key` of this cluster, and is no object that a Work wants.
    pub(super) fn found(&mut self, id: ObjectId, key: &str) -> Result<(), LedgerError> {
        let held = self.parts.shared.ledger.entry(key)?;
        if held.is_none_or(|entry| entry.is_stray() && !entry.former.contains(&id)) {
            self.strays.seen(id, key, self.now());
        }
        Ok(())
    }

    /// Looks at all kinds, and judges what was found, where it is time.
    pub(super) fn judge(&mut self) -> Result<(), LedgerError> {
        let now = self.now();
        if self.looks.is_due(now, self.parts.member.breaks()) {
            self.look();
        }
        if self.strays.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        // Before the hub told all that there is, nobody knows which Works nobody holds.
        let (_, cursor) = self.parts.shared.ledger.position()?;
        if cursor == 0 {
            self.strays.later(now);
            return Ok(());
        }
        for (key, ids) in self.strays.take(now) {
            if self.parts.shared.ledger.found(&key, &ids)? {
                tracing::warn!(work = key, objects = ids.len(), first = %ids[0],
                    "the member has objects of a Work that nobody holds any more: they are left as they are, and told to the hub");
                self.entry_changed(&key, false)?;
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        let watched = self.watches.keys().map(|gvk| (gvk.group.clone(), gvk.kind.clone())).collect();
        let look = look::Look {
            member: self.parts.member.clone(),
            cluster: self.parts.cluster.clone(),
            namespaces: self.parts.namespaces.clone(),
            watched,
            pause: Duration::from_secs(1).div_f64(self.parts.drift_rate.max(0.1)),
        };
        self.watchers.spawn(look::run(look, self.marked.clone()));
    }
}
