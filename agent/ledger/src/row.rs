//! A row of the table `works`: its columns, and what they mean.
//!
//! In: a row of SQLite. Out: an [`Entry`], or what a session must know of it; a body that is not the one of its hash, or a row that is not as its
//! guard says, is an error, which counts as damage.

use bytes::Bytes;
use karmada_proto::body;
use karmada_proto::digest::{self, WorkHeader};
use rusqlite::{Connection, params};

use super::Entry;
use karmada_member::ObjectId;
use karmada_session::session::{HeldWork, Phase};

/// In `unanswered`: nothing of a write of the Work may come.
pub(super) const NOTHING_COMES: i64 = 0;
/// In `unanswered`: a write was begun of which it is not known whether the member carries it out.
pub(super) const UNANSWERED: i64 = 1;
/// In `unanswered`: a write is next. It is synced with what asks for the write, so that no power cut takes the knowledge away that the
/// member may have been asked. To this process it means nothing more; to the next one, what [`UNANSWERED`] does.
pub(super) const TO_BE_WRITTEN: i64 = 2;
/// What `unanswered` is after an application ended.
pub(super) fn still_open(unanswered: bool, next: bool) -> i64 {
    match (unanswered, next) {
        (true, _) => UNANSWERED,
        (false, true) => TO_BE_WRITTEN,
        (false, false) => NOTHING_COMES,
    }
}

/// The columns of `works` as [`entry_of`] reads them, the key last.
pub(super) const COLUMNS: [&str; 22] = [
    "uid",
    "revision",
    "hash",
    "encoding",
    "decoded_size",
    "body",
    "suspended",
    "preserve",
    "phase",
    "attempts",
    "applied_hash",
    "applied_ok",
    "applied_message",
    "placed",
    "generation",
    "retry",
    "crashes",
    "written",
    "unanswered",
    "former",
    "guard",
    "key",
];

/// What decides whose a row is, whether its objects are to go, and which.
struct Guarded<'a> {
    key: &'a str,
    uid: &'a str,
    hash: &'a [u8],
    phase: i64,
    preserve: bool,
    former: &'a str,
}

/// In `guard`: an older agent wrote the row.
const UNGUARDED: i64 = 0;

impl Guarded<'_> {
    /// Never [`UNGUARDED`].
    fn guard(&self) -> i64 {
        let Self { key, uid, hash, phase, preserve, former } = self;
        let digest = body::hash(format!("{key:?}{uid:?}{hash:?}{phase}{preserve}{former:?}").as_bytes());
        let number = digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        if number == UNGUARDED { 1 } else { number }
    }

    fn check(&self, has: i64) -> Result<(), rusqlite::Error> {
        check(has, self.guard())
    }
}

/// Whether a row that has this guard may be gone by. A bit that flipped on the disk must not have objects deleted that nobody deleted: SQLite sees
/// no such bit.
fn check(has: i64, guard: i64) -> Result<(), rusqlite::Error> {
    if has == UNGUARDED || has == guard {
        return Ok(());
    }
    Err(damaged(20, "the row is not as its guard says".into()))
}

fn damaged(column: usize, error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, error)
}

/// The guard that the row of `key` has, and the one that it should have as it is now; `None` where there is no such row.
fn guards(connection: &Connection, key: &str) -> Result<Option<(i64, i64)>, rusqlite::Error> {
    let mut query = connection
        .prepare_cached("SELECT uid, hash, phase, preserve, former, guard FROM works WHERE key = ?1")?;
    let mut rows = query.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (uid, hash, former): (String, Vec<u8>, String) = (row.get(0)?, row.get(1)?, row.get(4)?);
    let (phase, preserve) = (row.get(2)?, row.get(3)?);
    let guard = Guarded { key, uid: &uid, hash: &hash, phase, preserve, former: &former }.guard();
    Ok(Some((row.get(5)?, guard)))
}

/// Guards the row of `key`, where there is one, as it is now: called after every change of what [`Guarded`] names.
pub(super) fn set_guard(connection: &Connection, key: &str) -> Result<(), rusqlite::Error> {
    if let Some((has, guard)) = guards(connection, key)?
        && has != guard
    {
        connection
            .prepare_cached("UPDATE works SET guard = ?2 WHERE key = ?1")?
            .execute(params![key, guard])?;
    }
    Ok(())
}

