//! What waits to be written, and what may be acknowledged when it is.
//!
//! In: the word that changes are held, or on disk; the time. Out: changes, acks, the credit that was used up, and where the cursor may move.

use std::time::Duration;

use karmada_proto::body::Assembly;
use karmada_proto::v1::{self, agent_frame};

use super::{Change, Intake, Out};

/// A cursor that moves without anything to store is written this seldom: an idle agent writes nothing.
const CURSOR_EVERY: Duration = Duration::from_secs(300);

impl Intake {
    /// What is to be written before anything is acknowledged; empty where nothing is. To be followed by
    /// [`Intake::committed`], or by the end of the session.
    pub(in crate::session) fn take_changes(&mut self) -> Vec<Change> {
        // A cursor must not pass a body that is still wanted.
        if self.wanted.is_empty() && self.next_cursor > self.cursor {
            self.cursor = self.next_cursor;
            if !self.withheld {
                self.write_cursor();
            }
        }
        if let Some(seen) = self.seen.take_changed() {
            self.changes.push(Change::Seen(seen));
        }
        self.committing = !self.changes.is_empty();
        self.uncommitted = 0;
        std::mem::take(&mut self.changes)
    }

    fn write_cursor(&mut self) {
        if self.timeline != self.speaking {
            self.timeline = self.speaking;
            self.changes.push(Change::Timeline(self.timeline));
        }
        self.seen.covered(self.speaking, self.cursor);
        self.changes.push(Change::Cursor(self.cursor));
    }

    /// Bytes of bodies that wait to be written.
    pub(in crate::session) fn uncommitted(&self) -> usize {
        self.uncommitted
    }

    /// Whether there is anything to write.
    pub(in crate::session) fn has_changes(&self) -> bool {
        !self.changes.is_empty() || (self.wanted.is_empty() && self.next_cursor > self.cursor)
    }

    /// What [`Intake::take_changes`] gave is on disk.
    /// The credit that it used up is free again.
    pub(in crate::session) fn committed(&mut self, now: Duration, out: &mut Out) -> Vec<u64> {
        self.committing = false;
        self.cursor_written = now;
        if self.cursor > self.acked {
            self.acked = self.cursor;
            let ack = v1::Ack { epoch: self.epoch, cursor: self.cursor };
            out.push_back(agent_frame::Body::Ack(ack));
        }
        std::mem::take(&mut self.owed_credit)
    }

    /// What [`Intake::take_changes`] gave is held, though not on disk: the credit that it used up is free again.
    pub(in crate::session) fn held_for_now(&mut self) -> Vec<u64> {
        self.committing = false;
        std::mem::take(&mut self.owed_credit)
    }

    /// Whether more was taken than was acknowledged.
    pub(in crate::session) fn owes_ack(&self) -> bool {
        !self.committing && self.cursor > self.acked
    }

    /// Credit that was used up by what needed no writing.
    pub(in crate::session) fn take_unwritten_credit(&mut self) -> Vec<u64> {
        if self.has_changes() { Vec::new() } else { std::mem::take(&mut self.owed_credit) }
    }

    /// Whether changes that were taken are not known to be on disk.
    pub(in crate::session) fn is_committing(&self) -> bool {
        self.committing
    }

    /// Up to here nothing of ours has changed: worth writing now and then.
    pub(in crate::session) fn lazily(&mut self, cursor: u64) {
        self.lazy_cursor = self.lazy_cursor.max(cursor);
    }

    /// Looks at the clock.
    pub(in crate::session) fn tick(&mut self, now: Duration) {
        if self.lazy_cursor > self.cursor && now >= self.cursor_written + CURSOR_EVERY {
            self.next_cursor = self.next_cursor.max(self.lazy_cursor);
        }
    }

    /// The last cursor worth writing, and the half-received body.
    pub(in crate::session) fn into_parts(self) -> (Vec<Change>, Assembly) {
        let is_idle = self.wanted.is_empty() && self.changes.is_empty() && !self.committing && !self.withheld;
        let cursor = is_idle.then_some(self.lazy_cursor).filter(|lazy| *lazy > self.cursor);
        let changes = cursor.map(|cursor| vec![Change::Timeline(self.speaking), Change::Cursor(cursor)]);
        (changes.unwrap_or_default(), self.assembly.carried_over())
    }
}
