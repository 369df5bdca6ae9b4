//! The same values in other bytes: whoever hands values over encrypted may write them down anew under another key.
//!
//! In: rows of the log as they are stored, live ones and those that watchers may still ask for; other bytes for some of them. Out: the
//! same writes, with the same revisions, in these bytes; nobody is told of anything. What the file held before is then wiped out
//! of it ([`clean`]): from pages that are free, from the gaps inside of pages, and from the write-ahead log.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use super::checked::{LOG, LogRow, meta_sum};
use super::schema::write_meta;
use super::{failed, to_sql};
use crate::Revision;

/// Rows that are read at once, and bytes of their values.
const ROWS: usize = 256;
const BYTES: usize = 1 << 20;

/// A file up to this size is put together anew in memory, a larger one in the folder for temporary files.
const IN_MEMORY: i64 = 32 << 20;

/// How often the log is tried to be emptied, and the pause between. Readers are waited for in each try; the thread that moves the log
/// into the file is not, and it may have begun before.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// The number of the table `meta` that says for what the file was cleaned.
const CLEANED: &str = "cleaned";

/// A value as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The write that put it there.
    pub revision: Revision,
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub value: Bytes,
}

/// Values of a stretch of the log.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The values, by revision.
    pub values: Vec<StoredValue>,
    /// The last revision that was looked at.
    pub through: Revision,
}

pub(super) fn values(db: &Connection, after: Revision, through: Revision) -> rusqlite::Result<Stretch> {
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision > ?1 AND revision <= ?2"))?;
    let mut rows = statement.query([to_sql(after), to_sql(through)])?;
    let (mut values, mut bytes, mut seen) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let at = row.get(0).map_or(after, super::from_sql);
        match LogRow::read(row) {
            Ok(LogRow { revision, key, value: Some(value), .. }) => {
                bytes += value.len();
                values.push(StoredValue {
                    revision,
                    key: key.to_owned(),
                    value: Bytes::copy_from_slice(value),
                });
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(error = %failed(&error), "a stored value is passed over"),
        }
        seen += 1;
        if seen == ROWS || bytes > BYTES {
            return Ok(Stretch { values, through: at });
        }
    }
    Ok(Stretch { values, through })
}

/// Puts the bytes in place of those that are there, inside a transaction. Returns how many rows it was.
pub(super) fn rewrite(db: &Connection, values: &[StoredValue]) -> rusqlite::Result<u64> {
    let mut find = db.prepare_cached(&format!("{LOG} WHERE revision = ?1"))?;
    let mut put = db.prepare_cached("UPDATE log SET value = ?2, sum = ?3 WHERE revision = ?1")?;
    let mut count = 0;
    for StoredValue { revision, key, value } in values {
        let sum = find.query_row([to_sql(*revision)], |row| {
            let row = LogRow::read(row)?;
            let is_same = row.key == *key && row.value.is_some();
            Ok(is_same.then(|| LogRow { value: Some(value), ..row }.sum()))
        });
        if let Some(sum) = sum.optional()?.flatten() {
            put.execute((to_sql(*revision), &value[..], sum.cast_signed()))?;
            count += 1;
        }
    }
    if count > 0 {
        write_meta(db, CLEANED, 0)?;
    }
    Ok(count)
}

/// Puts the whole file together anew, so that nothing is left in it but what it says, and empties the write-ahead log.
pub(super) fn clean(db: &Connection, layout: u64) -> rusqlite::Result<()> {
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("page_count")?.saturating_mul(number("page_size")?) > IN_MEMORY {
        db.pragma_update(None, "temp_store", "FILE")?;
    }
    let done = db.execute_batch("VACUUM");
    db.pragma_update(None, "temp_store", "MEMORY")?;
    done?;
    empty_log(db)?;
    write_meta(db, CLEANED, layout)
}

fn empty_log(db: &Connection) -> rusqlite::Result<()> {
    for _ in 0..TRIES {
        let busy: i64 = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    Err(rusqlite::Error::SqliteFailure(busy, Some("the write-ahead log is in use".into())))
}

pub(super) fn cleaned(db: &Connection) -> rusqlite::Result<Option<u64>> {
    let row = db.query_row("SELECT value, sum FROM meta WHERE name = ?1", [CLEANED], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
    });
    Ok(row
        .optional()?
        .filter(|(value, sum)| *value != 0 && *sum == meta_sum(CLEANED, *value))
        .map(|(value, _)| value))
}

/// From here on values may be written in clear: what was wiped counts no more.
pub(super) fn forget_cleaned(db: &Connection) -> rusqlite::Result<()> {
    if cleaned(db)?.is_some() {
        write_meta(db, CLEANED, 0)?;
    }
    Ok(())
}
