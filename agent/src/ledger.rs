//! What the site must still know after a power cut: desired state, cursor, outcomes, crash counters.
//!
//! One SQLite file with `synchronous=FULL`: what [`Ledger::commit`] returned from is on disk, and only then does
//! the session acknowledge it. What only saves work after a crash of the process (counters, outcomes)
//! is written without waiting for the disk: lost in a power cut, it is found out again. That the member may have been asked for a write
//! cannot be found out again: it is synced before, with the body where that is new. The file is readable by its owner only: it holds Secrets.

mod changes;
mod clusters;
mod copy;
mod fallback;
mod numbers;
mod row;
mod schema;
mod told_statuses;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use karmada_proto::v1::{Applied, Seen};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use self::changes::apply;
pub use self::copy::{Row, Snapshot};
use self::fallback::Store;
pub use self::fallback::{LedgerHealth, run as keep_on_disk};
pub use self::numbers::HubPosition;
use self::numbers::{FORMER_CURSOR, SEAL, document, set_cursor, set_number};
use self::row::{COLUMNS, HELD, NOTHING_COMES, TO_BE_WRITTEN, UNANSWERED, entry_of, former_text, held_of};
use self::schema::{FORMAT, Trouble};
use crate::member::ObjectId;
use crate::session::{Change, HeldWork, Phase};

/// Bytes of a document's hash.
const DOCUMENT_HASH: usize = 16;

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
    fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Sqlite(error) => Trouble::of(error),
            Self::File(_) => Some(Trouble::Disk),
            Self::Damaged(_) => Some(Trouble::Damaged),
            Self::Newer(_) => None,
        }
    }
}

/// One Work as the ledger holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The Work's uid.
    pub uid: String,
    /// The hub's revision.
    pub revision: u64,
    /// The hash of `body`.
    pub hash: Bytes,
    /// `{"manifests":[…]}`.
    pub body: Bytes,
    /// Leave the member as it is.
    pub suspended: bool,
    /// Strip our marks instead of deleting.
    pub preserve: bool,
    /// How far its life has come.
    pub phase: Phase,
    /// How often the agent ended while it worked on this Work and no other.
    pub crashes: u32,
    /// The last outcome, and whether it is about this very body.
    pub applied: Option<(Applied, bool)>,
    /// Whether the member ever took an object of it, in whichever body.
    pub placed: bool,
    /// The Work's generation; zero where the hub did not say.
    pub generation: u64,
    /// The mark of a person's last request to try again what was put aside.
    pub retry: String,
    /// Of each manifest, the mark of the agent's last write that its object bore when the last outcome came: see
    /// [`crate::reconcile::body::written`]. Empty where that is not known.
    pub written: Vec<u64>,
    /// A write of it was begun of which it is not known whether the member carries it out.
    pub unanswered: bool,
    /// Objects that bodies before named and this one does not, as far as they may still be in the member.
    pub former: Vec<ObjectId>,
}

/// An application that ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The Work.
    pub key: String,
    /// Of the body that was applied.
    pub hash: Bytes,
    /// What came of it.
    pub applied: Applied,
    /// The member took at least one object.
    pub placed: bool,
    /// As in [`Entry::written`].
    pub written: Vec<u64>,
    /// As in [`Entry::unanswered`].
    pub unanswered: bool,
}

impl Entry {
    /// Nothing of it can be in the member: every application came to its end, and none placed anything.
    pub fn is_nowhere(&self) -> bool {
        !self.may_be_placed()
    }

    /// An object of it may be in the member: one is, or the member was asked.
    fn may_be_placed(&self) -> bool {
        self.placed || self.unanswered
    }

    /// No Work of the hub's: objects ([`Entry::former`]) that were found in the member with the marks of one that nobody holds. A Work
    /// of the hub's has a uid.
    pub fn is_stray(&self) -> bool {
        self.uid.is_empty() && self.phase == Phase::Desired
    }

