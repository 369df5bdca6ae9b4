//! The file: its tables, how it is opened, checked and locked.
//!
//! - `log`: one row per write, by revision, with the value (NULL: a removal), the write that created the key
//!   and the write it replaced (0: none). The only place where values are, so each is written once.
//! - `live`: for each key that was live at the revision `indexed`, the revision of its row in `log`; for what was written since,
//!   see [`super::recent`].
//! - `meta`: numbers by name: `epoch`, `indexed`, `compacted` (events up to here are forgotten; never above `indexed`), `swept`
//!   (their rows are gone up to here).
//!
//! In layout 1 `live` had every write.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{SqliteOptions, from_sql, to_sql};
use crate::{Revision, StoreError};

/// Marks the file as ours ("kmst"); other SQLite files are refused.
const APPLICATION_ID: i32 = 0x6b6d_7374;
const VERSION: i32 = 2;
/// Of a new file. Seven objects of 2 KB fill one: a list reads fewer of them than of SQLite's own 4 KiB, and the kernel is called less
/// often. A file made with another size keeps it.
pub(super) const PAGE_BYTES: usize = 16 << 10;

pub(super) const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
  revision INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  created INTEGER NOT NULL,
  previous INTEGER NOT NULL,
  value BLOB
);
CREATE TABLE live (
  key TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  created INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The numbers that say where a store stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub epoch: u64,
    pub head: Revision,
    pub indexed: Revision,
    pub compacted: Revision,
    pub swept: Revision,
}

/// A file that is ours, open for writing.
pub(super) struct Opened {
    pub db: Connection,
    pub meta: Meta,
    pub lock: Arc<FileLock>,
}

/// Keeps other processes away for as long as any of our threads holds it. The kernel lets go of it however
/// the process ends.
pub(super) struct FileLock {
    _file: File,
}

/// What a connection is for decides its page cache, in KiB: together they stay far below the hub's budget. A reader goes through pages
/// once, and what the writer looks up again are the inner pages of its trees.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Writer,
    Reader,
    Checkpointer,
}

/// Locks, opens or creates, checks.
pub(super) fn open(options: &SqliteOptions) -> Result<Opened, StoreError> {
    let path = &options.path;
    let lock = lock(path)?;
    let named = |error: &dyn std::fmt::Display| StoreError::Backend(format!("{}: {error}", path.display()));
    // Created before SQLite sees it, for the mode: the file holds every Secret of the fleet.
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(|e| named(&e))?;
    let db = connect(options, Role::Writer).map_err(|e| named(&e))?;
    prepare(&db, options).map_err(|e| match e {
        Refusal::Foreign(why) => named(&why),
        Refusal::Sqlite(error) => named(&error),
    })?;
    sync_folder(path).map_err(|e| named(&e))?;
    let meta = read_meta(&db).map_err(|e| named(&e))?;
    Ok(Opened { db, meta, lock })
}

/// A connection set up for its role. The file must exist.
pub(super) fn connect(options: &SqliteOptions, role: Role) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&options.path, flags)?;
    db.busy_timeout(Duration::from_secs(5))?;
    let cache_kib = match role {
        Role::Writer => 1024,
        Role::Reader => 256,
        Role::Checkpointer => 64,
    };
    db.pragma_update(None, "cache_size", -cache_kib)?;
    db.pragma_update(None, "synchronous", if options.synchronous_full { "FULL" } else { "NORMAL" })?;
    // Checkpoints have a thread of their own: inside a commit they cost 30 to 60 ms.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", 16 << 20)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Else a query with a range is planned again at each new bound, which costs as much as reading ten rows.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if matches!(role, Role::Reader) {
        db.pragma_update(None, "query_only", true)?;
    }
    Ok(db)
}

/// Where the store stands, by what is in the file.
pub(super) fn read_meta(db: &Connection) -> rusqlite::Result<Meta> {
    let number = |name: &str| -> rusqlite::Result<u64> {
        let mut statement = db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        Ok(statement.query_row([name], |row| row.get(0)).optional()?.map_or(0, from_sql))
    };
    let compacted = number("compacted")?;
    let (epoch, head, indexed) = (number("epoch")?, read_head(db, compacted)?, number("indexed")?);
    Ok(Meta { epoch, head, indexed, compacted, swept: number("swept")? })
}

/// The last revision. A compacted removal leaves no row, so the log alone cannot tell.
pub(super) fn read_head(db: &Connection, compacted: Revision) -> rusqlite::Result<Revision> {
    let mut statement = db.prepare_cached("SELECT max(revision) FROM log")?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0))?;
    Ok(last.map_or(0, from_sql).max(compacted))
}

/// Sets one of the `meta` numbers.
pub(super) fn write_meta(db: &Connection, name: &str, value: u64) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
    statement.execute((name, to_sql(value)))?;
    Ok(())
}

enum Refusal {
    Foreign(String),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Refusal::Sqlite(error)
    }
}

fn prepare(db: &Connection, options: &SqliteOptions) -> Result<(), Refusal> {
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && tables == 0 {
        return Ok(create(db, options)?);
    }
    if application != APPLICATION_ID {
        return Err(Refusal::Foreign("is a SQLite file of another program, not a hub's store".into()));
    }
    let version: i32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !(1..=VERSION).contains(&version) {
        return Err(Refusal::Foreign(format!("has layout version {version}, this program knows {VERSION}")));
    }
    check(db, options)?;
    if version == 1 {
        upgrade(db)?;
    }
    Ok(())
}

/// From layout 1, at once or not at all.
fn upgrade(db: &Connection) -> rusqlite::Result<()> {
    let transaction = db.unchecked_transaction()?;
    let Meta { head, .. } = read_meta(&transaction)?;
    write_meta(&transaction, "indexed", head)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

fn create(db: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    db.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    let epoch = to_sql(options.first_epoch);
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} INSERT INTO meta (name, value) VALUES ('epoch', {epoch});
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
    ))
}

fn check(db: &Connection, options: &SqliteOptions) -> Result<(), Refusal> {
    let size = std::fs::metadata(&options.path).map_or(0, |file| file.len());
    if size > options.check_up_to {
        return Ok(());
    }
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Refusal::Foreign(format!("is damaged: {verdict}"))) }
}

fn lock(path: &Path) -> Result<Arc<FileLock>, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let refused = |why: String| StoreError::Backend(format!("{}: {why}", path.display()));
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&name)
        .map_err(|error| refused(format!("cannot open the lock file {}: {error}", name.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(Arc::new(FileLock { _file: file })),
        Err(TryLockError::WouldBlock) => {
            Err(refused("is in use by another process; only one hub may use it".into()))
        }
        Err(TryLockError::Error(error)) => Err(refused(format!("cannot lock: {error}"))),
    }
}

/// A new file is safe only when its folder's entry is.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
