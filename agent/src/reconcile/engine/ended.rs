//! What an application or a removal came to: written into the ledger, told to the hub, and tried again where it failed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use karmada_api::strings::events;
use karmada_proto::v1::EventReport;
use serde_json::Value;

use super::task::Unserved;
use super::{Ending, Engine, Finished};
use crate::ledger::{CRASHES, Entry, LedgerError, Outcome};
use crate::member::{Gvk, MemberError, ObjectId};
use crate::reconcile::apply::{Failure, Removal};
use crate::reconcile::meanwhile::Answer;
use crate::reconcile::todo::{Cause, removal_class};
use crate::reconcile::{body, order, outcome};

/// How long a member that is ready must not have served a kind before its objects are taken to be gone.
const UNSERVED: Duration = Duration::from_secs(30);

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
            Ending::Removed(mut result, unserved) => {
                self.judge_unserved(&key, &mut result, unserved);
                self.removal_ended(&key, latency, *result)
            }
            Ending::Panicked => self.panicked(&key),
        }
    }

    /// It is known whose fault it is: tried once more, then left alone.
    fn panicked(&mut self, key: &str) -> Result<(), LedgerError> {
        let ledger = &self.parts.shared.ledger;
        ledger.panicked(key)?;
        let Some(entry) = ledger.entry(key)? else { return Ok(()) };
        if entry.crashes >= CRASHES {
            self.quarantine(key, &entry);
        } else {
            tracing::error!(work = key, "working on it panicked");
            let failure = Failure::Panicked.to_string();
            if self.board.set_applied(key, outcome(false, failure.clone())) {
                self.event(key, &Some(entry), Some(failure));
            }
            let due = self.now() + self.waits.failed(key);
            self.todo.again(key, 3, due);
        }
        self.tell(key);
        Ok(())
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
        let paused = self.paused(results.iter().filter_map(|(_, result)| result.as_ref().err()));
        // The body may be another one by now: then what the member has is not as it should be.
        let entry = self.parts.shared.ledger.entry(key)?;
        let current = entry.is_some_and(|entry| entry.hash == *hash);
        let (mut failed, mut class, mut drifted) = (Vec::new(), 3, false);
        let mut written = Vec::with_capacity(results.len());
        for (ordinal, (plural, result)) in results.iter().enumerate() {
            match result {
                Ok(object) => {
                    class = class.min(order::class(&Gvk::of(object)));
                    written.push(body::written(object));
                    if current {
                        drifted |= self.found_right(key, ordinal, plural, object);
                    }
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
            let due = paused.max(self.now() + self.waits.failed(key));
            self.todo.again(key, class, due);
        } else {
            self.waits.clear(key);
            if drifted {
                self.todo.push(key, class, Cause::Drift);
            }
        }
        let placed = results.iter().any(|(_, result)| result.is_ok());
        self.conclude(key, hash, message, placed, written)
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
        written: Vec<u64>,
    ) -> Result<(), LedgerError> {
        let counts = &self.parts.shared.counts;
        let counter = if message.is_none() { &counts.applied } else { &counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let applied = outcome(message.is_none(), message.clone().unwrap_or_default());
        let ledger = &self.parts.shared.ledger;
        let before = ledger.entry(key)?;
        let current = before.as_ref().is_some_and(|entry| entry.hash == *hash);
        let same = before.as_ref().is_some_and(|entry| {
            entry.placed >= placed
                && entry.written == written
                && entry.applied.as_ref() == Some(&(applied.clone(), true))
        });
        if current && !same {
            let (key, hash) = (key.to_owned(), hash.clone());
            ledger.ended(&[Outcome { key, hash, applied: applied.clone(), placed, written }])?;
        } else {
            ledger.came_back(&[key.to_owned()])?;
            if placed {
                ledger.placed(key)?;
            }
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

    /// That a kind is not served is evidence that its objects are gone where none was ever placed, or once a member that is ready has not
    /// served it for a while: with its definition they went.
    fn judge_unserved(&mut self, key: &str, removal: &mut Removal, unserved: Unserved) {
        let Some(gvk) = removal.unserved.take() else {
            self.unserved.remove(key);
            return;
        };
        let now = self.now();
        let gone = match unserved {
            Unserved::Nowhere => true,
            Unserved::NotReady => {
                self.unserved.remove(key);
                false
            }
            Unserved::Ready => {
                let since = *self.unserved.entry(key.to_owned()).or_insert(now);
                now.saturating_sub(since) >= UNSERVED
            }
        };
        if gone {
            removal.done = removal.failure.is_none();
        } else {
            removal.failure.get_or_insert(Failure::Member(MemberError::NoKind(gvk)));
        }
    }

    fn removal_ended(&mut self, key: &str, latency: Duration, removal: Removal) -> Result<(), LedgerError> {
        self.limit.ended(latency, removal.failure.as_ref().is_some_and(Failure::is_throttling));
        let paused = self.paused(&removal.failure);
        self.removed.entry(key.to_owned()).or_default().extend(removal.uids);
        if removal.done {
            self.waits.clear(key);
            self.parts.shared.counts.removed.fetch_add(1, Ordering::Relaxed);
            self.parts.shared.ledger.removed(&[key.to_owned()])?;
            // Unless a new life began meanwhile.
            return self.entry_changed(key, false);
        }
        self.parts.shared.ledger.came_back(&[key.to_owned()])?;
        if let Some(failure) = removal.failure {
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
        let due = paused.max(self.now() + self.waits.failed(key));
        self.todo.again(key, removal_class(3), due);
        Ok(())
    }

    /// Until when the member asked for a pause, by any of `failures`: nothing is begun before.
    fn paused<'a>(&mut self, failures: impl IntoIterator<Item = &'a Failure>) -> Duration {
        let pause = failures.into_iter().filter_map(Failure::pause).max().unwrap_or_default();
        let until = self.now() + pause;
        if !pause.is_zero() {
            self.todo.pause(until);
        }
        until
    }

    // ------------------------------------------------------------------------------------------ telling

    /// Before there is an outcome there is nothing to tell: that a body is on disk, its ack says.
    pub(super) fn tell(&self, key: &str) {
        if let Some(standing) = self.board.standing(key).filter(|standing| standing.applied.is_some()) {
            self.parts.shared.report(|outbox| outbox.work(key, standing));
        }
    }

    pub(super) fn tell_removed(&self, key: &str, entry: &Entry) {
        let uids = self.removed.get(key).into_iter().flatten().cloned().collect();
        self.parts.shared.report(|outbox| {
            outbox.removed(key, &entry.uid, entry.revision, uids);
            true
        });
    }
}
