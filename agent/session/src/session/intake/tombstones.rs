//! Works that are to be removed, or forgotten.
//!
//! In: tombstones. Out: changes for the ledger; that a Work was never held, for the hub to send what is to be removed; a refusal of what this
//! agent does not know.

use karmada_proto::v1::{self, NackCode, TombstoneReason, agent_frame};

use super::{Change, Intake, Out};
use crate::session::held::Phase;

impl Intake {
    /// A Work is to be removed, or forgotten.
    pub(in crate::session) fn tombstone(&mut self, tombstone: v1::Tombstone, out: &mut Out) {
        self.owed_credit.push(0);
        if tombstone.epoch != self.epoch {
            return;
        }
        self.drop_pending_delta(&tombstone.key);
        self.note_listed(&tombstone.key);
        let released = match TombstoneReason::try_from(tombstone.reason) {
            Ok(TombstoneReason::Deleted) => false,
            Ok(TombstoneReason::Released) => true,
            // A newer hub means something by it that this agent cannot know: the one thing it must not do is remove.
            Ok(TombstoneReason::TombstoneUnspecified) | Err(_) => {
                let message = format!("the tombstone's reason {} is unknown here", tombstone.reason);
                let v1::Tombstone { key, revision, cursor, .. } = tombstone;
                self.nack(key, revision, NackCode::UnknownReason, message, out);
                self.moves_to(cursor);
                return;
            }
        };
        self.wanted.remove(&tombstone.key);
        if !released {
            self.held.is_known(&tombstone.key);
        }
        match self.held.get(&tombstone.key) {
            // Bound to its uid, or newer than what is held under this name: what is older removes nothing.
            Some(held) if held.uid != tombstone.uid && held.revision >= tombstone.revision => {}
            Some(held) if released && held.phase == Phase::Removed => {
                self.held.remove(&tombstone.key);
                self.seen.stored(self.speaking, tombstone.revision);
                self.changes.push(Change::Forget { key: tombstone.key });
            }
            // Released and still held, this ledger is an older copy of one that knew of the deletion, or the hub went on without this
            // agent's word: it is carried out all the same.
            Some(_) => {
                self.held.change(&tombstone.key, |held| held.buried(&tombstone));
                self.seen.stored(self.speaking, tombstone.revision);
                let v1::Tombstone { key, uid, revision, preserve, retry, .. } = tombstone;
                self.changes.push(Change::Delete { key, uid, revision, preserve, retry });
            }
            None if released => {}
            None => self.never_held(&tombstone, out),
        }
        self.moves_to(tombstone.cursor);
    }

    /// Nothing is known of what is to be removed. The hub sends its body then, and the tombstone again, and the cursor waits for both: a
    /// session that is cut before must not leave the tombstone behind. A body that came and was no use is waited for no more.
    fn never_held(&mut self, tombstone: &v1::Tombstone, out: &mut Out) {
        let before = self.unknown.insert(tombstone.key.clone(), tombstone.uid.clone());
        if before.is_none_or(|uid| uid != tombstone.uid) {
            self.wanted.insert(tombstone.key.clone());
        }
        out.push_back(agent_frame::Body::Removed(v1::Removed {
            key: tombstone.key.clone(),
            uid: tombstone.uid.clone(),
            revision: tombstone.revision,
            never_held: true,
            ..v1::Removed::default()
        }));
    }
}
