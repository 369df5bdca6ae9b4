//! What one transaction does to the tables, operation by operation.
//!
//! In: operations in the order they came. Out: each one's answer, and the events of those that wrote.
//! Expectations are checked inside the transaction, so an operation sees the writes of those before it. An
//! `Err` from here fails the whole transaction; a refusal is an answer like any other.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use super::checked::{LOG, LogRow, damage_of, damaged, live_row};
use super::recent::{self, Keys, Newest};
use super::reserve::PutRoom;
use super::rewrite::{self, StoredValue};
use super::schema::{Meta, PAGE_BYTES, write_meta};
use super::to_sql;
use crate::{Event, Expect, KeyValue, Revision, StoreError};

/// What a caller wants done.
pub(super) enum Operation {
    Put {
        key: Arc<str>,
        value: Bytes,
        expect: Expect,
    },
    Delete {
        key: Arc<str>,
        expect: Revision,
    },
    RaiseEpoch(u64),
    Compact(Revision),
    /// Other bytes for values that are there.
    Rewrite(Vec<StoredValue>),
    /// Writes what is there already, to find out whether writing is possible.
    Probe,
}

impl Operation {
    /// What the operation holds in memory while it waits, in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Operation::Put { key, value, .. } => key.len() + value.len() + 128,
            Operation::Delete { key, .. } => key.len() + 128,
            Operation::Rewrite(values) => {
                values.iter().map(|value| value.key.len() + value.value.len() + 128).sum()
            }
            Operation::RaiseEpoch(_) | Operation::Compact(_) | Operation::Probe => 128,
        }
    }
}

/// A write's revision, the epoch, or the revision compacted to.
pub(super) type Answer = Result<u64, StoreError>;

/// A transaction under way.
pub(super) struct Batch<'a> {
    db: &'a Connection,
    /// Where the store stands once the transaction is committed.
    pub meta: Meta,
    /// What watchers will see then.
    pub events: Vec<Event>,
    /// What was written before and `live` does not have.
    recent: &'a Keys,
    /// What this transaction wrote.
    written: Keys,
    /// Where only what makes the store no larger is written: what puts may take.
    pub short: Option<PutRoom>,
    /// Something is to be committed, though the store stands where it stood.
    pub is_silent: bool,
}

/// By how much a change may make a value larger on a full disk: a deletion that waits for finalizers notes when it began.
const DELETION_STAMP_BYTES: usize = 1024;

/// Whether a value says that it is being deleted. One that cannot be read, as it is encrypted, does not.
fn is_stamped(value: &[u8]) -> bool {
    const STAMP: &[u8] = b"\"deletionTimestamp\":\"";
    value.windows(STAMP.len()).any(|part| part == STAMP)
}

/// Where a key stands.
#[derive(Clone, Copy)]
struct Live {
    revision: Revision,
    created: Revision,
}

impl<'a> Batch<'a> {
    pub fn new(db: &'a Connection, meta: Meta, recent: &'a Keys, short: Option<PutRoom>) -> Self {
        Batch { db, meta, events: Vec::new(), recent, written: Keys::new(), short, is_silent: false }
    }

    pub fn apply(&mut self, operation: &Operation) -> rusqlite::Result<Answer> {
        let answer = match operation {
            Operation::Put { key, value, expect } => self.put(key, value, *expect),
            Operation::Delete { key, expect } => self.delete(key, *expect),
            Operation::RaiseEpoch(seen) => self.raise_epoch(*seen),
            Operation::Compact(revision) => self.compact(*revision),
            Operation::Rewrite(values) => self.rewrite(values),
            Operation::Probe => self.probe(),
        };
        // A damaged row refuses what concerns its key, before anything was written, and lets the others pass.
        answer.or_else(|error| damage_of(&error).map(Err).ok_or(error))
    }

    fn put(&mut self, key: &Arc<str>, value: &Bytes, expect: Expect) -> rusqlite::Result<Answer> {
        let live = self.live(key)?;
        if !expect.holds(live.map(|live| live.revision)) {
            return self.conflict(key, live);
        }
        let revision = self.meta.head + 1;
        let created = live.map_or(revision, |live| live.created);
        let previous = live.map(|live| self.value(key, live)).transpose()?;
        if let Some(room) = &mut self.short {
            let grows = previous.as_ref().is_none_or(|old| value.len() > old.len() + DELETION_STAMP_BYTES);
            let of_deletion =
                previous.as_ref().is_some_and(|old| value.len() < old.len()) || is_stamped(value);
            if grows || !room.take(value.len() as u64 + PAGE_BYTES as u64, of_deletion) {
                return Ok(Err(StoreError::Full));
            }
        }
        self.log(revision, key, created, live, Some(value))?;
        let current = KeyValue {
            key: key.clone(),
            value: value.clone(),
            create_revision: created,
            mod_revision: revision,
        };
        Ok(self.written(Event::Put { current, previous }))
    }

