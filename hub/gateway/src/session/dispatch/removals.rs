//! What the site is to remove or to forget: Works that are deleted or gone, confirmed removals, orphans that a person decided on, and Works that the agent never held.
//!
//! In: the agent's words on what it removed, never held or found as orphans; a person's decisions on orphans. Out: deletes and releases in
//! the slots of their Works, and their tombstones when it is their turn.

use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::credit::SendCredit;
use karmada_proto::frame;
use karmada_proto::v1::{self, hub_frame};

use super::Dispatch;
use super::known::{Known, ToldHeader};
use super::listing::Listing;
use crate::inbox::Inbox;
use crate::ports::Work;
use crate::queue::Pending;
use crate::work_body;

/// While at least this many slots wait, a report of a Work that the hub does not have is not answered; the agent repeats it in its next
/// session. Nor is it told then what a person decided about an orphan.
const RELEASES: usize = 1024;

/// How the hub answers an agent which says that it never held a Work that it was told to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum NeverHeld {
    /// It was not told to remove it.
    NotAsked,
    /// It is sent the body, and then told again.
    BodyFollows,
    /// It was sent the body in this session already.
    Again,
}

impl Dispatch {
    /// The agent holds `key` no more. Where its deletion was held back, the site had it already, and is to hear that it may forget it.
    pub(in crate::session) fn removed(&mut self, key: &str) {
        self.restore_hold.drops(key);
        self.known.remove(key);
        self.deleting.remove(key);
    }

    /// The agent removed what the hub does not hold, or no more: it may forget it. Where much waits already it is told in its next session,
    /// in which it says so again.
    pub(in crate::session) fn release(&mut self, removed: v1::Removed) {
        if self.queue.waiting() < RELEASES {
            let (uid, revision) = (removed.uid.into(), removed.revision);
            self.put(removed.key.into(), Pending::Release { uid, revision, preserve: true });
        }
    }

    /// The agent names these as orphans: what was decided of them is told again, as it may not have known of them before.
    pub(in crate::session) fn names(&mut self, orphans: &[String]) {
        let told = orphans.iter().filter_map(|key| self.let_go.get(key.as_str()));
        self.named_again.extend(told.cloned());
    }

    /// A person decided what becomes of `key`, which the agent enforces and the hub knows nothing of. Told once in a session, and again when
    /// the agent names it.
    pub(in crate::session) fn let_go(&mut self, key: &str, preserve: bool) {
        let key: Arc<str> = key.into();
        // A Work of that name which came meanwhile is no orphan.
        let came = self.known.contains_key(&key) || self.queue.holds(&key);
        if came || self.let_go.contains(&key) && !self.named_again.remove(&key) {
            return;
        }
        // Of which life of the hub its revision is, nobody knows: this word is newer.
        let release = Pending::Release { uid: "".into(), revision: i64::MAX as u64, preserve };
        if self.queue.waiting() < RELEASES {
            self.let_go.insert(key.clone());
            self.put(key, release);
        }
    }

    /// Whether the agent was told to let go of `key`.
    pub(in crate::session) fn has_let_go(&self, key: &str) -> bool {
        self.let_go.contains(key)
    }

    /// The agent was told to remove `key` and knows nothing of it. It is sent what to look for and remove; an agent that
    /// says the same again is not asked again in this session.
    pub(in crate::session) fn never_held(&mut self, key: &str, uid: &str) -> NeverHeld {
        let Some(work) = self.deleting.get(key).filter(|work| *work.uid == *uid).cloned() else {
            return NeverHeld::NotAsked;
        };
        if !self.never_held.insert(work.key.clone()) {
            return NeverHeld::Again;
        }
        self.known.remove(key);
        self.put(work.key.clone(), Pending::Delete(work));
        NeverHeld::BodyFollows
    }
    /// Begins to send that a Work is being deleted: a tombstone, after the body where the agent may not know what to remove.
    pub(super) fn start_delete(
        &mut self,
        key: Arc<str>,
        work: Work,
        send_credit: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        if self.restore_hold.holds(&work, self.listing != Listing::Told) {
            return None;
        }
        if self.needs_body_first(&key) && work_body::manifests(&work.body.json()).is_ok() {
            // The agent may have lost its ledger: it must know what to remove. Suspended, so that it does
            // not create it first.
            self.queue.put(key, Pending::Delete(work.clone()));
            return self.start_upsert(Work { suspended: true, ..work }, true, send_credit, inbox);
        }
        let header = Some(ToldHeader::of_tombstone(&work));
        let told = Known { uid: work.uid.clone(), hash: Bytes::new(), header };
        if self.listing == Listing::Told && self.known.get(&key) == Some(&told) {
            return None;
        }
        self.unacked.remove(&key);
        self.given_up.remove(&key);
        self.known.insert(key.clone(), told);
        let tombstone = v1::Tombstone {
            key: key.to_string(),
            uid: work.uid.to_string(),
            revision: work.revision,
            reason: v1::TombstoneReason::Deleted.into(),
            preserve: work.preserve,
            retry: work.retry.to_string(),
            ..v1::Tombstone::default()
        };
        self.deleting.insert(key, work);
        send_credit.spend(0);
        Some(self.tombstone(tombstone))
    }

    /// Sends that a Work is gone from the store: a site that still holds it forgets it.
    pub(super) fn start_release(
        &mut self,
        key: &str,
        uid: &str,
        revision: u64,
        preserve: bool,
        send_credit: &mut SendCredit,
    ) -> Option<v1::HubFrame> {
        // Nobody let it go out: what the site still has of it is an orphan in its next listing.
        if self.restore_hold.drops(key) {
            return None;
        }
        self.unacked.remove(key);
        self.given_up.remove(key);
        self.known.remove(key);
        self.deleting.remove(key);
        self.never_held.remove(key);
        send_credit.spend(0);
        Some(self.tombstone(v1::Tombstone {
            key: key.to_owned(),
            uid: uid.to_owned(),
            revision,
            reason: v1::TombstoneReason::Released.into(),
            preserve,
            ..v1::Tombstone::default()
        }))
    }

    /// In a listing the agent's ledger may be an older one, or none; and where it said that it is.
    fn needs_body_first(&self, key: &Arc<str>) -> bool {
        let doubtful = self.listing != Listing::Told || self.never_held.contains(key);
        doubtful && !self.known.contains_key(key)
    }

    /// `tombstone`, of this epoch and with the cursor that it moves to.
    fn tombstone(&self, tombstone: v1::Tombstone) -> v1::HubFrame {
        let (epoch, cursor) = (self.epoch, self.safe_cursor());
        frame::hub(hub_frame::Body::Tombstone(v1::Tombstone { epoch, cursor, ..tombstone }))
    }
}
