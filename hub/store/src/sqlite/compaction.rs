//! Forgetting events: rows of `log` that no live key and no kept event needs.
//!
//! Compacting to C first writes C into `meta`, which is the promise; the rows go afterwards, in steps: one with each transaction
//! that writes, which costs no wait for the disk of its own, and the rest while nothing else is to be done. So nobody waits for a
//! long removal. A row is superfluous when the write that replaced it is at or below C; a removal's own row when it is. (A kept
//! event above C finds the value it replaced, because that row was replaced above C.)
//!
//! In: a connection within a transaction, and where the store stands. Out: the revision up to which rows are removed now. Blocks; called on
//! the writer's thread.

use rusqlite::Connection;

use super::schema::{Meta, write_meta};
use super::to_sql;
use crate::Revision;

/// Revisions looked at in one step.
const STEP: u64 = 256;
/// Bytes of values that one step removes, but for a single one that is larger: each is wiped, which takes as much of the log.
const STEP_BYTES: u64 = 4 << 20;
/// The same where the disk is full, and the log has little room to grow.
const STEP_BYTES_WHEN_SHORT: u64 = 256 << 10;

/// Whether rows wait to be removed.
pub(super) fn is_due(meta: &Meta) -> bool {
    meta.swept < meta.compacted
}

/// Removes, inside a transaction, what the next [`STEP`] revisions made superfluous, or the first of them where that is much. Returns the revision
/// swept up to. A crash between steps leaves only rows that the next step after the start removes.
pub(super) fn sweep(db: &Connection, meta: &Meta, is_short: bool) -> rusqlite::Result<Revision> {
    let through = step(db, meta, if is_short { STEP_BYTES_WHEN_SHORT } else { STEP_BYTES })?;
    let range = (to_sql(meta.swept), to_sql(through));
    db.prepare_cached(
        "DELETE FROM log WHERE revision IN
         (SELECT previous FROM log WHERE revision > ?1 AND revision <= ?2 AND previous > 0)",
    )?
    .execute(range)?;
    db.prepare_cached("DELETE FROM log WHERE revision > ?1 AND revision <= ?2 AND value IS NULL")?
        .execute(range)?;
    write_meta(db, "swept", through)?;
    Ok(through)
}

/// The revision up to which a step goes that removes so many bytes, and one revision at least.
fn step(db: &Connection, meta: &Meta, most: u64) -> rusqlite::Result<Revision> {
    let through = meta.compacted.min(meta.swept + STEP);
    let mut weights = db.prepare_cached(
        "SELECT later.revision, coalesce(length(replaced.value), 0) FROM log AS later
         LEFT JOIN log AS replaced ON replaced.revision = later.previous
         WHERE later.revision > ?1 AND later.revision <= ?2 ORDER BY later.revision",
    )?;
    let mut rows = weights.query((to_sql(meta.swept), to_sql(through)))?;
    let (mut bytes, mut last) = (0, meta.swept);
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, i64>(1)?.unsigned_abs();
        let revision = row.get::<_, i64>(0)?.unsigned_abs();
        if bytes > most && last > meta.swept {
            return Ok(last);
        }
        last = revision;
    }
    Ok(through)
}