/// Changes a part of the row of `key`, and guards it: what is damaged is not guarded as if it were right.
pub(super) fn change_guarded(
    connection: &Connection,
    key: &str,
    change: impl FnOnce() -> Result<(), rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    if let Some((has, guard)) = guards(connection, key)? {
        check(has, guard)?;
    }
    change().and_then(|()| set_guard(connection, key))
}

/// A row of [`COLUMNS`]. A body that is not the one of its hash is damaged, and so is a row that is not as its guard says.
pub(super) fn entry_of(row: &rusqlite::Row<'_>) -> Result<Entry, rusqlite::Error> {
    let hash: Bytes = row.get::<_, Vec<u8>>(2)?.into();
    let packed: Bytes = row.get::<_, Vec<u8>>(5)?.into();
    let body = body::decode(row.get(3)?, &packed, row.get::<_, i64>(4)? as u64)
        .map_err(|error| damaged(5, Box::new(error)))?;
    if body::hash(&body) != hash {
        return Err(damaged(5, "the body is not the one of its hash".into()));
    }
    let (uid, key, former): (String, String, String) = (row.get(0)?, row.get(21)?, row.get(19)?);
    let (number, preserve) = (row.get(8)?, row.get(7)?);
    Guarded { key: &key, uid: &uid, hash: &hash, phase: number, preserve, former: &former }
        .check(row.get(20)?)?;
    let applied_hash: Option<Vec<u8>> = row.get(10)?;
    let applied = match row.get::<_, Option<bool>>(11)? {
        Some(ok) => {
            let message: Option<String> = row.get(12)?;
            let applied = crate::outcome(ok, &message.unwrap_or_default());
            Some((applied, applied_hash.as_deref() == Some(&hash[..])))
        }
        None => None,
    };
    Ok(Entry {
        uid,
        revision: row.get::<_, i64>(1)? as u64,
        hash,
        body,
        suspended: row.get(6)?,
        preserve,
        phase: phase(number),
        applied,
        placed: row.get(13)?,
        generation: row.get::<_, i64>(14)? as u64,
        retry: row.get(15)?,
        crashes: row.get(16)?,
        written: decode_digests(&row.get::<_, Vec<u8>>(17)?),
        unanswered: row.get::<_, i64>(18)? == UNANSWERED,
        former: former_of(&former),
    })
}

/// What a session must know of each Work, as [`held_of`] reads it.
pub(super) const HELD: &str = "SELECT key, uid, revision, hash, phase, suspended, preserve, generation, retry, former, guard FROM works";

/// A row of [`HELD`].
pub(super) fn held_of(row: &rusqlite::Row<'_>) -> Result<(String, HeldWork), rusqlite::Error> {
    let (uid, retry): (String, String) = (row.get(1)?, row.get(8)?);
    let (key, former): (String, String) = (row.get(0)?, row.get(9)?);
    let (hash, number): (Vec<u8>, i64) = (row.get(3)?, row.get(4)?);
    let (phase, preserve) = (phase(number), row.get(6)?);
    Guarded { key: &key, uid: &uid, hash: &hash, phase: number, preserve, former: &former }
        .check(row.get(10)?)?;
    let header = WorkHeader {
        uid: &uid,
        suspended: row.get(5)?,
        preserve,
        generation: row.get::<_, i64>(7)? as u64,
        retry: &retry,
    };
    let content = match phase {
        Phase::Desired => digest::work_row(header, &hash),
        Phase::Deleting | Phase::Removed => digest::deleting(&uid, preserve, &retry),
    };
    let revision = row.get::<_, i64>(2)? as u64;
    Ok((key, HeldWork { uid, revision, hash: hash.into(), phase, content }))
}

/// The phase that a number stands for.
pub(super) fn phase(number: i64) -> Phase {
    match number {
        0 => Phase::Desired,
        1 => Phase::Deleting,
        _ => Phase::Removed,
    }
}

/// Digests of what was written last, as the ledger keeps them.
pub(super) fn encode_digests(digests: &[u64]) -> Vec<u8> {
    digests.iter().flat_map(|digest| digest.to_be_bytes()).collect()
}

/// Reads what [`encode_digests`] made.
fn decode_digests(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|digest| u64::from_be_bytes(*digest)).collect()
}

/// Objects as the ledger keeps them; nothing for none.
pub(super) fn former_text(ids: &[ObjectId]) -> String {
    if ids.is_empty() { String::new() } else { serde_json::json!(ids).to_string() }
}

/// The other way round.
pub(super) fn former_of(text: &str) -> Vec<ObjectId> {
    serde_json::from_str(text).unwrap_or_default()
}
