//! The table `meta`: numbers, the seal, documents, the names of clusters and what is held beyond the cursor, by name.
//!
//! In: names and values. Out: what was kept under a name; zero, empty or none where nothing was.

use bytes::Bytes;
use karmada_proto::v1::Seen;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Ledger, LedgerError};

/// Bytes of a document's hash.
const DOCUMENT_HASH: usize = 16;

/// Where the cursor was before it began anew, until it is somewhere again.
pub(super) const FORMER_CURSOR: &str = "former_cursor";

/// The names of clusters, the newest last.
const CLUSTERS: &str = "clusters";

/// The hub's proof of the epoch.
pub(super) const SEAL: &str = "epoch_seal";

/// What is held beyond the cursor: `[[start of the hub, revision], …]`.
pub(super) const SEEN: &str = "seen";

impl Ledger {
    /// Epoch and cursor; zeros where nothing was ever held.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn position(&self) -> Result<(u64, u64), LedgerError> {
        Ok((self.number("epoch")?.unwrap_or(0) as u64, self.number("cursor")?.unwrap_or(0) as u64))
    }

    /// The hub's start that told the cursor; zero where none was told.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn timeline(&self) -> Result<u64, LedgerError> {
        Ok(self.number("timeline")?.unwrap_or(0) as u64)
    }

    /// Where the cursor was before the listing that is unfinished; zero where none is.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn former_cursor(&self) -> Result<u64, LedgerError> {
        Ok(self.number(FORMER_CURSOR)?.unwrap_or(0) as u64)
    }

    /// What is held beyond the cursor, by the hub's starts that told it.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn seen(&self) -> Result<Vec<Seen>, LedgerError> {
        self.read(|connection| seen(connection))
    }

    /// The hub's proof of the epoch; empty where there is none.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn epoch_seal(&self) -> Result<Bytes, LedgerError> {
        let seal: Option<Vec<u8>> = self.read(|connection| value(connection, SEAL))?;
        Ok(seal.unwrap_or_default().into())
    }

    /// A document, with its hash, where one is held.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn document(&self, table: u32) -> Result<Option<(Bytes, Bytes)>, LedgerError> {
        let kept: Option<Vec<u8>> = self.read(|connection| value(connection, &document(table)))?;
        let kept = kept.map(Bytes::from).filter(|kept| kept.len() >= DOCUMENT_HASH);
        Ok(kept.map(|kept| (kept.slice(..DOCUMENT_HASH), kept.slice(DOCUMENT_HASH..))))
    }

    /// A number kept by name.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn number(&self, key: &str) -> Result<Option<i64>, LedgerError> {
        self.read(|connection| value(connection, key))
    }

    /// Keeps a number by name; writes only where it differs.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn set_number(&self, key: &str, value: i64) -> Result<(), LedgerError> {
        if self.number(key)? != Some(value) {
            self.read(|connection| set_number(connection, key, value))?;
            self.wrote(true);
        }
        Ok(())
    }
}

/// Under which name a document is kept: its hash of 16 bytes, and its body.
pub(super) fn document(table: u32) -> String {
    format!("document:{table}")
}

/// Sets the cursor. Where it begins anew, what was told up to where it was is held all the same, and is remembered.
pub(super) fn set_cursor(connection: &Connection, cursor: u64) -> Result<(), rusqlite::Error> {
    if cursor == 0 {
        connection
            .prepare_cached(
                "INSERT INTO meta (key, value) SELECT ?1, value FROM meta WHERE key = 'cursor' AND value > 0
                 ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
            )?
            .execute([FORMER_CURSOR])?;
    } else {
        connection.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([FORMER_CURSOR])?;
    }
    set_number(connection, "cursor", cursor as i64)
}

/// Sets a number.
pub(super) fn set_number(connection: &Connection, key: &str, value: i64) -> Result<(), rusqlite::Error> {
    set_value(connection, key, value)
}

/// Sets a value.
pub(super) fn set_value(
    connection: &Connection,
    key: &str,
    value: impl rusqlite::ToSql,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        )?
        .execute(params![key, value])?;
    Ok(())
}

/// A value; `None` where it was never set.
fn value<T: rusqlite::types::FromSql>(
    connection: &Connection,
    key: &str,
) -> Result<Option<T>, rusqlite::Error> {
    let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    query.query_row([key], |row| row.get(0)).optional()
}

/// The names of the clusters whose ledger it is and was; none where none was ever said.
pub(super) fn cluster_names(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let text: Option<String> = value(connection, CLUSTERS)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Keeps the names of clusters.
pub(super) fn set_cluster_names(connection: &Connection, names: &[String]) -> Result<(), rusqlite::Error> {
    set_value(connection, CLUSTERS, serde_json::json!(names).to_string())
}

/// Up to where each start of the hub told what is held beyond the cursor, the oldest first.
pub(super) fn seen(connection: &Connection) -> Result<Vec<Seen>, rusqlite::Error> {
    let text: Option<String> = value(connection, SEEN)?;
    let pairs: Vec<(u64, u64)> = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(pairs.into_iter().map(|(timeline, revision)| Seen { timeline, revision }).collect())
}

/// Keeps that list.
pub(super) fn set_seen(connection: &Connection, seen: &[Seen]) -> Result<(), rusqlite::Error> {
    let pairs: Vec<(u64, u64)> = seen.iter().map(|seen| (seen.timeline, seen.revision)).collect();
    set_value(connection, SEEN, serde_json::json!(pairs).to_string())
}

/// How far this ledger had followed the hub, beside the epoch and the cursor: a copy of the ledger must have it too, for the hub to see
/// whether it is of its own history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HubPosition {
    /// See [`super::Ledger::timeline`].
    timeline: u64,
    /// See [`super::Ledger::former_cursor`].
    former_cursor: u64,
    /// See [`super::Ledger::seen`].
    seen: Vec<(u64, u64)>,
    /// See [`super::Ledger::epoch_seal`].
    epoch_seal: Vec<u8>,
}

impl HubPosition {
    /// Of the ledger as it is.
    pub(super) fn read(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let number = |key: &str| -> Result<u64, rusqlite::Error> {
            let value: Option<i64> = value(connection, key)?;
            Ok(value.unwrap_or(0) as u64)
        };
        Ok(Self {
            timeline: number("timeline")?,
            former_cursor: number(FORMER_CURSOR)?,
            seen: seen(connection)?.into_iter().map(|seen| (seen.timeline, seen.revision)).collect(),
            epoch_seal: value(connection, SEAL)?.unwrap_or_default(),
        })
    }

    /// Of a damaged ledger, as far as it can be read: its cursor is where it was before everything is listed anew.
    pub(super) fn of_damaged(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let position = Self::read(connection)?;
        let cursor = value::<i64>(connection, "cursor")?.unwrap_or(0) as u64;
        Ok(Self { former_cursor: position.former_cursor.max(cursor), ..position })
    }

    /// Into a ledger that has none yet.
    pub(super) fn write(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        set_number(connection, "timeline", self.timeline as i64)?;
        if self.former_cursor > 0 {
            set_number(connection, FORMER_CURSOR, self.former_cursor as i64)?;
        }
        set_value(connection, SEEN, serde_json::json!(self.seen).to_string())?;
        set_value(connection, SEAL, &self.epoch_seal)
    }
}
