//! The loop that keeps the member as the ledger says. Turns what comes in into calls of named functions.
//!
//! One task owns all of its state. Calls to the member run beside it, bounded; watches run beside it, one per kind
//! that the ledger holds, and carry nothing but events.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use karmada_lua::{Customization, Customized};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::quarantine::CRASHES;
use super::agent_objects::Own;
use super::body::ClusterNames;
use super::catch_panics::{self, Guarded};
use super::failure::Failure;
use super::failure_log::FailureLog;
use super::fence::Fence;
use super::manifests;
use super::observed_during_write::ObservedDuringWrite;
use super::orphan_candidates::{self, OrphanScanSchedule, Strays};
use super::orphan_rows::Orphans;
use super::pace::{self, Adaptive};
use super::removal::Removal;
use super::service_endpoints::{self, Asked};
use super::targets::{Target, Targets};
use super::todo::{Todo, WorkReason, removal_class};
use super::unanswered::Unanswered;
use super::watcher::{self, Watched};
use super::{body, order, orphan_scan, outcome};
use crate::ledger::{Entry, LedgerError, Outcome};
use crate::member::{Gvk, Member, MemberEvent, ObjectId};
use crate::retry::Waits;
use crate::session::Phase;
use crate::shared::{LinkView, Shared};
use crate::work_statuses::WorkStatuses;

/// Who is named as the cause when an object had to be created again. The watch selects by our label, so that an object whose label was removed looks
/// like one that was deleted.
const REMOVED: &str = "somebody who removed it, or took our label off";

/// Events of the member waiting at once; a watch that finds no room waits.
const EVENTS: usize = 64;

