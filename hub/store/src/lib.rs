//! Keys, bytes and revisions: where the hub's state lives, with etcd's semantics and no idea of Kubernetes.
//!
//! In: single-key writes, each with an expectation about the key's current revision. Out: the revision a
//! write got, reads at the present, and ordered events. One test suite ([`suite`]) holds every backend.
//!
//! What is promised:
//! - A revision names exactly one write; revisions strictly increase and are never used twice.
//! - A write is acknowledged only after it is durable (for backends that are durable at all).
//! - A watcher sees every event after the revision it named, in order, once; a watcher that named a
//!   compacted revision, or reads too slowly, is told so and must list again.

mod event;
mod feed;
mod memory;
mod sqlite;
#[doc(hidden)]
pub mod suite;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use event::{Event, WatchError};
pub use memory::MemoryStore;
use sqlite::ADVICE;
pub use sqlite::{SqliteOptions, SqliteStore, StoredValue, Stretch};
pub use watch::Watch;

/// The number of a write, unique and rising over the whole store. 0 is "before the first write".
pub type Revision = u64;

/// One live key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key: `/`-separated text.
    pub key: Arc<str>,
    /// What was last put.
    pub value: Bytes,
    /// The write that created the key (a key deleted and put again is a new key).
    pub create_revision: Revision,
    /// The write that last changed it.
    pub mod_revision: Revision,
}

/// What a write expects of its key; where it does not hold, nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key was last changed by exactly this write.
    Revision(Revision),
}

impl Expect {
    /// Whether a key last changed by `current` (`None`: it does not exist) is as expected.
    pub fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Expect::Absent => current.is_none(),
            Expect::Revision(revision) => current == Some(revision),
        }
    }
}

/// A page of a prefix, in key order.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The keys, ascending.
    pub items: Vec<KeyValue>,
    /// The store's revision that the page shows.
    pub revision: Revision,
    /// Whether keys of the prefix remain after the last item.
    pub more: bool,
}

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The expectation did not hold. `current` is what is there instead.
    #[error("the key was changed by another writer")]
    Conflict {
        /// The key as it stands, `None` where it does not exist.
        current: Option<KeyValue>,
    },
    /// The revision asked for is no longer kept; the oldest that can be watched from is `oldest`.
    #[error("revision {asked} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        asked: Revision,
        /// The oldest revision that may be named.
        oldest: Revision,
    },
    /// The revision asked for does not exist yet.
    #[error("revision {asked} is ahead of the store, which is at {current}")]
    Future {
        /// The revision that was asked for.
        asked: Revision,
        /// The store's own.
        current: Revision,
    },
    /// What is on the disk is not what was written. Nothing of it is served; the rest goes on being.
    #[error("{what} is damaged on disk; {}", ADVICE)]
    Damaged {
        /// The key and the revision, or another part of the store.
        what: String,
    },
    /// The disk is full. Nothing was written; what makes the store no larger still can be, deletions above all.
    #[error(
        "the disk is full: until there is room, only deletions and changes that need no more of it are taken"
    )]
    Full,
    /// The backend failed, by an I/O error for one. Nothing was acknowledged.
    #[error("the store failed: {0}")]
    Backend(String),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The same failure for another caller that it concerns. (Conflicts and the like concern one.)
    fn again(&self) -> StoreError {
        match self {
            StoreError::Damaged { what } => StoreError::Damaged { what: what.clone() },
            StoreError::Backend(why) => StoreError::Backend(why.clone()),
            StoreError::Closed => StoreError::Closed,
            StoreError::Full => StoreError::Full,
            other => StoreError::Backend(other.to_string()),
        }
    }
}

/// A key-value store with revisions and watches.
pub trait Store: Send + Sync + 'static {
    /// Writes `value` at `key` if `expect` holds. Returns the write's revision once it is durable.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where `expect` does not hold; [`StoreError::Full`]; else the backend failed, or the store is closed.
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Revision, StoreError>>;

    /// Removes `key` if it was last changed by `expect`. Returns the removal's revision once it is durable.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where another write was the last, or there is no such key; else as of [`Store::put`].
    fn delete(&self, key: &str, expect: Revision) -> BoxFuture<'static, Result<Revision, StoreError>>;

    /// The key as it stands, durable writes only.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where it is not what was written; else the backend failed, or the store is closed.
    fn get(&self, key: &str) -> BoxFuture<'static, Result<Option<KeyValue>, StoreError>>;

    /// Up to `limit` (0: all) keys that start with `prefix` and come after `after` (exclusive), at the present.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where one of them is not what was written; else the backend failed, or the store is closed.
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Page, StoreError>>;

    /// Every event on keys that start with `prefix`, with revisions above `after`.
    ///
    /// # Errors
    /// [`StoreError::Compacted`], [`StoreError::Future`] or [`StoreError::Closed`].
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError>;

    /// Forgets events up to and including `revision`; live keys stay.
    ///
    /// # Errors
    /// [`StoreError::Future`] where `revision` has not been written yet; else the backend failed, or the store is closed.
    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The oldest revision that can be watched from: what was compacted to, at least.
    fn oldest(&self) -> Revision;

    /// The revision of the last durable write.
    fn revision(&self) -> Revision;

    /// The life this store is in: minted at creation, raised at every restore, so that (epoch, revision)
    /// orders writes across restores.
    fn epoch(&self) -> u64;

    /// Raises the epoch above `seen` (an agent that saw a later life than ours proves that we are a copy
    /// brought back). Returns the new epoch; a `seen` below the present one changes nothing.
    ///
    /// # Errors
    /// The backend failed, or the store is closed.
    fn raise_epoch(&self, seen: u64) -> BoxFuture<'static, Result<u64, StoreError>>;

    /// Whether writes succeed. Asking has the store try again, so that the next answer tells of the present.
    ///
    /// # Errors
    /// Why the last write failed, where none has succeeded since.
    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Stops taking writes, finishes those under way, and closes files.
    fn close(&self) -> BoxFuture<'static, ()>;
}
