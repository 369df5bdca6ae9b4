//! The file: its tables, how it is opened, checked and locked.
//!
//! - `log`: one row per write, by revision, with the value (NULL: a removal), the write that created the key
//!   and the write it replaced (0: none). The only place where values are, so each is written once.
//! - `live`: for each key that was live at the revision `indexed`, the revision of its row in `log`; for what was written since,
//!   see [`super::recent`].
//! - `meta`: numbers by name: `epoch`, `indexed`, `compacted` (events up to here are forgotten; never above `indexed`), `swept`
//!   (their rows are gone up to here), `live` (the sum of the checksums in `live`, which so lacks no row).
//!
//! Every row has a checksum over all of it, `sum`. In layout 1 `live` had every write; 1 and 2 had no checksums, which are made
//! when such a file is opened.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::acknowledged::{self, Acknowledged, Mark, Recorded};
use super::checked::{LOG, LogRow, damage, damage_of, live_row, live_sum, meta_sum};
use super::{SqliteOptions, from_sql, rewrite, salvage};
use crate::{Revision, StoreError};

/// Marks the file as ours ("kmst"); other SQLite files are refused.
const APPLICATION_ID: i32 = 0x6b6d_7374;
/// Not 3: no single flipped bit is to turn it into one that has no checksums.
const VERSION: i32 = 4;
/// Of a new file. Seven objects of 2 KB fill one: a list reads fewer of them than of SQLite's own 4 KiB, and the kernel is called less
/// often. A file made with another size keeps it.
pub(super) const PAGE_BYTES: usize = 16 << 10;

pub(super) const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL, sum INTEGER) WITHOUT ROWID;
CREATE TABLE log (
  revision INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  created INTEGER NOT NULL,
  previous INTEGER NOT NULL,
  value BLOB,
  sum INTEGER
);
CREATE TABLE live (
  key TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  created INTEGER NOT NULL,
  sum INTEGER
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
    /// The sum of the checksums in `live`.
    pub live: u64,
}

/// A file that is ours, open for writing.
pub(super) struct Opened {
    pub db: Connection,
    pub meta: Meta,
    pub lock: Arc<FileLock>,
    pub acknowledged: Acknowledged,
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
    let (db, meta) = match inspect(options) {
        Err(Refusal::Lost(why)) if options.accept_data_loss => {
            tracing::warn!(file = %path.display(), why, "going on without what is lost or damaged");
            salvage::rebuild(options).map_err(|e| named(&e))?;
            inspect(options)
        }
        inspected => inspected,
    }
    .map_err(|refusal| named(&refusal))?;
    if options.synchronous_full {
        sync_folder(path).map_err(|e| named(&e))?;
        // Of what a killed hub wrote and did not sync, nothing is to be shown that a power cut could still take away.
        sync_log(path).map_err(|e| named(&e))?;
    }
    if !options.overwrite_deleted {
        rewrite::forget_cleaned(&db).map_err(|e| named(&e))?;
    }
    let acknowledged = Acknowledged::begin(path, Mark::of(&meta), options.synchronous_full)
        .map_err(|e| named(&format!("cannot write {}: {e}", acknowledged::beside(path).display())))?;
    Ok(Opened { db, meta, lock, acknowledged })
}

/// Opens the file and holds it against what was acknowledged.
fn inspect(options: &SqliteOptions) -> Result<(Connection, Meta), Refusal> {
    let told = acknowledged::read(&options.path)
        .map_err(|error| Refusal::Foreign(format!("cannot read what was acknowledged: {error}")))?;
    let db = connect(options, Role::Writer)?;
    let is_of_this_layout = prepare(&db, options, &told)?;
    let meta = read_meta(&db)?;
    verify_live(&db, &meta)?;
    if options.accept_data_loss {
        verify_log(&db)?;
    }
    let beside = acknowledged::beside(&options.path);
    match told {
        Recorded::Acknowledged(mark) if mark.epoch > meta.epoch || mark.revision > meta.head => {
            Err(Refusal::behind(&options.path, mark, Mark::of(&meta)))
        }
        Recorded::Garbage => {
            Err(Refusal::Lost(format!("{} is damaged, which tells what was acknowledged", beside.display())))
        }
        Recorded::Nothing if is_of_this_layout && meta.head > 0 => Err(Refusal::Lost(format!(
            "{} is missing, which tells what was acknowledged; without it this is a copy of unknown age",
            beside.display()
        ))),
        Recorded::Nothing | Recorded::Acknowledged(_) => Ok((db, meta)),
    }
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
    db.pragma_update(None, "cell_size_check", true)?;
    if options.overwrite_deleted {
        db.pragma_update(None, "secure_delete", "ON")?;
    }
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
        let mut statement = db.prepare_cached("SELECT value, sum FROM meta WHERE name = ?1")?;
        let row = statement.query_row([name], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        });
        match row.optional()? {
            Some((value, sum)) if sum == meta_sum(name, value) => Ok(value),
            _ => Err(damage(format!("the number {name:?} of the table meta"))),
        }
    };
    let compacted = number("compacted")?;
    let (epoch, head, indexed) = (number("epoch")?, read_head(db, compacted)?, number("indexed")?);
    Ok(Meta { epoch, head, indexed, compacted, swept: number("swept")?, live: number("live")? })
}

