//! What an application or a removal came to: written into the ledger, told to the hub, and tried again where it failed.
//!
//! In: a task that came back. Out: rows of the ledger, reports and events in the outbox, and when the Work has its next turn.

use std::sync::atomic::Ordering;
use std::time::Duration;

use karmada_api::strings::events;
use karmada_proto::v1::EventReport;
use serde_json::Value;

use super::drift::REMOVED;
use super::quarantine::{self, CRASHES};
use super::{Ending, Engine, Finished};
use crate::ledger::{Entry, LedgerError, Outcome};
use crate::member::ObjectId;
use crate::outbox::WorkReport;
use crate::reconcile::failure::Failure;
use crate::reconcile::observed_during_write::Answer;
use crate::reconcile::orphan_rows::work_of_row;
use crate::reconcile::removal::Removal;
use crate::reconcile::workqueue::{Lane, WorkReason, removal_class};
use crate::reconcile::{adaptive_limit, member_body, outcome};
use crate::session::Phase;

/// What is said of a Work of so many manifests of which these failed; `None` where none did.
fn failure_message(failed: &[String], all: usize) -> Option<String> {
    let applied = all - failed.len();
    (!failed.is_empty())
        .then(|| format!("Failed to apply all manifests ({applied}/{all}): {}", failed.join("; ")))
}

impl Engine {
    pub(super) fn finished(
        &mut self,
        finished: Result<Finished, tokio::task::JoinError>,
    ) -> Result<(), LedgerError> {
        // Tasks are not aborted and catch their panics.
        let Ok(Finished { key, hash, class, latency, kind }) = finished else { return Ok(()) };
        self.workqueue.done(&key);
        for (waited, task) in self.under_way.ended(&key) {
            self.workqueue.bring_back(&waited, task);
        }
        match kind {
            Ending::Applied { results, former } => {
                self.applied((&key, class), &hash, latency, &results)?;
                former.map_or(Ok(()), |former| self.former_ended((&key, class), &hash, former))
            }
            Ending::Removed(result) => self.removal_ended((&key, class), latency, result),
            Ending::Panicked => self.panicked(&key, class),
        }
    }

    /// It is known whose fault it is: tried once more, then left alone.
    fn panicked(&mut self, key: &str, class: u8) -> Result<(), LedgerError> {
        self.unanswered.left_open(key, self.now());
        let ledger = &self.parts.shared.ledger;
        ledger.panicked(key)?;
        let Some(entry) = ledger.entry(key)? else { return Ok(()) };
        if entry.phase != Phase::Desired {
            tracing::error!(work = key, "removing it panicked");
            let due = self.now()
                + self.removals.failed(key).max(adaptive_limit::after_crashes(entry.crashes, CRASHES));
            self.workqueue.again(key, removal_class(class), due);
        } else if quarantine::is_due(&entry) {
            self.quarantine(key, &entry);
        } else {
            tracing::error!(work = key, "working on it panicked");
            let failure = Failure::Panicked.to_string();
            if self.statuses.set_applied(key, outcome(false, &failure)) {
                self.event(key, &Some(entry), Some(failure));
            }
            let due = self.now() + self.waits.failed(key);
            self.workqueue.again(key, class, due);
        }
        self.tell(key);
        Ok(())
    }

