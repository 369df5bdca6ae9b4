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

/// Whether rows wait to be removed.
pub(super) fn is_due(meta: &Meta) -> bool {
    meta.swept < meta.compacted
}

/// Removes, inside a transaction, what the next [`STEP`] revisions made superfluous. Returns the revision swept up to. A crash
/// between steps leaves only rows that the next step after the start removes.
pub(super) fn sweep(db: &Connection, meta: &Meta) -> rusqlite::Result<Revision> {
    let through = meta.compacted.min(meta.swept + STEP);
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
