//! Gets and lists: what the file's index of keys has, with what is newer than it.
//!
//! In: a reader's connection and the recent writes ([`Recent`]). Out: keys with their values, those of a list all of one moment.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::checked::{LOG, LogRow, damaged, live_row};
use super::recent::{Keys, Newest, Recent, written_after};
use super::schema::read_meta;
use super::{from_sql, to_sql};
use crate::{KeyValue, Page, Revision};

/// The key as it stands at some moment during the call.
pub(super) fn get(db: &Connection, recent: &Recent, key: &Arc<str>) -> rusqlite::Result<Option<KeyValue>> {
    match recent.newest(key) {
        None => indexed(db, key),
        Some(Newest { created: None, .. }) => Ok(None),
        Some(Newest { revision, .. }) => match at_revision(db, key, revision)? {
            // Forgotten a moment ago, so replaced by something that `live` has: nothing is forgotten that it has not.
            None => indexed(db, key),
            found => Ok(found),
        },
    }
}

/// What `live` has of a key.
fn indexed(db: &Connection, key: &Arc<str>) -> rusqlite::Result<Option<KeyValue>> {
    let mut statement = db.prepare_cached("SELECT key, revision, created, sum FROM live WHERE key = ?1")?;
    // Both are read at one moment, or what `live` names may be forgotten before it is read.
    let _snapshot = db.unchecked_transaction()?;
    let Some((revision, created, _)) = statement.query_row([&**key], live_row).optional()? else {
        return Ok(None);
    };
    match at_revision(db, key, revision)? {
        Some(found) if found.create_revision == created => Ok(Some(found)),
        _ => Err(damaged(key, revision)),
    }
}

/// What a write put at its key; `None` where the log no longer has it.
fn at_revision(db: &Connection, key: &Arc<str>, revision: Revision) -> rusqlite::Result<Option<KeyValue>> {
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision = ?1"))?;
    let found = statement.query_row([to_sql(revision)], |row| {
        let row = LogRow::read(row)?;
        let mut found = KeyValue {
            key: key.clone(),
            value: Bytes::new(),
            create_revision: row.created,
            mod_revision: revision,
        };
        found.value = value_of(&row, &found)?;
        Ok(found)
    });
    found.optional()
}

/// The value in a row of the log, which must be that of `item`.
fn value_of(row: &LogRow<'_>, item: &KeyValue) -> rusqlite::Result<Bytes> {
    let value = row.value.filter(|_| *row.key == *item.key && row.created == item.create_revision);
    value.map(Bytes::copy_from_slice).ok_or_else(|| damaged(&item.key, item.mod_revision))
}

const KEYS_FROM: &str =
    "SELECT key, revision, created, sum FROM live WHERE key >= ?1 AND key < ?2 ORDER BY key";
const KEYS_AFTER: &str =
    "SELECT key, revision, created, sum FROM live WHERE key > ?1 AND key < ?2 ORDER BY key";

/// Up to `limit` (0: all) keys that start with `prefix` and come after `after`.
pub(super) fn list(
    db: &Connection,
    recent: &Recent,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Page> {
    // Exactly one lower and one upper bound, which SQLite turns into one range of the index.
    let (query, start, from) = match after {
        Some(after) if after >= prefix => (KEYS_AFTER, after, Bound::Excluded(after)),
        _ => (KEYS_FROM, prefix, Bound::Included(prefix)),
    };
    let range = (from, Bound::Unbounded);
    let now = recent.look();
    // One transaction, begun at that moment: the items and the revision are of one moment, too.
    let snapshot = db.unchecked_transaction()?;
    let meta = read_meta(&snapshot)?;
    let is_asked = |(key, _): &(&Arc<str>, &Newest)| key.starts_with(prefix);
    let known = now.keys.range::<str, _>(range).take_while(is_asked);
    // What `live` has by now it has better.
    let known = known.filter(|(_, newest)| newest.revision > meta.indexed);
    let mut newer: Keys = known.map(|(key, newest)| (key.clone(), *newest)).collect();
    let through = now.head;
    drop(now);
    // A commit that is in the file, and that the writer has not told of yet.
    newer.extend(written_after(&snapshot, through, &meta)?);
    let newer = newer.range::<str, _>(range).take_while(is_asked).map(|(key, newest)| (key.clone(), *newest));

    let mut statement = snapshot.prepare_cached(query)?;
    let rows = statement.query_map((start, prefix_end(prefix)), |row| {
        let (revision, created, _) = live_row(row)?;
        Ok((Arc::<str>::from(row.get_ref(0)?.as_str()?), Newest { revision, created: Some(created) }))
    })?;
    let mut keys = newest_of(rows, newer, limit)?;
    let more = limit != 0 && keys.len() > limit;
    if more {
        keys.truncate(limit);
    }
    Ok(Page { items: with_values(&snapshot, keys)?, revision: meta.head, more })
}

/// The keys of `indexed`, and instead of each or between them those of `newer` that are not removed; one more than `limit` (0: all).
fn newest_of(
    indexed: impl Iterator<Item = rusqlite::Result<(Arc<str>, Newest)>>,
    newer: impl Iterator<Item = (Arc<str>, Newest)>,
    limit: usize,
) -> rusqlite::Result<Vec<(Arc<str>, Newest)>> {
    let mut newer = newer.peekable();
    let mut keys: Vec<(Arc<str>, Newest)> = Vec::with_capacity(limit.min(1000));
    for row in indexed {
        let (key, place) = row?;
        let mut is_replaced = false;
        while let Some((other, newest)) = newer.next_if(|(other, _)| *other <= key) {
            is_replaced |= other == key;
            if newest.created.is_some() {
                keys.push((other, newest));
            }
        }
        if !is_replaced {
            keys.push((key, place));
        }
        if limit != 0 && keys.len() > limit {
            return Ok(keys);
        }
    }
    keys.extend(newer.filter(|(_, newest)| newest.created.is_some()));
    Ok(keys)
}

/// How many rows of the log are stepped over rather than searched past.
const NEAR: Revision = 4;

/// Fetches the values in the order of the log, where what was written together lies together: each run of neighbours is one walk.
fn with_values(db: &Connection, keys: Vec<(Arc<str>, Newest)>) -> rusqlite::Result<Vec<KeyValue>> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|at| keys[*at].1.revision);
    let mut items: Vec<KeyValue> = keys
        .into_iter()
        .map(|(key, Newest { revision, created })| KeyValue {
            key,
            value: Bytes::new(),
            create_revision: created.unwrap_or(revision),
            mod_revision: revision,
        })
        .collect();
    let mut statement = db.prepare_cached(&format!("{LOG} WHERE revision >= ?1 AND revision <= ?2"))?;
    let is_near = |one: &usize, next: &usize| items[*next].mod_revision - items[*one].mod_revision <= NEAR;
    let runs: Vec<&[usize]> = order.chunk_by(is_near).collect();
    for run in runs {
        let bounds = (to_sql(items[run[0]].mod_revision), to_sql(items[run[run.len() - 1]].mod_revision));
        let mut rows = statement.query(bounds)?;
        for at in run {
            let item = &mut items[*at];
            item.value = loop {
                let row = rows.next()?.ok_or_else(|| damaged(&item.key, item.mod_revision))?;
                if from_sql(row.get(0)?) == item.mod_revision {
                    break value_of(&LogRow::read(row)?, item)?;
                }
            };
        }
    }
    Ok(items)
}

