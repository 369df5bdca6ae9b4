//! The file: its tables, the numbers in it, connections to it.
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
//!
//! In: an open or empty file. Out: connections set up for what they do, the tables made, [`Meta`] read and written; damage where a number
//! does not fit its checksum. Blocks.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::checked::{damage, meta_sum};
use super::{SqliteOptions, from_sql};
use crate::Revision;

/// Marks the file as ours ("kmst"); other SQLite files are refused.
pub(super) const APPLICATION_ID: i32 = 0x6b6d_7374;
/// Not 3: no single flipped bit is to turn it into one that has no checksums.
pub(super) const VERSION: i32 = 4;
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

/// What a connection is for decides its page cache, in KiB: together they stay far below the hub's budget. A reader goes through pages
/// once, and what the writer looks up again are the inner pages of its trees.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Writer,
    Reader,
    Checkpointer,
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
