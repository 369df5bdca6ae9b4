//! What an agent's frames do to its session: they are paid for, judged, and handed to where they belong.
//!
//! In: frames of the agent, of its Works and of what is no Work of it. Out: answers, reports to be written, and effects, onto the session's
//! queues.

use std::time::Duration;

use bytes::Bytes;
use karmada_proto::quote::{MESSAGE, REASON, bounded};
use karmada_proto::v1::{self, CloseCode, NackCode, RetryClass, agent_frame, hub_frame};
use karmada_proto::{credit, frame};

use super::bounds::{NAME, is_named_briefly};
use super::dispatch::NeverHeld;
use super::{BETWEEN_LISTINGS, Effect, Session};
use crate::inbox::{Packed, Report};
use crate::ports::{Applied, WorkNotice, WorkReport};
use crate::session_admission::close;

/// Uids of removed objects that are kept to be told.
const EVIDENCE: usize = 16;

/// Bytes of a frame, without the frame: a slice would keep all of it.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// What an agent tells of a Work in an event, as far as it is kept.
fn notice(event: v1::EventReport) -> WorkNotice {
    WorkNotice {
        key: event.key,
        uid: event.uid,
        warning: event.r#type == "Warning",
        reason: bounded(&event.reason, REASON),
        message: bounded(&event.message, MESSAGE),
    }
}

impl Session {
    /// Takes one frame of the agent.
    pub fn frame(&mut self, frame: v1::AgentFrame, now: Duration) {
        self.note_frame(&frame, now);
        if self.closing {
            return;
        }
        let Some(body) = frame.body else {
            return self.unsupported(frame.kind, 0);
        };
        if self.overspends(&body) {
            return;
        }
        if !is_named_briefly(&body) {
            return self.refuse("a report with a name or uid that is too long");
        }
        use agent_frame::Body as B;
        match body {
            B::Hello(_) => self.close(close(
                CloseCode::Protocol,
                RetryClass::RetryAfter,
                Duration::from_secs(5),
                "a second hello".into(),
            )),
            B::Ping(ping) => self.ping(&ping, now),
            B::Pong(pong) => self.line.answered(pong.seq, now),
            B::Ack(ack) => self.ack(ack),
            B::WorkStatus(status) => self.work_status(status),
            B::ClusterStatus(status) => self.cluster_status(status),
            B::Event(event) => self.inbox.put(Report::Notice(notice(event))),
            B::Credit(credit) => self.send_credit.add(&credit),
            B::Unsupported(_) => {}
            B::Want(want) => {
                self.is_to_relist |= !self.dispatch.want(&want);
                self.relist(now);
            }
            B::Removed(removed) => self.removed(removed),
            B::Orphans(orphans) => {
                self.dispatch.names(&orphans.keys);
                self.inbox.put(Report::Orphans(orphans.keys));
            }
            B::Renew(renew) => self.effects.push_back(Effect::Renew(renew.csr)),
            B::Bye(_) => self.closing = true,
            B::Buckets(buckets) => self.buckets(frame.kind, &buckets),
            B::Rows(rows) => self.rows(frame.kind, rows),
            B::Nack(nack) => self.nack(nack),
            B::AskHub(ask) => self.asked_by_agent(ask),
            B::Answer(answer) => self.effects.push_back(Effect::Answered(answer)),
        }
    }

    pub(super) fn ack(&mut self, ack: v1::Ack) {
        if let Some(held) = self.dispatch.end_restore_hold(&ack) {
            self.inbox.put(Report::HoldEnds(held));
            self.is_to_relist |= self.dispatch.is_to_be_listed_anew();
        }
        self.effects.extend(self.dispatch.ack(ack).map(Effect::Persisted));
    }

    /// Whatever the agent misses is answered by one listing, and not by another while one comes in or a moment after: each reads all of
    /// its Works.
    pub(super) fn relist(&mut self, now: Duration) {
        if self.is_to_relist && !self.dispatch.is_listing() && now >= self.no_relist_before {
            self.is_to_relist = false;
            self.no_relist_before = now + BETWEEN_LISTINGS;
            self.effects.push_back(Effect::Relist);
        }
    }

    fn note_frame(&mut self, frame: &v1::AgentFrame, now: Duration) {
        if self.line.heard_frame(frame::size(frame), now) {
            self.effects.push_back(Effect::Stands(false));
        }
    }

    /// What is not known here is named, and changes nothing.
    pub(super) fn unsupported(&mut self, kind: u32, table: u32) {
        self.out.push_back(hub_frame::Body::Unsupported(v1::Unsupported { kind, table }));
    }

    fn ping(&mut self, ping: &v1::Ping, now: Duration) {
        self.line.announced(Duration::from_millis(ping.next_ms));
        self.roots_told(ping, now);
        let cursor = self.dispatch.idle_cursor();
        self.out.push_back(hub_frame::Body::Pong(v1::Pong { seq: ping.seq, cursor }));
    }

    /// What a report costs is taken from what was granted; who has nothing left is closed.
    fn overspends(&mut self, body: &agent_frame::Body) -> bool {
        let Some(cost) = self.cost(body) else { return false };
        if self.credit.receive(cost).is_ok() {
            self.credit.return_credit(cost);
            return false;
        }
        let message = "the agent sent more than the hub granted".to_owned();
        self.close(close(CloseCode::Protocol, RetryClass::RetryAfter, Duration::from_secs(5), message));
        true
    }

