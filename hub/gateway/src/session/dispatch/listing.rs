//! The full listing of a session's Works: how far it has come, what its end tells the agent, and which deletes it holds back.
//!
//! In: that a listing begins, that all of it has come in, the agent's acks, a person's confirmation of deletes. Out: the frames at its
//! beginning and its end, where a new watch may resume, and how many deletes wait.

use karmada_proto::frame;
use karmada_proto::v1::{self, hub_frame};

use super::Dispatch;
use crate::ports::Batch;

/// How far the full listing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// Events of the listing are coming in, and are sent.
    Running,
    /// Events of a listing are coming in of which only the differences are to be sent.
    Gathering,
    /// All of that have come in, up to this revision; the agent is to say what it holds.
    Comparing(u64),
    /// All have come in, up to this revision; the end is to be told once they are sent.
    Ended(u64),
    /// The agent knows the end, or there was no listing.
    Told,
}

impl Dispatch {
    /// A full listing begins. Where the agent holds something and compares, its differences alone are told.
    pub(in crate::session) fn listing_starts(&mut self) {
        self.restore_hold.listing_starts();
        self.comparison = None;
        // A body that was sent for a removal and did not come through is sent once more.
        self.never_held.clear();
        self.agent_holds_objects |= !self.known.is_empty();
        self.listing = if self.seed.is_some() && self.agent_holds_objects {
            Listing::Gathering
        } else {
            let start = v1::SnapshotStart { epoch: self.epoch, ..v1::SnapshotStart::default() };
            self.said.push_back(hub_frame::Body::SnapshotStart(start));
            Listing::Running
        };
    }

    /// All of a listing, or of what a watch had before it, has come in up to `revision`.
    pub(super) fn synced(&mut self, revision: u64) {
        if self.is_listing() {
            self.listed = revision;
        }
        match self.listing {
            Listing::Running => self.listing = Listing::Ended(revision),
            Listing::Gathering => self.gathered(revision),
            _ => {}
        }
    }

    /// Whether a listing is coming in.
    pub(in crate::session) fn is_listing(&self) -> bool {
        matches!(self.listing, Listing::Running | Listing::Gathering)
    }

    /// Where a new watch may resume; `None` while a listing is unfinished.
    pub(in crate::session) fn resume_point(&self) -> Option<u64> {
        (!self.is_listing() && self.seen > 0).then_some(self.seen)
    }

    /// The frame that ends the listing, once all of it was sent.
    pub(super) fn snapshot_end(&mut self) -> Option<v1::HubFrame> {
        let Listing::Ended(revision) = self.listing else { return None };
        if self.queue.oldest().is_some_and(|oldest| oldest <= revision) {
            return None;
        }
        self.listing = Listing::Told;
        self.is_anew = false;
        let cursor = self.safe_cursor();
        self.restore_hold.listing_ends(cursor);
        let end = v1::SnapshotEnd { epoch: self.epoch, cursor, withheld: self.restore_hold.any_waits() };
        Some(frame::hub(hub_frame::Body::SnapshotEnd(end)))
    }

    /// A person let the deletes up to `revision` go out. True where such may have been held back from this agent.
    pub(in crate::session) fn confirm_deletes(&mut self, revision: u64) -> bool {
        self.restore_hold.confirm(revision)
    }

    /// What the listing that just ended held back, and how many deletes; `None` where that were none, or it is said already.
    pub(in crate::session) fn take_held(&mut self) -> Option<(Batch, u64)> {
        if self.listing == Listing::Told {
            self.restore_hold.take_told(self.epoch, self.listed)
        } else {
            None
        }
    }

    /// What was held is over with this `ack`, where it is.
    pub(in crate::session) fn end_restore_hold(&mut self, ack: &v1::Ack) -> Option<Batch> {
        let is_heard = ack.epoch == self.epoch && self.listing == Listing::Told;
        if is_heard { self.restore_hold.ends(ack) } else { None }
    }

    /// Whether the site was told that deletes wait, and none does any more: it writes no cursor before it is listed everything once more.
    pub(in crate::session) fn is_to_be_listed_anew(&self) -> bool {
        self.listing == Listing::Told && self.restore_hold.is_to_be_listed_anew()
    }
}
