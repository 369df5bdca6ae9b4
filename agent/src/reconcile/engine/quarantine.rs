//! Which Works are left alone, because the agent ended again and again while it worked on them.
//!
//! In: how often that was, which the ledger counts before anything is tried ([`crate::ledger::Ledger::begins`]), and takes back where the
//! Work changes or a person says so (`karmadactl retry` changes its `retry`). Out: a status that says so, and an event.

use super::Engine;
use crate::ledger::Entry;
use crate::reconcile::failure::Failure;
use crate::reconcile::outcome;

/// When the agent ended this often while it worked on a Work alone, the Work is left alone: it crashes the agent.
pub(super) const CRASHES: u32 = 2;

/// Whether it is to be left alone.
pub(super) fn is_due(entry: &Entry) -> bool {
    entry.crashes >= CRASHES
}

impl Engine {
    /// Left alone until its body changes or a person says so; the crash counter stays for the next start.
    pub(super) fn quarantine(&mut self, key: &str, entry: &Entry) {
        let (crashes, cluster) = (entry.crashes, self.parts.cluster.now.clone());
        let failure = Failure::Quarantined { crashes, key: key.to_owned(), cluster }.to_string();
        self.workqueue.drop_key(key);
        self.statuses.set_applied(key, outcome(false, &failure));
        if self.quarantined.insert(key.to_owned()) {
            tracing::error!(work = key, failure, "quarantined");
            self.event(key, &Some(entry.clone()), Some(failure));
        }
    }
}
