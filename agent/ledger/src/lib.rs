//! What the site must still know after a power cut: desired state, cursor, outcomes, crash counters.
//!
//! In: changes of the session, outcomes of the reconciler. Out: entries, positions and counters, and whether what was written is on the
//! disk. Calls block for as long as SQLite does.
//!
//! One SQLite file with `synchronous=FULL`: what [`Ledger::commit`] returned from is on disk, and only then does
//! the session acknowledge it. What only saves work after a crash of the process (counters, outcomes)
//! is written without waiting for the disk: lost in a power cut, it is found out again. That the member may have been asked for a write
//! cannot be found out again: it is synced before, with the body where that is new. The file is readable by its owner only: it holds Secrets.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

mod attempts;
mod changes;
mod clusters;
mod copy;
mod entry;
mod fallback;
mod former_rows;
mod manifests;
mod meta;
mod outcome;
mod outcomes;
mod row;
mod schema;
mod told_statuses;
mod works;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::watch;

use self::changes::apply;
pub use self::copy::{Row, Snapshot};
pub use self::entry::{Entry, Outcome};
use self::fallback::Store;
pub use self::fallback::{LedgerHealth, run as keep_on_disk};
pub use self::former_rows::{former_key, work_of_row};
pub use self::manifests::parse_manifests;
pub use self::meta::HubPosition;
use self::meta::set_cursor;
pub use self::outcome::outcome;
use self::schema::{FORMAT, Trouble};
use karmada_session::session::Change;

/// A ledger that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite said so.
    #[error("the ledger cannot be read or written: is there room on the disk, and is --state-dir writable?")]
    Sqlite(#[from] rusqlite::Error),
    /// The file could not be made.
    #[error("the ledger's file cannot be created in --state-dir")]
    File(#[source] std::io::Error),
    /// A newer agent wrote it.
    #[error(
        "the ledger has format {0}, and this agent reads up to {newest}: start a newer agent, or move ledger.sqlite away, and the hub sends \
         everything again",
        newest = FORMAT + schema::AHEAD
    )]
    Newer(i64),
    /// Its file does not hold together.
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
}

impl LedgerError {
    /// What of the file it is about; `None` where it is no matter of the file.
    fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Sqlite(error) => Trouble::of(error),
            Self::File(_) => Some(Trouble::Disk),
            Self::Damaged(_) => Some(Trouble::Damaged),
            Self::Newer(_) => None,
        }
    }
}

/// Who hears of each write once it is committed, and whether it is synced.
struct Witness(Box<dyn Fn(bool) + Send + Sync>);

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    store: Mutex<Store>,
    /// Where its file is; `None` for one that is meant to be in memory.
    directory: Option<PathBuf>,
    /// The Works that were being worked on when the process before ended without a word.
    suspects: Vec<String>,
    /// Counts what was desired anew; who keeps a copy of the ledger follows it.
    desired: watch::Sender<u64>,
    documents: watch::Sender<u64>,
    health: watch::Sender<LedgerHealth>,
    witness: OnceLock<Witness>,
}

impl Ledger {
    /// Opens or makes `ledger.sqlite` in `directory`. Where the disk takes nothing, or the file is damaged, it goes on with what can be
    /// read: see [`Ledger::health`].
    ///
    /// # Errors
    /// [`LedgerError::Newer`]; or SQLite refuses it for a reason that is neither the disk nor damage, or gives no memory either.
    pub fn open(directory: &Path) -> Result<Self, LedgerError> {
        let (store, health) = Store::open(directory)?;
        if let Some(trouble) = &health.trouble {
            tracing::error!(trouble, "the ledger is in memory alone; what comes is not acknowledged");
        }
        Self::over(store, Some(directory.to_owned()), health)
    }

    /// A ledger that is gone with the process: for a member that is in memory too.
    ///
    /// # Errors
    /// SQLite gives no memory.
    pub fn in_memory() -> Result<Self, LedgerError> {
        Self::over(Store::sound(schema::in_memory()?), None, LedgerHealth::default())
    }

    fn over(store: Store, directory: Option<PathBuf>, health: LedgerHealth) -> Result<Self, LedgerError> {
        let ledger = Self {
            store: Mutex::new(store),
            directory,
            suspects: Vec::new(),
            desired: watch::Sender::new(0),
            documents: watch::Sender::new(0),
            health: watch::Sender::new(health),
            witness: OnceLock::new(),
        };
        let suspects = ledger.after_a_crash()?;
        Ok(Self { suspects, ..ledger })
    }