    /// This body was applied, and successfully.
    pub fn is_applied(&self) -> bool {
        matches!(&self.applied, Some((applied, true)) if applied.ok)
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

    /// Epoch and cursor; zeros where nothing was ever held.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn position(&self) -> Result<(u64, u64), LedgerError> {
        Ok((self.number("epoch")?.unwrap_or(0) as u64, self.number("cursor")?.unwrap_or(0) as u64))
    }

    /// The hub's start that told the cursor; zero where none was told.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn timeline(&self) -> Result<u64, LedgerError> {
        Ok(self.number("timeline")?.unwrap_or(0) as u64)
    }

    /// Where the cursor was before the listing that is unfinished; zero where none is.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn former_cursor(&self) -> Result<u64, LedgerError> {
        Ok(self.number(FORMER_CURSOR)?.unwrap_or(0) as u64)
    }

    /// What is held beyond the cursor, by the hub's starts that told it.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn seen(&self) -> Result<Vec<Seen>, LedgerError> {
        self.read(|connection| numbers::seen(connection))
    }

    /// The hub's proof of the epoch; empty where there is none.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn epoch_seal(&self) -> Result<Bytes, LedgerError> {
        let seal: Option<Vec<u8>> = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            query.query_row([SEAL], |row| row.get(0)).optional()
        })?;
        Ok(seal.unwrap_or_default().into())
    }

    /// A document, with its hash, where one is held.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn document(&self, table: u32) -> Result<Option<(Bytes, Bytes)>, LedgerError> {
        let kept: Option<Vec<u8>> = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            query.query_row([document(table)], |row| row.get(0)).optional()
        })?;
        let kept = kept.map(Bytes::from).filter(|kept| kept.len() >= DOCUMENT_HASH);
        Ok(kept.map(|kept| (kept.slice(..DOCUMENT_HASH), kept.slice(DOCUMENT_HASH..))))
    }

    /// A number kept by name.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn number(&self, key: &str) -> Result<Option<i64>, LedgerError> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            query.query_row([key], |row| row.get(0)).optional()
        })
    }

    /// Keeps a number by name; writes only where it differs.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn set_number(&self, key: &str, value: i64) -> Result<(), LedgerError> {
        if self.number(key)? != Some(value) {
            self.read(|connection| set_number(connection, key, value))?;
            self.wrote(true);
        }
        Ok(())
    }

    /// What a session must know of each Work.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn held(&self) -> Result<BTreeMap<String, HeldWork>, LedgerError> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(HELD)?;
            let rows = query.query_map([], held_of)?;
            rows.collect()
        })
    }

    /// The keys of all Works.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn keys(&self) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT key FROM works ORDER BY key")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect()
        })
    }

    /// One Work.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn entry(&self, key: &str) -> Result<Option<Entry>, LedgerError> {
        let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
        self.read(|connection| {
            let mut query = connection.prepare_cached(&select)?;
            query.query_row([key], entry_of).optional()
        })
    }

    /// The body of a Work, where it is the one of this hash and can be read.
    pub fn body(&self, key: &str, hash: &[u8]) -> Option<Bytes> {
        let entry = self.entry(key).ok().flatten()?;
        (entry.hash == hash).then_some(entry.body)
    }

    // -------------------------------------------------------------------------------- what is under way

    /// The Works that were being worked on when the process before ended without a word.
    pub fn suspects(&self) -> &[String] {
        &self.suspects
    }

    /// What was under way when the process before ended may have ended it. It counts against a Work that was alone; of several,
    /// nobody knows which it was.
    fn after_a_crash(&self) -> Result<Vec<String>, LedgerError> {
        // How far the process before came with what was next, nobody knows.
        self.relaxed(|connection| {
            let next = "UPDATE works SET unanswered = ?1 WHERE unanswered = ?2";
            connection.execute(next, [UNANSWERED, TO_BE_WRITTEN]).map(drop)
        })?;
        let suspects: Vec<String> = self.read(|connection| {
            let mut query = connection.prepare("SELECT key FROM works WHERE attempts > 0 ORDER BY key")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect()
        })?;
        if !suspects.is_empty() {
            let counts = i64::from(suspects.len() == 1);
            tracing::warn!(works = ?suspects, "the process before ended while it worked on these");
            self.relaxed(|connection| {
                let undo =
                    "UPDATE works SET attempts = 0, placed = 1, crashes = crashes + ?1 WHERE attempts > 0";
                connection.execute(undo, [counts]).map(drop)
            })?;
        }
        Ok(suspects)
    }

    /// Another process worked with the ledger until now: what it had under way counts as at a start. Out: the suspects.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn after_another(&self) -> Result<Vec<String>, LedgerError> {
        self.after_a_crash()
    }

    /// Work on these begins: said before it begins. The member may be asked to write what is desired, and neither the process nor the
    /// machine may be there any more when it does. True where that was synced: that a write is next is on disk already with a new body
    /// and after a failure; of what was applied, one sync says it for all that begin together.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn begins(&self, keys: &[String]) -> Result<bool, LedgerError> {
        if keys.is_empty() {
            return Ok(false);
        }
        let begin = |connection: &Connection| {
            for key in keys {
                let begin = "UPDATE works SET attempts = 1, unanswered = CASE phase WHEN 0 THEN ?2 ELSE unanswered END WHERE key = ?1";
                connection.prepare_cached(begin)?.execute(params![key, UNANSWERED])?;
            }
            Ok(())
        };
        if self.all_are_to_be_written(keys)? {
            return self.relaxed(begin).map(|()| false);
        }
        self.read(|connection| {
            let transaction = connection.transaction()?;
            begin(&transaction)?;
            transaction.commit()
        })?;
        self.wrote(true);
        Ok(true)
    }

    /// Whether it is on disk of each of these that something may come of a write, as far as one is desired.
    fn all_are_to_be_written(&self, keys: &[String]) -> Result<bool, LedgerError> {
        self.read(|connection| {
            let news = "SELECT 1 FROM works WHERE key = ?1 AND phase = 0 AND unanswered = ?2";
            let mut news = connection.prepare_cached(news)?;
            let mut is_known =
                |key: &String| news.exists(params![key, NOTHING_COMES]).map(|is_news| !is_news);
            keys.iter().try_fold(true, |all, key| Ok(all && is_known(key)?))
        })
    }

    /// Work on this one ended, whatever came of it; `unanswered` as in [`Entry::unanswered`], `next`: a write of it is to be tried again.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn came_back(&self, key: &str, unanswered: bool, next: bool) -> Result<(), LedgerError> {
        let open = still_open(unanswered, next);
        self.relaxed(|transaction| {
            let end = "UPDATE works SET attempts = 0, crashes = 0, unanswered = ?2
                 WHERE key = ?1 AND (attempts > 0 OR crashes > 0 OR unanswered <> ?2)";
            transaction.prepare_cached(end)?.execute(params![key, open]).map(drop)
        })
    }

    /// Objects that earlier bodies of this Work named, and the one of `hash` does not, are gone from the member.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn former_removed(&self, key: &str, hash: &Bytes) -> Result<(), LedgerError> {
        self.relaxed(|transaction| {
            let forget = "UPDATE works SET former = '' WHERE key = ?1 AND hash = ?2";
            transaction.prepare_cached(forget)?.execute(params![key, hash.as_ref()]).map(drop)
        })
    }

    /// The member has `objects` with the marks of Work `key`. Where no such Work is held it is from now on, by name alone: suspended and
    /// with nothing to apply, so that the agent touches them only where the hub says what is to become of that Work. True where that is news.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn found(&self, key: &str, objects: &[ObjectId]) -> Result<bool, LedgerError> {
        let (news, _) = self.with(|connection| {
            let transaction = connection.transaction()?;
            let news = changes::found(&transaction, key, objects)?;
            transaction.commit().map(|()| news)
        })?;
        self.wrote(true);
        if news {
            self.desired.send_modify(|count| *count += 1);
        }
        Ok(news)
    }

    /// `object`, which the row `key` notes as found, is none of it any more; a row that notes nothing more is done with. True where that
    /// is news.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn lost(&self, key: &str, object: &ObjectId) -> Result<bool, LedgerError> {
        let is_it = |id: &ObjectId| id.unversioned() == object.unversioned();
        let Some(entry) = self.entry(key)?.filter(|entry| entry.is_stray() && entry.former.iter().any(is_it))
        else {
            return Ok(false);
        };
        let left: Vec<ObjectId> = entry.former.into_iter().filter(|id| !is_it(id)).collect();
        self.relaxed(|connection| {
            let lose =
                "UPDATE works SET former = ?2, phase = CASE ?2 WHEN '' THEN 2 ELSE phase END WHERE key = ?1";
            connection.prepare_cached(lose)?.execute(params![key, former_text(&left)]).map(drop)
        })?;
        Ok(true)
    }

    /// Nothing comes any more of what these had begun.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn settled(&self, keys: &[String]) -> Result<(), LedgerError> {
        let settle = "UPDATE works SET unanswered = 0 WHERE key = ?1 AND unanswered <> 0 AND attempts = 0";
        self.each(keys, settle)
    }

    /// The member took an object of this one, for a body that is no longer the one to apply.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn placed(&self, key: &str) -> Result<(), LedgerError> {
        self.each(&[key.to_owned()], "UPDATE works SET placed = 1 WHERE key = ?1 AND placed = 0")
    }

    /// Working on this one would have ended the process, had it not been caught.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn panicked(&self, key: &str) -> Result<(), LedgerError> {
        let count = "UPDATE works SET attempts = 0, placed = 1, crashes = crashes + 1 WHERE key = ?1";
        self.each(&[key.to_owned()], count)
    }

    /// The process ends on purpose: what is under way is no crash, though it may have placed something.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn stops(&self) -> Result<(), LedgerError> {
        self.relaxed(|connection| {
            connection.execute("UPDATE works SET attempts = 0, placed = 1 WHERE attempts > 0", [])?;
            // What was not begun is not under way.
            let not_begun = "UPDATE works SET unanswered = ?1 WHERE unanswered = ?2";
            connection.execute(not_begun, [NOTHING_COMES, TO_BE_WRITTEN]).map(drop)
        })
    }

    /// The objects of these Works are gone from the member.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn removed(&self, keys: &[String]) -> Result<(), LedgerError> {
        self.each(keys, "UPDATE works SET phase = 2, attempts = 0, crashes = 0, unanswered = 0, former = '' WHERE key = ?1 AND phase = 1")
    }

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

    /// Applications that ended.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn ended(&self, outcomes: &[Outcome]) -> Result<(), LedgerError> {
        if outcomes.is_empty() {
            return Ok(());
        }
        self.relaxed(|transaction| {
            for Outcome { key, hash, applied, placed, written, unanswered } in outcomes {
                transaction
                    .prepare_cached(
                        "UPDATE works SET attempts = 0, crashes = 0, applied_hash = ?2, applied_ok = ?3,
                            applied_message = ?4, placed = max(placed, ?5), written = ?6, unanswered = ?7
                         WHERE key = ?1",
                    )?
                    .execute(params![
                        key,
                        hash.as_ref(),
                        applied.ok,
                        applied.message,
                        placed,
                        written_bytes(written),
                        still_open(*unanswered, !applied.ok)
                    ])?;
            }
            Ok(())
        })
    }
}

/// What `unanswered` is after an application ended.
fn still_open(unanswered: bool, next: bool) -> i64 {
    match (unanswered, next) {
        (true, _) => UNANSWERED,
        (false, true) => TO_BE_WRITTEN,
        (false, false) => NOTHING_COMES,
    }
}

fn written_bytes(marks: &[u64]) -> Vec<u8> {
    marks.iter().flat_map(|mark| mark.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests;
