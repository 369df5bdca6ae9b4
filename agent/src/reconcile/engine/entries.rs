//! What the ledger holds of a Work changed: it is to be applied, removed, left alone or forgotten.
//!
//! In: the keys of entries that came, changed or went. Out: what is to be done, which objects are whose, which kinds are watched, and what is
//! reported at once.

use serde_json::Value;

use super::Engine;
use super::quarantine::{self, CRASHES};
use crate::ledger::{Entry, LedgerError, Outcome};
use crate::member::ObjectId;
use crate::reconcile::failure::Failure;
use crate::reconcile::workqueue::{WorkReason, removal_class};
use crate::reconcile::{adaptive_limit, manifests, order, outcome, service_endpoints};
use crate::session::Phase;

impl Engine {
    /// The entry of `key` changed, or is looked at for the first time (`boot`).
    pub(super) fn entry_changed(&mut self, key: &str, boot: bool) -> Result<(), LedgerError> {
        let Some(entry) = self.parts.shared.ledger.entry(key)? else {
            self.forget(key);
            self.removed.remove(key);
            self.parts.shared.report(|outbox| {
                outbox.forget(key);
                false
            });
            return Ok(());
        };
        if boot && entry.unanswered {
            self.unanswered.left_open(key, self.now());
        }
        let manifests = match manifests::parse_manifests(&entry.body) {
            Ok(manifests) => manifests,
            Err(failure) => return self.malformed(key, &entry, &failure),
        };
        if !self.note(key, &entry, &manifests)? {
            return Ok(());
        }
        if entry.phase != Phase::Removed {
            self.parts.shared.report(|outbox| {
                outbox.is_back(key);
                false
            });
        }
        match entry.phase {
            Phase::Desired => self.desired(key, &entry, &manifests, boot),
            Phase::Deleting => self.deleting(key, &entry, &manifests),
            Phase::Removed => {
                self.forget(key);
                self.tell_removed(key, &entry);
            }
        }
        Ok(())
    }

    /// It is wanted in the member.
    fn desired(&mut self, key: &str, entry: &Entry, manifests: &[Value], boot: bool) {
        self.removed.remove(key);
        if entry.is_stray() {
            self.parts.shared.report(|outbox| outbox.orphan(key));
        }
        let known = self.targets.has(key);
        self.statuses.set_entry(key, entry, manifests.len());
        self.retarget(key, manifests, !entry.suspended);
        self.asks(key, service_endpoints::asked_for(manifests).filter(|_| entry.suspended));
        let class = order::of_manifests(manifests);
        let left_alone = quarantine::is_due(entry);
        let released = !left_alone && self.quarantined.remove(key);
        if entry.suspended {
            self.workqueue.drop_key(key);
        } else if left_alone {
            self.quarantine(key, entry);
        } else if !entry.is_applied() || released || !entry.former.is_empty() {
            self.workqueue.push(key, class, WorkReason::New);
        } else if !known && !boot {
            // No longer suspended: nobody looked meanwhile. (At the start, the watches' lists look.)
            self.workqueue.push(key, class, WorkReason::Drift);
        }
        self.tell(key);
    }

    /// It is to be removed, of which these manifests can be read.
    fn deleting(&mut self, key: &str, entry: &Entry, manifests: &[Value]) {
        self.retarget(key, &[], true);
        self.asks(key, None);
        self.statuses.forget(key);
        self.quarantined.remove(key);
        self.leaves(key, entry, removal_class(order::of_manifests(manifests)));
    }

    /// When its removal has its turn. That the agent ended over a removal puts it off, and never for good: a Work that is on its way out can
    /// change no more.
    fn leaves(&mut self, key: &str, entry: &Entry, class: u8) {
        let wait = adaptive_limit::after_crashes(entry.crashes, CRASHES);
        if wait.is_zero() {
            return self.workqueue.push(key, class, WorkReason::New);
        }
        tracing::warn!(
            work = key,
            crashes = entry.crashes,
            ?wait,
            "the agent ended while it removed this and nothing else: it is put off"
        );
        self.workqueue.again(key, class, self.now() + wait);
    }

    /// Its body cannot be read: applying it ends at once, and what is to be removed of it is what bodies before it named.
    fn malformed(&mut self, key: &str, entry: &Entry, failure: &Failure) -> Result<(), LedgerError> {
        match entry.phase {
            Phase::Desired => {
                self.statuses.set_entry(key, entry, 0);
                self.retarget(key, &[], true);
                return self.conclude(Outcome {
                    key: key.to_owned(),
                    hash: entry.hash.clone(),
                    applied: outcome(false, &failure.to_string()),
                    placed: false,
                    written: Vec::new(),
                    unanswered: self.unanswered.until(key).is_some(),
                });
            }
            Phase::Deleting => self.deleting(key, entry, &[]),
            Phase::Removed => {
                self.forget(key);
                self.tell_removed(key, entry);
            }
        }
        Ok(())
    }

    /// Nothing is known of it from now on.
    fn forget(&mut self, key: &str) {
        self.orphans.set(key, &[]);
        self.retarget(key, &[], true);
        self.workqueue.drop_key(key);
        self.waits.clear(key);
        self.removals.clear(key);
        self.asking.is_over(key);
        self.asks(key, None);
        self.statuses.forget(key);
        self.quarantined.remove(key);
    }

    /// The objects of `key` are these from now on. Those it had before stay in the member: absence never deletes. One that another Work
    /// names is put back as that says.
    fn retarget(&mut self, key: &str, manifests: &[Value], is_enforced: bool) {
        let ids: Vec<ObjectId> = manifests.iter().map(ObjectId::of).collect();
        if is_enforced {
            ids.iter().for_each(|id| self.watch(&id.gvk));
        }
        for id in self.targets.set(key, ids, is_enforced) {
            self.unlisted.remove(&id);
            let others = self.targets.of_name(&id).iter();
            for other in others.filter(|other| other.is_enforced && other.id.may_be(&id)) {
                self.workqueue.push(&other.key, order::class(&id.gvk), WorkReason::Drift);
            }
        }
        self.end_unused_watches();
    }
}
