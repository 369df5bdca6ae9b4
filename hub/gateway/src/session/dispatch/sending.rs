//! Frames for the Works that wait, as far as the agent's credit goes.
//!
//! In: the slots, what the agent is known to hold, the credit that it granted. Out: the next frame: what a comparison has to say, an offer
//! of a body, a chunk of one, a tombstone, the end of a listing.

use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::credit::SendCredit;
use karmada_proto::v1::{self, hub_frame};
use karmada_proto::{body, frame};

use super::Dispatch;
use super::known::{Known, ToldHeader};
use super::listing::Listing;
use super::outgoing::Outgoing;
use crate::inbox::{Inbox, Report};
use crate::ports::Work;
use crate::queue::Pending;
use crate::work_body;

/// How the agent is told what it is to hold of a Work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HowTold {
    /// Not at all: it holds that.
    NotAtAll,
    /// By the hash of the body, which the agent may hold.
    ByHash,
    /// With the body.
    WithBody,
}

impl Dispatch {
    /// The next frame, if there is one and `send_credit` pays for it. A Work that cannot be sent is reported to `inbox`.
    pub(in crate::session) fn next_frame(
        &mut self,
        send_credit: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        loop {
            if let Some(body) = self.said.pop_front() {
                return Some(frame::hub(body));
            }
            if self.outgoing.is_some() {
                return self.next_chunk(send_credit);
            }
            // What of the slots is to be sent, the agent has still to say.
            if matches!(self.listing, Listing::Gathering | Listing::Comparing(_)) {
                return None;
            }
            if let Some(end) = self.snapshot_end() {
                return Some(end);
            }
            if send_credit.room() == 0 {
                return None;
            }
            let (key, pending) = self.queue.pop()?;
            if let Some(frame) = self.start(key, pending, send_credit, inbox) {
                return Some(frame);
            }
        }
    }

    /// Begins to send what a slot held. `None` where the agent holds it already, or its body comes in chunks.
    fn start(
        &mut self,
        key: Arc<str>,
        pending: Pending,
        send_credit: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        match pending {
            Pending::Upsert { work, resend } => self.start_upsert(work, resend, send_credit, inbox),
            Pending::Delete(work) => self.start_delete(key, work, send_credit, inbox),
            Pending::Release { uid, revision, preserve } => {
                self.start_release(&key, &uid, revision, preserve, send_credit)
            }
        }
    }

    /// Begins to send a Work that the agent is to enforce, or to know before it removes it.
    pub(super) fn start_upsert(
        &mut self,
        work: Work,
        resend: bool,
        send_credit: &mut SendCredit,
        inbox: &mut Inbox,
    ) -> Option<v1::HubFrame> {
        let manifests = match work_body::manifests(&work.body.json()) {
            Ok(manifests) => manifests,
            Err(error) => {
                // The API validates Works; one that slipped through is said to be broken, not sent.
                inbox.put(Report::Work(work_body::malformed(&work, &error), None));
                return None;
            }
        };
        let wanted = Known {
            uid: work.uid.clone(),
            hash: body::hash(&manifests),
            header: Some(ToldHeader::of(&work)),
        };
        let how = self.how_told(&work.key, &wanted, resend);
        if how == HowTold::NotAtAll {
            return None;
        }
        if self.listing != Listing::Told {
            self.restore_hold.lists(&work);
        }
        let mut frame = self.upsert_of(&work, wanted.hash.clone(), how);
        let base = if resend || how == HowTold::ByHash { None } else { self.base_of(&work) };
        self.known.insert(work.key.clone(), wanted);
        self.unacked.insert(work.key.clone(), Work { former: None, ..work });
        if how == HowTold::ByHash {
            send_credit.spend(0);
            frame.cursor = self.safe_cursor();
            return Some(frame::hub(hub_frame::Body::Upsert(frame)));
        }
        self.start_body(frame, &manifests, base);
        None
    }

    /// How the agent is told of the Work `key`, of which it is to hold `wanted`; `resend`: it asked for the body.
    fn how_told(&self, key: &str, wanted: &Known, resend: bool) -> HowTold {
        let held = self.known.get(key);
        let is_listed = self.listing != Listing::Told;
        if held == Some(wanted) && !resend && !is_listed {
            return HowTold::NotAtAll;
        }
        let same_body = held.is_some_and(|held| held.hash == wanted.hash);
        let listed_blind = is_listed && self.agent_holds_objects && held.is_none();
        if !resend && (same_body || listed_blind) { HowTold::ByHash } else { HowTold::WithBody }
    }

    /// The frame of a Work, without its body.
    fn upsert_of(&self, work: &Work, hash: Bytes, how: HowTold) -> v1::Upsert {
        v1::Upsert {
            key: work.key.to_string(),
            uid: work.uid.to_string(),
            epoch: self.epoch,
            revision: work.revision,
            hash,
            suspended: work.suspended,
            preserve: work.preserve,
            generation: work.generation,
            retry: work.retry.to_string(),
            offer: how == HowTold::ByHash,
            keep_former: self.restore_hold.keeps(&work.key),
            ..v1::Upsert::default()
        }
    }

    /// Begins to send a body, as what differs from `base` where that is worth it; one that was half sent before goes on where it was.
    fn start_body(&mut self, mut frame: v1::Upsert, manifests: &Bytes, base: Option<Bytes>) {
        // The agent puts one body together at a time: another lets go of what it held.
        self.partial = self.partial.take().filter(|partial| partial.key == frame.key);
        let is_begun = self.partial.as_ref().is_some_and(|partial| partial.hash == frame.hash);
        let telling = self.packs.pack(manifests, base.filter(|_| !is_begun));
        let encoded = telling.put_in(&mut frame);
        if frame.base.is_empty() {
            frame.offset = self.held_of(&frame);
        }
        let is_second = self.given_up.remove(frame.key.as_str());
        self.outgoing = Some(Outgoing { frame, encoded, is_second });
    }

    /// The body that the agent holds of a Work, on its disk, where it is at hand: what `work` was before, if that is what was told last and
    /// acknowledged; where nothing was told in this session, if the agent had acknowledged it before.
    fn base_of(&self, work: &Work) -> Option<Bytes> {
        let former = work.former.as_ref().filter(|_| self.packs.tells_difference(&work.key))?;
        if self.listing != Listing::Told || self.unacked.contains_key(&work.key) {
            return None;
        }
        let known = self.known.get(&work.key);
        if known.is_none() && !self.packs.was_held_before(former.revision) {
            return None;
        }
        let base = work_body::manifests(&former.body.json()).ok()?;
        known.is_none_or(|known| known.hash == body::hash(&base)).then_some(base)
    }

    /// How much of this very body the agent holds from a session that was cut.
    fn held_of(&mut self, frame: &v1::Upsert) -> u64 {
        match &self.partial {
            Some(p) if p.key == frame.key && p.hash == frame.hash && p.received < frame.encoded_size => {
                let received = p.received;
                self.partial = None;
                received
            }
            _ => 0,
        }
    }

    fn next_chunk(&mut self, send_credit: &mut SendCredit) -> Option<v1::HubFrame> {
        let room = send_credit.room();
        if room == 0 {
            return None;
        }
        let mut outgoing = self.outgoing.take()?;
        let (mut frame, is_last) = outgoing.next_chunk(room, &mut self.chunk_size);
        send_credit.spend(frame.chunk.len() as u64);
        if is_last {
            frame.cursor = self.safe_cursor();
        } else {
            self.outgoing = Some(outgoing);
        }
        Some(frame::hub(hub_frame::Body::Upsert(frame)))
    }
}
