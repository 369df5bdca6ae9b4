//! The hub's store as a file that outlives it: what was acknowledged is there for the next start, and a process that has ended writes
//! nothing more. The disk may be full, or slow.
//!
//! In: the store's calls, and what the script does to the disk. Out: the same of a store in memory, later or refused; and the end of the
//! hub at a write, before the writer has heard of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, pending, ready};
use karmada_store::{Expect, KeyValue, MemoryStore, Page, Revision, Store, StoreError, Watch};
use tokio::sync::Notify;

use crate::crash::Fuse;

type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

/// A store behind one life of the hub.
pub struct Disk {
    store: Arc<MemoryStore>,
    fuse: Fuse,
    /// Told of each write.
    written: Arc<Notify>,
    /// The hub ends at the write after so many more; zero: at none.
    writes_left: AtomicU64,
    ended: Arc<AtomicBool>,
    is_full: AtomicBool,
    /// How long a write takes, in milliseconds: half of it before it is carried out.
    slowness: AtomicU64,
}

impl Disk {
    pub fn new(store: Arc<MemoryStore>, fuse: Fuse, written: Arc<Notify>) -> Self {
        Self {
            store,
            fuse,
            written,
            writes_left: AtomicU64::new(0),
            ended: Arc::default(),
            is_full: AtomicBool::new(false),
            slowness: AtomicU64::new(0),
        }
    }

    /// The hub ends at its `write`th write from now on, which is on the disk then.
    pub fn ends_at(&self, write: u64) {
        self.writes_left.store(write, Ordering::Relaxed);
    }

    /// It takes nothing any more, or takes what comes again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// A write takes so long.
    pub fn set_slowness(&self, slowness: Duration) {
        self.slowness.store(slowness.as_millis() as u64, Ordering::Relaxed);
    }

    /// The process has ended.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.fuse.is_blown()
    }

    /// Whether the hub ends over the write that was just carried out.
    fn ends_here(&self) -> bool {
        let left = self.writes_left.load(Ordering::Relaxed);
        if left > 0 {
            self.writes_left.store(left - 1, Ordering::Relaxed);
        }
        if left == 1 {
            self.end();
            self.fuse.blow("before it hears that a write is on disk");
        }
        left == 1
    }

    fn answer<T: Send + 'static>(
        &self,
        write: impl FnOnce(&MemoryStore) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        if self.is_ended() {
            return pending().boxed();
        }
        if self.is_full.load(Ordering::Relaxed) {
            return ready(Err(StoreError::Full)).boxed();
        }
        let half = Duration::from_millis(self.slowness.load(Ordering::Relaxed) / 2);
        if half.is_zero() {
            let answer = write(&self.store);
            self.written.notify_one();
            return if self.ends_here() { pending().boxed() } else { answer };
        }
        let (store, ended, written) = (self.store.clone(), self.ended.clone(), self.written.clone());
        let late = async move {
            tokio::time::sleep(half).await;
            if ended.load(Ordering::Relaxed) {
                return pending().await;
            }
            let answer = write(&store).await;
            written.notify_one();
            tokio::time::sleep(half).await;
            answer
        };
        late.boxed()
    }
}

impl Store for Disk {
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Revision, StoreError>> {
        let key = key.to_owned();
        self.answer(move |store| store.put(&key, value, expect))
    }

    fn delete(&self, key: &str, expect: Revision) -> BoxFuture<'static, Result<Revision, StoreError>> {
        let key = key.to_owned();
        self.answer(move |store| store.delete(&key, expect))
    }

    fn get(&self, key: &str) -> BoxFuture<'static, Result<Option<KeyValue>, StoreError>> {
        self.store.get(key)
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Page, StoreError>> {
        self.store.list(prefix, after, limit)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        self.store.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), StoreError>> {
        self.store.compact(revision)
    }

    fn oldest(&self) -> Revision {
        self.store.oldest()
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn epoch(&self) -> u64 {
        self.store.epoch()
    }

    fn raise_epoch(&self, seen: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.store.raise_epoch(seen)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.store.close()
    }
}
