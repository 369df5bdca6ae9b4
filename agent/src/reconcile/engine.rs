//! The loop that keeps the member as the ledger says. Turns what comes in into calls of named functions.
//!
//! One task owns all of its state. Calls to the member run beside it, bounded; watches run beside it, one per kind
//! that the ledger holds, and carry nothing but events.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use karmada_api::strings::{events, labels};
use karmada_interpreter::Interpreter;
use karmada_proto::v1::EventReport;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::apply::{self, Context, Failure, Known};
use super::pace::Adaptive;
use super::targets::{Target, Targets};
use super::todo::{Cause, Todo, removal_class};
use super::{body, order, outcome};
use crate::ledger::{CRASHES, Entry, LedgerError};
use crate::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Watch, within};
use crate::retry::Waits;
use crate::session::Phase;
use crate::shared::Shared;
use crate::status::Board;

/// Events of the member waiting at once; a watch that finds no room waits.
const EVENTS: usize = 64;

/// What the loop is given.
pub struct Parts {
    /// Ledger, outbox, bells.
    pub shared: Arc<Shared>,
    /// The member.
    pub member: Arc<dyn Member>,
    /// How to read objects.
    pub interpreter: Arc<dyn Interpreter>,
    /// The cluster's name.
    pub cluster: String,
    /// Looks at drift per second.
    pub drift_rate: f64,
    /// The only namespaces that it may watch in; empty for all.
    pub namespaces: Arc<[String]>,
}

/// One application or removal that ended.
struct Finished {
    key: String,
    hash: bytes::Bytes,
    latency: Duration,
    kind: Ending,
}

enum Ending {
    Applied(Vec<(String, Result<Value, Failure>)>),
    Removed(Result<bool, Failure>),
    Panicked,
}

/// The loop's state.
struct Engine {
    parts: Parts,
    started: Instant,
    todo: Todo,
    waits: Waits,
    limit: Adaptive,
    board: Board,
    targets: Targets,
    /// Of targets that changed while their Work was being worked on.
    meanwhile: BTreeMap<ObjectId, Option<u64>>,
    listings: BTreeMap<Gvk, BTreeSet<ObjectId>>,
    watches: BTreeMap<Gvk, AbortHandle>,
    watchers: JoinSet<()>,
    running: JoinSet<Finished>,
    events: mpsc::Sender<Watched>,
    plurals: BTreeMap<Gvk, String>,
}

/// An event of a kind, with the kind's plural.
type Watched = (Gvk, String, MemberEvent);

