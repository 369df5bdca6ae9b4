//! The newest events in memory, and every watcher's place in them.
//!
//! In: each commit's events, after they are durable. Out: batches for the watchers that asked for them.
//! Memory is bounded by the ring's bytes, whatever watchers do: one that falls off the ring's end is sent to
//! the backend's own event log (its [`Backlog`]), and where there is none, or it was compacted, is told
//! that it lost its place. Where there is such a log, what every watcher has is dropped: at rest the ring is empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::{Event, Revision, StoreError, WatchError};

/// The most events of one batch, and the most bytes (a single larger event still passes).
pub(crate) const BATCH_EVENTS: usize = 256;
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Events older than the ring, read from where the backend keeps them.
pub(crate) trait Backlog: Send + Sync {
    /// Up to a batch of events after `after` on keys that start with `prefix`.
    fn read(&self, prefix: Arc<str>, after: Revision) -> BoxFuture<'static, Result<Chunk, StoreError>>;
}

/// A stretch of the event log.
pub(crate) struct Chunk {
    /// The stretch's events of the prefix that was asked for.
    pub events: Vec<Event>,
    /// The revision up to which (inclusive) nothing of the prefix is missing from `events`.
    pub through: Revision,
}

/// What a watcher has to do next.
pub(crate) enum Step {
    Batch(Arc<[Event]>),
    Wait,
    Behind { prefix: Arc<str>, after: Revision },
    End(WatchError),
}

/// The ring and the watchers.
pub(crate) struct Feed {
    state: Mutex<State>,
    moved: Condvar,
    backlog: Option<Box<dyn Backlog>>,
}

struct State {
    ring: VecDeque<Event>,
    bytes: usize,
    max_bytes: usize,
    /// The ring holds every event after this revision.
    floor: Revision,
    head: Revision,
    compacted: Revision,
    closed: bool,
    watchers: BTreeMap<u64, Watcher>,
    next_id: u64,
}

struct Watcher {
    prefix: Arc<str>,
    /// Everything of the prefix up to here was delivered.
    position: Revision,
    wake: Arc<Notify>,
}

impl Feed {
    /// A feed that begins after `head`, keeps up to `max_bytes` in memory, and has `backlog` behind it.
    pub fn new(
        head: Revision,
        compacted: Revision,
        max_bytes: usize,
        backlog: Option<Box<dyn Backlog>>,
    ) -> Self {
        let state = State {
            ring: VecDeque::new(),
            bytes: 0,
            max_bytes,
            floor: head,
            head,
            compacted,
            closed: false,
            watchers: BTreeMap::new(),
            next_id: 0,
        };
        Feed { state: Mutex::new(state), moved: Condvar::new(), backlog }
    }

    /// The last published revision.
    pub fn head(&self) -> Revision {
        self.state.lock().head
    }

    /// Appends one commit's events, in order, and wakes the watchers they concern.
    pub fn publish(&self, events: Vec<Event>) {
        let Some(last) = events.last().map(Event::revision) else { return };
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.head, last);
        for watcher in state.watchers.values_mut() {
            let concerned = events.iter().any(|event| event.key().starts_with(&*watcher.prefix));
            if concerned {
                watcher.wake.notify_one();
            } else if watcher.position >= before {
                // Idle watchers move along, or they would fall off the ring for want of news.
                watcher.position = watcher.position.max(last);
            }
        }
        state.bytes += events.iter().map(Event::weight).sum::<usize>();
        state.ring.extend(events);
        state.trim(self.backlog.is_some());
        drop(state);
        self.moved.notify_all();
    }

    /// Blocks until `revision` was published: a reader may see a commit a moment before its events are out,
    /// and a revision must not be named before it can be watched from. False after `patience`.
    pub fn wait_for(&self, revision: Revision, patience: Duration) -> bool {
        let mut state = self.state.lock();
        let result =
            self.moved.wait_while_for(&mut state, |state| state.head < revision && !state.closed, patience);
        !result.timed_out() || state.head >= revision
    }

    /// Forgets events up to and including `revision`.
    pub fn compact(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.compacted = state.compacted.max(revision);
        while state.ring.front().is_some_and(|event| event.revision() <= revision) {
            state.pop();
        }
        state.floor = state.floor.max(revision);
        for watcher in state.watchers.values() {
            if watcher.position < revision {
                watcher.wake.notify_one();
            }
        }
    }

    /// Ends every watch, once it has delivered what was published.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for watcher in state.watchers.values() {
            watcher.wake.notify_one();
        }
        drop(state);
        self.moved.notify_all();
    }

    /// What every watcher has.
    pub fn passed(&self) -> Revision {
        let state = self.state.lock();
        state.watchers.values().map(|watcher| watcher.position).min().unwrap_or(state.head)
    }

    /// The oldest revision that can be watched from.
    pub fn oldest(&self) -> Revision {
        self.state.lock().oldest(self.backlog.is_some())
    }

    /// A new watcher's place, and what wakes it.
    pub fn subscribe(&self, prefix: &str, after: Revision) -> Result<(u64, Arc<Notify>), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        if after > state.head {
            return Err(StoreError::Future { asked: after, current: state.head });
        }
        let oldest = state.oldest(self.backlog.is_some());
        if after < oldest {
            return Err(StoreError::Compacted { asked: after, oldest });
        }
        let id = state.next_id;
        state.next_id += 1;
        let wake = Arc::new(Notify::new());
        state.watchers.insert(id, Watcher { prefix: prefix.into(), position: after, wake: wake.clone() });
        drop(state);
        Ok((id, wake))
    }

    pub fn unsubscribe(&self, id: u64) {
        self.state.lock().watchers.remove(&id);
    }

    /// What watcher `id` has to do next; moves its place past a batch that it returns.
    pub fn step(&self, id: u64) -> Step {
        let mut state = self.state.lock();
        let step = state.step(id, self.backlog.is_some());
        state.trim(self.backlog.is_some());
        step
    }

    /// Reads what is older than the ring.
    pub fn read_backlog(
        &self,
        prefix: Arc<str>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Chunk, StoreError>> {
        match &self.backlog {
            Some(backlog) => backlog.read(prefix, after),
            None => {
                Box::pin(async move { Err(StoreError::Compacted { asked: after, oldest: Revision::MAX }) })
            }
        }
    }

    /// Moves watcher `id` past `chunk` and hands its events out.
    pub fn pass(&self, id: u64, chunk: Chunk) -> Option<Arc<[Event]>> {
        if let Some(watcher) = self.state.lock().watchers.get_mut(&id) {
            watcher.position = watcher.position.max(chunk.through);
        }
        if chunk.events.is_empty() { None } else { Some(chunk.events.into()) }
    }
}