    /// Works on the connection in use; where the file fails, once more on what is in memory from then on.
    fn with<T>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<(T, bool), LedgerError> {
        let mut store = self.store.lock();
        let error = match work(&mut store.connection) {
            Ok(done) => return Ok((done, store.durable)),
            Err(error) => error,
        };
        let news = store.take_refuge(self.directory.as_deref(), error.into())?;
        let done = work(&mut store.connection)?;
        if news.relists > 0 {
            // Whatever the work said of it: rows before it are lost.
            set_cursor(&store.connection, 0)?;
        }
        self.health.send_modify(|health| {
            *health = LedgerHealth { trouble: news.trouble, relists: health.relists + news.relists };
        });
        Ok((done, store.durable))
    }

    fn read<T>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, LedgerError> {
        Ok(self.with(work)?.0)
    }

    /// Where it is, and each change of that.
    pub fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.health.subscribe()
    }

    /// Counts how often its cursor was given up: everything is to be asked for again.
    pub fn relists(&self) -> u64 {
        self.health.borrow().relists
    }

    /// Whether what was committed is on disk.
    pub fn is_durable(&self) -> bool {
        self.store.lock().durable
    }

    /// Its file grows by so many pages at most from now on, as on a disk that is almost full; without end, where none are given. For
    /// tests of what comes of that.
    #[doc(hidden)]
    pub fn bound_file(&self, pages: Option<u32>) {
        self.store.lock().bound_file(pages);
    }

    /// `hears` of each write that is committed from now on, once, and whether it is synced: for tests of what a process that ends there, or
    /// a machine that loses its power, leaves on the disk.
    #[doc(hidden)]
    pub fn witnessed_by(&self, hears: impl Fn(bool) + Send + Sync + 'static) {
        let _ = self.witness.set(Witness(Box::new(hears)));
    }

    /// A write is committed.
    fn wrote(&self, is_synced: bool) {
        if let Some(Witness(hears)) = self.witness.get() {
            hears(is_synced);
        }
    }

    /// Tries to write its file again, where it is in memory because of that.
    fn write_back(&self) {
        let Some(directory) = &self.directory else { return };
        let mut store = self.store.lock();
        if store.durable {
            return;
        }
        match store.write_back(directory) {
            Ok(()) => {
                tracing::info!("the ledger is on disk again");
                self.health.send_modify(|health| health.trouble = None);
            }
            Err(error) => tracing::debug!(%error, "writing the ledger"),
        }
    }

    /// Writes all of `changes` or none. True where they are on disk now: only then are they acknowledged.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written. None of `changes` is written then.
    pub fn commit(&self, changes: &[Change]) -> Result<bool, LedgerError> {
        Ok(self.commit_after(self.relists(), changes)?.unwrap_or(false))
    }

    /// The same of changes that follow on what was held when the cursor had been given up `relists` times. `None` where it was given up
    /// once more, before or by this very write: what they follow on is lost, and so is the cursor among them.
    ///
    /// # Errors
    /// As of [`Ledger::commit`].
    pub fn commit_after(&self, relists: u64, changes: &[Change]) -> Result<Option<bool>, LedgerError> {
        // Within the lock under which it is given up.
        let (is_written, durable) = self.with(|connection| {
            if self.relists() != relists {
                return Ok(false);
            }
            let transaction = connection.transaction()?;
            for change in changes {
                apply(&transaction, change)?;
            }
            transaction.commit().map(|()| true)
        })?;
        if !is_written {
            return Ok(None);
        }
        self.wrote(durable);
        let silent = |change: &Change| {
            matches!(change, Change::Listing | Change::Cursor(_) | Change::Timeline(_) | Change::Seal(_))
        };
        if changes.iter().any(|change| matches!(change, Change::Document { .. })) {
            self.documents.send_modify(|count| *count += 1);
        }
        if !changes.iter().all(silent) {
            self.desired.send_modify(|count| *count += 1);
        }
        Ok((self.relists() == relists).then_some(durable))
    }

    /// Sees each change of a document.
    pub fn documents(&self) -> watch::Receiver<u64> {
        self.documents.subscribe()
    }

    /// Sees each change of what is desired.
    pub fn desired(&self) -> watch::Receiver<u64> {
        self.desired.subscribe()
    }

    /// Runs `statement` for each of these, as [`Ledger::relaxed`] does.
    fn each(&self, keys: &[String], statement: &str) -> Result<(), LedgerError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.relaxed(|transaction| {
            for key in keys {
                transaction.prepare_cached(statement)?.execute([key])?;
            }
            Ok(())
        })
    }

    /// A transaction that survives a crash of the process and may be lost in a power cut.
    fn relaxed(&self, write: impl Fn(&Connection) -> Result<(), rusqlite::Error>) -> Result<(), LedgerError> {
        self.read(|connection| {
            connection.execute_batch("PRAGMA synchronous = NORMAL")?;
            let written = connection.transaction().and_then(|transaction| {
                write(&transaction)?;
                transaction.commit()
            });
            connection.execute_batch("PRAGMA synchronous = FULL")?;
            written
        })?;
        self.wrote(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
