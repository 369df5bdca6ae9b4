//! Reads: gets, lists and old events, on a few connections with a thread each.
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
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};
use tokio::sync::{mpsc, oneshot};

use super::schema::{FileLock, Meta, Role, connect, read_meta};
use super::writer::spawn;
use super::{SqliteOptions, failed, from_sql, to_sql};
use crate::feed::{BATCH_BYTES, BATCH_EVENTS, Backlog, Chunk, Feed};
use crate::{Event, KeyValue, Page, Revision, StoreError};

/// Reads that may wait.
const QUEUE: usize = 256;
/// How long a snapshot may be ahead of what is published: only a failing disk makes it more than a moment.
const PATIENCE: Duration = Duration::from_secs(10);

enum Job {
    Run(Box<dyn FnOnce(&Connection) + Send>),
    Close,
}

/// The callers' end.
#[derive(Clone)]
pub(super) struct Readers {
    jobs: mpsc::Sender<Job>,
    feed: Arc<OnceLock<Weak<Feed>>>,
}

impl Readers {
    pub fn start(
        options: &SqliteOptions,
        lock: &Arc<FileLock>,
        running: &SyncSender<()>,
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
        Ok(Readers { jobs: sender, feed: Arc::new(OnceLock::new()) })
    }

    /// Tells the readers whose publishing they have to wait for. (The feed itself reads through them.)
    pub fn follow(&self, feed: &Arc<Feed>) {
        let _ = self.feed.set(Arc::downgrade(feed));
    }

    pub fn get(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Option<KeyValue>, StoreError>> + Send + 'static {
        let key: Arc<str> = key.into();
        self.run(move |db| get(db, &key).map_err(|error| failed(&error)))
    }

    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send + 'static {
        let (prefix, after, feed) = (prefix.to_owned(), after.map(str::to_owned), self.feed.clone());
        self.run(move |db| {
            let page = list(db, &prefix, after.as_deref(), limit).map_err(|error| failed(&error))?;
            let feed = feed.get().and_then(Weak::upgrade).ok_or(StoreError::Closed)?;
            if !feed.wait_for(page.revision, PATIENCE) {
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

    fn run<T: Send + 'static>(
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

fn get(db: &Connection, key: &Arc<str>) -> rusqlite::Result<Option<KeyValue>> {
    let mut statement = db.prepare_cached(
        "SELECT log.revision, log.created, log.value FROM live JOIN log ON log.revision = live.revision
         WHERE live.key = ?1",
    )?;
    let found = |row: &Row<'_>| {
        let (mod_revision, create_revision) = (from_sql(row.get(0)?), from_sql(row.get(1)?));
        Ok(KeyValue {
            key: key.clone(),
            value: row.get::<_, Vec<u8>>(2)?.into(),
            create_revision,
            mod_revision,
        })
    };
    statement.query_row([&**key], found).optional()
}

// CROSS JOIN fixes the order of the loops: along the keys, one look-up in the log each.
const LIST_FROM: &str = "SELECT live.key, log.revision, log.created, log.value
  FROM live CROSS JOIN log ON log.revision = live.revision
  WHERE live.key >= ?1 AND live.key < ?2 ORDER BY live.key LIMIT ?3";
const LIST_AFTER: &str = "SELECT live.key, log.revision, log.created, log.value
  FROM live CROSS JOIN log ON log.revision = live.revision
  WHERE live.key > ?1 AND live.key < ?2 ORDER BY live.key LIMIT ?3";

fn list(db: &Connection, prefix: &str, after: Option<&str>, limit: usize) -> rusqlite::Result<Page> {
    // One transaction: the items and the revision are of one moment.
    let snapshot = db.unchecked_transaction()?;
    let Meta { head, .. } = read_meta(&snapshot)?;
    let most = if limit == 0 { i64::MAX } else { i64::try_from(limit).unwrap_or(i64::MAX) };
    // Exactly one lower and one upper bound, which SQLite turns into one range of the index.
    let (from, start) = match after {
        Some(after) if after >= prefix => (LIST_AFTER, after),
        _ => (LIST_FROM, prefix),
    };
    let mut statement = snapshot.prepare_cached(from)?;
    let mut rows = statement.query((start, prefix_end(prefix), most.saturating_add(1)))?;
    let mut page = Page { revision: head, ..Page::default() };
    while let Some(row) = rows.next()? {
        if limit != 0 && page.items.len() == limit {
            page.more = true;
            break;
        }
        page.items.push(KeyValue {
            key: row.get_ref(0)?.as_str()?.into(),
            value: Bytes::copy_from_slice(row.get_ref(3)?.as_blob()?),
            create_revision: from_sql(row.get(2)?),
            mod_revision: from_sql(row.get(1)?),
        });
    }
    Ok(page)
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
    let mut statement = db.prepare_cached(
        "SELECT log.key, log.revision, log.created, log.value, old.value
         FROM log LEFT JOIN log AS old ON old.revision = log.previous
         WHERE log.revision > ?1 AND log.key >= ?2 AND log.key < ?3
         ORDER BY log.revision LIMIT ?4",
    )?;
    let mut rows = statement.query((to_sql(after), prefix, prefix_end(prefix), BATCH_EVENTS as i64))?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let event = event(row)?;
        bytes += event.weight();
        let through = event.revision();
        events.push(event);
        if events.len() == BATCH_EVENTS || bytes > BATCH_BYTES {
            return Ok(Chunk { events, through });
        }
    }
    Ok(Chunk { events, through: head })
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let key: Arc<str> = row.get_ref(0)?.as_str()?.into();
    let revision = from_sql(row.get(1)?);
    let previous = row.get::<_, Option<Vec<u8>>>(4)?.map(Bytes::from);
    Ok(match row.get::<_, Option<Vec<u8>>>(3)? {
        Some(value) => {
            let create_revision = from_sql(row.get(2)?);
            Event::Put {
                current: KeyValue { key, value: value.into(), create_revision, mod_revision: revision },
                previous,
            }
        }
        None => Event::Delete { key, revision, previous: previous.unwrap_or_default() },
    })
}

/// The first value after all texts that start with `prefix`: a text, or where there is none the empty blob,
/// which SQLite orders after every text. SQLite compares UTF-8 bytes, which is the order of code points.
fn prefix_end(prefix: &str) -> Value {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Value::Text(end);
        }
    }
    Value::Blob(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_text_that_does_not_start_with_it() {
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(prefix_end("/a/"), text("/a0"));
        assert_eq!(prefix_end("a\u{10ffff}"), text("b"));
        assert_eq!(prefix_end("\u{d7ff}"), text("\u{e000}"));
        assert_eq!(prefix_end(""), Value::Blob(vec![]));
        assert_eq!(prefix_end("\u{10ffff}"), Value::Blob(vec![]));
    }

    #[test]
    fn lists_are_one_range_of_the_index() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        for query in [LIST_FROM, LIST_AFTER] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let bound = ("/a/", prefix_end("/a/"), 10_i64);
            let steps = plan.query_map(bound, |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert_eq!(steps.len(), 2, "no sorting: {steps:?}");
            assert!(steps[0].contains("SEARCH live USING PRIMARY KEY (key>? AND key<?)"), "{steps:?}");
            assert!(steps[1].contains("SEARCH log USING INTEGER PRIMARY KEY"), "{steps:?}");
        }
    }
}
