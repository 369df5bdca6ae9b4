//! The store in one SQLite file: what a hub runs on by default.
//!
//! In: writes through one writer thread that commits them in groups; reads on a small pool of connections.
//! Out: answers after the commit's fdatasync, pages, events. The parts: [`schema`] is the file's layout and
//! how it is opened and locked; [`writer`] is the thread and its queue; [`batch`] is what one transaction
//! does; [`checked`] has the checksums of rows and [`acknowledged`] what must be there at the next start, [`salvage`] goes on without
//! it; [`reserve`] is room for a full disk; [`in_place`] notices that the file was taken away; [`recent`] has the keys that the file's index lacks; [`reader`] has the connections that read, [`lookup`] gets and
//! lists; [`checkpoint`] moves the log into the file beside the writer; [`compaction`] forgets old events in small steps; [`rewrite`] puts
//! the same values down in other bytes.

mod acknowledged;
mod batch;
mod checked;
mod checkpoint;
mod compaction;
mod file_lock;
mod history_weight;
mod in_place;
mod lookup;
mod open;
mod reader;
mod recent;
mod refusal;
mod reserve;
mod rewrite;
mod salvage;
mod schema;
mod stored_values;
mod thread;
mod upgrade;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use crate::feed::Feed;
use crate::{Expect, KeyValue, Page, Revision, Store, StoreError, Watch};
use batch::Operation;
pub(crate) use checked::ADVICE;
use reader::Readers;
use recent::Recent;
pub use rewrite::{StoredValue, Stretch};
use writer::{Surroundings, WriteQueue};

/// Where the file is, and how it is kept.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file; its folder must exist. `-wal`, `-shm` and `.lock` files lie beside it.
    pub path: PathBuf,
    /// Whether an acknowledged write survives a power cut (`synchronous=FULL`). Only tests turn it off.
    pub synchronous_full: bool,
    /// The epoch of a file that is created now; an existing file keeps its own.
    pub first_epoch: u64,
    /// Bytes of recent events kept in memory for watchers; older ones are read from the file.
    pub ring_bytes: usize,
    /// Events kept when the store compacts by itself (it does at twice as many); 0: only when asked to.
    pub keep_events: u64,
    /// Bytes that kept events may weigh; beyond, the store compacts by itself, to half of it.
    pub keep_bytes: u64,
    /// Writes after which the index of keys is brought up to date with the log, all at once.
    pub index_after: usize,
    /// Connections that read.
    pub readers: usize,
    /// A file up to this many bytes has its structure checked whole when opened (SQLite's `quick_check`);
    /// of a larger one only the header, so that the start stays short.
    pub check_up_to: u64,
    /// Whether to go on where what was acknowledged is not all there, or damaged: without it, and in a new epoch. Otherwise such a
    /// store is not opened.
    pub accept_data_loss: bool,
    /// Bytes of the disk that are kept for deletions when it is full; 0: none. More than the write-ahead log grows to.
    pub reserve_bytes: u64,
    /// Whether what is deleted is overwritten in the file at once: for values that were encrypted so that nobody reads them there.
    pub overwrite_deleted: bool,
}

impl SqliteOptions {
    /// The defaults of a hub, at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            synchronous_full: true,
            first_epoch: 1,
            ring_bytes: 2 << 20,
            keep_events: 10_000,
            keep_bytes: 256 << 20,
            index_after: 2048,
            readers: 2,
            check_up_to: 64 << 20,
            accept_data_loss: false,
            reserve_bytes: 16 << 20,
            overwrite_deleted: false,
        }
    }
}

/// A store in one SQLite file. Dropping it without [`Store::close`] loses nothing, but the file stays locked
/// for the moment that its threads need to end.
pub struct SqliteStore {
    writes: WriteQueue,
    readers: Readers,
    feed: Arc<Feed>,
    epoch: Arc<AtomicU64>,
    ended: watch::Receiver<()>,
}

impl SqliteStore {
    /// Opens or creates the file. Blocks for as long as SQLite needs to recover and check it.
    ///
    /// # Errors
    /// [`StoreError::Backend`] where another process has the file open, it is no store's file or is damaged,
    /// or cannot be read or written; the text names the file.
    pub fn open(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
        let opened = open::open(options)?;
        let at = |error: &rusqlite::Error| {
            StoreError::Backend(format!("{}: {}", options.path.display(), failed(error)))
        };
        let meta = opened.meta;
        let (alive, ended) = watch::channel(());
        // Every thread but the writer holds `running`, so that the writer can be the last to end.
        let (running, others) = sync_channel(0);
        let recent = Arc::new(Recent::load(&opened.db, &opened.meta).map_err(|error| at(&error))?);
        let readers = Readers::start(options, &opened.lock, &running, &recent)?;
        let backlog = Box::new(readers.clone());
        let feed = Arc::new(Feed::new(meta.head, meta.compacted, options.ring_bytes, Some(backlog)));
        readers.follow(&feed);
        let epoch = Arc::new(AtomicU64::new(meta.epoch));
        let wal = checkpoint::start(options, &opened.lock, &running)?;
        let surroundings = Surroundings {
            feed: feed.clone(),
            epoch: epoch.clone(),
            wal,
            recent,
            readers: readers.clone(),
            others,
            alive,
        };
        let writes = writer::start(options, opened, surroundings)?;
        Ok(SqliteStore { writes, readers, feed, epoch, ended })
    }
}

impl Store for SqliteStore {
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Revision, StoreError>> {
        self.writes.submit(Operation::Put { key: key.into(), value, expect }).boxed()
    }

    fn delete(&self, key: &str, expect: Revision) -> BoxFuture<'static, Result<Revision, StoreError>> {
        self.writes.submit(Operation::Delete { key: key.into(), expect }).boxed()
    }

    fn get(&self, key: &str) -> BoxFuture<'static, Result<Option<KeyValue>, StoreError>> {
        self.readers.get(key).boxed()
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Page, StoreError>> {
        self.readers.list(prefix, after, limit).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        Watch::open(&self.feed, prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), StoreError>> {
        self.writes.submit(Operation::Compact(revision)).map(|answer| answer.map(|_| ())).boxed()
    }

    fn revision(&self) -> Revision {
        self.feed.head()
    }

    fn oldest(&self) -> Revision {
        self.feed.oldest()
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn raise_epoch(&self, seen: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.writes.submit(Operation::RaiseEpoch(seen)).boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.writes.health()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let (writes, mut ended) = (self.writes.clone(), self.ended.clone());
        async move {
            writes.close().await;
            while ended.changed().await.is_ok() {}
        }
        .boxed()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writes.abandon();
    }
}

/// A SQLite failure, in the store's words.
fn failed(error: &rusqlite::Error) -> StoreError {
    checked::damage_of(error).unwrap_or_else(|| StoreError::Backend(error.to_string()))
}

/// Revisions as SQLite keeps them: signed. A store would need 2^63 writes to wrap.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// See [`to_sql`]; negative numbers are never written.
fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
