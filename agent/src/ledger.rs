//! What the site must still know after a power cut: desired state, cursor, outcomes, crash counters.
//!
//! One SQLite file with `synchronous=FULL`: what [`Ledger::commit`] returned from is on disk, and only then does
//! the session acknowledge it (rule R13). What only saves work after a crash of the process (counters, outcomes)
//! is written without waiting for the disk: lost in a power cut, it is found out again. The file is readable by its owner only: it holds Secrets.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use karmada_proto::body;
use karmada_proto::v1::Applied;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::watch;

use crate::session::{Change, Held, Phase};

/// Started this often without coming to an end, a Work is left alone: it crashes the agent (rule R23).
pub const CRASHES: u32 = 2;

/// The newest format of the file that this agent knows.
const FORMAT: i64 = 3;
/// What keeps the proof of the epoch.
const SEAL: &str = "epoch_seal";
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS works (
    key TEXT PRIMARY KEY,
    uid TEXT NOT NULL,
    revision INTEGER NOT NULL,
    hash BLOB NOT NULL,
    encoding INTEGER NOT NULL,
    decoded_size INTEGER NOT NULL,
    body BLOB NOT NULL,
    suspended INTEGER NOT NULL,
    preserve INTEGER NOT NULL,
    phase INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    applied_hash BLOB,
    applied_ok INTEGER,
    applied_message TEXT,
    placed INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    retry TEXT NOT NULL DEFAULT ''
);
PRAGMA user_version = 3;
";

/// A ledger that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite said so.
    #[error("the ledger")]
    Sqlite(#[from] rusqlite::Error),
    /// The file could not be made.
    #[error("making the ledger's file")]
    File(#[source] std::io::Error),
    /// A newer agent wrote it.
    #[error("the ledger has format {0}; this agent knows {FORMAT}")]
    Newer(i64),
}

/// One Work as the ledger holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The Work's uid.
    pub uid: String,
    /// The hub's revision.
    pub revision: u64,
    /// Of `body`.
    pub hash: Bytes,
    /// `{"manifests":[…]}`.
    pub body: Bytes,
    /// Leave the member as it is.
    pub suspended: bool,
    /// Strip our marks instead of deleting.
    pub preserve: bool,
    /// How far its life has come.
    pub phase: Phase,
    /// Applications begun and not ended.
    pub attempts: u32,
    /// The last outcome, and whether it is about this very body.
    pub applied: Option<(Applied, bool)>,
    /// Whether the member ever took an object of it, in whichever body.
    pub placed: bool,
    /// The Work's generation; zero where the hub did not say.
    pub generation: u64,
    /// The last word of a person to try again what was put aside.
    pub retry: String,
}

impl Entry {
    /// Nothing of it can be in the member: every application came to its end, and none placed anything.
    pub fn is_nowhere(&self) -> bool {
        !self.placed && self.attempts == 0
    }

    /// This body was applied, and successfully.
    pub fn is_applied(&self) -> bool {
        matches!(&self.applied, Some((applied, true)) if applied.ok)
    }
}

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    connection: Mutex<Connection>,
    /// Counts what was desired anew; who keeps a copy of the ledger follows it.
    desired: watch::Sender<u64>,
}

impl Ledger {
    /// Opens or makes `ledger.sqlite` in `directory`.
    pub fn open(directory: &Path) -> Result<Self, LedgerError> {
        let path = directory.join("ledger.sqlite");
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(LedgerError::File)?;
        Self::over(Connection::open(path)?)
    }

    /// A ledger that is gone with the process: for a member that is in memory too.
    pub fn in_memory() -> Result<Self, LedgerError> {
        Self::over(Connection::open_in_memory()?)
    }

