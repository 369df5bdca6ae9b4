//! The newest writes, which `live` does not have yet.
//!
//! A write changes one row at the end of `log`; bringing its key's row in `live` up to date would write another page for each, as
//! keys that are written together lie far apart. So that is done for some thousand writes at once, in key order, and until then
//! the keys are here. In: the events of each commit, at the start what the file's log tells. Out: what holds for a key, and for
//! all keys of a range at the moment of a snapshot. Between two movings nothing is lost by a crash: `log` has it all.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use rusqlite::{Connection, OptionalExtension};

use super::checked::{LOG, LogRow, damage, live_row, live_sum};
use super::schema::Meta;
use super::to_sql;
use crate::{Event, Revision};

/// The last write of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub revision: Revision,
    /// The write that created the key; `None`: the write removed it.
    pub created: Option<Revision>,
}

impl Newest {
    /// What an event makes of its key.
    pub fn of(event: &Event) -> Newest {
        let created = match event {
            Event::Put { current, .. } => Some(current.create_revision),
            Event::Delete { .. } => None,
        };
        Newest { revision: event.revision(), created }
    }
}

/// Keys with their last writes, in key order.
pub(super) type Keys = BTreeMap<Arc<str>, Newest>;

/// What the writer changes after each commit, and readers look at.
#[derive(Debug)]
pub(super) struct Recent {
    state: RwLock<State>,
}

/// At one moment.
#[derive(Debug)]
pub(super) struct State {
    pub keys: Keys,
    /// Every write up to this revision is in `live`.
    indexed: Revision,
    /// Writes after `indexed`, up to this revision, are in `keys`.
    pub head: Revision,
}

impl Recent {
    /// What the file's log has beyond its `live`.
    pub fn load(db: &Connection, meta: &Meta) -> rusqlite::Result<Recent> {
        let keys = written_after(db, meta.indexed, meta)?;
        Ok(Recent { state: RwLock::new(State { keys, indexed: meta.indexed, head: meta.head }) })
    }

    /// The present moment, which does not pass while it is looked at.
    pub fn look(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// The last write of a key, where `live` may not have it.
    pub fn newest(&self, key: &str) -> Option<Newest> {
        self.look().keys.get(key).copied()
    }

    /// Takes in a commit's events; what `live` has by now is let go.
    pub fn advance(&self, events: &[Event], meta: &Meta) {
        let mut state = self.state.write();
        if meta.indexed > state.indexed {
            state.keys.retain(|_, newest| newest.revision > meta.indexed);
            state.indexed = meta.indexed;
        }
        for event in events.iter().filter(|event| event.revision() > meta.indexed) {
            state.keys.insert(event.key().clone(), Newest::of(event));
        }
        state.head = meta.head;
    }
}

/// The keys written after a revision, by the log.
pub(super) fn written_after(db: &Connection, after: Revision, meta: &Meta) -> rusqlite::Result<Keys> {
    let after = after.max(meta.compacted);
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision > ?1 ORDER BY revision"))?;
    let mut rows = statement.query([to_sql(after)])?;
    let (mut keys, mut last) = (Keys::new(), after);
    while let Some(row) = rows.next()? {
        let row = LogRow::read(row)?;
        follows(last, row.revision)?;
        last = row.revision;
        let created = row.value.map(|_| row.created);
        keys.insert(row.key.into(), Newest { revision: row.revision, created });
    }
    follows(last, meta.head.max(after) + 1)?;
    Ok(keys)
}

/// Each revision is one row of the log, until it is compacted: `next` comes right after `last`, or rows were lost.
pub(super) fn follows(last: Revision, next: Revision) -> rusqlite::Result<()> {
    if next == last + 1 {
        return Ok(());
    }
    Err(damage(format!(
        "the log of writes, of which those after revision {last} and before {next} are missing,"
    )))
}

/// Brings `live` up to date with the last writes of keys, inside a transaction. Returns by how much that changes the sum of its
/// checksums.
pub(super) fn index<'a>(
    db: &Connection,
    keys: impl Iterator<Item = (&'a Arc<str>, &'a Newest)>,
) -> rusqlite::Result<u64> {
    let mut find = db.prepare_cached("SELECT key, revision, created, sum FROM live WHERE key = ?1")?;
    // Not INSERT OR REPLACE: that would remove the row and insert it again.
    let mut put = db.prepare_cached(
        "INSERT INTO live (key, revision, created, sum) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET revision = ?2, created = ?3, sum = ?4",
    )?;
    let mut remove = db.prepare_cached("DELETE FROM live WHERE key = ?1")?;
    let mut change = 0_u64;
    for (key, newest) in keys {
        if let Some((_, _, old)) = find.query_row([&**key], live_row).optional()? {
            change = change.wrapping_sub(old);
        }
        match newest.created {
            Some(created) => {
                let sum = live_sum(key, newest.revision, created);
                change = change.wrapping_add(sum);
                put.execute((&**key, to_sql(newest.revision), to_sql(created), sum.cast_signed()))?
            }
            None => remove.execute([&**key])?,
        };
    }
    Ok(change)
}
