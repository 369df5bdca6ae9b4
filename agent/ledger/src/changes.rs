//! What a change of the session does to the ledger's tables.
//!
//! In: a transaction, and a change. Out: rows written; whoever opened the transaction commits it.

use bytes::Bytes;
use karmada_proto::body;
use rusqlite::{Connection, OptionalExtension, params};

use super::former_rows::former_key;
use super::manifests::parse_manifests;
use super::meta::{SEAL, document, set_cursor, set_number, set_seen, set_value};
use super::row::{COLUMNS, NOTHING_COMES, TO_BE_WRITTEN, change_guarded, entry_of, former_text, set_guard};
use karmada_member::ObjectId;
use karmada_session::session::{Change, Phase};

/// The body of what is held by name alone.
const NOTHING: &[u8] = br#"{"manifests":[]}"#;
fn objects_in(body: &[u8]) -> Vec<ObjectId> {
    parse_manifests(body).unwrap_or_default().iter().map(ObjectId::of).collect()
}

/// Notes objects that were found with the marks of Work `key`, where no Work of the hub's has its name. True where some are new.
pub(super) fn found(
    connection: &Connection,
    key: &str,
    objects: &[ObjectId],
) -> Result<bool, rusqlite::Error> {
    let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
    let before = connection.prepare_cached(&select)?.query_row([key], entry_of).optional()?;
    if before.as_ref().is_some_and(|entry| !entry.is_stray()) {
        return Ok(false);
    }
    let known = before.map(|entry| entry.former).unwrap_or_default();
    let mut former = known.clone();
    former.extend_from_slice(objects);
    former.sort();
    former.dedup();
    if former == known {
        return Ok(false);
    }
    let nothing = Bytes::from_static(NOTHING);
    let encoded = body::encode(&nothing);
    connection
        .prepare_cached(
            "INSERT INTO works (key, uid, revision, hash, encoding, decoded_size, body, suspended, preserve, placed, unanswered, former)
             VALUES (?1, '', 0, ?2, ?3, ?4, ?5, 1, 0, 1, 0, ?6) ON CONFLICT (key) DO UPDATE SET former = ?6",
        )?
        .execute(params![
            key,
            body::hash(NOTHING).as_ref(),
            encoded.encoding as i32,
            encoded.decoded_size as i64,
            encoded.bytes.as_ref(),
            former_text(&former)
        ])?;
    set_guard(connection, key)?;
    Ok(true)
}

/// What bodies of a Work before `body` named, and that does not: a newer body that does not name an object is the hub's word that it is
/// to be there no longer.
fn former_after(
    connection: &Connection,
    key: &str,
    hash: &[u8],
    body: &[u8],
) -> Result<Vec<ObjectId>, rusqlite::Error> {
    let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
    let Some(before) = connection.prepare_cached(&select)?.query_row([key], entry_of).optional()? else {
        return Ok(Vec::new());
    };
    if before.is_stray() {
        // They were found, and named by no body that this agent had: what they are is a person's to say.
        return Ok(Vec::new());
    }
    if before.hash == hash || before.phase == Phase::Removed {
        return Ok(before.former);
    }
    let placed = if before.may_be_placed() { objects_in(&before.body) } else { Vec::new() };
    let (named, mut former) = (objects_in(body), before.former);
    former.extend(placed);
    former.sort();
    former.dedup();
    // Named otherwise, it is the same object: another version of its kind, a namespace that it is not in.
    former.retain(|id| !named.iter().any(|named| named.may_be(id)));
    Ok(former)
}

/// What bodies of Work `key` before named and that does not is not to be taken away: it is noted as found, for a person to decide.
fn keep_former(connection: &Connection, key: &str) -> Result<(), rusqlite::Error> {
    let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
    let held = connection.prepare_cached(&select)?.query_row([key], entry_of).optional()?;
    let Some(former) = held.map(|entry| entry.former).filter(|former| !former.is_empty()) else {
        return Ok(());
    };
    if let Some(row) = former_key(key) {
        found(connection, &row, &former)?;
    }
    connection.prepare_cached("UPDATE works SET former = '' WHERE key = ?1")?.execute([key])?;
    set_guard(connection, key)
}

