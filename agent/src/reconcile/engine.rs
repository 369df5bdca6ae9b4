//! The loop that keeps the member as the ledger says. Turns what comes in into calls of named functions.
//!
//! In: changed entries, the link's view, documents, events of watches, what applications came to. Out: the member as the ledger says,
//! outcomes in the ledger, reports in the outbox.
//!
//! One task owns all of its state. Calls to the member run beside it, bounded; watches run beside it, one per kind
//! that the ledger holds, and carry nothing but events.

mod after_damage;
mod asked_services;
mod becomes_active;
mod customizations;
mod drift;
mod ended;
mod entries;
mod orphans;
mod quarantine;
mod retention;
mod started;
mod task;
mod under_way;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use karmada_lua::{Customization, Customized};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::retention::Asking;
use self::under_way::UnderWay;
use super::adaptive_limit::Adaptive;
use super::agent_objects::Own;
use super::catch_panics::Guarded;
use super::failure::Failure;
use super::failure_log::FailureLog;
use super::fence::Fence;
use super::member_body::ClusterNames;
use super::observed_during_write::ObservedDuringWrite;
use super::orphan_candidates::{OrphanScanSchedule, Strays};
use super::orphan_rows::Orphans;
use super::removal::Removal;
use super::retention_layer::WebhookRetention;
use super::service_endpoints::{self, Asked};
use super::targets::Targets;
use super::unanswered::Unanswered;
use super::watcher::Watched;
use super::workqueue::Workqueue;
use crate::agent_state::{AgentState, LinkView};
use crate::ledger::LedgerError;
use crate::member::{Gvk, Member, ObjectId};
use crate::retry::Waits;
use crate::work_statuses::WorkStatuses;

/// Events of the member waiting at once; a watch that finds no room waits.
const EVENTS: usize = 64;

/// What the loop is given.
pub struct Parts {
    /// Ledger, outbox, notifications.
    pub shared: Arc<AgentState>,
    /// The member.
    pub member: Arc<dyn Member>,
    /// How to read objects: customizations, and what is known without them.
    pub customized: Arc<Customized>,
    /// What webhooks decided of the member's objects, a layer of that.
    pub retention: Arc<WebhookRetention>,
    /// The cluster's names.
    pub cluster: ClusterNames,
    /// What the agent itself lives by in the member.
    pub own: Arc<Own>,
    /// Looks at drift per second.
    pub drift_rate: f64,
    /// The only namespaces that it may watch in; empty for all.
    pub namespaces: Arc<[String]>,
}

/// One application or removal that ended.
struct Finished {
    key: String,
    hash: Bytes,
    /// How early it has its turn, where it is tried again.
    class: u8,
    latency: Duration,
    kind: Ending,
}

enum Ending {
    Applied {
        results: Vec<(String, Result<Value, Failure>)>,
        /// Of what bodies before named, where that was to go.
        former: Option<Removal>,
    },
    Removed(Removal),
    Panicked,
}

/// The loop's state.
struct Engine {
    parts: Parts,
    interpreter: Arc<Guarded>,
    /// As the hub told them last, and the hash of that document.
    customizations: Vec<Customization>,
    customized_by: Option<Bytes>,
    started: Instant,
    fence: Fence,
    workqueue: Workqueue,
    waits: Waits,
    /// Of removals, whatever else failed of the same Work.
    removals: Waits,
    unanswered: Unanswered,
    limit: Adaptive,
    statuses: WorkStatuses,
    targets: Targets,
    observed: ObservedDuringWrite,
    strays: Strays,
    orphans: Orphans,
    looks: OrphanScanSchedule,
    listings: BTreeMap<Gvk, BTreeSet<ObjectId>>,
    /// Kinds whose watch has listed once.
    listed: BTreeSet<Gvk>,
    watches: BTreeMap<Gvk, AbortHandle>,
    watchers: JoinSet<()>,
    running: JoinSet<Finished>,
    /// Works of which the hub is asked something.
    asking: Asking,
    /// The objects of those.
    under_way: UnderWay,
    events: mpsc::Sender<Watched>,
    /// Which Works ask where Services are reached.
    asked: Asked,
    /// Whether a watch looks after them.
    follows_services: bool,
    /// What it tells.
    endpoints: mpsc::Sender<service_endpoints::ReportedService>,
    /// Objects with our marks that a look at all kinds finds.
    marked: mpsc::Sender<(ObjectId, String)>,
    plurals: BTreeMap<Gvk, String>,
    /// Works that are left alone because they crashed the agent.
    quarantined: BTreeSet<String>,
    /// UIDs of objects that were removed, of Works whose removal has not come to its end.
    removed: BTreeMap<String, BTreeSet<String>>,
    /// Objects that a list did not name: whether they are gone, or were made after the list, the next look tells.
    unlisted: BTreeSet<ObjectId>,
    /// Why the member fails, as it was told.
    failure_log: Arc<FailureLog>,
    /// How often the ledger had lost rows when it was taken in.
    relists: u64,
}