    fn applied(
        &mut self,
        (key, class): (&str, u8),
        hash: &bytes::Bytes,
        latency: Duration,
        results: &[(String, Result<Value, Failure>)],
    ) -> Result<(), LedgerError> {
        let throttled = results.iter().any(|(_, r)| r.as_ref().is_err_and(Failure::is_throttling));
        self.limit.ended(latency, throttled);
        let failures = || results.iter().filter_map(|(_, result)| result.as_ref().err());
        let paused = self.paused(Lane::Applies, throttled, failures());
        let left_open = failures().any(Failure::leaves_open);
        if left_open {
            self.unanswered.left_open(key, self.now());
        }
        if self.asks_hub((key, class), hash, results) {
            return self.is_not_over(key, left_open || results.iter().any(|(_, result)| result.is_ok()));
        }
        // The body may be another one by now: then what the member has is not as it should be.
        let entry = self.parts.shared.ledger.entry(key)?;
        let current = entry.as_ref().is_some_and(|entry| entry.hash == *hash);
        let (mut failed, mut drifted) = (Vec::new(), false);
        let mut written = Vec::with_capacity(results.len());
        for (ordinal, (plural, result)) in results.iter().enumerate() {
            match result {
                Ok(object) => {
                    self.looked_for(entry.as_ref(), &self.named(key, ordinal, object), object);
                    written.push(member_body::last_write_digest(object));
                    if current {
                        drifted |= self.found_right(key, ordinal, plural, object);
                    }
                }
                Err(failure) => failed.push(failure.to_string()),
            }
        }
        let message = failure_message(&failed, results.len());
        let counts = &self.parts.shared.counts;
        let synced = if message.is_none() { &counts.synced } else { &counts.sync_failed };
        synced.note(latency);
        if message.is_some() {
            let due = paused.max(self.now() + self.waits.failed(key));
            self.workqueue.again(key, class, due);
        } else {
            self.waits.clear(key);
            self.recovered();
            if drifted {
                self.workqueue.push(key, class, WorkReason::Drift);
            }
        }
        self.conclude(Outcome {
            key: key.to_owned(),
            hash: hash.clone(),
            applied: outcome(message.is_none(), &message.unwrap_or_default()),
            placed: left_open || results.iter().any(|(_, result)| result.is_ok()),
            written,
            unanswered: self.unanswered.until(key).is_some(),
        })
    }

    /// What a list did not name is there now. It was brought back where it is not the one that this very body was applied as: what waited
    /// for its first application, or was made after the list, nobody had removed.
    fn looked_for(&mut self, before: Option<&Entry>, id: &ObjectId, object: &Value) {
        if !self.unlisted.remove(id) {
            return;
        }
        let was_there = |entry: &Entry| entry.written.contains(&member_body::last_write_digest(object));
        if before.is_some_and(|entry| entry.is_applied() && !was_there(entry)) {
            self.drifted(id, REMOVED);
        }
    }

    /// As manifest `ordinal` of Work `key` names the object.
    fn named(&self, key: &str, ordinal: usize, object: &Value) -> ObjectId {
        self.targets.of_work(key).get(ordinal).cloned().unwrap_or_else(|| ObjectId::of(object))
    }

    /// The member answered that the object is like this, which is as it should be. True where it must be looked at again.
    fn found_right(&mut self, key: &str, ordinal: usize, plural: &str, object: &Value) -> bool {
        let (id, digest) = (self.named(key, ordinal, object), member_body::digest(object));
        // Where another Work has it, it is right for that one.
        if member_body::owning_work(object, &self.parts.cluster) == Some(key) {
            self.targets.set_digest(key, &id, Some(digest));
        }
        let answer = self.observed.answered(&id, digest, object);
        if answer == Answer::Newest && self.targets.is_first(key, ordinal, &id) {
            self.read_status(key, ordinal, plural, object);
        }
        self.plurals.entry(id.gvk).or_insert_with(|| plural.to_owned());
        answer == Answer::Doubtful
    }

