//! The ledger's file: its format, and how one is opened that an older or a newer agent wrote, or that is damaged.
//!
//! In: the state directory, or a file that is damaged. Out: an opened and checked connection, an empty one in memory, what could be saved;
//! a format that is too new is refused.
//!
//! The rule of the format: columns are only ever added, each with a default that stands for "not known", and a column keeps its
//! meaning. So an agent reads what newer ones wrote, up to [`AHEAD`] formats on, writes into the columns that it knows, and leaves the
//! format's number as it is.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode};

use super::LedgerError;
use super::meta::{HubPosition, cluster_names, set_cluster_names, set_number};
use super::row::{COLUMNS, entry_of};

/// The format that this agent writes.
pub(super) const FORMAT: i64 = 8;
/// Formats newer than its own that an agent reads.
pub(super) const AHEAD: i64 = 3;
/// Damaged ledgers that are kept for a person to look at.
const KEPT: usize = 2;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS works (
    key TEXT PRIMARY KEY,
    uid TEXT NOT NULL,
    revision INTEGER NOT NULL,
    hash BLOB NOT NULL,
    encoding INTEGER NOT NULL,
    decoded_size INTEGER NOT NULL,
    body BLOB NOT NULL,
    suspended INTEGER NOT NULL,
    preserve INTEGER NOT NULL,
    phase INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    applied_hash BLOB,
    applied_ok INTEGER,
    applied_message TEXT
);
";

/// What later formats added to `works`. What an older agent did not count may have been placed, and
/// it may have left a write open.
const ADDED: [(&str, &str); 9] = [
    ("placed", "INTEGER NOT NULL DEFAULT 1"),
    ("generation", "INTEGER NOT NULL DEFAULT 0"),
    ("retry", "TEXT NOT NULL DEFAULT ''"),
    ("crashes", "INTEGER NOT NULL DEFAULT 0"),
    ("written", "BLOB NOT NULL DEFAULT x''"),
    ("unanswered", "INTEGER NOT NULL DEFAULT 1"),
    ("former", "TEXT NOT NULL DEFAULT ''"),
    ("told", "BLOB NOT NULL DEFAULT x''"),
    ("guard", "INTEGER NOT NULL DEFAULT 0"),
];

/// Whoever changes what a row's guard is of, and knows of no guards, leaves a row without one.
const UNGUARD: &str = "
CREATE TRIGGER IF NOT EXISTS unguard AFTER UPDATE OF uid, hash, phase, preserve, former ON works WHEN NEW.guard <> 0
BEGIN UPDATE works SET guard = 0 WHERE key = NEW.key; END;
";

/// What is wrong with the ledger's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It cannot be written or reached: the disk is full, or broken. What it holds is still right.
    Disk,
    /// What it holds cannot be relied on.
    Damaged,
}

impl Trouble {
    /// Of an error; `None` where it is no matter of the file.
    pub(super) fn of(error: &rusqlite::Error) -> Option<Self> {
        if let rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) = error
        {
            return Some(Self::Damaged);
        }
        match error.sqlite_error_code()? {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Some(Self::Damaged),
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed => Some(Self::Disk),
            _ => None,
        }
    }
}

/// `ledger.sqlite` in `directory`, made where there is none, readable by its owner alone.
pub(super) fn open(directory: &Path) -> Result<Connection, LedgerError> {
    let path = directory.join("ledger.sqlite");
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(LedgerError::File)?;
    let connection = Connection::open(path)?;
    prepare(&connection)?;
    let checked: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if checked == "ok" { Ok(connection) } else { Err(LedgerError::Damaged(checked)) }
}

/// Settings, tables and columns.
pub(super) fn prepare(connection: &Connection) -> Result<(), LedgerError> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A quarter of a megabyte: the agent has fifteen in all.
    connection.pragma_update(None, "cache_size", -256)?;
    connection.set_prepared_statement_cache_capacity(24);
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > FORMAT + AHEAD {
        return Err(LedgerError::Newer(version));
    }
    if version >= FORMAT {
        return Ok(());
    }
    connection.execute_batch(TABLES)?;
    for (name, declaration) in ADDED {
        let known = "SELECT count(*) FROM pragma_table_info('works') WHERE name = ?1";
        if connection.query_row(known, [name], |row| row.get::<_, i64>(0))? == 0 {
            connection.execute_batch(&format!("ALTER TABLE works ADD COLUMN {name} {declaration}"))?;
        }
    }
    connection.execute_batch(UNGUARD)?;
    Ok(connection.pragma_update(None, "user_version", FORMAT)?)
}

/// An empty ledger that is gone with the process.
pub(super) fn in_memory() -> Result<Connection, LedgerError> {
    let connection = Connection::open_in_memory()?;
    prepare(&connection)?;
    Ok(connection)
}

/// Makes `to` what `from` is, whole or not at all.
pub(super) fn copy(from: &Connection, to: &mut Connection) -> Result<(), rusqlite::Error> {
    Backup::new(from, to)?.run_to_completion(1024, Duration::ZERO, None)
}

/// What can be read of a damaged ledger, row by row, into an empty one; without its cursor, so that the hub lists everything anew. By what it
/// had followed before, a hub that was put back since knows that this site saw more.
pub(super) fn salvage(from: &Connection, to: &Connection) -> Result<usize, rusqlite::Error> {
    let mut saved = 0;
    // A damaged page ends a walk: from the other end it may lead to the other rows.
    for order in ["ASC", "DESC"] {
        // With what the hub was told of each: it is not told all of it once more.
        let names: Vec<&str> = COLUMNS.into_iter().chain(["told"]).collect();
        let select = format!("SELECT {} FROM works ORDER BY rowid {order}", names.join(", "));
        let marks = vec!["?"; names.len()].join(", ");
        let insert = format!("INSERT OR IGNORE INTO works ({}) VALUES ({marks})", names.join(", "));
        let Ok(mut rows) = from.prepare(&select) else { continue };
        let Ok(mut rows) = rows.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            if entry_of(row).is_err() {
                continue;
            }
            let values: Result<Vec<rusqlite::types::Value>, _> =
                (0..names.len()).map(|at| row.get(at)).collect();
            if let Ok(values) = values {
                saved += to.execute(&insert, rusqlite::params_from_iter(values))?;
            }
        }
    }
    let epoch = from.query_row("SELECT value FROM meta WHERE key = 'epoch'", [], |row| row.get::<_, i64>(0));
    if let Ok(epoch) = epoch {
        set_number(to, "epoch", epoch)?;
    }
    if let Ok(position) = HubPosition::of_damaged(from) {
        position.write(to)?;
    }
    if let Ok(names) = cluster_names(from)
        && !names.is_empty()
    {
        set_cluster_names(to, &names)?;
    }
    Ok(saved)
}

/// Puts a damaged ledger aside, so that a new one can begin, and removes the older ones that were.
pub(super) fn set_aside(directory: &Path, now: Timestamp) -> Result<PathBuf, std::io::Error> {
    let aside = format!("ledger.sqlite.damaged-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    for end in ["", "-wal", "-shm"] {
        let file = directory.join(format!("ledger.sqlite{end}"));
        if file.exists() {
            std::fs::rename(file, directory.join(format!("{aside}{end}")))?;
        }
    }
    let mut older: Vec<PathBuf> = std::fs::read_dir(directory)?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("ledger.sqlite.damaged-") && name.ends_with('Z')
        })
        .collect();
    older.sort();
    let spare = older.len().saturating_sub(KEPT);
    for path in older.into_iter().take(spare) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    }
    Ok(directory.join(aside))
}
