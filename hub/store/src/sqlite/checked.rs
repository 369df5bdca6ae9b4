//! Checksums: every row of the file has one over all that it says, and none is believed without it.
//!
//! In: rows as SQLite reads them. Out: what was written, or an error that names key and revision ([`damage_of`]). XXH3: 64 bits,
//! which costs a tenth of a microsecond for an object of 2 KB; it is to find a failing disk, not a forger, who could write
//! checksums as well.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Error, Row};
use twox_hash::XxHash3_64;

use super::{from_sql, to_sql};
use crate::{Revision, StoreError};

/// What to do about damage.
pub(crate) const ADVICE: &str = "restore a backup of the data directory, or start with --accept-data-loss to go on without what \
                                 cannot be read (a new epoch begins)";

/// The columns of `log` that [`LogRow::read`] expects, in its order.
pub(super) const LOG: &str = "SELECT revision, key, created, previous, value, sum FROM log";

/// A row of the log, as it was written.
#[derive(Debug)]
pub(super) struct LogRow<'a> {
    pub revision: Revision,
    pub key: &'a str,
    pub created: Revision,
    /// The write that it replaced; 0: none.
    pub previous: Revision,
    /// `None`: a removal.
    pub value: Option<&'a [u8]>,
}

impl<'a> LogRow<'a> {
    /// Reads a row of [`LOG`].
    pub fn read(row: &'a Row<'_>) -> rusqlite::Result<LogRow<'a>> {
        let revision = row.get(0).map_or(0, from_sql);
        let key = row.get_ref(1)?;
        let read = || {
            let value = match row.get_ref(4).ok()? {
                ValueRef::Null => None,
                value => Some(value.as_blob().ok()?),
            };
            let (created, previous) = (from_sql(row.get(2).ok()?), from_sql(row.get(3).ok()?));
            let found = LogRow { revision, key: key.as_str().ok()?, created, previous, value };
            (row.get::<_, i64>(5).ok()?.cast_unsigned() == found.sum()).then_some(found)
        };
        read().ok_or_else(|| damaged(&readable(key), revision))
    }

    /// The checksum over all of it.
    pub fn sum(&self) -> u64 {
        let (kind, value) = match self.value {
            None => (0, &[][..]),
            Some(value) => (1, value),
        };
        sum(kind, value, self.key, [self.revision, self.created, self.previous])
    }

    /// Appends it to the log.
    pub fn insert(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut statement = db.prepare_cached(
            "INSERT INTO log (revision, key, created, previous, value, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let (created, previous) = (to_sql(self.created), to_sql(self.previous));
        let sum = self.sum().cast_signed();
        statement.execute((to_sql(self.revision), self.key, created, previous, self.value, sum)).map(drop)
    }
}

/// The checksum of a row of `live`.
pub(super) fn live_sum(key: &str, revision: Revision, created: Revision) -> u64 {
    sum(2, &[], key, [revision, created, 0])
}

/// Checks a row of `live` (key, revision, creation and checksum, in this order) and returns its numbers and its checksum.
pub(super) fn live_row(row: &Row<'_>) -> rusqlite::Result<(Revision, Revision, u64)> {
    let key = row.get_ref(0)?;
    let read = || {
        let (revision, created) = (from_sql(row.get(1).ok()?), from_sql(row.get(2).ok()?));
        let sum = live_sum(key.as_str().ok()?, revision, created);
        (row.get::<_, i64>(3).ok()?.cast_unsigned() == sum).then_some((revision, created, sum))
    };
    read().ok_or_else(|| damaged(&readable(key), row.get(1).map_or(0, from_sql)))
}

/// The checksum of a number in `meta`.
pub(super) fn meta_sum(name: &str, value: u64) -> u64 {
    sum(3, &[], name, [value, 0, 0])
}

fn sum(kind: u64, value: &[u8], text: &str, numbers: [u64; 3]) -> u64 {
    let mut fixed = [0; 24];
    for (place, number) in fixed.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let of = XxHash3_64::oneshot_with_seed;
    of(of(of(0, value).wrapping_add(kind), text.as_bytes()), &fixed)
}

/// A key as far as it can be read.
fn readable(key: ValueRef<'_>) -> String {
    match key {
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            String::from_utf8_lossy(&text[..text.len().min(1000)]).into_owned()
        }
        _ => String::new(),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Damage(String);

/// The error of a row that is not what was written.
pub(super) fn damaged(key: &str, revision: Revision) -> Error {
    damage(format!("the row of key {key:?} at revision {revision}"))
}

/// The error of something that is not what was written.
pub(super) fn damage(what: String) -> Error {
    // The one variant that takes an error of ours, so that one type of error goes through all the functions that read.
    Error::FromSqlConversionFailure(0, Type::Null, Box::new(Damage(what)))
}

/// What is damaged, where that is what an error says.
pub(super) fn damage_of(error: &Error) -> Option<StoreError> {
    let what = match error {
        Error::FromSqlConversionFailure(_, _, inner) => inner.downcast_ref::<Damage>()?.0.clone(),
        Error::SqliteFailure(failure, _)
            if matches!(
                failure.code,
                rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase
            ) =>
        {
            format!("the structure of the file ({error})")
        }
        _ => return None,
    };
    Some(StoreError::Damaged { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_covers_all_that_a_row_says() {
        let row = LogRow { revision: 7, key: "/a", created: 3, previous: 5, value: Some(b"value") };
        let others = [
            LogRow { revision: 8, ..row },
            LogRow { key: "/b", ..row },
            LogRow { created: 4, ..row },
            LogRow { previous: 4, ..row },
            LogRow { value: Some(b"valuf"), ..row },
            LogRow { value: Some(b""), ..row },
            LogRow { value: None, ..row },
        ];
        for (n, other) in others.iter().enumerate() {
            assert_ne!(row.sum(), other.sum(), "{other:?}");
            assert!(others[..n].iter().all(|third| third.sum() != other.sum()));
        }
        assert_ne!(live_sum("/a", 1, 2), live_sum("/a", 2, 1));
        assert_ne!(meta_sum("swept", 1), meta_sum("swept", 0));
    }

    /// Files that are there were written with these: another library must say the same, short and long, as XXH3 does.
    #[test]
    fn the_sums_of_stored_files_stay() {
        let long = vec![7; 100_000];
        let sums =
            [sum(1, b"", "", [0; 3]), sum(2, b"value", "/registry/a", [1, 2, 3]), sum(1, &long, "k", [9; 3])];
        assert_eq!(sums, [589091972344469872, 7029051407259593293, 7768985849358107581]);
    }
}