/// Runs until `stop`.
///
/// # Errors
/// The ledger cannot be read or written: what is not durable must not be acted on.
pub async fn run(parts: Parts, stop: CancellationToken) -> Result<(), LedgerError> {
    let (events, mut incoming) = mpsc::channel(EVENTS);
    let todo = Todo::new(parts.drift_rate);
    let mut engine = Engine {
        parts,
        started: Instant::now(),
        todo,
        waits: Waits::default(),
        limit: Adaptive::default(),
        board: Board::default(),
        targets: Targets::default(),
        meanwhile: BTreeMap::new(),
        listings: BTreeMap::new(),
        watches: BTreeMap::new(),
        watchers: JoinSet::new(),
        running: JoinSet::new(),
        events,
        plurals: BTreeMap::new(),
    };
    let shared = engine.parts.shared.clone();
    let keys = shared.ledger.keys()?;
    for key in keys {
        engine.entry_changed(&key, true)?;
    }
    loop {
        engine.start_ready()?;
        let due = engine.todo.due(engine.now()).map(|due| engine.started + due);
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
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
            Some(_) = engine.watchers.join_next() => {}
            () = sleep_until(due) => {}
        }
    }
    // What is under way may end: a half-made change is worse than a late exit.
    let _ = tokio::time::timeout(Duration::from_secs(5), async {
        while let Some(finished) = engine.running.join_next().await {
            if engine.finished(finished).is_err() {
                break;
            }
        }
    })
    .await;
    Ok(())
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Engine {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    // ------------------------------------------------------------------------------- the ledger changed

    fn entry_changed(&mut self, key: &str, boot: bool) -> Result<(), LedgerError> {
        let Some(entry) = self.parts.shared.ledger.entry(key)? else {
            self.forget(key);
            self.parts.shared.report(|outbox| {
                outbox.forget(key);
                false
            });
            return Ok(());
        };
        let manifests = match apply::manifests(&entry.body) {
            Ok(manifests) => manifests,
            Err(failure) => return self.malformed(key, &entry, &failure),
        };
        match entry.phase {
            Phase::Desired => self.desired(key, &entry, &manifests, boot),
            Phase::Deleting => {
                self.retarget(key, &[]);
                self.board.forget(key);
                self.todo.push(key, removal_class(order::of_manifests(&manifests)), Cause::New);
            }
            Phase::Removed => {
                self.forget(key);
                self.tell_removed(key, &entry);
            }
        }
        Ok(())
    }

    fn desired(&mut self, key: &str, entry: &Entry, manifests: &[Value], boot: bool) {
        let known = self.targets.has(key);
        self.board.set_entry(key, entry, manifests.len());
        self.retarget(key, if entry.suspended { &[] } else { manifests });
        let class = order::of_manifests(manifests);
        if entry.suspended {
            self.todo.drop_key(key);
        } else if entry.attempts >= CRASHES {
            self.quarantine(key, entry);
        } else if !entry.is_applied() {
            self.todo.push(key, class, Cause::New);
        } else if !known && !boot {
            // No longer suspended: nobody looked meanwhile. (At the start, the watches' lists look.)
            self.todo.push(key, class, Cause::Drift);
        }
        self.tell(key);
    }

    /// Left alone until its body changes; the crash counter stays for the next start.
    fn quarantine(&mut self, key: &str, entry: &Entry) {
        let failure = Failure::Quarantined(entry.attempts).to_string();
        self.todo.drop_key(key);
        if self.board.set_applied(key, outcome(false, failure.clone())) {
            tracing::error!(work = key, failure, "quarantined");
            self.event(key, &Some(entry.clone()), Some(failure));
        }
    }

    fn malformed(&mut self, key: &str, entry: &Entry, failure: &Failure) -> Result<(), LedgerError> {
        self.board.set_entry(key, entry, 0);
        self.retarget(key, &[]);
        if entry.phase == Phase::Desired {
            return self.conclude(key, &entry.hash, Some(failure.to_string()), false);
        }
        self.parts.shared.ledger.removed(&[key.to_owned()])?;
        self.tell_removed(key, entry);
        Ok(())
    }

    fn forget(&mut self, key: &str) {
        self.retarget(key, &[]);
        self.todo.drop_key(key);
        self.waits.clear(key);
        self.board.forget(key);
    }

    /// The objects of `key` are these from now on. Those it had before stay in the member: absence never deletes.
    fn retarget(&mut self, key: &str, manifests: &[Value]) {
        let ids: Vec<ObjectId> = manifests.iter().map(ObjectId::of).collect();
        ids.iter().for_each(|id| self.watch(&id.gvk));
        self.targets.set(key, ids);
        let targets = &self.targets;
        self.watches.retain(|gvk, handle| {
            let used = targets.has_kind(gvk);
            if !used {
                handle.abort();
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
        let namespaces = self.parts.namespaces.clone();
        let handle = self.watchers.spawn(watcher(member, gvk.clone(), namespaces, events));
        self.watches.insert(gvk.clone(), handle);
    }

    fn member_event(&mut self, gvk: Gvk, event: MemberEvent) -> Result<(), LedgerError> {
        match event {
            MemberEvent::Listing => {
                self.listings.insert(gvk, BTreeSet::new());
            }
            MemberEvent::Object(object) => {
                let id = ObjectId::of(&object);
                if let Some(listing) = self.listings.get_mut(&gvk) {
                    listing.insert(id.clone());
                }
                self.observed(&id, &object)?;
            }
            MemberEvent::Gone(id) => self.gone(&id),
            MemberEvent::Listed => {
                let Some(listed) = self.listings.remove(&gvk) else { return Ok(()) };
                let missing = self.targets.of_kind(&gvk).filter(|id| !listed.contains(id));
                let missing: Vec<ObjectId> = missing.cloned().collect();
                missing.iter().for_each(|id| self.gone(id));
            }
        }
        Ok(())
    }

    fn observed(&mut self, id: &ObjectId, object: &Value) -> Result<(), LedgerError> {
        let Some(Target { key, ordinal, digest: known }) = self.targets.get(id).cloned() else {
            return Ok(());
        };
        let digest = body::digest(object);
        if self.todo.is_running(&key) {
            self.meanwhile.insert(id.clone(), Some(digest));
        } else if known != Some(digest) {
            self.check(id, &key, ordinal, object, digest)?;
        }
        let resource = self.plural(id);
        self.board.observe(&*self.parts.interpreter, &key, ordinal, &resource, object);
        self.tell(&key);
        Ok(())
    }

    /// Something but the status changed: is it still what the ledger says?
    fn check(
        &mut self,
        id: &ObjectId,
        key: &str,
        ordinal: usize,
        object: &Value,
        digest: u64,
    ) -> Result<(), LedgerError> {
        let Some(entry) = self.parts.shared.ledger.entry(key)? else { return Ok(()) };
        if !entry.is_applied() || entry.phase != Phase::Desired {
            return Ok(());
        }
        let manifests = apply::manifests(&entry.body).unwrap_or_default();
        let interpreter = &*self.parts.interpreter;
        let right = manifests
            .get(ordinal)
            .is_some_and(|manifest| apply::in_sync(interpreter, &self.parts.cluster, key, manifest, object));
        if right {
            self.targets.set_digest(id, Some(digest));
        } else {
            tracing::info!(object = %id, "drifted");
            self.todo.push(key, order::of_manifests(&manifests), Cause::Drift);
        }
        Ok(())
    }

    fn gone(&mut self, id: &ObjectId) {
        let Some(Target { key, ordinal, .. }) = self.targets.get(id).cloned() else { return };
        self.targets.set_digest(id, None);
        if self.todo.is_running(&key) {
            self.meanwhile.insert(id.clone(), None);
            return;
        }
        self.board.gone(&key, ordinal);
        self.tell(&key);
        self.todo.push(&key, order::class(&id.gvk), Cause::Drift);
    }

    fn plural(&self, id: &ObjectId) -> String {
        self.plurals.get(&id.gvk).cloned().unwrap_or_default()
    }

    // ------------------------------------------------------------------------------------------ working

    fn start_ready(&mut self) -> Result<(), LedgerError> {
        let now = self.now();
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
            let first = entry.phase == Phase::Desired && !entry.is_applied();
            if first && entry.attempts >= CRASHES {
                self.todo.done(&key);
                self.quarantine(&key, &entry);
                self.tell(&key);
                continue;
            }
            if first {
                begun.push(key.clone());
            }
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
        let member = self.parts.member.clone();
        let interpreter = self.parts.interpreter.clone();
        let cluster = self.parts.cluster.clone();
        self.running.spawn(async move {
            let began = Instant::now();
            let hash = entry.hash.clone();
            // A panic is one crash of this Work, not the end of the agent.
            let work = AssertUnwindSafe(task(&*member, &*interpreter, &cluster, &key, &entry));
            let kind = work.catch_unwind().await.unwrap_or(Ending::Panicked);
            Finished { key, hash, latency: began.elapsed(), kind }
        });
    }

    fn finished(&mut self, finished: Result<Finished, tokio::task::JoinError>) -> Result<(), LedgerError> {
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
                    let id = ObjectId::of(object);
                    class = class.min(order::class(&id.gvk));
                    drifted |= self.found_right(&id, object);
                    self.plurals.entry(id.gvk).or_insert_with(|| plural.clone());
                    self.board.observe(&*self.parts.interpreter, key, ordinal, plural, object);
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

    /// `object` is as it should be. True where it changed again meanwhile.
    fn found_right(&mut self, id: &ObjectId, object: &Value) -> bool {
        let digest = body::digest(object);
        let meanwhile = self.meanwhile.remove(id);
        self.targets.set_digest(id, Some(digest));
        meanwhile.is_some_and(|seen| seen != Some(digest))
    }

    /// Writes and tells the outcome of applying `key`, where it is news.
    fn conclude(
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

    fn event(&self, key: &str, entry: &Option<Entry>, failure: Option<String>) {
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
    fn tell(&self, key: &str) {
        if let Some(standing) = self.board.standing(key).filter(|standing| standing.applied.is_some()) {
            self.parts.shared.report(|outbox| outbox.work(key, standing));
        }
    }

    fn tell_removed(&self, key: &str, entry: &Entry) {
        self.parts.shared.report(|outbox| {
            outbox.removed(key, &entry.uid, entry.revision);
            true
        });
    }
}

/// One Work's turn.
async fn task(
    member: &dyn Member,
    interpreter: &dyn Interpreter,
    cluster: &str,
    key: &str,
    entry: &Entry,
) -> Ending {
    let context = Context { member, interpreter, cluster };
    match apply::manifests(&entry.body) {
        Ok(manifests) if entry.phase == Phase::Desired => {
            let known = match entry {
                entry if entry.is_applied() => Known::Applied,
                entry if entry.is_nowhere() => Known::Nowhere,
                _ => Known::Older,
            };
            let results = apply::work(context, key, &manifests, known).await;
            Ending::Applied(with_plurals(member, &manifests, results).await)
        }
        Ok(manifests) => {
            let removed = apply::removal(context, key, &manifests, entry.preserve).await;
            Ending::Removed(match removed {
                // What it may not even look at, and never placed, it does not wait for.
                Err(failure) if failure.is_forbidden() && entry.is_nowhere() => Ok(true),
                removed => removed,
            })
        }
        Err(failure) => Ending::Applied(vec![(String::new(), Err(failure))]),
    }
}

async fn with_plurals(
    member: &dyn Member,
    manifests: &[Value],
    results: Vec<Result<Value, Failure>>,
) -> Vec<(String, Result<Value, Failure>)> {
    let mut named = Vec::with_capacity(results.len());
    for (manifest, result) in manifests.iter().zip(results) {
        // Known already: the call before needed it.
        let plural =
            if result.is_ok() { member.resource(&Gvk::of(manifest)).await } else { Ok(String::new()) };
        named.push((plural.unwrap_or_default(), result));
    }
    named
}

/// Watches one kind for as long as anybody listens; a watch that ends is begun again after a pause.
async fn watcher(
    member: Arc<dyn Member>,
    gvk: Gvk,
    namespaces: Arc<[String]>,
    events: mpsc::Sender<Watched>,
) {
    let mut waits = Waits::default();
    loop {
        let pause = async |waits: &mut Waits| {
            tokio::time::sleep(waits.failed("").min(Duration::from_secs(30))).await;
        };
        let Ok(plural) = member.resource(&gvk).await else {
            pause(&mut waits).await;
            continue;
        };
        let labels = format!("{}={}", labels::MANAGED, labels::MANAGED_VALUE);
        let watch = Watch { gvk: gvk.clone(), namespace: String::new(), labels, fields: String::new() };
        let mut stream = within::watch(&*member, watch, &namespaces);
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    if event == MemberEvent::Listed {
                        waits.clear("");
                    }
                    if events.send((gvk.clone(), plural.clone(), event)).await.is_err() {
                        return;
                    }
                }
                Err(MemberError::NoKind(_)) => break,
                Err(error) => {
                    tracing::warn!(%gvk, %error, "watching the member");
                    break;
                }
            }
        }
        pause(&mut waits).await;
    }
}

#[cfg(test)]
mod tests;