/// Runs until `stop`.
///
/// # Errors
/// The ledger cannot be read or written: what is not durable must not be acted on.
pub async fn run(parts: Parts, stop: CancellationToken) -> Result<(), LedgerError> {
    let (events, mut incoming) = mpsc::channel(EVENTS);
    let (marked, mut finds) = mpsc::channel(EVENTS);
    let (endpoints, mut reached) = mpsc::channel(EVENTS);
    let mut engine = Engine::new(parts, events, marked, endpoints);
    let shared = engine.parts.shared.clone();
    let mut link = shared.link.subscribe();
    let mut documents = shared.ledger.documents();
    engine.begin(&link.borrow_and_update())?;
    loop {
        engine.expire()?;
        engine.after_damage()?;
        engine.judge()?;
        engine.start_ready()?;
        engine.count();
        let due = engine.due().map(|due| engine.started + due);
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // What the hub says does not wait behind what the member does, which may be without end.
            Ok(()) = link.changed() => {
                let view = link.borrow_and_update().clone();
                engine.link_moved(&view)?;
            }
            Ok(()) = documents.changed() => engine.customize()?,
            Some(finished) = engine.running.join_next() => engine.finished(finished)?,
            answered = engine.asking.next() => engine.hub_answered(answered)?,
            keys = shared.take_changed() => {
                for key in keys {
                    engine.entry_changed(&key, false)?;
                }
            }
            Some((gvk, plural, event)) = incoming.recv() => {
                engine.plurals.entry(gvk.clone()).or_insert(plural);
                engine.member_event(gvk, event)?;
            }
            Some((id, key)) = finds.recv() => engine.found(id, &key)?,
            Some(told) = reached.recv() => engine.endpoints_came(told),
            Some(_) = engine.watchers.join_next() => {}
            () = sleep_until(due) => {}
        }
    }
    // From here on the end of the process is not counted as a crash of a Work that is under way.
    shared.ledger.stops()?;
    engine.end().await;
    Ok(())
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Engine {
    /// One that has looked at nothing yet. `events`: where watches tell of the member; `marked`: where scans tell of objects with marks;
    /// `endpoints`: where a watch tells at which addresses Services are reached.
    fn new(
        parts: Parts,
        events: mpsc::Sender<Watched>,
        marked: mpsc::Sender<(ObjectId, String)>,
        endpoints: mpsc::Sender<service_endpoints::ReportedService>,
    ) -> Engine {
        let interpreter = Arc::new(Guarded(parts.customized.clone()));
        let mut workqueue = Workqueue::new(parts.drift_rate);
        parts.shared.ledger.suspects().iter().for_each(|key| workqueue.suspect(key));
        Engine {
            parts,
            interpreter,
            customizations: Vec::new(),
            customized_by: None,
            started: Instant::now(),
            fence: Fence::default(),
            workqueue,
            waits: Waits::default(),
            removals: Waits::of_removals(),
            unanswered: Unanswered::default(),
            limit: Adaptive::default(),
            statuses: WorkStatuses::default(),
            targets: Targets::default(),
            observed: ObservedDuringWrite::default(),
            strays: Strays::default(),
            orphans: Orphans::default(),
            looks: OrphanScanSchedule::default(),
            listings: BTreeMap::new(),
            listed: BTreeSet::new(),
            watches: BTreeMap::new(),
            watchers: JoinSet::new(),
            running: JoinSet::new(),
            asking: Asking::default(),
            under_way: UnderWay::default(),
            events,
            asked: Asked::default(),
            follows_services: false,
            endpoints,
            marked,
            plurals: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            removed: BTreeMap::new(),
            unlisted: BTreeSet::new(),
            failure_log: Arc::default(),
            relists: 0,
        }
    }

    /// Takes in what the ledger holds, as the link stands.
    fn begin(&mut self, view: &LinkView) -> Result<(), LedgerError> {
        self.customize()?;
        self.relists = self.parts.shared.ledger.relists();
        let keys = self.parts.shared.ledger.keys()?;
        if keys.is_empty() {
            self.fence = Fence::of_nothing();
        }
        self.fence.sees(view, self.now());
        keys.iter().try_for_each(|key| self.entry_changed(key, true))
    }

    /// Lets what is under way end: a half-made change is worse than a late exit.
    async fn end(&mut self) {
        let _ = tokio::time::timeout(Duration::from_secs(5), async {
            while let Some(finished) = self.running.join_next().await {
                if self.finished(finished).is_err() {
                    break;
                }
            }
        })
        .await;
    }

    /// For who watches the agent.
    fn count(&self) {
        let counts = &self.parts.shared.counts;
        counts.pending.store((self.workqueue.pending() + self.under_way.waiting()) as i64, Ordering::Relaxed);
        counts.quarantined.store(self.quarantined.len() as i64, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// When something is to be begun, unless something happens before.
    fn due(&mut self) -> Option<Duration> {
        let now = self.now();
        let begins = if self.fence.is_open(now) { self.workqueue.due(now) } else { self.fence.opens_at() };
        begins.into_iter().chain(self.unanswered.due()).chain([self.found_due()]).min()
    }

    /// Writes that were left without an answer so long ago that the member cannot carry them out any more are forgotten.
    fn expire(&mut self) -> Result<(), LedgerError> {
        let expired = self.unanswered.expire(self.now());
        self.parts.shared.ledger.clear_unanswered(&expired)
    }
}

#[cfg(test)]
mod tests;
