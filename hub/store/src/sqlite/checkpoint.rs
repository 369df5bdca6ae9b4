//! The write-ahead log's size, and the thread that moves what it holds into the database file.
//!
//! In: pages that the writer has written. Most of them are moved while the writer goes on; for the stretch
//! written meanwhile the writer is held for a moment, or under steady load the log would never be empty, and
//! never start over. A writer that is faster than the disk's checkpoints waits for them, so the log is bounded
//! (a read that lasts long can still hold it open).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;

use super::file_lock::FileLock;
use super::schema::{PAGE_BYTES, Role, connect};
use super::thread::spawn;
use super::{SqliteOptions, failed};
use crate::StoreError;

/// Pages in the log, by the writer's estimate, after which it is checkpointed: 8 MiB.
pub(super) const CHECKPOINT_PAGES: usize = (8 << 20) / PAGE_BYTES;
/// And after which the writer waits for that: 24 MiB.
const MOST_PAGES: usize = 3 * CHECKPOINT_PAGES;
/// A checkpoint that takes longer does not hold up writes any further.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the writer and the checkpoint thread share. The lock is held during each transaction.
#[derive(Default)]
pub(super) struct Wal {
    pages: Mutex<usize>,
    drained: Condvar,
}

/// The writer's end.
pub(super) struct WalUse {
    wal: Arc<Wal>,
    grown: SyncSender<()>,
}

impl WalUse {
    /// Runs `transaction` with the checkpoint thread kept out; it returns about how many pages it wrote.
    pub fn write<T>(
        &self,
        transaction: impl FnOnce() -> rusqlite::Result<(T, usize)>,
    ) -> rusqlite::Result<T> {
        let mut pages = self.wal.pages.lock();
        if *pages >= MOST_PAGES {
            self.wal.drained.wait_for(&mut pages, CHECKPOINT_TIMEOUT);
        }
        let done = transaction();
        match &done {
            Ok((_, written)) => *pages += written,
            // It may be the log that had no room left: it starts over once all of it is in the file, however little was written since.
            Err(_) => *pages = (*pages).max(CHECKPOINT_PAGES),
        }
        if *pages >= CHECKPOINT_PAGES {
            // Full: it has been told already.
            let _ = self.grown.try_send(());
        }
        MutexGuard::unlock_fair(pages);
        done.map(|(done, _)| done)
    }
}

impl WalUse {
    /// Has what the log holds moved into the file, and waits for that, though not for ever: a read that lasts long may hold it open.
    pub fn drain(&self) {
        let mut pages = self.wal.pages.lock();
        *pages = (*pages).max(CHECKPOINT_PAGES);
        let _ = self.grown.try_send(());
        self.wal.drained.wait_for(&mut pages, CHECKPOINT_TIMEOUT);
    }
}

/// Starts the thread; it ends when the writer's end is gone.
pub(super) fn start(
    options: &SqliteOptions,
    lock: &Arc<FileLock>,
    running: &SyncSender<()>,
) -> Result<WalUse, StoreError> {
    let (grown, told) = sync_channel(1);
    let db = connect(options, Role::Checkpointer).map_err(|error| failed(&error))?;
    let wal = Arc::new(Wal::default());
    let (shared, lock, running) = (wal.clone(), lock.clone(), running.clone());
    let run = move || {
        run(&db, &shared, &told);
        drop(db);
        drop((lock, running));
    };
    spawn("store-checkpoint", run)?;
    Ok(WalUse { wal, grown })
}

fn run(db: &Connection, wal: &Wal, told: &Receiver<()>) {
    while told.recv().is_ok() {
        let first = passive(db);
        let mut pages = wal.pages.lock();
        if let Err(error) = first.and_then(|()| passive(db)) {
            tracing::warn!(%error, "a checkpoint failed; the log grows until one succeeds");
        }
        // After a failure as well: the next try comes when as much again was written.
        *pages = 0;
        wal.drained.notify_all();
    }
}

/// PASSIVE waits for nobody: a long read only leaves more for the next time.
fn passive(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
