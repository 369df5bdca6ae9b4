//! The agent's state, which the link, the reconciler and the summary share: the ledger, the outbox, where the link stands, the grades of nodes,
//! counters, and questions that one of them has for another.
//!
//! In: what each of them has to tell the others. Out: the same, to whoever waits for it. It is made once, at the start, over an opened
//! ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_api::binding::{Component, ReplicaRequirements};
use karmada_api::cluster::ResourceModel;
use karmada_api::defaulting::cluster::standard_models;
use karmada_interpreter::node_room::{Assumed, Quota};
use karmada_interpreter::nodes_and_pods::PodUse;
use karmada_proto::one_line;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::cause::Cause;
use crate::counts::Counts;
use crate::hub_questions::HubQuestions;
use crate::ledger::Ledger;
use crate::outbox::Outbox;

/// Where the agent stands with its hub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LinkView {
    /// Never welcomed in this process.
    #[default]
    Starting,
    /// Welcomed by the hub, in this epoch.
    Connected {
        /// The hub's epoch.
        epoch: u64,
    },
    /// Not connected, and why.
    Away {
        /// Its class.
        cause: Cause,
        /// In plain words.
        reason: String,
    },
}

impl LinkView {
    /// Away for this reason, which may hold a peer's words: it is shown in a Secret of the member, on one line and short.
    pub fn away(cause: Cause, reason: impl std::fmt::Display) -> Self {
        Self::Away { cause, reason: one_line(&reason.to_string()) }
    }
}

/// What is to have room on the member's nodes.
#[derive(Clone, Debug)]
pub struct RoomWanted {
    /// Replicas or sets.
    pub of: Wanted,
    /// The ResourceQuotas that are a bound beside the nodes.
    pub quotas: Vec<Quota>,
    /// What was placed on the member, and takes room there though it may not be seen as Pods yet.
    pub assumed: Vec<Assumed>,
}

/// What room is counted in.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Pods of this sort; without any, they ask for nothing but a place.
    Replicas(Option<ReplicaRequirements>),
    /// Whole sets of parts.
    Sets {
        /// Where they are to run.
        namespace: String,
        /// The parts of one set.
        components: Vec<Component>,
    },
}

/// Questions about nodes and Pods that wait for the summary, which knows them.
const NODE_QUESTIONS: usize = 16;

/// What is asked about the member's nodes and Pods. The answer is dropped where they are not known yet.
#[derive(Debug)]
pub enum NodeQuestion {
    /// How much of this has room?
    Room(RoomWanted, oneshot::Sender<u32>),
    /// Which Pods has the scheduler found no node for?
    Waiting(oneshot::Sender<Vec<PodUse>>),
}

/// Shared by the agent's tasks; none of them calls another.
#[derive(Debug)]
pub struct AgentState {
    /// What must survive.
    pub ledger: Ledger,
    /// What the hub has still to hear.
    pub outbox: Mutex<Outbox>,
    /// Rung when the outbox has news.
    pub tell: Notify,
    /// Where the link stands.
    pub link: watch::Sender<LinkView>,
    /// The grades by which the member's free nodes are counted: the standard ones until the hub says otherwise.
    pub models: watch::Sender<Vec<ResourceModel>>,
    /// Whether names of Services resolve in the member; nothing where nobody looks.
    pub service_names: watch::Sender<Option<bool>>,
    /// What a monitor reads.
    pub counts: Counts,
    /// What the hub is to be asked.
    pub hub_questions: HubQuestions,
    nodes: mpsc::Sender<NodeQuestion>,
    node_questions: Mutex<Option<mpsc::Receiver<NodeQuestion>>>,
    changed: Mutex<BTreeSet<String>>,
    work: Notify,
}

impl AgentState {
    /// Over an opened ledger.
    pub fn new(ledger: Ledger, link: watch::Sender<LinkView>) -> Arc<Self> {
        // What cannot be read of it is told once more.
        let told = ledger.told().unwrap_or_default();
        let (nodes, node_questions) = mpsc::channel(NODE_QUESTIONS);
        Arc::new(Self {
            ledger,
            outbox: Mutex::new(Outbox::with_told(told)),
            tell: Notify::new(),
            link,
            models: watch::Sender::new(serde_json::from_value(standard_models()).unwrap_or_default()),
            service_names: watch::Sender::default(),
            counts: Counts::default(),
            hub_questions: HubQuestions::default(),
            nodes,
            node_questions: Mutex::new(Some(node_questions)),
            changed: Mutex::default(),
            work: Notify::new(),
        })
    }

    /// Asks for room. `None` where too much is asked at once.
    pub fn ask_for_room(&self, wanted: RoomWanted) -> Option<oneshot::Receiver<u32>> {
        let (answer, answered) = oneshot::channel();
        self.nodes.try_send(NodeQuestion::Room(wanted, answer)).ok()?;
        Some(answered)
    }

    /// Asks for the Pods that no node was found for. `None` where too much is asked at once.
    pub fn ask_for_waiting(&self) -> Option<oneshot::Receiver<Vec<PodUse>>> {
        let (answer, answered) = oneshot::channel();
        self.nodes.try_send(NodeQuestion::Waiting(answer)).ok()?;
        Some(answered)
    }

    /// The questions about nodes and Pods, for who answers them; once.
    pub fn take_node_questions(&self) -> Option<mpsc::Receiver<NodeQuestion>> {
        self.node_questions.lock().take()
    }

    /// The ledger's entries of `keys` changed.
    pub fn changed(&self, keys: impl IntoIterator<Item = String>) {
        self.changed.lock().extend(keys);
        self.work.notify_one();
    }

    /// The hub wants free nodes counted by these grades: JSON of `spec.resourceModels`.
    pub fn count_by(&self, models: &[u8]) {
        match serde_json::from_slice::<Vec<ResourceModel>>(models) {
            Ok(models) => {
                self.models.send_if_modified(|now| {
                    let news = *now != models;
                    *now = models;
                    news
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the hub's resource models cannot be read; counting as before");
            }
        }
    }

    /// Waits for changed entries and takes their keys.
    pub async fn take_changed(&self) -> BTreeSet<String> {
        loop {
            let notified = self.work.notified();
            let changed = std::mem::take(&mut *self.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            notified.await;
        }
    }

    /// Puts news into the outbox; `put` says whether there were any.
    pub fn report(&self, put: impl FnOnce(&mut Outbox) -> bool) {
        if put(&mut self.outbox.lock()) {
            self.tell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_the_hub_is_away_is_one_short_line() {
        let said = format!("TCP: no connection to {}\n2026-01-01 INFO all is well", "h".repeat(1 << 20));
        let LinkView::Away { reason, .. } = LinkView::away(Cause::Tcp, said) else { panic!() };
        assert!(reason.len() < 3000 && !reason.contains('\n'), "{}", reason.len());
    }
}