/// Whether the index of keys is whole: each row as it was written, and none missing.
fn verify_live(db: &Connection, meta: &Meta) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT key, revision, created, sum FROM live")?;
    let mut rows = statement.query([])?;
    let mut sum = 0_u64;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(live_row(row)?.2);
    }
    if sum == meta.live {
        Ok(())
    } else {
        Err(damage("the index of keys, which lacks some or has old ones,".into()))
    }
}

/// Whether each row of the log is as it was written, and each that a live key needs is there.
fn verify_log(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare(LOG)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        LogRow::read(row)?;
    }
    let lost: i64 = db.query_row(
        "SELECT count(*) FROM live LEFT JOIN log ON log.revision = live.revision
         WHERE log.revision IS NULL OR log.key <> live.key",
        [],
        |row| row.get(0),
    )?;
    if lost == 0 { Ok(()) } else { Err(damage(format!("the log of writes, which lacks {lost} live keys,"))) }
}

/// The last revision. A compacted removal leaves no row, so the log alone cannot tell.
pub(super) fn read_head(db: &Connection, compacted: Revision) -> rusqlite::Result<Revision> {
    let mut statement = db.prepare_cached("SELECT max(revision) FROM log")?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0))?;
    Ok(last.map_or(0, from_sql).max(compacted))
}

/// Sets one of the `meta` numbers.
pub(super) fn write_meta(db: &Connection, name: &str, value: u64) -> rusqlite::Result<()> {
    let mut statement =
        db.prepare_cached("INSERT OR REPLACE INTO meta (name, value, sum) VALUES (?1, ?2, ?3)")?;
    statement.execute((name, value.cast_signed(), meta_sum(name, value).cast_signed()))?;
    Ok(())
}

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// It is not one that this program can do anything with.
    #[error("{0}")]
    Foreign(String),
    /// Something of it is lost or damaged.
    #[error("{0}; {advice}", advice = super::ADVICE)]
    Lost(String),
    /// It cannot be read or written.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
}

impl Refusal {
    fn behind(path: &Path, acknowledged: Mark, there: Mark) -> Refusal {
        Refusal::Lost(format!(
            "revision {} of epoch {} was acknowledged, and the file ends at revision {} of epoch {}: what came between is lost, \
             either with the end of {}-wal or because this is an older copy",
            acknowledged.revision,
            acknowledged.epoch,
            there.revision,
            there.epoch,
            path.display()
        ))
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        match damage_of(&error) {
            Some(StoreError::Damaged { what }) => Refusal::Lost(format!("{what} is damaged on disk")),
            _ => Refusal::Sqlite(error),
        }
    }
}

/// Creates what is empty, takes over what is older. True: the file has had this layout before.
fn prepare(db: &Connection, options: &SqliteOptions, told: &Recorded) -> Result<bool, Refusal> {
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && tables == 0 {
        let fresh = Mark { epoch: options.first_epoch, revision: 0 };
        return match *told {
            Recorded::Acknowledged(mark) if mark.revision > 0 => {
                Err(Refusal::behind(&options.path, mark, Mark::default()))
            }
            _ => Ok(first_acknowledge(options, fresh, || create(db, options)).map(|()| false)?),
        };
    }
    if application != APPLICATION_ID {
        return Err(Refusal::Foreign("is a SQLite file of another program, not a hub's store".into()));
    }
    let version: i32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !matches!(version, 1 | 2 | VERSION) {
        return Err(Refusal::Foreign(format!("has layout version {version}, this program knows {VERSION}")));
    }
    check(db, options)?;
    if version < VERSION {
        take_over(db, options, version)?;
    }
    Ok(version == VERSION)
}