/// What the loop is given.
pub struct Parts {
    /// Ledger, outbox, notifications.
    pub shared: Arc<Shared>,
    /// The member.
    pub member: Arc<dyn Member>,
    /// How to read objects: customizations, and what is known without them.
    pub customized: Arc<Customized>,
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
    todo: Todo,
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
    events: mpsc::Sender<Watched>,
    /// Which Works ask where Services are reached.
    asked: Asked,
    /// Whether a watch looks after them.
    follows_services: bool,
    /// What it tells.
    endpoints: mpsc::Sender<service_endpoints::Told>,
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
        engine.settle()?;
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
        endpoints: mpsc::Sender<service_endpoints::Told>,
    ) -> Engine {
        let interpreter = Arc::new(Guarded(parts.customized.clone()));
        let mut todo = Todo::new(parts.drift_rate);
        parts.shared.ledger.suspects().iter().for_each(|key| todo.suspect(key));
        Engine {
            parts,
            interpreter,
            customizations: Vec::new(),
            customized_by: None,
            started: Instant::now(),
            fence: Fence::default(),
            todo,
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
        counts.pending.store(self.todo.pending() as i64, Ordering::Relaxed);
        counts.quarantined.store(self.quarantined.len() as i64, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// When something is to be begun, unless something happens before.
    fn due(&mut self) -> Option<Duration> {
        let now = self.now();
        let begins = if self.fence.is_open(now) { self.todo.due(now) } else { self.fence.opens_at() };
        begins.into_iter().chain(self.unanswered.due()).chain([self.found_due()]).min()
    }

    /// Nothing comes any more of what was left open long ago.
    fn settle(&mut self) -> Result<(), LedgerError> {
        let settled = self.unanswered.settle(self.now());
        self.parts.shared.ledger.settled(&settled)
    }

    // ------------------------------------------------------------------------------- the ledger changed

    fn entry_changed(&mut self, key: &str, boot: bool) -> Result<(), LedgerError> {
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
        let manifests = match manifests::manifests(&entry.body) {
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
            Phase::Deleting => {
                self.retarget(key, &[], true);
                self.asks(key, None);
                self.statuses.forget(key);
                self.quarantined.remove(key);
                self.leaves(key, &entry, removal_class(order::of_manifests(&manifests)));
            }
            Phase::Removed => {
                self.forget(key);
                self.tell_removed(key, &entry);
            }
        }
        Ok(())
    }

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
            self.todo.drop_key(key);
        } else if left_alone {
            self.quarantine(key, entry);
        } else if !entry.is_applied() || released || !entry.former.is_empty() {
            self.todo.push(key, class, WorkReason::New);
        } else if !known && !boot {
            // No longer suspended: nobody looked meanwhile. (At the start, the watches' lists look.)
            self.todo.push(key, class, WorkReason::Drift);
        }
        self.tell(key);
    }

    /// It is to be removed. That the agent ended over a removal puts it off, and never for good: a Work that is on its way out can
    /// change no more.
    fn leaves(&mut self, key: &str, entry: &Entry, class: u8) {
        let wait = pace::after_crashes(entry.crashes, CRASHES);
        if wait.is_zero() {
            return self.todo.push(key, class, WorkReason::New);
        }
        tracing::warn!(
            work = key,
            crashes = entry.crashes,
            ?wait,
            "the agent ended while it removed this and nothing else: it is put off"
        );
        self.todo.again(key, class, self.now() + wait);
    }

    fn malformed(&mut self, key: &str, entry: &Entry, failure: &Failure) -> Result<(), LedgerError> {
        self.statuses.set_entry(key, entry, 0);
        self.retarget(key, &[], true);
        if entry.phase == Phase::Desired {
            return self.conclude(Outcome {
                key: key.to_owned(),
                hash: entry.hash.clone(),
                applied: outcome(false, &failure.to_string()),
                placed: false,
                written: Vec::new(),
                unanswered: self.unanswered.until(key).is_some(),
            });
        }
        self.parts.shared.ledger.removed(&[key.to_owned()])?;
        self.tell_removed(key, entry);
        Ok(())
    }

    fn forget(&mut self, key: &str) {
        self.orphans.set(key, &[]);
        self.retarget(key, &[], true);
        self.todo.drop_key(key);
        self.waits.clear(key);
        self.removals.clear(key);
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
                self.todo.push(&other.key, order::class(&id.gvk), WorkReason::Drift);
            }
        }
        let (targets, orphans) = (&self.targets, &self.orphans);
        self.watches.retain(|gvk, handle| {
            let used = targets.has_kind(gvk) || orphans.has_kind(gvk);
            if !used {
                handle.abort();
                self.listed.remove(gvk);
            }
            used
        });
    }

    // -------------------------------------------------------------------------------------- the watches

    fn watch(&mut self, gvk: &Gvk) {
        if self.watches.contains_key(gvk) {
            return;
        }
        let (member, events) = (self.parts.member.clone(), self.events.clone());
        let (namespaces, failure_log) = (self.parts.namespaces.clone(), self.failure_log.clone());
        let handle = self.watchers.spawn(watcher::run(member, gvk.clone(), namespaces, failure_log, events));
        self.watches.insert(gvk.clone(), handle);
    }

    fn member_event(&mut self, gvk: Gvk, event: MemberEvent) -> Result<(), LedgerError> {
        match event {
            MemberEvent::Listing => {
                if self.listed.contains(&gvk) {
                    self.looks.went_back();
                }
                self.listings.insert(gvk, BTreeSet::new());
            }
            MemberEvent::Object(object) => {
                let id = ObjectId::of(&object);
                if let Some(listing) = self.listings.get_mut(&gvk) {
                    listing.insert(id.clone());
                }
                self.observed(&id, &object)?;
            }
            MemberEvent::Gone(id) => {
                if self.gone(&id) {
                    self.drifted(&id, REMOVED);
                }
                self.lost(&id)?;
            }
            MemberEvent::Listed => {
                let Some(listed) = self.listings.remove(&gvk) else { return Ok(()) };
                self.strays.listed(&gvk, &listed);
                self.listed.insert(gvk.clone());
                let in_none = |id: &ObjectId| ObjectId { namespace: String::new(), ..id.clone() };
                let is_there = |id: &ObjectId| listed.contains(id) || listed.contains(&in_none(id));
                let missing = self.targets.of_kind(&gvk).filter(|id| !is_there(id));
                let missing: Vec<ObjectId> = missing.cloned().collect();
                for id in missing {
                    if self.gone(&id) {
                        self.unlisted.insert(id);
                    }
                }
                let lost = self.orphans.of_kind(&gvk).filter(|id| !listed.contains(id));
                let lost: Vec<ObjectId> = lost.cloned().collect();
                for id in &lost {
                    self.lost(id)?;
                }
            }
        }
        Ok(())
    }

    fn observed(&mut self, id: &ObjectId, object: &Value) -> Result<(), LedgerError> {
        let marked = catch_panics::read(|| body::marked(object, &self.parts.cluster)).flatten();
        let Some(target) = self.targets.owner(id, marked).cloned() else {
            let names =
                catch_panics::read(|| orphan_candidates::work_of(object, &self.parts.cluster)).flatten();
            return match names {
                Some(key) => self.found(id.clone(), key),
                None => {
                    self.strays.gone(id);
                    // What is on its way out may take its time.
                    if karmada_api::object::deleting(object) { Ok(()) } else { self.lost(id) }
                }
            };
        };
        let Some(digest) = catch_panics::read(|| body::digest(object)) else { return Ok(()) };
        let same_version = self.targets.of(id).filter(|target| target.id.gvk == id.gvk);
        let claims: Vec<Target> = same_version.cloned().collect();
        let mut is_worked_on = false;
        for claim in claims.iter().filter(|claim| self.todo.is_running(&claim.key)) {
            is_worked_on = true;
            self.observed.here(&claim.id, digest, object);
        }
        // Of a Work that is suspended it is left as it is.
        let is_left =
            self.targets.of(id).any(|claim| !claim.is_enforced && Some(claim.key.as_str()) == marked);
        // Another version of it is told by another watch.
        if !is_worked_on && !is_left && target.id.gvk == id.gvk && target.digest != Some(digest) {
            self.check(&target, object, digest)?;
        }
        let resource = self.plural(id);
        for Target { key, ordinal, .. } in claims {
            self.statuses.observe(&*self.interpreter, &key, ordinal, &resource, object);
            self.tell(&key);
        }
        Ok(())
    }

    fn plural(&self, id: &ObjectId) -> String {
        self.plurals.get(&id.gvk).cloned().unwrap_or_default()
    }

    // ------------------------------------------------------------------------------------------ working

    fn start_ready(&mut self) -> Result<(), LedgerError> {
        let now = self.now();
        if !self.fence.is_open(now) {
            return Ok(());
        }
        let taken = self.todo.take(now, self.limit.limit());
        let (mut begun, mut tasks) = (Vec::new(), Vec::new());
        for (key, _) in taken {
            let Some(entry) = self.parts.shared.ledger.entry(&key)? else {
                self.todo.done(&key);
                continue;
            };
            if entry.phase == Phase::Removed || (entry.phase == Phase::Desired && entry.suspended) {
                self.todo.done(&key);
                continue;
            }
            if entry.phase == Phase::Desired && quarantine::is_due(&entry) {
                self.todo.done(&key);
                self.quarantine(&key, &entry);
                self.tell(&key);
                continue;
            }
            begun.push(key.clone());
            tasks.push((key, entry));
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
        let named = self.named_of(&entry);
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
            Finished { key, hash, latency: began.elapsed(), kind }
        });
    }

    /// Of what a Work names or lets go of, what Works name now.
    fn named_of(&self, entry: &Entry) -> Vec<(ObjectId, String)> {
        let manifests = manifests::manifests(&entry.body).unwrap_or_default();
        self.targets.naming(manifests.iter().map(ObjectId::of).chain(entry.former.iter().cloned()))
    }
}

mod after_damage;
mod asked_services;
mod becomes_active;
mod customizations;
mod drift;
mod ended;
mod orphans;
mod quarantine;
mod task;
#[cfg(test)]
mod tests;
