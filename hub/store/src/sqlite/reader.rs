//! Reads: gets and lists (see [`lookup`]) and old events, on a few connections with a thread each.
//!
//! In: jobs from a bounded queue. Out: answers from one snapshot each. A snapshot may be newer than what the
//! writer has published; an answer that names its revision waits until it is, so that a caller can always
//! watch from the revision it was given.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::{mpsc, oneshot};

use super::checked::{LOG, LogRow, damaged};
use super::file_lock::FileLock;
use super::recent::{Recent, follows};
use super::schema::{Role, connect, read_meta};
use super::thread::spawn;
use super::{SqliteOptions, failed, lookup, to_sql};
use crate::feed::{BATCH_BYTES, BATCH_EVENTS, Backlog, Chunk, Feed};
use crate::{Event, KeyValue, Page, Revision, StoreError};

/// Reads that may wait.
const QUEUE: usize = 256;
/// How long a snapshot may be ahead of what is published: only a failing disk makes it more than a moment.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

enum Job {
    Run(Box<dyn FnOnce(&Connection) + Send>),
    Close,
}

/// The callers' end.
#[derive(Clone)]
pub(super) struct Readers {
    jobs: mpsc::Sender<Job>,
    recent: Arc<Recent>,
    feed: Arc<OnceLock<Weak<Feed>>>,
}

impl Readers {
    pub fn start(
        options: &SqliteOptions,
        lock: &Arc<FileLock>,
        running: &SyncSender<()>,
        recent: &Arc<Recent>,
    ) -> Result<Readers, StoreError> {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..options.readers.max(1) {
            let db = connect(options, Role::Reader).map_err(|error| failed(&error))?;
            let (jobs, lock, running) = (jobs.clone(), lock.clone(), running.clone());
            let run = move || {
                serve(&db, &jobs);
                drop(db);
                drop((lock, running));
            };
            spawn("store-reader", run)?;
        }
        Ok(Readers { jobs: sender, recent: recent.clone(), feed: Arc::new(OnceLock::new()) })
    }

    /// Tells the readers whose publishing they have to wait for. (The feed itself reads through them.)
    pub fn follow(&self, feed: &Arc<Feed>) {
        let _ = self.feed.set(Arc::downgrade(feed));
    }

    pub fn get(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Option<KeyValue>, StoreError>> + Send + 'static {
        let (key, recent): (Arc<str>, _) = (key.into(), self.recent.clone());
        self.run(move |db| lookup::get(db, &recent, &key).map_err(|error| failed(&error)))
    }

    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send + 'static {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        let (recent, feed) = (self.recent.clone(), self.feed.clone());
        self.run(move |db| {
            let page = lookup::list(db, &recent, &prefix, after.as_deref(), limit)
                .map_err(|error| failed(&error))?;
            let feed = feed.get().and_then(Weak::upgrade).ok_or(StoreError::Closed)?;
            if !feed.wait_for(page.revision, PUBLISH_TIMEOUT) {
                return Err(StoreError::Backend("a commit's outcome is not known yet".into()));
            }
            Ok(page)
        })
    }

    /// Takes no more reads; those in the queue are still answered. Blocks while the queue is full.
    pub fn close(&self) {
        // An error means that it is closed already.
        let _ = self.jobs.blocking_send(Job::Close);
    }

    pub fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let jobs = self.jobs.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let job = Job::Run(Box::new(move |db| {
                // A caller that went away does not want its answer.
                let _ = answer.send(read(db));
            }));
            jobs.send(job).await.map_err(|_| StoreError::Closed)?;
            drop(jobs);
            answered.await.map_err(|_| StoreError::Closed)?
        }
    }
}

impl Backlog for Readers {
    fn read(&self, prefix: Arc<str>, after: Revision) -> BoxFuture<'static, Result<Chunk, StoreError>> {
        self.run(move |db| backlog(db, &prefix, after)).boxed()
    }
}

fn serve(db: &Connection, jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // Held while waiting: the readers take turns at the queue, and only the one at it may close it.
        let mut queue = jobs.lock();
        match queue.blocking_recv() {
            Some(Job::Run(run)) => {
                drop(queue);
                run(db);
            }
            Some(Job::Close) => queue.close(),
            None => return,
        }
    }
}

fn backlog(db: &Connection, prefix: &str, after: Revision) -> Result<Chunk, StoreError> {
    let read = || -> rusqlite::Result<Result<Chunk, StoreError>> {
        let snapshot = db.unchecked_transaction()?;
        let meta = read_meta(&snapshot)?;
        if after < meta.compacted {
            return Ok(Err(StoreError::Compacted { asked: after, oldest: meta.compacted }));
        }
        events_after(&snapshot, prefix, after, meta.head).map(Ok)
    };
    read().map_err(|error| failed(&error))?
}

/// The next events after `after`, as many as fit into a batch; `head` is the snapshot's last revision.
pub(super) fn events_after(
    db: &Connection,
    prefix: &str,
    after: Revision,
    head: Revision,
) -> rusqlite::Result<Chunk> {
    // Every row is looked at, whatever was asked for: a damaged key is to be an error, not an event that nobody hears of.
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision > ?1 ORDER BY revision"))?;
    let mut rows = statement.query([to_sql(after)])?;
    let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
    while let Some(row) = rows.next()? {
        let row = LogRow::read(row)?;
        follows(last, row.revision)?;
        last = row.revision;
        if !row.key.starts_with(prefix) {
            continue;
        }
        let event = event(db, &row)?;
        bytes += event.weight();
        events.push(event);
        if events.len() == BATCH_EVENTS || bytes > BATCH_BYTES {
            return Ok(Chunk { events, through: last });
        }
    }
    follows(last, head.max(after) + 1)?;
    Ok(Chunk { events, through: head })
}

fn event(db: &Connection, row: &LogRow<'_>) -> rusqlite::Result<Event> {
    let (key, revision): (Arc<str>, _) = (row.key.into(), row.revision);
    let previous = if row.previous == 0 { None } else { Some(replaced(db, row)?) };
    Ok(match row.value {
        Some(value) => {
            let value = Bytes::copy_from_slice(value);
            let current = KeyValue { key, value, create_revision: row.created, mod_revision: revision };
            Event::Put { current, previous }
        }
        None => Event::Delete { key, revision, previous: previous.unwrap_or_default() },
    })
}

/// The value that a write replaced.
fn replaced(db: &Connection, row: &LogRow<'_>) -> rusqlite::Result<Bytes> {
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision = ?1"))?;
    let old = statement.query_row([to_sql(row.previous)], |old| {
        let old = LogRow::read(old)?;
        Ok(old.value.filter(|_| old.key == row.key).map(Bytes::copy_from_slice))
    });
    old.optional()?.flatten().ok_or_else(|| damaged(row.key, row.previous))
}