    fn delete(&mut self, key: &Arc<str>, expect: Revision) -> rusqlite::Result<Answer> {
        let live = self.live(key)?;
        let Some(found) = live.filter(|live| live.revision == expect) else {
            return self.conflict(key, live);
        };
        let revision = self.meta.head + 1;
        let previous = self.value(key, found)?;
        self.log(revision, key, found.created, live, None)?;
        Ok(self.written(Event::Delete { key: key.clone(), revision, previous }))
    }

    fn raise_epoch(&mut self, seen: u64) -> rusqlite::Result<Answer> {
        if seen >= self.meta.epoch {
            self.meta.epoch = seen.saturating_add(1);
            write_meta(self.db, "epoch", self.meta.epoch)?;
        }
        Ok(Ok(self.meta.epoch))
    }

    fn probe(&mut self) -> rusqlite::Result<Answer> {
        write_meta(self.db, "epoch", self.meta.epoch)?;
        self.is_silent = true;
        Ok(Ok(self.meta.head))
    }

    fn rewrite(&mut self, values: &[StoredValue]) -> rusqlite::Result<Answer> {
        if self.short.is_some() {
            return Ok(Err(StoreError::Full));
        }
        self.is_silent = true;
        Ok(Ok(rewrite::rewrite(self.db, values)?))
    }

    fn compact(&mut self, revision: Revision) -> rusqlite::Result<Answer> {
        if revision > self.meta.head {
            return Ok(Err(StoreError::Future { asked: revision, current: self.meta.head }));
        }
        if revision > self.meta.compacted {
            self.meta.compacted = revision;
            write_meta(self.db, "compacted", revision)?;
        }
        Ok(Ok(self.meta.compacted))
    }

    /// Brings `live` up to date where `most` keys wait for it, and where compaction, which looks at nothing else, has gone beyond
    /// it. Returns how many keys were written.
    pub fn index(&mut self, most: usize) -> rusqlite::Result<usize> {
        let waiting = self.recent.len() + self.written.len();
        if waiting < most && self.meta.compacted <= self.meta.indexed {
            return Ok(0);
        }
        let change = recent::index(self.db, self.recent.iter().chain(&self.written))?;
        self.meta.indexed = self.meta.head;
        write_meta(self.db, "indexed", self.meta.indexed)?;
        self.meta.live = self.meta.live.wrapping_add(change);
        write_meta(self.db, "live", self.meta.live)?;
        Ok(waiting)
    }

    fn written(&mut self, event: Event) -> Answer {
        self.meta.head = event.revision();
        self.written.insert(event.key().clone(), Newest::of(&event));
        self.events.push(event);
        Ok(self.meta.head)
    }

    fn conflict(&self, key: &Arc<str>, live: Option<Live>) -> rusqlite::Result<Answer> {
        let current = live.map(|live| {
            let value = self.value(key, live)?;
            let (create_revision, mod_revision) = (live.created, live.revision);
            Ok::<_, rusqlite::Error>(KeyValue { key: key.clone(), value, create_revision, mod_revision })
        });
        Ok(Err(StoreError::Conflict { current: current.transpose()? }))
    }

    fn live(&self, key: &str) -> rusqlite::Result<Option<Live>> {
        if let Some(newest) = self.written.get(key).or_else(|| self.recent.get(key)) {
            return Ok(newest.created.map(|created| Live { revision: newest.revision, created }));
        }
        let mut statement =
            self.db.prepare_cached("SELECT key, revision, created, sum FROM live WHERE key = ?1")?;
        let found = statement.query_row([key], |row| {
            let (revision, created, _) = live_row(row)?;
            Ok(Live { revision, created })
        });
        found.optional()
    }

    fn value(&self, key: &str, live: Live) -> rusqlite::Result<Bytes> {
        let mut statement = self.db.prepare_cached(&format!("{LOG} WHERE revision = ?1"))?;
        let found = statement.query_row([to_sql(live.revision)], |row| {
            let row = LogRow::read(row)?;
            let value = row.value.filter(|_| row.key == key && row.created == live.created);
            value.map(Bytes::copy_from_slice).ok_or_else(|| damaged(key, live.revision))
        });
        found.optional()?.ok_or_else(|| damaged(key, live.revision))
    }

    fn log(
        &self,
        revision: Revision,
        key: &str,
        created: Revision,
        replaced: Option<Live>,
        value: Option<&Bytes>,
    ) -> rusqlite::Result<()> {
        let previous = replaced.map_or(0, |live| live.revision);
        LogRow { revision, key, created, previous, value: value.map(|value| &value[..]) }.insert(self.db)
    }
}
