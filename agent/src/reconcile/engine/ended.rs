//! What an application or a removal came to: written into the ledger, told to the hub, and tried again where it failed.

use std::time::Duration;

use karmada_api::strings::events;
use karmada_proto::v1::EventReport;
use serde_json::Value;

use super::{Ending, Engine, Finished};
use crate::ledger::{Entry, LedgerError};
use crate::member::{Gvk, ObjectId};
use crate::reconcile::apply::Failure;
use crate::reconcile::meanwhile::Answer;
use crate::reconcile::todo::{Cause, removal_class};
use crate::reconcile::{body, order, outcome};

impl Engine {
    pub(super) fn finished(
        &mut self,
        finished: Result<Finished, tokio::task::JoinError>,
    ) -> Result<(), LedgerError> {
        // Tasks are not aborted and catch their panics.
        let Ok(Finished { key, hash, latency, kind }) = finished else { return Ok(()) };
        self.todo.done(&key);
        match kind {
            Ending::Applied(results) => self.applied(&key, &hash, latency, &results),
            Ending::Removed(result) => self.removal_ended(&key, latency, result),
            Ending::Panicked => {
                tracing::error!(work = key, "a reconciliation panicked");
                let due = self.now() + self.waits.failed(&key);
                self.todo.again(&key, 3, due);
                Ok(())
            }
        }
    }

    fn applied(
        &mut self,
        key: &str,
        hash: &bytes::Bytes,
        latency: Duration,
        results: &[(String, Result<Value, Failure>)],
    ) -> Result<(), LedgerError> {
        let throttled = results.iter().any(|(_, r)| r.as_ref().is_err_and(Failure::is_throttling));
        self.limit.ended(latency, throttled);
        let (mut failed, mut class, mut drifted) = (Vec::new(), 3, false);
        for (ordinal, (plural, result)) in results.iter().enumerate() {
            match result {
                Ok(object) => {
                    class = class.min(order::class(&Gvk::of(object)));
                    drifted |= self.found_right(key, ordinal, plural, object);
                }
                Err(failure) => failed.push(failure.to_string()),
            }
        }
        let message = (!failed.is_empty()).then(|| {
            format!(
                "Failed to apply all manifests ({}/{}): {}",
                results.len() - failed.len(),
                results.len(),
                failed.join("; ")
            )
        });
        if message.is_some() {
            let wait = self.waits.failed(key);
            let due = self.now() + wait;
            self.todo.again(key, class, due);
        } else {
            self.waits.clear(key);
            if drifted {
                self.todo.push(key, class, Cause::Drift);
            }
        }
        let placed = results.iter().any(|(_, result)| result.is_ok());
        self.conclude(key, hash, message, placed)
    }

    /// The member answered that the object is like this, which is as it should be. True where it must be looked at again.
    fn found_right(&mut self, key: &str, ordinal: usize, plural: &str, object: &Value) -> bool {
        let (id, digest) = (ObjectId::of(object), body::digest(object));
        self.targets.set_digest(&id, Some(digest));
        let answer = self.meanwhile.answered(&id, digest, object);
        if answer == Answer::Newest {
            self.board.observe(&*self.parts.interpreter, key, ordinal, plural, object);
        }
        self.plurals.entry(id.gvk).or_insert_with(|| plural.to_owned());
        answer == Answer::Doubtful
    }

    /// Writes and tells the outcome of applying `key`, where it is news.
    pub(super) fn conclude(
        &mut self,
        key: &str,
        hash: &bytes::Bytes,
        message: Option<String>,
        placed: bool,
    ) -> Result<(), LedgerError> {
        let applied = outcome(message.is_none(), message.clone().unwrap_or_default());
        let ledger = &self.parts.shared.ledger;
        let before = ledger.entry(key)?;
        let current = before.as_ref().is_some_and(|entry| entry.hash == *hash);
        let same = before.as_ref().is_some_and(|entry| {
            entry.attempts == 0
                && entry.placed >= placed
                && entry.applied.as_ref() == Some(&(applied.clone(), true))
        });
        if current && !same {
            ledger.ended(&[(key.to_owned(), hash.clone(), applied.clone(), placed)])?;
        }
        if current && self.board.set_applied(key, applied) {
            self.event(key, &before, message);
        }
        self.tell(key);
        Ok(())
    }

    pub(super) fn event(&self, key: &str, entry: &Option<Entry>, failure: Option<String>) {
        let uid = entry.as_ref().map(|entry| entry.uid.clone()).unwrap_or_default();
        let (kind, reason) = if failure.is_none() {
            ("Normal", events::SYNC_SUCCEED)
        } else {
            ("Warning", events::SYNC_FAILED)
        };
        let message =
            failure.unwrap_or_else(|| format!("Successfully applied to cluster {}", self.parts.cluster));
        self.parts.shared.report(|outbox| {
            outbox.event(EventReport {
                key: key.into(),
                uid,
                r#type: kind.into(),
                reason: reason.into(),
                message,
            });
            true
        });
    }

    fn removal_ended(
        &mut self,
        key: &str,
        latency: Duration,
        result: Result<bool, Failure>,
    ) -> Result<(), LedgerError> {
        self.limit.ended(latency, result.as_ref().is_err_and(Failure::is_throttling));
        if result == Ok(true) {
            self.waits.clear(key);
            self.parts.shared.ledger.removed(&[key.to_owned()])?;
            // Unless a new life began meanwhile.
            return self.entry_changed(key, false);
        }
        if let Err(failure) = result {
            tracing::warn!(work = key, %failure, "removing");
            let entry = self.parts.shared.ledger.entry(key)?;
            let uid = entry.map(|entry| entry.uid).unwrap_or_default();
            let event = EventReport {
                key: key.to_owned(),
                uid,
                r#type: "Warning".into(),
                reason: events::CLEANUP_WORK_FAILED.into(),
                message: failure.to_string(),
            };
            self.parts.shared.report(|outbox| {
                outbox.event(event);
                true
            });
        }
        let due = self.now() + self.waits.failed(key);
        self.todo.again(key, removal_class(3), due);
        Ok(())
    }

    // ------------------------------------------------------------------------------------------ telling

    /// Before there is an outcome there is nothing to tell: that a body is on disk, its ack says.
    pub(super) fn tell(&self, key: &str) {
        if let Some(standing) = self.board.standing(key).filter(|standing| standing.applied.is_some()) {
            self.parts.shared.report(|outbox| outbox.work(key, standing));
        }
    }

    pub(super) fn tell_removed(&self, key: &str, entry: &Entry) {
        self.parts.shared.report(|outbox| {
            outbox.removed(key, &entry.uid, entry.revision, Vec::new());
            true
        });
    }
}