/// The first value after all texts that start with `prefix`: a text, or where there is none the empty blob,
/// which SQLite orders after every text. SQLite compares UTF-8 bytes, which is the order of code points.
pub(super) fn prefix_end(prefix: &str) -> Value {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Value::Text(end);
        }
    }
    Value::Blob(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::schema::write_meta;
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_text_that_does_not_start_with_it() {
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(prefix_end("/a/"), text("/a0"));
        assert_eq!(prefix_end("a\u{10ffff}"), text("b"));
        assert_eq!(prefix_end("\u{d7ff}"), text("\u{e000}"));
        assert_eq!(prefix_end(""), Value::Blob(vec![]));
        assert_eq!(prefix_end("\u{10ffff}"), Value::Blob(vec![]));
    }

    #[test]
    fn lists_are_one_range_of_the_index() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        for query in [KEYS_FROM, KEYS_AFTER] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = plan.query_map(("/a/", prefix_end("/a/")), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert_eq!(steps, ["SEARCH live USING PRIMARY KEY (key>? AND key<?)"], "no sorting");
        }
    }

    #[test]
    fn values_come_to_their_keys_over_gaps_of_every_width() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        for revision in 1..=40 {
            let value = [revision as u8];
            LogRow { revision, key: "k", created: 1, previous: 0, value: Some(&value) }.insert(&db).unwrap();
        }
        let wanted: [Revision; 9] = [40, 3, 1, 2, 12, 8, 4, 17, 39];
        let key = |revision| (Arc::from("k"), Newest { revision, created: Some(1) });
        let found = with_values(&db, wanted.into_iter().map(key).collect()).unwrap();
        let pairs: Vec<_> = found.iter().map(|kv| (kv.mod_revision, u64::from(kv.value[0]))).collect();
        assert_eq!(pairs, wanted.map(|revision| (revision, revision)), "in the order that was asked for");
        db.execute("DELETE FROM log WHERE revision = 3", ()).unwrap();
        with_values(&db, [2, 3, 4].map(key).to_vec())
            .expect_err("a value that is not there is not another's");
    }

    #[test]
    fn what_is_forgotten_before_anybody_is_told_that_it_went_is_gone() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        for name in ["epoch", "indexed", "compacted", "swept", "live"] {
            write_meta(&db, name, 0).unwrap();
        }
        LogRow { revision: 1, key: "/a", created: 1, previous: 0, value: Some(b"a") }.insert(&db).unwrap();
        let recent = Recent::load(&db, &read_meta(&db).unwrap()).unwrap();
        let key: Arc<str> = "/a".into();
        assert_eq!(&get(&db, &recent, &key).unwrap().unwrap().value[..], b"a");
        // One commit that the writer has not told of: a removal, and compaction up to it with its sweep.
        db.execute_batch("DELETE FROM log").unwrap();
        for name in ["indexed", "compacted", "swept"] {
            write_meta(&db, name, 2).unwrap();
        }
        assert_eq!(get(&db, &recent, &key).unwrap(), None);
        let page = list(&db, &recent, "/", None, 0).unwrap();
        assert_eq!((page.items, page.revision), (vec![], 2));
    }
}
