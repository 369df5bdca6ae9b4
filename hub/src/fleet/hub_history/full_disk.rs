//! What of sessions is to outlive the process, on a disk that takes nothing: whoever asked hears of it.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, FutureExt, ready};
use karmada_store::{KeyValue, MemoryStore, Page, Revision, Watch};

use super::*;

/// A store in memory that takes no more once it is full.
#[derive(Default)]
struct Full {
    store: MemoryStore,
    is_full: AtomicBool,
}

type Answer<T> = BoxFuture<'static, Result<T, StoreError>>;

impl Full {
    fn unless_full<T: Send + 'static>(&self, write: impl FnOnce(&MemoryStore) -> Answer<T>) -> Answer<T> {
        if self.is_full.load(Ordering::Relaxed) {
            ready(Err(StoreError::Full)).boxed()
        } else {
            write(&self.store)
        }
    }
}

impl Store for Full {
    fn put(&self, key: &str, value: Bytes, expect: Expect) -> Answer<Revision> {
        self.unless_full(|store| store.put(key, value, expect))
    }
    fn delete(&self, key: &str, expect: Revision) -> Answer<Revision> {
        self.unless_full(|store| store.delete(key, expect))
    }
    fn get(&self, key: &str) -> Answer<Option<KeyValue>> {
        self.store.get(key)
    }
    fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Answer<Page> {
        self.store.list(prefix, after, limit)
    }
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        self.store.watch(prefix, after)
    }
    fn compact(&self, revision: Revision) -> Answer<()> {
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
    fn raise_epoch(&self, seen: u64) -> Answer<u64> {
        self.unless_full(|store| store.raise_epoch(seen))
    }
    fn close(&self) -> BoxFuture<'static, ()> {
        self.store.close()
    }
}

/// A session that goes on all the same lets the deletes out in the next one, of which nobody remembers that they are held.
#[tokio::test]
async fn who_cannot_write_down_what_is_held_or_given_out_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let now = jiff::Timestamp::from_second(1_750_000_000).unwrap();
    let data = Arc::new(DataDir::open(directory.path(), now).unwrap());
    let store = Arc::new(Full::default());
    let sessions = StoredSessions::open(store.clone(), data, 1).await.unwrap();
    let batch = Batch { epoch: 4, revision: 1, timeline: 1 };
    let held = RestoreHold { batch, lives: Vec::new() };
    store.is_full.store(true, Ordering::Relaxed);
    assert!(sessions.set_restore_hold("north", &held).await.is_err());
    assert!(sessions.next_session("north").await.is_err());
    assert!(sessions.mint_epoch_above(7).await.is_err());
    store.is_full.store(false, Ordering::Relaxed);
    sessions.set_restore_hold("north", &held).await.unwrap();
    assert_eq!(sessions.restore_hold("north").await.unwrap(), Some(held.clone()));
    store.is_full.store(true, Ordering::Relaxed);
    assert!(sessions.end_restore_hold("north", batch).await.is_err());
    assert_eq!(sessions.restore_hold("north").await.unwrap(), Some(held), "and goes on");
}
