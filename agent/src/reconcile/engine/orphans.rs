//! Marked objects of Works that nobody holds, or that the Work that they name does not name: noted in the ledger as what they are, and told
//! to the hub as it is told of every Work that it does not know. What becomes of them is a person's word.
//!
//! In: objects with marks, as watches and scans tell of them, and entries that change. Out: rows in the ledger that name them, or none any
//! more; nothing is removed from the member.

use std::time::Duration;

use serde_json::Value;

use super::Engine;
use crate::ledger::{Entry, LedgerError};
use crate::member::ObjectId;
use crate::reconcile::{manifests, orphan_rows, orphan_scan};
use crate::session::Phase;

impl Engine {
    /// When something is to be done about them.
    pub(super) fn found_due(&self) -> Duration {
        self.strays.due().map_or(self.looks.due(), |due| due.min(self.looks.due()))
    }

    /// `id` names Work `key` of this cluster, and is no object that a Work wants.
    pub(super) fn found(&mut self, id: ObjectId, key: &str) -> Result<(), LedgerError> {
        if self.orphans.row(&id).is_none()
            && let Some((_, ids)) = self.noted_in(key, vec![id])?
        {
            ids.into_iter().for_each(|id| self.strays.seen(id, key, self.started.elapsed()));
        }
        Ok(())
    }

    /// The row of the ledger that is to note these, which name Work `key`, and those of them that no Work wants or lets go of by itself.
    fn noted_in(
        &self,
        key: &str,
        mut ids: Vec<ObjectId>,
    ) -> Result<Option<(String, Vec<ObjectId>)>, LedgerError> {
        let held = self.parts.shared.ledger.entry(key)?.filter(|entry| !entry.is_stray());
        ids.retain(|id| {
            self.targets.of(id).next().is_none() && held.as_ref().is_none_or(|held| !may_name(held, id))
        });
        let row = if held.is_some() { orphan_rows::former_key(key) } else { Some(key.to_owned()) };
        Ok(row.filter(|_| !ids.is_empty()).map(|row| (row, ids)))
    }

    /// Keeps what is told as the entry of `key` says: a row of found objects, or a Work that names such objects now. False where the
    /// entry is another one by that, and was seen to.
    pub(super) fn note(
        &mut self,
        key: &str,
        entry: &Entry,
        manifests: &[Value],
    ) -> Result<bool, LedgerError> {
        let is_desired = entry.phase == Phase::Desired;
        let noted: &[ObjectId] = if entry.is_stray() { &entry.former } else { &[] };
        let dropped = self.orphans.set(key, noted);
        noted.iter().for_each(|id| self.watch(&id.gvk));
        if entry.is_stray() {
            let wanted = noted.iter().filter(|id| self.targets.of(id).next().is_some()).cloned();
            let wanted: Vec<ObjectId> = wanted.collect();
            wanted.iter().try_for_each(|id| self.lost(id))?;
            return Ok(wanted.is_empty());
        }
        if !is_desired {
            return Ok(true);
        }
        // The hub has a Work of that name after all, which may name other objects.
        for id in dropped {
            self.found(id, key)?;
        }
        let named: Vec<ObjectId> = manifests.iter().map(ObjectId::of).collect();
        self.orphans.meant_by(&named).iter().try_for_each(|id| self.lost(id))?;
        Ok(true)
    }

    /// `id` is told as an orphan no more: it is gone from the member, or without our marks, or a Work names it.
    pub(super) fn lost(&mut self, id: &ObjectId) -> Result<(), LedgerError> {
        let Some(row) = self.orphans.row(id).map(str::to_owned) else { return Ok(()) };
        if self.parts.shared.ledger.lost(&row, id)? {
            tracing::info!(work = row, object = %id, "it is no orphan any more");
            self.entry_changed(&row, false)?;
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
            let Some((row, ids)) = self.noted_in(&key, ids)? else { continue };
            if self.parts.shared.ledger.found(&row, &ids)? {
                tracing::warn!(work = key, orphan = row, objects = ids.len(), first = %ids[0],
                    "the member has objects of a Work that nobody holds, or that does not name them any more: they are left as they are, and told to the hub");
                self.entry_changed(&row, false)?;
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        let watched = self.watches.keys().map(|gvk| (gvk.group.clone(), gvk.kind.clone())).collect();
        let look = orphan_scan::Look {
            member: self.parts.member.clone(),
            cluster: self.parts.cluster.clone(),
            namespaces: self.parts.namespaces.clone(),
            watched,
            pause: Duration::from_secs(1).div_f64(self.parts.drift_rate.max(0.1)),
        };
        self.watchers.spawn(orphan_scan::run(look, self.marked.clone()));
    }
}

/// Whether `entry` says of `id` that it is to be there, or to go. What a body says that cannot be read, nobody knows.
fn may_name(entry: &Entry, id: &ObjectId) -> bool {
    let Ok(manifests) = manifests::parse_manifests(&entry.body) else { return true };
    manifests.iter().map(ObjectId::of).chain(entry.former.iter().cloned()).any(|named| named.means(id))
}