    fn over(connection: Connection) -> Result<Self, LedgerError> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // A quarter of a megabyte: the agent has fifteen in all.
        connection.pragma_update(None, "cache_size", -256)?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version > FORMAT {
            return Err(LedgerError::Newer(version));
        }
        if version == 1 {
            // What was not counted then may have been placed.
            connection.execute_batch("ALTER TABLE works ADD COLUMN placed INTEGER NOT NULL DEFAULT 1")?;
        }
        if (1..3).contains(&version) {
            connection.execute_batch(
                "ALTER TABLE works ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
                 ALTER TABLE works ADD COLUMN retry TEXT NOT NULL DEFAULT ''",
            )?;
        }
        connection.execute_batch(SCHEMA)?;
        connection.set_prepared_statement_cache_capacity(24);
        Ok(Self { connection: Mutex::new(connection), desired: watch::Sender::new(0) })
    }

    /// Writes all of `changes` or none, durably.
    pub fn commit(&self, changes: &[Change]) -> Result<(), LedgerError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        for change in changes {
            apply(&transaction, change)?;
        }
        transaction.commit()?;
        if changes
            .iter()
            .any(|change| !matches!(change, Change::Cursor(_) | Change::Timeline(_) | Change::Seal(_)))
        {
            self.desired.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Sees each change of what is desired.
    pub fn desired(&self) -> watch::Receiver<u64> {
        self.desired.subscribe()
    }

    /// Writes the ledger as it is now into a new file.
    pub fn copy_to(&self, file: &Path) -> Result<(), LedgerError> {
        let path = file.to_string_lossy();
        self.connection.lock().execute("VACUUM INTO ?1", [path.as_ref()])?;
        Ok(())
    }

    /// Epoch and cursor; zeros where nothing was ever held.
    pub fn position(&self) -> Result<(u64, u64), LedgerError> {
        Ok((self.number("epoch")?.unwrap_or(0) as u64, self.number("cursor")?.unwrap_or(0) as u64))
    }

    /// The hub's start that told the cursor; zero where none was told.
    pub fn timeline(&self) -> Result<u64, LedgerError> {
        Ok(self.number("timeline")?.unwrap_or(0) as u64)
    }

    /// The hub's proof of the epoch; empty where there is none.
    pub fn epoch_seal(&self) -> Result<Bytes, LedgerError> {
        let connection = self.connection.lock();
        let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        let seal: Option<Vec<u8>> = query.query_row([SEAL], |row| row.get(0)).optional()?;
        Ok(seal.unwrap_or_default().into())
    }

    /// A number kept by name.
    pub fn number(&self, key: &str) -> Result<Option<i64>, LedgerError> {
        let connection = self.connection.lock();
        let mut query = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        Ok(query.query_row([key], |row| row.get(0)).optional()?)
    }

    /// Keeps a number by name; writes only where it differs.
    pub fn set_number(&self, key: &str, value: i64) -> Result<(), LedgerError> {
        if self.number(key)? != Some(value) {
            set_number(&self.connection.lock(), key, value)?;
        }
        Ok(())
    }

    /// What a session must know of each Work.
    pub fn held(&self) -> Result<BTreeMap<String, Held>, LedgerError> {
        let connection = self.connection.lock();
        let mut query = connection.prepare_cached("SELECT key, uid, revision, hash, phase FROM works")?;
        let rows = query.query_map([], |row| {
            let held = Held {
                uid: row.get(1)?,
                revision: row.get::<_, i64>(2)? as u64,
                hash: row.get::<_, Vec<u8>>(3)?.into(),
                phase: phase(row.get(4)?),
            };
            Ok((row.get(0)?, held))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The keys of all Works.
    pub fn keys(&self) -> Result<Vec<String>, LedgerError> {
        let connection = self.connection.lock();
        let mut query = connection.prepare_cached("SELECT key FROM works ORDER BY key")?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// One Work.
    pub fn entry(&self, key: &str) -> Result<Option<Entry>, LedgerError> {
        let connection = self.connection.lock();
        let mut query = connection.prepare_cached(
            "SELECT uid, revision, hash, encoding, decoded_size, body, suspended, preserve, phase, attempts,
                    applied_hash, applied_ok, applied_message, placed, generation, retry
             FROM works WHERE key = ?1",
        )?;
        Ok(query.query_row([key], entry).optional()?)
    }

    /// Counts an application that begins, before it begins.
    pub fn begins(&self, keys: &[String]) -> Result<(), LedgerError> {
        self.each(keys, "UPDATE works SET attempts = attempts + 1 WHERE key = ?1")
    }

    /// The objects of these Works are gone from the member.
    pub fn removed(&self, keys: &[String]) -> Result<(), LedgerError> {
        self.each(keys, "UPDATE works SET phase = 2, attempts = 0 WHERE key = ?1 AND phase = 1")
    }

    fn each(&self, keys: &[String], statement: &str) -> Result<(), LedgerError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.relaxed(|transaction| {
            for key in keys {
                transaction.prepare_cached(statement)?.execute([key])?;
            }
            Ok(())
        })
    }

    /// A transaction that survives a crash of the process and may be lost in a power cut.
    fn relaxed(
        &self,
        write: impl FnOnce(&Connection) -> Result<(), rusqlite::Error>,
    ) -> Result<(), LedgerError> {
        let mut connection = self.connection.lock();
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        let written = connection.transaction().and_then(|transaction| {
            write(&transaction)?;
            transaction.commit()
        });
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        Ok(written?)
    }

    /// Applications that ended: key, hash of the body, outcome, and whether the member took anything.
    pub fn ended(&self, outcomes: &[(String, Bytes, Applied, bool)]) -> Result<(), LedgerError> {
        if outcomes.is_empty() {
            return Ok(());
        }
        self.relaxed(|transaction| {
            for (key, hash, applied, placed) in outcomes {
                transaction
                    .prepare_cached(
                        "UPDATE works SET attempts = 0, applied_hash = ?2, applied_ok = ?3, applied_message = ?4,
                            placed = max(placed, ?5)
                         WHERE key = ?1",
                    )?
                    .execute(params![key, hash.as_ref(), applied.ok, applied.message, placed])?;
            }
            Ok(())
        })
    }
}

fn set_number(connection: &Connection, key: &str, value: i64) -> Result<(), rusqlite::Error> {
    set_value(connection, key, value)
}

fn set_value(connection: &Connection, key: &str, value: impl rusqlite::ToSql) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        )?
        .execute(params![key, value])?;
    Ok(())
}

fn apply(connection: &Connection, change: &Change) -> Result<(), rusqlite::Error> {
    match change {
        Change::Put { key, uid, revision, hash, body, suspended, preserve, generation, retry } => {
            let encoded = body::encode(body);
            connection
                .prepare_cached(
                    "INSERT INTO works (key, uid, revision, hash, encoding, decoded_size, body, suspended, preserve,
                        generation, retry)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                     ON CONFLICT (key) DO UPDATE SET uid = ?2, revision = ?3, hash = ?4, encoding = ?5,
                        decoded_size = ?6, body = ?7, suspended = ?8, preserve = ?9, generation = ?10,
                        retry = ?11, phase = 0,
                        applied_ok = CASE WHEN phase = 0 THEN applied_ok END,
                        attempts = CASE WHEN hash = ?4 THEN attempts ELSE 0 END",
                )?
                .execute(params![
                    key,
                    uid,
                    *revision as i64,
                    hash.as_ref(),
                    encoded.encoding as i32,
                    encoded.decoded_size as i64,
                    encoded.bytes.as_ref(),
                    suspended,
                    preserve,
                    *generation as i64,
                    retry
                ])?;
        }
        Change::Touch { key, uid, revision, suspended, preserve, generation, retry } => {
            connection
                .prepare_cached(
                    "UPDATE works SET uid = ?2, revision = ?3, suspended = ?4, preserve = ?5, generation = ?6,
                        retry = ?7
                     WHERE key = ?1",
                )?
                .execute(params![
                    key,
                    uid,
                    *revision as i64,
                    suspended,
                    preserve,
                    *generation as i64,
                    retry
                ])?;
        }
        Change::Delete { key, uid, revision, preserve } => {
            connection
                .prepare_cached(
                    "UPDATE works SET uid = ?4, revision = ?2, preserve = ?3, phase = max(phase, 1)
                     WHERE key = ?1",
                )?
                .execute(params![key, *revision as i64, preserve, uid])?;
        }
        Change::Forget { key } => {
            connection.prepare_cached("DELETE FROM works WHERE key = ?1")?.execute([key])?;
        }
        Change::Epoch(epoch) => {
            set_number(connection, "epoch", *epoch as i64)?;
            set_number(connection, "cursor", 0)?;
            // Revisions of an older epoch say nothing in this one.
            connection.execute("UPDATE works SET revision = 0", [])?;
        }
        Change::Cursor(cursor) => set_number(connection, "cursor", *cursor as i64)?,
        Change::Timeline(timeline) => set_number(connection, "timeline", *timeline as i64)?,
        Change::Seal(seal) => set_value(connection, SEAL, seal.as_ref())?,
    }
    Ok(())
}

