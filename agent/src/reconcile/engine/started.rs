//! Works whose turn it is: begun beside the loop, or found to have nothing to do.
//!
//! In: what waits, as the ledger holds it now. Out: tasks that work on the member, noted in the ledger before they begin.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::under_way::Objects;
use super::{Ending, Engine, Finished, quarantine, task};
use crate::ledger::{Entry, LedgerError};
use crate::member::ObjectId;
use crate::reconcile::failure::Failure;
use crate::reconcile::workqueue::removal_class;
use crate::reconcile::{manifests, order};
use crate::session::Phase;

/// Until a Work has its next turn of which the engine has not heard yet what the ledger says: that is being told.
const UNHEARD: Duration = Duration::from_millis(100);

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

/// A Work that is to begin.
struct Turn {
    key: String,
    entry: Entry,
    manifests: Result<Vec<Value>, Failure>,
    /// What it names; nothing, where its body cannot be read.
    named: Vec<ObjectId>,
}

impl Turn {
    fn new(key: String, entry: Entry) -> Self {
        let manifests = manifests::parse_manifests(&entry.body);
        let named = manifests.iter().flatten().map(ObjectId::of).collect();
        Self { key, entry, manifests, named }
    }

    fn manifests(&self) -> &[Value] {
        self.manifests.as_deref().unwrap_or_default()
    }

    /// What it names or lets go of.
    fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.named.iter().chain(&self.entry.former).cloned()
    }

    fn takes_away(&self) -> bool {
        self.entry.phase == Phase::Deleting || !self.entry.former.is_empty()
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
        let mut turns = Vec::new();
        for (key, _) in taken {
            let entry = self.parts.shared.ledger.entry(&key)?;
            match (NextStep::of(entry.as_ref()), entry) {
                (NextStep::Begin, Some(entry)) => turns.push(Turn::new(key, entry)),
                (NextStep::LeaveAlone, Some(entry)) => {
                    self.workqueue.done(&key);
                    self.quarantine(&key, &entry);
                    self.tell(&key);
                }
                _ => self.workqueue.done(&key),
            }
        }
        // Of those that come together who takes something away is first: the others come again and again.
        turns.sort_by_key(|turn| !turn.takes_away());
        turns.retain(|turn| self.may_begin(turn));
        // Written before anything is tried: what crashes us is found out at the next start.
        let begun: Vec<String> = turns.iter().map(|turn| turn.key.clone()).collect();
        self.parts.shared.ledger.begins(&begun)?;
        turns.into_iter().for_each(|turn| self.start(turn));
        Ok(())
    }

    /// Whether it begins now; it has another turn where it does not. What the ledger says of it and of others was heard of in the order in
    /// which it was written: who names its objects is known for as long as it was heard itself.
    fn may_begin(&mut self, turn: &Turn) -> bool {
        let was_heard = match turn.entry.phase {
            Phase::Desired => turn.named == self.targets.of_work(&turn.key),
            Phase::Deleting | Phase::Removed => !self.targets.is_known(&turn.key),
        };
        if !was_heard {
            self.workqueue.done(&turn.key);
            self.workqueue.again(&turn.key, self.class_of(turn), self.now() + UNHEARD);
            return false;
        }
        let objects = Objects::new(turn.ids(), turn.takes_away());
        if self.under_way.contends(&turn.key, &objects) {
            if let Some(task) = self.workqueue.set_aside(&turn.key) {
                self.under_way.waits(&turn.key, objects, task);
            }
            return false;
        }
        self.under_way.begins(&turn.key, objects);
        true
    }

    fn class_of(&self, turn: &Turn) -> u8 {
        let class = order::of_manifests(turn.manifests());
        if turn.entry.phase == Phase::Deleting { removal_class(class) } else { class }
    }

    fn start(&mut self, turn: Turn) {
        self.targets.of_work(&turn.key).iter().for_each(|id| self.observed.begins(id));
        let named = self.targets.naming(turn.ids());
        let class = order::of_manifests(turn.manifests());
        let Turn { key, entry, manifests, .. } = turn;
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
                (&key, manifests),
                &entry,
                &named,
            ));
            let kind = work.catch_unwind().await.unwrap_or(Ending::Panicked);
            Finished { key, hash, class, latency: began.elapsed(), kind }
        });
    }
}
