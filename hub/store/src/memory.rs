//! The store in memory: for tests, demos and simulations. Nothing outlives the process.
//!
//! Same semantics as the durable backends, except that events older than its ring are gone.
//!
//! In: keys and values, with what is expected of the key. Out: revisions, values, pages and watches, at once: its futures are ready when
//! they are returned. It fails for a conflict, a closed store, and a revision that is gone or still to come.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;

use crate::feed::Feed;
use crate::{Event, Expect, KeyValue, Page, Revision, Store, StoreError, Watch};

/// A store that forgets everything with its process.
pub struct MemoryStore {
    state: Mutex<State>,
    feed: Arc<Feed>,
}

struct State {
    live: BTreeMap<Arc<str>, KeyValue>,
    head: Revision,
    epoch: u64,
    closed: bool,
}

impl MemoryStore {
    /// Events that watchers can go back to, by default, in bytes.
    pub const RING_BYTES: usize = 8 << 20;

    /// An empty store at revision 0, in epoch 1.
    pub fn new() -> Self {
        MemoryStore::with_ring(MemoryStore::RING_BYTES)
    }

    /// An empty store that keeps up to `ring_bytes` of past events for its watchers.
    pub fn with_ring(ring_bytes: usize) -> Self {
        let state = State { live: BTreeMap::new(), head: 0, epoch: 1, closed: false };
        MemoryStore { state: Mutex::new(state), feed: Arc::new(Feed::new(0, 0, ring_bytes, None)) }
    }

    /// What there is now, in a store of its own without history: a backup, or what another process finds after this one ended.
    #[must_use]
    pub fn copied(&self) -> Self {
        let state = self.state.lock();
        let (live, head, epoch) = (state.live.clone(), state.head, state.epoch);
        let feed = Arc::new(Feed::new(head, head, MemoryStore::RING_BYTES, None));
        MemoryStore { state: Mutex::new(State { live, head, epoch, closed: false }), feed }
    }

    fn write(&self, key: &str, value: Bytes, expect: Expect) -> Result<Revision, StoreError> {
        let mut state = self.state.lock();
        state.check(key, expect)?;
        let revision = state.head + 1;
        let previous = state.live.get(key);
        let current = KeyValue {
            key: previous.map_or_else(|| key.into(), |kv| kv.key.clone()),
            value,
            create_revision: previous.map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
        };
        let previous = state.live.insert(current.key.clone(), current.clone()).map(|kv| kv.value);
        self.publish(&mut state, Event::Put { current, previous })
    }

    fn remove(&self, key: &str, expect: Revision) -> Result<Revision, StoreError> {
        let mut state = self.state.lock();
        state.check(key, Expect::Revision(expect))?;
        let Some(old) = state.live.remove(key) else { return Err(StoreError::Conflict { current: None }) };
        let event = Event::Delete { key: old.key, revision: state.head + 1, previous: old.value };
        self.publish(&mut state, event)
    }

    /// Under the state's lock, so that events leave in the order of their revisions.
    fn publish(&self, state: &mut State, event: Event) -> Result<Revision, StoreError> {
        state.head = event.revision();
        self.feed.publish(vec![event]);
        Ok(state.head)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl State {
    fn check(&self, key: &str, expect: Expect) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::Closed);
        }
        let current = self.live.get(key);
        if expect.holds(current.map(|kv| kv.mod_revision)) {
            return Ok(());
        }
        Err(StoreError::Conflict { current: current.cloned() })
    }

    fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Page {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut rest = self
            .live
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, kv)| kv.clone());
        let limit = if limit == 0 { usize::MAX } else { limit };
        let items = rest.by_ref().take(limit).collect();
        Page { items, revision: self.head, more: rest.next().is_some() }
    }
}

impl Store for MemoryStore {
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Revision, StoreError>> {
        ready(self.write(key, value, expect)).boxed()
    }

    fn delete(&self, key: &str, expect: Revision) -> BoxFuture<'static, Result<Revision, StoreError>> {
        ready(self.remove(key, expect)).boxed()
    }

    fn get(&self, key: &str) -> BoxFuture<'static, Result<Option<KeyValue>, StoreError>> {
        let state = self.state.lock();
        let answer = if state.closed { Err(StoreError::Closed) } else { Ok(state.live.get(key).cloned()) };
        ready(answer).boxed()
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Page, StoreError>> {
        let state = self.state.lock();
        let answer =
            if state.closed { Err(StoreError::Closed) } else { Ok(state.page(prefix, after, limit)) };
        ready(answer).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        Watch::open(&self.feed, prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), StoreError>> {
        let state = self.state.lock();
        let answer = if state.closed {
            Err(StoreError::Closed)
        } else if revision > state.head {
            Err(StoreError::Future { asked: revision, current: state.head })
        } else {
            self.feed.compact(revision);
            Ok(())
        };
        ready(answer).boxed()
    }

    fn revision(&self) -> Revision {
        self.feed.head()
    }

    fn oldest(&self) -> Revision {
        self.feed.oldest()
    }

    fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    fn raise_epoch(&self, seen: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        let mut state = self.state.lock();
        if state.closed {
            return ready(Err(StoreError::Closed)).boxed();
        }
        if seen >= state.epoch {
            state.epoch = seen.saturating_add(1);
        }
        ready(Ok(state.epoch)).boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.state.lock().closed = true;
        self.feed.close();
        ready(()).boxed()
    }
}
