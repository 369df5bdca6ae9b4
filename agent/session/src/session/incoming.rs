//! What the hub's frames do to a session: they are paid for, judged, and handed to where they belong.
//!
//! In: frames of the hub. Out: answers onto the session's queue, what the session is to do, and why it ends where the hub closes it or breaks
//! a promise. What Works do is in [`intake`](super::intake).

use std::time::Duration;

use bytes::Bytes;
use karmada_proto::body::Packing;
use karmada_proto::digest::BUCKETS;
use karmada_proto::v1::{self, HubFrame, RetryClass, Table, agent_frame, hub_frame};
use karmada_proto::{ASK_HUB, DIGESTS, one_line};

use super::documents::Unusable;
use super::{Ended, Session};
use crate::redial::Advice;

/// The longest name, uid or hash of a Work: one is answered with these, and kept by them. A name is of 253 bytes at most, and what it is
/// told apart by of a few more.
const NAME: usize = 512;
/// The longest pause that a hub is granted. Its own are of minutes; and an address that was another's for a day, or a hub that was wrong,
/// finds its agents back within the hour after it is mended, with nobody at the site.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// A hub that does not keep to what it was granted is dialled again after this.
pub(super) const OVERSPENT: Duration = Duration::from_secs(30);

impl Session {
    /// Takes one frame of the hub.
    pub fn frame(&mut self, frame: HubFrame, now: Duration) {
        self.line.heard_frame(now);
        let Some(body) = frame.body else {
            return self.unsupported(frame.kind, 0);
        };
        if let Err(offence) = self.judge(&body) {
            return self.end(offence.to_owned(), Advice::After(OVERSPENT));
        }
        use hub_frame::Body as B;
        match body {
            B::Welcome(welcome) => self.welcome(&welcome),
            B::Close(close) => self.close(close),
            B::Drain(drain) => self.leave_at = Some(now + asked_for(drain.after_ms)),
            B::Ping(ping) => {
                self.out.push_back(agent_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor: 0 }));
            }
            B::Pong(pong) => {
                self.line.answered(pong.seq);
                self.intake.lazily(pong.cursor);
            }
            B::Credit(credit) => self.send_credit.add(&credit),
            B::Unsupported(_) => {}
            B::Renewed(reply) => self.renewal_answered(reply),
            B::Resync(again) => self.asked_again(again),
            _ if !self.welcomed => {
                self.end("the hub sent Works before its welcome".into(), Advice::Lost(self.retry_hint));
            }
            B::SnapshotStart(start) => self.intake.listing_starts(&start),
            B::Compare(compare) => self.compare(compare, frame.kind),
            B::Differing(differing) => self.differing(differing, frame.kind),
            B::Document(document) => self.document(document, frame.kind),
            B::Ask(ask) => {
                let refusal = self.asks.takes(ask);
                self.out.extend(refusal.map(agent_frame::Body::Answer));
            }
            B::HubAnswer(answer) => self.hub_questions.answered(answer),
            B::Lacking(lacking) => self.intake.lacking(lacking.keys),
            B::SnapshotEnd(end) => self.intake.snapshot_end(end),
            B::Bookmark(bookmark) => self.intake.lazily(bookmark.cursor),
            B::Upsert(upsert) => self.intake.upsert(&upsert, &mut self.out),
            B::Tombstone(tombstone) => self.intake.tombstone(tombstone, &mut self.out),
        }
    }

    /// Why the hub may not send this, in words, where it may not.
    fn judge(&mut self, body: &hub_frame::Body) -> Result<(), &'static str> {
        if !is_named_briefly(body) {
            return Err("the hub sent a Work with a name, a uid or a hash that is longer than any");
        }
        if self.overspends(body) {
            return Err("the hub sent more than it was granted");
        }
        Ok(())
    }

    /// What is not known here is named, and changes nothing.
    fn unsupported(&mut self, kind: u32, table: u32) {
        self.out.push_back(agent_frame::Body::Unsupported(v1::Unsupported { kind, table }));
    }

    /// Works and tombstones are what the hub pays for.
    fn overspends(&mut self, body: &hub_frame::Body) -> bool {
        match body {
            hub_frame::Body::Upsert(upsert) => self.credit.receive(upsert.chunk.len() as u64).is_err(),
            hub_frame::Body::Tombstone(_) => self.credit.receive(0).is_err(),
            _ => false,
        }
    }

    fn welcome(&mut self, welcome: &v1::Welcome) {
        if let Err(reason) = self.enter_epoch(welcome) {
            return self.end(reason, Advice::After(Duration::from_secs(60)));
        }
        self.intake.speaks_with(welcome.timeline);
        self.welcomed = true;
        self.compares = welcome.features.iter().any(|feature| feature == DIGESTS);
        self.packing = Packing::of(&welcome.features);
        self.hub_questions.met(welcome.features.iter().any(|feature| feature == ASK_HUB));
        // A hub that does not compare is told everything in each session.
        self.resync.statuses |= !self.compares;
        self.is_to_trust(welcome.trust_bundle_revision);
        self.send_credit.add(&welcome.credit.unwrap_or_default());
        self.retry_hint = asked_for(welcome.retry_hint_ms);
        self.line
            .cadence
            .bound(Duration::from_millis(welcome.ping_min_ms), Duration::from_millis(welcome.ping_max_ms));
        self.hub_offset_ms = Some(welcome.hub_clock_ms.saturating_sub(self.clock_ms));
    }

    /// Everything is in the hub's epoch from now on, with the proof that is worth keeping. Why not, where the hub is not to be obeyed.
    fn enter_epoch(&mut self, welcome: &v1::Welcome) -> Result<(), String> {
        let epoch = self.intake.epoch();
        let proved = self.seal_keys.verify(welcome.epoch, &welcome.epoch_seal);
        let ours_is_proved = self.seal_keys.verify(epoch, &self.seal);
        if welcome.epoch < epoch && (ours_is_proved || !proved) {
            // The hub mints above what our hello proved; one that does not is not to be obeyed. An epoch of ours
            // that nobody ever handed out gives way to one that is proved.
            return Err(format!("the hub is in epoch {}, this site has seen {}", welcome.epoch, epoch));
        }
        if welcome.epoch != epoch {
            self.intake.enter(welcome.epoch);
        }
        let seal = if proved { welcome.epoch_seal.clone() } else { Bytes::new() };
        // A signature differs each time it is made: one proof of an epoch is enough, unless ours is by a CA that is on its way out.
        let signs = self.seal_keys.first();
        let proved_for_longer =
            !signs.verify(epoch, &self.seal) && signs.verify(welcome.epoch, &welcome.epoch_seal);
        if welcome.epoch != epoch || proved && !ours_is_proved || proved_for_longer {
            self.intake.sealed(seal);
        }
        Ok(())
    }

    fn is_to_trust(&mut self, revision: u64) {
        if revision != 0 {
            self.trust = Some(revision);
        }
    }

    /// The hub answers an ask for a certificate.
    fn renewal_answered(&mut self, reply: v1::RenewReply) {
        // One answer to each ask: what comes unasked would be written down as often as the hub likes.
        let granted = self.renewed.take().filter(|before| before.refusal.is_empty());
        let is_asked = self.renewals > 0;
        self.renewals = self.renewals.saturating_sub(1);
        self.renewed = granted.or(is_asked.then_some(reply));
    }

    /// The hub wants to hear something again, or otherwise.
    fn asked_again(&mut self, again: v1::Resync) {
        self.resync.statuses |= again.statuses;
        self.resync.cluster |= again.cluster;
        self.is_to_trust(again.trust_bundle_revision);
        if !again.resource_models.is_empty() {
            self.resource_models = Some(again.resource_models);
        }
    }

    /// The hub asks for the sums of a table, in a frame of this kind.
    fn compare(&mut self, compare: v1::Compare, kind: u32) {
        match Table::try_from(compare.table as i32) {
            Ok(Table::Works) => self.intake.compare(&mut self.out),
            Ok(Table::Statuses) => self.sums_asked = true,
            Ok(Table::Customizations) | Err(_) => self.unsupported(kind, compare.table),
        }
    }

    /// The hub names the buckets of a table that it has otherwise, in a frame of this kind.
    fn differing(&mut self, differing: v1::Differing, kind: u32) {
        match Table::try_from(differing.table as i32) {
            Ok(Table::Works) => {
                self.intake.differing(&differing.buckets.into_iter().collect(), &mut self.out);
            }
            Ok(Table::Statuses) => {
                let named = differing.buckets.into_iter().filter(|bucket| *bucket < BUCKETS as u32);
                self.differing.extend(named);
            }
            Ok(Table::Customizations) | Err(_) => self.unsupported(kind, differing.table),
        }
    }

    fn document(&mut self, document: v1::Document, kind: u32) {
        let table = document.table;
        match self.documents.take(document) {
            Ok(()) => {}
            Err(Unusable::Table) => self.unsupported(kind, table),
            // The hub takes it for held. The next session begins it anew.
            Err(Unusable::Content) => self.lost("a document is not what its hash says".into()),
        }
    }

    fn close(&mut self, close: v1::Close) {
        let after = asked_for(close.after_ms);
        let advice = match close.retry() {
            RetryClass::RetryNow | RetryClass::Relocate if after.is_zero() => Advice::Now,
            RetryClass::RetryNow | RetryClass::Relocate | RetryClass::RetryAfter => Advice::After(after),
            RetryClass::RetryUnspecified => Advice::Lost(self.retry_hint),
            // Never for ever: a hub that is mended must find its agents back.
            RetryClass::Rejoin | RetryClass::Fatal => Advice::After(after.max(Duration::from_secs(60))),
        };
        let (code, relocate) = (close.code(), Some(close.endpoint).filter(|e| !e.is_empty()));
        self.ended.get_or_insert(Ended {
            reason: one_line(&close.message),
            advice,
            code: Some(code),
            relocate,
        });
    }
}

/// A pause that the hub asks for, as far as it is granted.
fn asked_for(ms: u64) -> Duration {
    Duration::from_millis(ms).min(LONGEST_PAUSE)
}

/// Whether a Work's name, uid and hash may be such.
fn is_named_briefly(body: &hub_frame::Body) -> bool {
    let names = match body {
        hub_frame::Body::Upsert(work) => [work.key.len(), work.uid.len(), work.hash.len()],
        hub_frame::Body::Tombstone(work) => [work.key.len(), work.uid.len(), 0],
        _ => return true,
    };
    names.iter().all(|length| *length <= NAME)
}
