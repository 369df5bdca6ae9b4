//! Works whose turn it is: begun beside the loop, or found to have nothing to do.
//!
//! In: what waits, as the ledger holds it now. Out: tasks that work on the member, noted in the ledger before they begin.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::Instant;

use super::{Ending, Engine, Finished, quarantine, task};
use crate::ledger::{Entry, LedgerError};
use crate::member::ObjectId;
use crate::reconcile::{manifests, order};
use crate::session::Phase;

/// What becomes of a Work whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    /// There is nothing to do: it is gone, removed or suspended.
    Nothing,
    /// It ended the agent too often.
    LeaveAlone,
    /// It is applied or removed.
    Begin,
}

impl NextStep {
    /// Of a Work as the ledger holds it now.
    fn of(entry: Option<&Entry>) -> Self {
        match entry {
            None => Self::Nothing,
            Some(entry) => match entry.phase {
                Phase::Removed => Self::Nothing,
                Phase::Desired if entry.suspended => Self::Nothing,
                Phase::Desired if quarantine::is_due(entry) => Self::LeaveAlone,
                Phase::Desired | Phase::Deleting => Self::Begin,
            },
        }
    }
}

impl Engine {
    /// Begins what is ready, as far as the member takes it.
    pub(super) fn start_ready(&mut self) -> Result<(), LedgerError> {
        let now = self.now();
        if !self.fence.is_open(now) {
            return Ok(());
        }
        let taken = self.workqueue.take(now, self.limit.limit());
        let (mut begun, mut tasks) = (Vec::new(), Vec::new());
        for (key, _) in taken {
            let entry = self.parts.shared.ledger.entry(&key)?;
            match (NextStep::of(entry.as_ref()), entry) {
                (NextStep::Begin, Some(entry)) => {
                    begun.push(key.clone());
                    tasks.push((key, entry));
                }
                (NextStep::LeaveAlone, Some(entry)) => {
                    self.workqueue.done(&key);
                    self.quarantine(&key, &entry);
                    self.tell(&key);
                }
                _ => self.workqueue.done(&key),
            }
        }
        // Written before anything is tried: what crashes us is found out at the next start.
        self.parts.shared.ledger.begins(&begun)?;
        for (key, entry) in tasks {
            self.start(key, entry);
        }
        Ok(())
    }

    fn start(&mut self, key: String, entry: Entry) {
        self.targets.of_work(&key).iter().for_each(|id| self.observed.begins(id));
        let (mut named, class) = self.named_of(&entry);
        // The ledger may say that it goes before the engine has heard so. What it names itself then goes over to nobody.
        if entry.phase == Phase::Deleting {
            named.retain(|(_, of)| *of != key);
        }
        let member = self.parts.member.clone();
        let interpreter = self.interpreter.clone();
        let (cluster, own) = (self.parts.cluster.clone(), self.parts.own.clone());
        self.running.spawn(async move {
            let began = Instant::now();
            let hash = entry.hash.clone();
            // A panic is one crash of this Work, not the end of the agent.
            let work = AssertUnwindSafe(task::one(
                (&*member, &*interpreter),
                (&cluster, &own),
                &key,
                &entry,
                &named,
            ));
            let kind = work.catch_unwind().await.unwrap_or(Ending::Panicked);
            Finished { key, hash, class, latency: began.elapsed(), kind }
        });
    }

    /// Of what a Work names or lets go of, what Works name now; and the Work's class.
    fn named_of(&self, entry: &Entry) -> (Vec<(ObjectId, String)>, u8) {
        let manifests = manifests::parse_manifests(&entry.body).unwrap_or_default();
        let of = manifests.iter().map(ObjectId::of).chain(entry.former.iter().cloned());
        (self.targets.naming(of), order::of_manifests(&manifests))
    }
}