impl State {
    fn pop(&mut self) {
        if let Some(event) = self.ring.pop_front() {
            self.bytes -= event.weight();
            self.floor = event.revision();
        }
    }

    /// Drops what is beyond the bounds, and what nobody is to get from here any more.
    fn trim(&mut self, has_backlog: bool) {
        let last = self.watchers.values().map(|watcher| watcher.position).min().unwrap_or(self.head);
        let passed = if has_backlog { last } else { 0 };
        while self.ring.front().is_some_and(|event| self.bytes > self.max_bytes || event.revision() <= passed)
        {
            self.pop();
        }
    }

    fn oldest(&self, has_backlog: bool) -> Revision {
        if has_backlog { self.compacted } else { self.compacted.max(self.floor) }
    }

    fn step(&mut self, id: u64, has_backlog: bool) -> Step {
        let oldest = self.oldest(has_backlog);
        let State { ring, head, floor, closed, watchers, .. } = self;
        let Some(watcher) = watchers.get_mut(&id) else { return Step::End(WatchError::Closed) };
        if watcher.position < oldest {
            return Step::End(WatchError::Lagged);
        }
        if watcher.position < *floor {
            return Step::Behind { prefix: watcher.prefix.clone(), after: watcher.position };
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let start = ring.partition_point(|event| event.revision() <= watcher.position);
        for event in ring.range(start..) {
            if event.key().starts_with(&*watcher.prefix) {
                bytes += event.weight();
                if !batch.is_empty() && (batch.len() == BATCH_EVENTS || bytes > BATCH_BYTES) {
                    return Step::Batch(batch.into());
                }
                batch.push(event.clone());
            }
            watcher.position = event.revision();
        }
        watcher.position = watcher.position.max(*head);
        match (batch.is_empty(), *closed) {
            (false, _) => Step::Batch(batch.into()),
            (true, false) => Step::Wait,
            (true, true) => Step::End(WatchError::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyValue, Watch};

    /// A log of all that ever was, by number alone.
    struct Log;

    impl Backlog for Log {
        fn read(&self, _: Arc<str>, after: Revision) -> BoxFuture<'static, Result<Chunk, StoreError>> {
            Box::pin(async move { Ok(Chunk { events: vec![event(after + 1)], through: after + 1 }) })
        }
    }

    fn event(revision: Revision) -> Event {
        let key: Arc<str> = format!("/{revision}").into();
        let current =
            KeyValue { key, value: "value".into(), create_revision: revision, mod_revision: revision };
        Event::Put { current, previous: None }
    }

    fn held(feed: &Feed) -> usize {
        feed.state.lock().ring.len()
    }

    #[tokio::test]
    async fn what_every_watcher_has_is_held_no_longer_where_a_log_is_behind() {
        let feed = Arc::new(Feed::new(0, 0, 1 << 20, Some(Box::new(Log))));
        let (mut one, mut other) = (Watch::open(&feed, "/", 0).unwrap(), Watch::open(&feed, "/", 0).unwrap());
        feed.publish((1..=3).map(event).collect());
        assert_eq!(one.next().await.unwrap().unwrap().len(), 3);
        assert_eq!(held(&feed), 3, "the other has nothing yet");
        assert_eq!(other.next().await.unwrap().unwrap().len(), 3);
        assert_eq!(held(&feed), 0);
        // Who begins further back reads the log.
        let late = Watch::open(&feed, "/", 1).unwrap().next().await.unwrap().unwrap();
        assert_eq!(late[0].revision(), 2);
    }

    #[tokio::test]
    async fn without_a_log_the_ring_is_the_history() {
        let feed = Arc::new(Feed::new(0, 0, 1 << 20, None));
        let mut one = Watch::open(&feed, "/", 0).unwrap();
        feed.publish((1..=3).map(event).collect());
        one.next().await.unwrap().unwrap();
        assert_eq!(held(&feed), 3);
        let late = Watch::open(&feed, "/", 1).unwrap().next().await.unwrap().unwrap();
        assert_eq!(late.iter().map(Event::revision).collect::<Vec<_>>(), [2, 3]);
    }
}