/// Writes what is acknowledged before `change` makes a file that must have that beside it.
fn first_acknowledge(
    options: &SqliteOptions,
    mark: Mark,
    change: impl FnOnce() -> rusqlite::Result<()>,
) -> Result<(), Refusal> {
    Acknowledged::begin(&options.path, mark, options.synchronous_full)
        .map_err(|error| Refusal::Foreign(format!("cannot write what is acknowledged: {error}")))?;
    Ok(change()?)
}

/// From layout 1 or 2, at once or not at all.
fn take_over(db: &Connection, options: &SqliteOptions, version: i32) -> Result<(), Refusal> {
    let transaction = db.unchecked_transaction()?;
    let number = |name: &str| -> rusqlite::Result<u64> {
        let found = transaction.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0));
        Ok(found.optional()?.map_or(0, from_sql))
    };
    let (epoch, compacted, swept) = (number("epoch")?, number("compacted")?, number("swept")?);
    let head = read_head(&transaction, compacted)?;
    let indexed = if version == 1 { head } else { number("indexed")? };
    let mark = Mark { epoch, revision: head };
    first_acknowledge(options, mark, || {
        let columns =
            ["log", "live", "meta"].map(|table| format!("ALTER TABLE {table} ADD COLUMN sum INTEGER;"));
        transaction.execute_batch(&columns.concat())?;
        sum_log(&transaction)?;
        let live = sum_live(&transaction)?;
        let numbers = [
            ("epoch", epoch),
            ("indexed", indexed),
            ("compacted", compacted),
            ("swept", swept),
            ("live", live),
        ];
        numbers.into_iter().try_for_each(|(name, value)| write_meta(&transaction, name, value))?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()
    })
}

/// Gives the rows of a log without checksums theirs.
fn sum_log(db: &Connection) -> rusqlite::Result<()> {
    let mut next = db.prepare(
        "SELECT revision, key, created, previous, value FROM log WHERE revision > ?1 ORDER BY revision LIMIT 1",
    )?;
    let mut set = db.prepare("UPDATE log SET sum = ?2 WHERE revision = ?1")?;
    let mut last = 0_i64;
    loop {
        let found = next.query_row([last], |row| {
            let value = row.get_ref(4)?.as_blob_or_null()?;
            let (created, previous) = (from_sql(row.get(2)?), from_sql(row.get(3)?));
            let row_id: i64 = row.get(0)?;
            let key = row.get_ref(1)?.as_str()?;
            Ok((row_id, LogRow { revision: from_sql(row_id), key, created, previous, value }.sum()))
        });
        let Some((revision, sum)) = found.optional()? else { return Ok(()) };
        set.execute((revision, sum.cast_signed()))?;
        last = revision;
    }
}

/// The same for `live`. Returns the sum of them.
fn sum_live(db: &Connection) -> rusqlite::Result<u64> {
    let mut next =
        db.prepare("SELECT key, revision, created FROM live WHERE key > ?1 ORDER BY key LIMIT 1")?;
    let mut set = db.prepare("UPDATE live SET sum = ?2 WHERE key = ?1")?;
    let (mut last, mut total) = (String::new(), 0_u64);
    loop {
        let found = next.query_row([&last], |row| {
            let key: String = row.get(0)?;
            let sum = live_sum(&key, from_sql(row.get(1)?), from_sql(row.get(2)?));
            Ok((key, sum))
        });
        let Some((key, sum)) = found.optional()? else { return Ok(total) };
        set.execute((&key, sum.cast_signed()))?;
        total = total.wrapping_add(sum);
        last = key;
    }
}

/// Makes the tables of an empty file.
pub(super) fn create(db: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    db.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = db.unchecked_transaction()?;
    transaction.execute_batch(TABLES)?;
    write_meta(&transaction, "epoch", options.first_epoch)?;
    for name in ["indexed", "compacted", "swept", "live"] {
        write_meta(&transaction, name, 0)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

fn check(db: &Connection, options: &SqliteOptions) -> Result<(), Refusal> {
    let size = std::fs::metadata(&options.path).map_or(0, |file| file.len());
    if size > options.check_up_to {
        return Ok(());
    }
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Refusal::Lost(format!("its structure is damaged: {verdict}"))) }
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

/// Brings what lies in the write-ahead log to the disk.
fn sync_log(path: &Path) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    match File::open(PathBuf::from(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        log => log?.sync_data(),
    }
}

/// A new file is safe only when its folder's entry is.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
