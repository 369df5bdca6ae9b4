//! Priority and fairness: which requests may be worked on at once, and who waits behind whom.
//!
//! In: FlowSchemas and PriorityLevelConfigurations from the cache; users and attributes of requests. Out: a [`Seat`] to hold
//! while the request is worked on, or the 429 of kube-apiserver. Every limited level has seats of its own and fair queues
//! ([`queue_set`]); levels lend no seats. A seat is held until the answer is made, by a long list until it is sent; a watch holds
//! none while it lasts. What other services of the port serve does not pass here.

pub mod classify;
pub mod controller;
mod levels;
mod queue_set;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use karmada_definitions::resource::StorageId;
use karmada_registry::cache::{Cache, ResourceCache};
use karmada_registry::{Attributes, User};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use classify::Schema;
use levels::LevelConfiguration;
use queue_set::{Arrival, QueueSet, Ticket};

/// Group of the configurations.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// How long a request waits for a seat: a quarter of what kube-apiserver gives a request.
const SEAT_TIMEOUT: Duration = Duration::from_secs(15);

/// Objects of a list that are worth a seat, and the most seats that one request takes.
const OBJECTS_PER_SEAT: usize = 100;
const MOST_SEATS: u32 = 10;

/// By what a request was judged: what clients read in two headers.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The FlowSchema's uid.
    pub schema: HeaderValue,
    /// The PriorityLevelConfiguration's uid.
    pub level: HeaderValue,
}

/// What is configured now.
struct Config {
    revisions: [u64; 2],
    schemas: Vec<(Schema, HeaderValue, Arc<Level>)>,
}

/// Gives out seats.
pub struct Fairness {
    /// FlowSchemas, PriorityLevelConfigurations.
    resource_caches: [Arc<ResourceCache>; 2],
    seats: u32,
    started: Instant,
    now: ArcSwapOption<Config>,
    levels: Mutex<BTreeMap<String, Arc<Level>>>,
}