fn phase(number: i64) -> Phase {
    match number {
        0 => Phase::Desired,
        1 => Phase::Deleting,
        _ => Phase::Removed,
    }
}

fn entry(row: &Row<'_>) -> Result<Entry, rusqlite::Error> {
    let hash: Bytes = row.get::<_, Vec<u8>>(2)?.into();
    let packed: Bytes = row.get::<_, Vec<u8>>(5)?.into();
    let body = body::decode(row.get(3)?, &packed, row.get::<_, i64>(4)? as u64).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Blob, Box::new(error))
    })?;
    let applied_hash: Option<Vec<u8>> = row.get(10)?;
    let applied = match row.get::<_, Option<bool>>(11)? {
        Some(ok) => {
            let message: Option<String> = row.get(12)?;
            let applied = crate::reconcile::outcome(ok, message.unwrap_or_default());
            Some((applied, applied_hash.as_deref() == Some(&hash[..])))
        }
        None => None,
    };
    Ok(Entry {
        uid: row.get(0)?,
        revision: row.get::<_, i64>(1)? as u64,
        hash,
        body,
        suspended: row.get(6)?,
        preserve: row.get(7)?,
        phase: phase(row.get(8)?),
        attempts: row.get(9)?,
        applied,
        placed: row.get(13)?,
        generation: row.get::<_, i64>(14)? as u64,
        retry: row.get(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::outcome;

    fn put(key: &str, revision: u64, body: &'static [u8]) -> Change {
        let body = Bytes::from_static(body);
        Change::Put {
            key: key.into(),
            uid: "u".into(),
            revision,
            hash: body::hash(&body),
            body,
            suspended: false,
            preserve: false,
            generation: revision,
            retry: String::new(),
        }
    }

    #[test]
    fn what_was_committed_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        ledger
            .commit(&[Change::Epoch(7), put("a", 3, b"one"), put("b", 4, b"two"), Change::Cursor(4)])
            .unwrap();
        ledger.begins(&["a".into()]).unwrap();
        drop(ledger);
        let ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.position().unwrap(), (7, 4));
        assert_eq!(ledger.keys().unwrap(), ["a", "b"]);
        let entry = ledger.entry("a").unwrap().unwrap();
        assert_eq!((entry.body.as_ref(), entry.attempts, entry.applied), (&b"one"[..], 1, None));
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(dir.path().join("ledger.sqlite")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_ledger_of_an_older_agent_is_taken_over() {
        for version in [1, 2] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("ledger.sqlite");
            let placed = if version == 2 { ", placed INTEGER NOT NULL DEFAULT 0" } else { "" };
            Connection::open(&file)
                .unwrap()
                .execute_batch(&format!(
                    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
                     CREATE TABLE works (key TEXT PRIMARY KEY, uid TEXT NOT NULL, revision INTEGER NOT NULL,
                        hash BLOB NOT NULL, encoding INTEGER NOT NULL, decoded_size INTEGER NOT NULL,
                        body BLOB NOT NULL, suspended INTEGER NOT NULL, preserve INTEGER NOT NULL,
                        phase INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
                        applied_hash BLOB, applied_ok INTEGER, applied_message TEXT{placed});
                     INSERT INTO works (key, uid, revision, hash, encoding, decoded_size, body, suspended, preserve)
                        VALUES ('a', 'u', 3, x'00', 0, 2, x'7b7d', 0, 0);
                     PRAGMA user_version = {version};"
                ))
                .unwrap();
            let ledger = Ledger::open(dir.path()).unwrap();
            let entry = ledger.entry("a").unwrap().unwrap();
            assert_eq!((entry.generation, entry.retry.as_str()), (0, ""), "what the hub has not said yet");
            let touch = Change::Touch {
                key: "a".into(),
                uid: "u".into(),
                revision: 4,
                suspended: false,
                preserve: false,
                generation: 9,
                retry: "again".into(),
            };
            ledger.commit(&[touch]).unwrap();
            drop(ledger);
            let entry = Ledger::open(dir.path()).unwrap().entry("a").unwrap().unwrap();
            assert_eq!((entry.generation, entry.retry.as_str(), entry.revision), (9, "again", 4));
        }
    }

    #[test]
    fn what_is_acknowledged_is_synced_whatever_was_written_before() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let level = || -> i64 {
            ledger.connection.lock().pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
        };
        assert_eq!(level(), 2, "FULL");
        ledger.commit(&[put("a", 1, b"one")]).unwrap();
        ledger.begins(&["a".into()]).unwrap();
        ledger.ended(&[("a".into(), Bytes::new(), outcome(false, String::new()), false)]).unwrap();
        assert!(ledger.entry("a").unwrap().unwrap().is_nowhere());
        ledger.ended(&[("a".into(), Bytes::new(), outcome(true, String::new()), true)]).unwrap();
        assert!(!ledger.entry("a").unwrap().unwrap().is_nowhere());
        assert_eq!(level(), 2);
    }

    #[test]
    fn an_outcome_is_about_one_body() {
        let ledger = Ledger::in_memory().unwrap();
        ledger.commit(&[put("a", 1, b"one")]).unwrap();
        let hash = ledger.entry("a").unwrap().unwrap().hash;
        ledger.begins(&["a".into()]).unwrap();
        ledger.ended(&[("a".into(), hash, outcome(true, String::new()), true)]).unwrap();
        let entry = ledger.entry("a").unwrap().unwrap();
        assert!(entry.is_applied() && entry.attempts == 0);
        ledger.commit(&[put("a", 2, b"two")]).unwrap();
        let entry = ledger.entry("a").unwrap().unwrap();
        assert!(!entry.is_applied() && entry.applied.is_some());
    }

    #[test]
    fn a_crash_counter_is_cleared_by_a_new_body_only() {
        let ledger = Ledger::in_memory().unwrap();
        ledger.commit(&[put("a", 1, b"one")]).unwrap();
        ledger.begins(&["a".into()]).unwrap();
        ledger.commit(&[put("a", 2, b"one")]).unwrap();
        assert_eq!(ledger.entry("a").unwrap().unwrap().attempts, 1);
        ledger.commit(&[put("a", 3, b"two")]).unwrap();
        assert_eq!(ledger.entry("a").unwrap().unwrap().attempts, 0);
    }

    #[test]
    fn a_life_goes_from_desired_over_deleting_to_removed_and_may_begin_anew() {
        let ledger = Ledger::in_memory().unwrap();
        ledger.commit(&[put("a", 1, b"one")]).unwrap();
        let phase = || ledger.held().unwrap()["a"].phase;
        ledger.removed(&["a".into()]).unwrap();
        assert_eq!(phase(), Phase::Desired, "only what is being deleted can be removed");
        ledger
            .commit(&[Change::Delete { key: "a".into(), uid: "u".into(), revision: 2, preserve: true }])
            .unwrap();
        assert_eq!(phase(), Phase::Deleting);
        ledger.removed(&["a".into()]).unwrap();
        ledger
            .commit(&[Change::Delete { key: "a".into(), uid: "u2".into(), revision: 3, preserve: true }])
            .unwrap();
        assert_eq!(phase(), Phase::Removed);
        assert_eq!(ledger.held().unwrap()["a"].uid, "u2", "the removal is confirmed for the newest");
        ledger.commit(&[put("a", 4, b"one")]).unwrap();
        assert_eq!(phase(), Phase::Desired);
        assert_eq!(ledger.entry("a").unwrap().unwrap().applied, None, "a new life begins unapplied");
        ledger.commit(&[Change::Epoch(9), Change::Forget { key: "b".into() }]).unwrap();
        assert_eq!((ledger.held().unwrap()["a"].revision, ledger.position().unwrap()), (0, (9, 0)));
        ledger.commit(&[Change::Forget { key: "a".into() }]).unwrap();
        assert!(ledger.entry("a").unwrap().is_none());
    }
}
