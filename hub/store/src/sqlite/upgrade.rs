//! Files of older layouts become ones of this: each row gets its checksum, at once or not at all.
//!
//! In: a connection to a file of layout 1 or 2. Out: the same file in the present layout, with the file beside it that says what is
//! acknowledged; or a [`Refusal`]. Reads and writes every row once, and blocks for as long.

use rusqlite::{Connection, OptionalExtension};

use super::acknowledged::{Acknowledged, AcknowledgedPosition};
use super::checked::{LogRow, live_sum};
use super::refusal::Refusal;
use super::schema::{VERSION, read_head, write_meta};
use super::{SqliteOptions, from_sql};

/// Writes what is acknowledged before `change` makes a file that must have that beside it.
pub(super) fn first_acknowledge(
    options: &SqliteOptions,
    position: AcknowledgedPosition,
    change: impl FnOnce() -> rusqlite::Result<()>,
) -> Result<(), Refusal> {
    Acknowledged::begin(&options.path, position, options.synchronous_full)
        .map_err(|error| Refusal::Foreign(format!("cannot write what is acknowledged: {error}")))?;
    Ok(change()?)
}

/// From layout 1 or 2, at once or not at all.
pub(super) fn take_over(db: &Connection, options: &SqliteOptions, version: i32) -> Result<(), Refusal> {
    let transaction = db.unchecked_transaction()?;
    let number = |name: &str| -> rusqlite::Result<u64> {
        let found = transaction.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0));
        Ok(found.optional()?.map_or(0, from_sql))
    };
    let (epoch, compacted, swept) = (number("epoch")?, number("compacted")?, number("swept")?);
    let head = read_head(&transaction, compacted)?;
    let indexed = if version == 1 { head } else { number("indexed")? };
    let position = AcknowledgedPosition { epoch, revision: head };
    first_acknowledge(options, position, || {
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