/// One priority level.
struct Level {
    name: String,
    uid: Mutex<HeaderValue>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None`: exempt.
    set: Option<QueueSet>,
    widest: u32,
    waiters: BTreeMap<Ticket, oneshot::Sender<()>>,
    rejected: u64,
    dispatched: u64,
}

/// The right to be worked on, given back when dropped.
#[derive(Debug)]
pub struct Seat {
    held: Option<(Arc<Level>, Ticket)>,
    crowded: bool,
}

impl Seat {
    /// Whether it was given to a flow that had many requests under way already.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }
}

#[cfg(test)]
impl Seat {
    /// A seat of a level of its own, and whether it is free again.
    pub(crate) fn watched() -> (Seat, impl Fn() -> bool) {
        let mut set = QueueSet::new(queue_set::Limits { seats: 1, queues: 0, hand: 0, length: 0 });
        let (Arrival::Runs(ticket), _) = set.arrive(0, 1, 0) else { panic!("there is a seat") };
        let state = Mutex::new(State { set: Some(set), ..State::default() });
        let uid = Mutex::new(HeaderValue::from_static(""));
        let level = Arc::new(Level { name: "one".into(), uid, started: Instant::now(), state });
        let is_free = {
            let level = level.clone();
            move || level.state.lock().set.as_ref().is_some_and(|set| set.seats_taken() == 0)
        };
        (Seat { held: Some((level, ticket)), crowded: false }, is_free)
    }
}

/// There is no seat, now or within the time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl std::fmt::Debug for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Level").field(&self.name).finish()
    }
}

impl Fairness {
    /// Over the configurations in `cache`, with so many seats in all.
    pub fn new(cache: &Cache, seats: u32) -> Arc<Fairness> {
        let resource_caches = ["flowschemas", "prioritylevelconfigurations"]
            .map(|plural| cache.of_resource(&StorageId(format!("{GROUP}/{plural}").into())));
        let (now, levels) = (ArcSwapOption::empty(), Mutex::default());
        Arc::new(Fairness { resource_caches, seats, started: Instant::now(), now, levels })
    }

    /// How many seats a request takes that reads so many objects.
    pub fn width(objects: usize) -> u32 {
        u32::try_from(objects.div_ceil(OBJECTS_PER_SEAT)).unwrap_or(MOST_SEATS).clamp(1, MOST_SEATS)
    }

    /// Gives a seat, at once or after a wait.
    ///
    /// # Errors
    /// [`TooMany`], beside how the request was judged.
    pub async fn seat(
        &self,
        user: &User,
        request: &Attributes,
        width: u32,
    ) -> (Judged, Result<Seat, TooMany>) {
        let config = self.config();
        let found = config.schemas.iter().find(|(schema, _, _)| schema.matches(user, request));
        // What nobody's schema is about is the catch-all's.
        let found = found.or_else(|| config.schemas.iter().find(|(schema, _, _)| schema.name == "catch-all"));
        let Some((schema, uid, level)) = found else {
            let nothing = HeaderValue::from_static("");
            return (
                Judged { schema: nothing.clone(), level: nothing },
                Ok(Seat { held: None, crowded: false }),
            );
        };
        let judged = Judged { schema: uid.clone(), level: level.uid.lock().clone() };
        (judged, level.clone().seat(schema.flow(user, request), width).await)
    }

    fn config(&self) -> Arc<Config> {
        let revisions = [self.resource_caches[0].revision(), self.resource_caches[1].revision()];
        if let Some(config) = self.now.load_full().filter(|config| config.revisions == revisions) {
            return config;
        }
        let mut levels = self.levels.lock();
        if let Some(config) = self.now.load_full().filter(|config| config.revisions == revisions) {
            return config;
        }
        let config = Arc::new(self.read(revisions, &mut levels));
        self.now.store(Some(config.clone()));
        config
    }

    fn read(&self, revisions: [u64; 2], levels: &mut BTreeMap<String, Arc<Level>>) -> Config {
        let objects =
            |at: usize| self.resource_caches[at].snapshot("").items.into_iter().map(|object| object.value());
        let stored: Vec<_> = objects(1).collect();
        let wanted = levels::wanted(&stored, self.seats);
        levels.retain(|name, _| wanted.contains_key(name));
        for (name, wanted) in wanted {
            let level = levels.entry(name.clone()).or_insert_with(|| {
                let (started, state) = (self.started, Mutex::default());
                Arc::new(Level { name, uid: Mutex::new(HeaderValue::from_static("")), started, state })
            });
            level.configure(&wanted);
        }
        let stored: Vec<_> = objects(0).collect();
        let with_level = |schema: Schema| {
            let level = levels.get(&schema.level)?.clone();
            let uid = HeaderValue::from_str(&schema.uid).unwrap_or(HeaderValue::from_static(""));
            Some((schema, uid, level))
        };
        Config {
            revisions,
            schemas: classify::in_order(&stored).into_iter().filter_map(with_level).collect(),
        }
    }

    /// What `/metrics` shows, in the Prometheus text format.
    pub fn metrics(&self) -> String {
        self.config();
        let mut out = String::new();
        let levels: Vec<Arc<Level>> = self.levels.lock().values().cloned().collect();
        type Read = fn(&State) -> u64;
        let rows: [(&str, &str, &str, Read); 5] = [
            ("rejected_requests_total", "counter", "Requests rejected", |s| s.rejected),
            ("dispatched_requests_total", "counter", "Requests given a seat", |s| s.dispatched),
            ("current_inqueue_requests", "gauge", "Requests waiting", |s| s.waiters.len() as u64),
            ("current_executing_seats", "gauge", "Seats taken", |s| {
                s.set.as_ref().map_or(0, |set| set.seats_taken().into())
            }),
            ("nominal_limit_seats", "gauge", "Seats there are", |s| {
                s.set.as_ref().map_or(0, |set| set.seats().into())
            }),
        ];
        for (name, kind, help, read) in rows {
            let name = format!("apiserver_flowcontrol_{name}");
            let _ = writeln!(out, "# HELP {name} {help} by priority level.\n# TYPE {name} {kind}");
            for level in &levels {
                let value = read(&level.state.lock());
                let _ = writeln!(out, "{name}{{priority_level=\"{}\"}} {value}", level.name);
            }
        }
        out
    }
}

impl Level {
    fn configure(&self, wanted: &LevelConfiguration) {
        *self.uid.lock() = HeaderValue::from_str(&wanted.uid).unwrap_or(HeaderValue::from_static(""));
        let now = self.now();
        let mut state = self.state.lock();
        state.widest = wanted.widest();
        let started = match (state.set.take(), wanted.limits) {
            (Some(mut set), Some(limits)) => {
                let started = set.set_limits(limits, now);
                state.set = Some(set);
                started
            }
            (_, limits) => {
                state.set = limits.map(QueueSet::new);
                // Whoever waits for a level that has no limits any more need not.
                state.waiters.keys().copied().collect()
            }
        };
        state.wake(&started);
    }

    /// Nanoseconds since the beginning.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    async fn seat(self: Arc<Self>, flow: u64, width: u32) -> Result<Seat, TooMany> {
        let (seat, woken) = {
            let now = self.now();
            let mut state = self.state.lock();
            let width = width.min(state.widest).max(1);
            let Some(set) = &mut state.set else {
                state.dispatched += 1;
                return Ok(Seat { held: None, crowded: false });
            };
            let crowded = set.crowds(flow);
            let (arrival, others) = set.arrive(flow, width, now);
            state.wake(&others);
            match arrival {
                Arrival::Rejected => {
                    state.rejected += 1;
                    return Err(TooMany);
                }
                Arrival::Runs(ticket) => {
                    state.dispatched += 1;
                    return Ok(Seat { held: Some((self.clone(), ticket)), crowded });
                }
                Arrival::Waits(ticket) => {
                    let (wake, woken) = oneshot::channel();
                    state.waiters.insert(ticket, wake);
                    // Dropped on the way out, it gives back the place in the queue.
                    (Seat { held: Some((self.clone(), ticket)), crowded }, woken)
                }
            }
        };
        let outcome = tokio::time::timeout(SEAT_TIMEOUT, woken).await;
        let mut state = self.state.lock();
        match outcome {
            Ok(Ok(())) => {
                state.dispatched += 1;
                drop(state);
                Ok(seat)
            }
            _ => {
                state.rejected += 1;
                drop(state);
                drop(seat);
                Err(TooMany)
            }
        }
    }
}

impl State {
    fn wake(&mut self, started: &[Ticket]) {
        for ticket in started {
            if let Some(waiter) = self.waiters.remove(ticket) {
                // Who has left by now gives the seat back as it goes.
                let _ = waiter.send(());
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some((level, ticket)) = self.held.take() else { return };
        let now = level.now();
        let mut state = level.state.lock();
        state.waiters.remove(&ticket);
        let Some(set) = &mut state.set else { return };
        let started = set.leave(ticket, now);
        state.wake(&started);
    }
}

#[cfg(test)]
mod tests;