    /// Writes and tells the outcome of applying a Work, where it is news.
    pub(super) fn conclude(&mut self, outcome: Outcome) -> Result<(), LedgerError> {
        if outcome.applied.ok {
            self.asking.is_over(&outcome.key);
        }
        let (key, applied) = (outcome.key.clone(), outcome.applied.clone());
        let counts = &self.parts.shared.counts;
        let counter = if applied.ok { &counts.applied } else { &counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let ledger = &self.parts.shared.ledger;
        let before = ledger.entry(&key)?;
        let current = before.as_ref().is_some_and(|entry| entry.hash == outcome.hash);
        let same = before.as_ref().is_some_and(|entry| {
            entry.placed >= outcome.placed
                && entry.written == outcome.written
                && entry.applied.as_ref() == Some(&(applied.clone(), true))
        });
        if current && !same {
            ledger.ended(&[outcome])?;
        } else {
            ledger.came_back(&key, outcome.unanswered, !current || !applied.ok)?;
            if outcome.placed {
                ledger.placed(&key)?;
            }
        }
        let failure = (!applied.ok).then(|| applied.message.clone());
        if current && self.statuses.set_applied(&key, applied) {
            self.event(&key, &before, failure);
        }
        self.tell(&key);
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
            failure.unwrap_or_else(|| format!("Successfully applied to cluster {}", self.parts.cluster.now));
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
        (key, class): (&str, u8),
        latency: Duration,
        removal: Removal,
    ) -> Result<(), LedgerError> {
        let throttled = removal.failure.as_ref().is_some_and(Failure::is_throttling);
        self.limit.ended(latency, throttled);
        let paused = self.paused(Lane::Removals, throttled, &removal.failure);
        self.removed.entry(key.to_owned()).or_default().extend(removal.uids);
        let open = self.unanswered.until(key);
        if removal.done && open.is_none() {
            self.removals.clear(key);
            self.recovered();
            self.parts.shared.counts.removed.fetch_add(1, Ordering::Relaxed);
            self.parts.shared.ledger.removed(&[key.to_owned()])?;
            // Unless a new life began meanwhile.
            return self.entry_changed(key, false);
        }
        self.parts.shared.ledger.came_back(key, open.is_some(), false)?;
        if removal.done {
            tracing::info!(
                work = key,
                "what it carried is not there; it is looked for again, as the member did not answer a write and may still carry it out"
            );
        }
        if let Some(failure) = removal.failure {
            if let Some(untold) = self.failure_log.met(&failure.to_string()) {
                tracing::warn!(work = key, %failure, untold, "removing");
            }
            let about = work_of_row(key);
            let entry = self.parts.shared.ledger.entry(about)?;
            let uid = entry.map(|entry| entry.uid).unwrap_or_default();
            let event = EventReport {
                key: about.to_owned(),
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
        let mut due = self.now() + self.removals.failed(key);
        if removal.done {
            due = due.min(open.unwrap_or(due));
        }
        self.workqueue.again(key, removal_class(class), paused.max(due));
        Ok(())
    }

    /// What bodies before the one of `hash` named was to go from the member.
    fn former_ended(
        &mut self,
        (key, class): (&str, u8),
        hash: &bytes::Bytes,
        removal: Removal,
    ) -> Result<(), LedgerError> {
        if !removal.uids.is_empty() {
            tracing::info!(work = key, uids = ?removal.uids, "what a newer body does not name any more is taken away");
        }
        let open = self.unanswered.until(key);
        if removal.done && open.is_none() {
            self.removals.clear(key);
            return self.parts.shared.ledger.former_removed(key, hash);
        }
        let throttled = removal.failure.as_ref().is_some_and(Failure::is_throttling);
        let paused = self.paused(Lane::Removals, throttled, &removal.failure);
        if let Some(failure) = removal.failure
            && let Some(untold) = self.failure_log.met(&failure.to_string())
        {
            tracing::warn!(work = key, %failure, untold, "removing what a newer body does not name any more");
        }
        let due = self.now() + self.removals.failed(key);
        self.workqueue.again(key, removal_class(class), paused.max(due));
        Ok(())
    }

    /// The member took something: removals that it failed over are not kept waiting for what is over.
    fn recovered(&mut self) {
        let now = self.now();
        for (key, wait) in self.removals.recovered() {
            self.workqueue.sooner(&key, now + wait);
        }
    }

    /// Until when the member asked for a pause, by any of `failures` of an apply or a removal: that Work is not tried before, and others
    /// with care until one is not asked for the like.
    fn paused<'a>(
        &mut self,
        lane: Lane,
        throttled: bool,
        failures: impl IntoIterator<Item = &'a Failure>,
    ) -> Duration {
        let now = self.now();
        let pause = failures.into_iter().filter_map(Failure::pause).max().unwrap_or_default();
        if !pause.is_zero() {
            self.workqueue.pause(lane, now, now + pause);
        } else if !throttled {
            self.workqueue.pause_is_over(lane);
        }
        now + pause
    }

    // ------------------------------------------------------------------------------------------ telling

    /// Before there is an outcome, or an answer, there is nothing to tell: that a body is on disk, its ack says.
    pub(super) fn tell(&self, key: &str) {
        let has_news = |report: &WorkReport| report.applied.is_some() || report.manifest_statuses.is_some();
        if let Some(report) = self.statuses.report(key).filter(has_news) {
            self.parts.shared.report(|outbox| outbox.work(key, report));
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