/// What becomes of a Work's row when a body comes. An outcome is of one body and of no other for good: the member may have taken, or still be
/// taking, whatever came after that one, so that it counts no more where the same body comes back.
const PUT: &str =
    "INSERT INTO works (key, uid, revision, hash, encoding, decoded_size, body, suspended, preserve,
        generation, retry, placed, unanswered, former)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?13, '')
     ON CONFLICT (key) DO UPDATE SET uid = ?2, revision = ?3, hash = ?4, encoding = ?5,
        decoded_size = ?6, body = ?7, suspended = ?8, preserve = ?9, generation = ?10,
        retry = ?11, phase = 0, former = ?12,
        unanswered = CASE WHEN unanswered = 1 OR (hash = ?4 AND phase = 0) THEN unanswered ELSE ?13 END,
        applied_ok = CASE WHEN phase = 0 THEN applied_ok END,
        applied_hash = CASE WHEN hash = ?4 THEN applied_hash END,
        crashes = CASE WHEN hash = ?4 AND retry = ?11 THEN crashes ELSE 0 END";

/// The body stays; what the Work says beside it changes.
const TOUCH: &str =
    "UPDATE works SET uid = ?2, revision = ?3, suspended = ?4, preserve = ?5, generation = ?6,
        retry = ?7, crashes = CASE WHEN retry = ?7 THEN crashes ELSE 0 END,
        former = CASE WHEN uid = '' AND phase = 0 THEN '' ELSE former END
     WHERE key = ?1";

/// A tombstone.
const BURY: &str =
    "UPDATE works SET uid = ?4, revision = ?2, preserve = ?3, phase = max(phase, 1), retry = ?5,
        crashes = CASE WHEN retry = ?5 THEN crashes ELSE 0 END
     WHERE key = ?1";

pub(super) fn apply(connection: &Connection, change: &Change) -> Result<(), rusqlite::Error> {
    match change {
        Change::Put { key, uid, revision, hash, body, suspended, preserve, generation, retry } => {
            let former = former_after(connection, key, hash, body)?;
            let encoded = body::encode(body);
            let (revision, generation) = (*revision as i64, *generation as i64);
            let (encoding, decoded_size) = (encoded.encoding as i32, encoded.decoded_size as i64);
            let (hash, body, former) = (hash.as_ref(), encoded.bytes.as_ref(), former_text(&former));
            let unanswered = if *suspended { NOTHING_COMES } else { TO_BE_WRITTEN };
            connection.prepare_cached(PUT)?.execute(params![
                key,
                uid,
                revision,
                hash,
                encoding,
                decoded_size,
                body,
                suspended,
                preserve,
                generation,
                retry,
                former,
                unanswered
            ])?;
            set_guard(connection, key)?;
        }
        Change::Touch { key, uid, revision, suspended, preserve, generation, retry } => {
            let (revision, generation) = (*revision as i64, *generation as i64);
            let row = params![key, uid, revision, suspended, preserve, generation, retry];
            change_guarded(connection, key, || connection.prepare_cached(TOUCH)?.execute(row).map(drop))?;
        }
        Change::Delete { key, uid, revision, preserve, retry } => {
            let row = params![key, *revision as i64, preserve, uid, retry];
            change_guarded(connection, key, || connection.prepare_cached(BURY)?.execute(row).map(drop))?;
        }
        Change::KeepFormer { key } => keep_former(connection, key)?,
        Change::Forget { key } => {
            connection.prepare_cached("DELETE FROM works WHERE key = ?1")?.execute([key])?;
        }
        Change::Epoch(epoch) => {
            set_number(connection, "epoch", *epoch as i64)?;
            revisions_begin_anew(connection)?;
        }
        Change::Listing => revisions_begin_anew(connection)?,
        Change::Listed { key, revision } => set_revision(connection, key, *revision)?,
        Change::Unlisted { key } => set_revision(connection, key, 0)?,
        Change::Cursor(cursor) => set_cursor(connection, *cursor)?,
        Change::Timeline(timeline) => set_number(connection, "timeline", *timeline as i64)?,
        Change::Seen(seen) => set_seen(connection, seen)?,
        Change::Seal(seal) => set_value(connection, SEAL, seal.as_ref())?,
        Change::Document { table, hash, body } => {
            set_value(connection, &document(*table), [hash.as_ref(), body].concat())?;
        }
    }
    Ok(())
}

fn set_revision(connection: &Connection, key: &str, revision: u64) -> Result<(), rusqlite::Error> {
    let set = "UPDATE works SET revision = ?2 WHERE key = ?1";
    connection.prepare_cached(set)?.execute(params![key, revision as i64]).map(drop)
}

/// Revisions that were told before say nothing of those that are told from now on, and neither does the cursor.
fn revisions_begin_anew(connection: &Connection) -> Result<(), rusqlite::Error> {
    set_cursor(connection, 0)?;
    connection.execute("UPDATE works SET revision = 0 WHERE revision != 0", [])?;
    Ok(())
}
