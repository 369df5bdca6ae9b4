//! The ledger as rows that can be kept elsewhere: in buckets by key, so that a change touches one of them, and put back whole.
//!
//! In: fingerprints of the buckets that are known, or the rows of a copy. Out: a [`Snapshot`] with the rows of the others; or a ledger as
//! it was, whose open writes count as open still.

use std::collections::BTreeMap;

use bytes::Bytes;
use karmada_proto::body;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::meta::{HubPosition, cluster_names, set_number};
use super::row::{COLUMNS, encode_digests, entry_of, former_text, set_guard};
use super::{Ledger, LedgerError, changes};
use karmada_member::ObjectId;
use karmada_session::session::{Change, Phase};

/// One Work, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    key: String,
    uid: String,
    revision: u64,
    body: String,
    suspended: bool,
    preserve: bool,
    phase: u8,
    placed: bool,
    generation: u64,
    retry: String,
    crashes: u32,
    /// The outcome for this very body, where there is one.
    applied: Option<(bool, String)>,
    /// See [`super::Entry::written`].
    #[serde(default)]
    written: Vec<u64>,
    /// See [`super::Entry::unanswered`]. (Not in the fingerprint: that it is over is worth no copy.)
    #[serde(default)]
    unanswered: bool,
    /// See [`super::Entry::former`].
    #[serde(default)]
    former: Vec<ObjectId>,
}

/// The ledger at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Of the hub.
    pub epoch: u64,
    /// Everything up to here is in the rows.
    pub cursor: u64,
    /// By whom that was told.
    pub told: HubPosition,
    /// The names of the clusters whose ledger it is and was, the newest last.
    pub clusters: Vec<String>,
    /// A fingerprint of each bucket's rows; none where it is empty.
    pub fingerprints: Vec<Option<Bytes>>,
    /// The rows of the buckets that were asked for.
    pub rows: BTreeMap<usize, Vec<Row>>,
}

fn bucket_of(key: &str, buckets: usize) -> usize {
    usize::from(body::hash(key.as_bytes())[0]) % buckets.max(1)
}

impl Ledger {
    /// The ledger in `buckets` buckets, with the rows of those whose fingerprint is not among `known`.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn snapshot(&self, known: &[Option<Bytes>], buckets: usize) -> Result<Snapshot, LedgerError> {
        self.read(|connection| {
            // One look at all of it: the cursor must not be ahead of the rows.
            let transaction = connection.transaction()?;
            let mut snapshot = Snapshot::default();
            let number = "SELECT value FROM meta WHERE key = ?1";
            for (name, into) in [("epoch", &mut snapshot.epoch), ("cursor", &mut snapshot.cursor)] {
                let value: Option<i64> = transaction.query_row(number, [name], |row| row.get(0)).optional()?;
                *into = value.unwrap_or(0) as u64;
            }
            snapshot.told = HubPosition::read(&transaction)?;
            snapshot.clusters = cluster_names(&transaction)?;
            let mut keys: Vec<Vec<(String, String)>> = vec![Vec::new(); buckets];
            let mut query = transaction.prepare_cached(
                "SELECT key, concat_ws('/', uid, revision, hex(hash), suspended, preserve, phase, placed, generation, retry, crashes,
                    applied_ok, hex(applied_hash), hex(written), former) FROM works ORDER BY key",
            )?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let (key, mark): (String, String) = (row.get(0)?, row.get(1)?);
                keys[bucket_of(&key, buckets)].push((key, mark));
            }
            let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
            for (bucket, keys) in keys.into_iter().enumerate() {
                let marks: String = keys.iter().map(|(key, mark)| format!("{key}={mark}\n")).collect();
                let fingerprint = (!keys.is_empty()).then(|| body::hash(marks.as_bytes()));
                if known.get(bucket) != Some(&fingerprint) {
                    let mut query = transaction.prepare_cached(&select)?;
                    let rows: Result<Vec<Row>, rusqlite::Error> = keys
                        .into_iter()
                        .map(|(key, _)| Ok(row_of(query.query_row([&key], entry_of)?, key)))
                        .collect();
                    snapshot.rows.insert(bucket, rows?);
                }
                snapshot.fingerprints.push(fingerprint);
            }
            Ok(snapshot)
        })
    }

    /// Makes an empty ledger what a snapshot was, whole or not at all.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn restore(
        &self,
        (epoch, cursor): (u64, u64),
        told: &HubPosition,
        rows: &[Row],
    ) -> Result<(), LedgerError> {
        self.read(|connection| {
            let transaction = connection.transaction()?;
            set_number(&transaction, "epoch", epoch as i64)?;
            set_number(&transaction, "cursor", cursor as i64)?;
            told.write(&transaction)?;
            for row in rows {
                let body = Bytes::copy_from_slice(row.body.as_bytes());
                let put = Change::Put {
                    key: row.key.clone(),
                    uid: row.uid.clone(),
                    revision: row.revision,
                    hash: body::hash(&body),
                    body,
                    suspended: row.suspended,
                    preserve: row.preserve,
                    generation: row.generation,
                    retry: row.retry.clone(),
                };
                changes::apply(&transaction, &put)?;
                let applied = row.applied.as_ref();
                transaction.execute(
                    "UPDATE works SET phase = ?2, placed = ?3, crashes = ?4, applied_ok = ?5, applied_message = ?6,
                        applied_hash = CASE WHEN ?5 IS NULL THEN NULL ELSE hash END, written = ?7, unanswered = ?8, former = ?9
                     WHERE key = ?1",
                    params![
                        row.key,
                        row.phase,
                        row.placed,
                        row.crashes,
                        applied.map(|(ok, _)| ok),
                        applied.map(|(_, message)| message),
                        encode_digests(&row.written),
                        // A copy may be of before an application began, or was tried again.
                        row.unanswered || row.applied.as_ref().is_none_or(|(ok, _)| !ok),
                        former_text(&row.former)
                    ],
                )?;
                set_guard(&transaction, &row.key)?;
            }
            transaction.commit()
        })
    }
}

fn row_of(entry: super::Entry, key: String) -> Row {
    let applied =
        entry.applied.filter(|(_, current)| *current).map(|(applied, _)| (applied.ok, applied.message));
    Row {
        key,
        uid: entry.uid,
        revision: entry.revision,
        // Bodies are JSON.
        body: String::from_utf8_lossy(&entry.body).into_owned(),
        suspended: entry.suspended,
        preserve: entry.preserve,
        phase: match entry.phase {
            Phase::Desired => 0,
            Phase::Deleting => 1,
            Phase::Removed => 2,
        },
        placed: entry.placed,
        generation: entry.generation,
        retry: entry.retry,
        crashes: entry.crashes,
        applied,
        written: entry.written,
        unanswered: entry.unanswered,
        former: entry.former,
    }
}
