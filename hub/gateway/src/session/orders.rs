//! What the gateway orders a session to do beside its Works.
//!
//! In: orders. Out: frames onto the session's queue, effects, and the end of the session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::v1::{self, Close, hub_frame};

use super::{Document, Effect, Session};
use crate::ports::Batch;

/// What the gateway wants of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionOrder {
    /// Ask the agent for a sign of life.
    Probe,
    /// Ask the agent to leave after this long, and close it if it has not twice that long after.
    Drain(Duration),
    /// A person confirmed these deletes.
    ConfirmDeletes(Batch),
    /// Have the agent release these orphaned Works: their names, and whether their objects stay.
    LetGo(Vec<(String, bool)>),
    /// Ask the agent to tell the cluster's status again.
    AskCluster,
    /// Have the agent count free nodes by these grades: JSON of `spec.resourceModels`.
    CountBy(Bytes),
    /// Tell the agent this document, where it holds another.
    Tell(Arc<Document>),
    /// Tell the agent which CAs are to be trusted now.
    Trust(u64),
    /// Close with this.
    Close(Close),
}

impl Session {
    /// Does what is ordered, unless the session is about to end.
    pub fn obey(&mut self, order: SessionOrder, now: Duration) {
        if self.closing {
            return;
        }
        match order {
            SessionOrder::Probe => self.probe(now),
            SessionOrder::Drain(after) => {
                self.leave_by = Some(now + after + after + Duration::from_secs(1));
                self.out.push_back(hub_frame::Body::Drain(v1::Drain { after_ms: after.as_millis() as u64 }));
            }
            SessionOrder::ConfirmDeletes(batch) => {
                if batch.epoch == self.epoch && self.dispatch.confirm_deletes(batch.revision) {
                    self.effects.push_back(Effect::Relist);
                }
            }
            SessionOrder::LetGo(decided) => {
                decided.into_iter().for_each(|(key, preserve)| self.dispatch.let_go(&key, preserve));
            }
            SessionOrder::AskCluster => {
                let again = v1::Resync { cluster: true, ..v1::Resync::default() };
                self.out.push_back(hub_frame::Body::Resync(again));
            }
            SessionOrder::CountBy(resource_models) => {
                let otherwise = v1::Resync { resource_models, ..v1::Resync::default() };
                self.out.push_back(hub_frame::Body::Resync(otherwise));
            }
            SessionOrder::Trust(trust_bundle_revision) => {
                let others = v1::Resync { trust_bundle_revision, ..v1::Resync::default() };
                self.out.push_back(hub_frame::Body::Resync(others));
            }
            SessionOrder::Tell(document) => self.documents.want(document),
            SessionOrder::Close(close) => self.close(close),
        }
    }
}