    fn cost(&self, body: &agent_frame::Body) -> Option<u64> {
        use agent_frame::Body as B;
        match body {
            B::WorkStatus(status) => Some(status.manifest_statuses.len() as u64),
            B::ClusterStatus(status) => Some(status.body.len() as u64),
            // An agent answers so to a tombstone of what it never had: it is small, and the hub asked for it.
            B::Removed(removed) if removed.never_held => None,
            B::Removed(_) | B::Orphans(_) | B::Event(_) => Some(credit::cost(body)),
            _ => None,
        }
    }

    /// Takes a frame about a Work that is not this cluster's: it is paid for and nothing else, unless it says that what is gone from the
    /// hub is gone from the site as well.
    pub fn stranger(&mut self, frame: v1::AgentFrame, now: Duration) {
        self.note_frame(&frame, now);
        if self.closing || frame.body.as_ref().is_some_and(|body| self.overspends(body)) {
            return;
        }
        match frame.body {
            Some(agent_frame::Body::Removed(removed)) if !removed.never_held && removed.key.len() <= NAME => {
                let v1::Removed { key, object_uids, .. } = &removed;
                // What has no uid is no Work of a hub's: the site found objects of it, told them as an orphan, and has them no more.
                if self.dispatch.has_let_go(key) || removed.uid.is_empty() {
                    let objects = object_uids.iter().take(EVIDENCE).map(|uid| bounded(uid, 64)).collect();
                    self.inbox.put(Report::Finalize { key: key.clone(), uid: String::new(), objects });
                }
                self.dispatch.release(v1::Removed { uid: bounded(&removed.uid, NAME), ..removed });
            }
            _ => self.refused += 1,
        }
    }

    /// Whether anything was sent of `key` in this session.
    pub fn knows(&self, key: &str) -> bool {
        self.dispatch.knows(key)
    }

    fn removed(&mut self, removed: v1::Removed) {
        let v1::Removed { key, uid, object_uids, never_held, held, .. } = removed;
        // Who does not say that the body was held has looked for nothing.
        if !never_held && (held || !object_uids.is_empty()) {
            self.dispatch.removed(&key);
            let objects = object_uids.iter().take(EVIDENCE).map(|uid| bounded(uid, 64)).collect();
            self.inbox.put(Report::Finalize { key, uid, objects });
            return;
        }
        match self.dispatch.never_held(&key, &uid) {
            NeverHeld::BodyFollows => {}
            NeverHeld::NotAsked => self.refused += 1,
            NeverHeld::Again => self.inbox.put(Report::Notice(WorkNotice {
                key,
                uid,
                warning: true,
                reason: "CleanupWorkFailed".into(),
                message: "the site says that it never held this Work, though it was sent what to remove; it is asked again \
                          in its next session"
                    .into(),
            })),
        }
    }

    fn cluster_status(&mut self, status: v1::ClusterStatus) {
        let v1::ClusterStatus { encoding, decoded_size, body: bytes } = status;
        let packed = Packed { encoding, bytes: own(&bytes), decoded_size };
        if packed.is_bounded() {
            self.inbox.put(Report::Cluster(packed));
        } else {
            self.refuse("a cluster's status that is too large");
        }
    }

    fn work_status(&mut self, status: v1::WorkStatus) {
        let hash = self.dispatch.reported(&status);
        let v1::WorkStatus { encoding, manifest_statuses: bytes, decoded_size, .. } = status;
        let packed = (decoded_size > 0).then(|| Packed { encoding, bytes: own(&bytes), decoded_size });
        if packed.as_ref().is_some_and(|packed| !packed.is_bounded()) {
            self.refuse("a Work's status that is too large");
            return;
        }
        let report = WorkReport {
            key: status.key,
            uid: status.uid,
            revision: status.revision,
            generation: status.generation,
            hash: Some(hash),
            applied: status.applied.map(|a| Applied {
                ok: a.ok,
                reason: bounded(&a.reason, REASON),
                message: bounded(&a.message, MESSAGE),
            }),
            manifest_statuses: None,
        };
        self.inbox.put(Report::Work(report, packed));
    }

    /// A Work that the agent cannot take, or a tombstone that it does not understand.
    fn nack(&mut self, nack: v1::Nack) {
        let Some((uid, generation)) = self.dispatch.sent_at(&nack.key, nack.revision) else {
            self.refused += 1;
            return;
        };
        let message = bounded(&nack.message, MESSAGE);
        if nack.code() == NackCode::UnknownReason {
            let reason = "CleanupWorkFailed".to_owned();
            let notice = WorkNotice { key: nack.key, uid, warning: true, reason, message };
            return self.inbox.put(Report::Notice(notice));
        }
        let report = WorkReport {
            key: nack.key,
            uid,
            revision: nack.revision,
            generation,
            hash: None,
            applied: Some(Applied { ok: false, reason: "AppliedFailed".into(), message }),
            manifest_statuses: None,
        };
        self.inbox.put(Report::Work(report, None));
    }

    /// Not each is told: who sends nothing else would fill the log.
    pub(crate) fn refuse(&mut self, what: &str) {
        self.refused += 1;
        if self.refused.is_power_of_two() {
            self.effects.push_back(Effect::Refused(what.to_owned()));
        }
    }
}
