//! A copy of the ledger in Secrets of the member, so that an agent whose Pod moved goes on enforcing although its
//! hub is away and its disk was left behind.
//!
//! Comes in: the ledger, after what is desired changed. Goes out: Secrets `NAME-ledger-0` to `-14`. The first is the index: it
//! names a Secret and a hash for each bucket of Works. Each bucket has two Secrets of its own that are written in turn, and only
//! where its Works changed; what is written counts once the index says so, which is one write. So the copy costs what
//! changed, and one that was not finished changes nothing. How much is written is bounded: see [`pause_after`]. The ledger on
//! disk stays the truth, and the copy may be behind it: what it lacks, the hub sends again from the cursor that the copy holds.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use karmada_api::object;
use karmada_proto::v1::Table;
use karmada_proto::{BODY_LIMIT, body};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::identity::{IdentityStore, secret_id, secret_with};
use crate::ledger::{HubPosition, Ledger, LedgerError, Row};
use crate::member::{Member, MemberError};
use crate::reconcile::agent_objects::stem;
use crate::session::Change;

/// Buckets of Works.
const BUCKETS: usize = 7;
/// Bytes in one Secret; a Secret holds 1 MiB.
const CHUNK: usize = 1_000_000;
/// What changes within this time goes into one copy: a burst is one write to the member, and what was applied is
/// in it too.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Before it is tried again, where the member did not take it.
const AGAIN: Duration = Duration::from_secs(10);
/// Bytes a second that are written in the long run, however much changes.
const RATE: usize = 32 * 1024;
const LEVEL: i32 = 3;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("the member: {0}")]
    Member(#[from] MemberError),
    #[error("the ledger: {0}")]
    Ledger(#[from] LedgerError),
    #[error("packing: {0}")]
    Packing(#[from] std::io::Error),
    #[error("a {BUCKETS}th of the ledger is {0} bytes when compressed, more than a Secret holds")]
    TooLarge(usize),
    #[error("the Secret {0} is not what the index says")]
    Torn(String),
}

/// The index: what makes a set of Secrets a copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Index {
    /// Of this text; an agent that does not know it begins with an empty ledger.
    format: u32,
    epoch: u64,
    cursor: u64,
    /// Earlier agents did not keep it: the hub lists everything then.
    #[serde(default)]
    told: HubPosition,
    /// As [`crate::ledger::Snapshot::clusters`].
    #[serde(default)]
    clusters: Vec<String>,
    buckets: Vec<Option<Chunk>>,
    /// The customizations by which the Works are read, packed, base64; empty where there are none.
    #[serde(default)]
    customizations: String,
}

/// Where a bucket's Works are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chunk {
    secret: usize,
    /// Of the packed bytes, base64.
    hash: String,
    /// Of the rows, as the ledger makes it, base64.
    fingerprint: String,
}

const FORMAT: u32 = 2;

/// Bytes of packed customizations that the index takes beside the rest: it is written anew with each change.
const CUSTOMIZATIONS: usize = 64 * 1024;

impl Index {
    /// As the ledger knows them.
    fn fingerprints(&self) -> Vec<Option<Bytes>> {
        let known = |chunk: &Option<Chunk>| {
            chunk.as_ref().map(|chunk| STANDARD.decode(&chunk.fingerprint).unwrap_or_default().into())
        };
        self.buckets.iter().map(known).collect()
    }
}

fn hash(bytes: &[u8]) -> String {
    STANDARD.encode(body::hash(bytes))
}

/// The Secrets.
#[derive(Clone)]
pub struct LedgerBackup {
    member: Arc<dyn Member>,
    namespace: String,
    prefix: String,
}

/// How long to wait after a copy of so many bytes: what is written in the long run stays below [`RATE`].
fn pause_after(bytes: usize) -> Duration {
    DEBOUNCE.max(Duration::from_secs((bytes / RATE) as u64))
}

/// Where a copy becomes a ledger: a process that ends meanwhile leaves no ledger, and the next one begins again.
const RESTORING: &str = "ledger.restoring";

/// Writes a copy as the ledger in `directory`, whole or not at all. Out: how many Works it holds.
fn write_whole(directory: &Path, (index, rows): &(Index, Vec<Row>)) -> Result<usize, LedgerError> {
    let beside = directory.join(RESTORING);
    let emptied = match std::fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => std::fs::DirBuilder::new().mode(0o700).create(&beside),
    };
    emptied.map_err(LedgerError::File)?;
    let ledger = Ledger::open(&beside)?;
    ledger.restore_clusters(&index.clusters)?;
    ledger.restore((index.epoch, index.cursor), &index.told, rows)?;
    ledger.commit(&document(&index.customizations))?;
    let is_on_disk = ledger.is_durable();
    // Closed, all of it is in the one file; where the disk was full, not even then.
    drop(ledger);
    if !is_on_disk || beside.join("ledger.sqlite-wal").exists() {
        return Err(LedgerError::File(ErrorKind::StorageFull.into()));
    }
    // What another ledger left is not this one's.
    for end in ["-wal", "-shm"] {
        match std::fs::remove_file(directory.join(format!("ledger.sqlite{end}"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(LedgerError::File(error)),
            _ => {}
        }
    }
    std::fs::rename(beside.join("ledger.sqlite"), directory.join("ledger.sqlite"))
        .and_then(|()| std::fs::File::open(directory)?.sync_all())
        .and_then(|()| std::fs::remove_dir_all(&beside))
        .map_err(LedgerError::File)?;
    Ok(rows.len())
}

impl LedgerBackup {
    /// Beside an identity that is kept in a Secret; none where that is in a directory, which then is no Pod's.
    #[must_use]
    pub fn of(identity_store: &IdentityStore) -> Option<Self> {
        let IdentityStore::Secret { member, namespace, name } = identity_store else { return None };
        let prefix = format!("{}-ledger", stem(name));
        Some(Self { member: member.clone(), namespace: namespace.clone(), prefix })
    }

    /// Puts the copy into `directory`, where there is no ledger. Without a copy the ledger begins empty,
    /// which is right too: the hub sends everything.
    pub async fn restore(&self, directory: &Path) {
        if directory.join("ledger.sqlite").exists() {
            // A process ended between the rename and this; it holds Secrets.
            let _ = std::fs::remove_dir_all(directory.join(RESTORING));
            return;
        }
        match self.copy().await {
            Ok(Some(copy)) => match write_whole(directory, &copy) {
                Ok(works) => tracing::info!(works, "the ledger was restored from the member's Secrets"),
                Err(error) => tracing::warn!(%error, "restoring the ledger"),
            },
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "reading the copy of the ledger"),
        }
    }

    /// Keeps the copy up to date until `stop`, and writes what is left then.
    pub async fn run(&self, ledger: &Ledger, stop: CancellationToken) {
        let mut desired = ledger.desired();
        let (mut index, mut pause) = (None, DEBOUNCE);
        // The process before may have ended within the pause.
        if ledger.keys().is_ok_and(|keys| !keys.is_empty()) {
            desired.mark_changed();
        }
        loop {
            let news = tokio::select! {
                biased;
                () = stop.cancelled() => desired.has_changed().unwrap_or(false),
                changed = desired.changed() => changed.is_ok(),
            };
            if !news {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            desired.mark_unchanged();
            pause = match self.keep(ledger, &mut index).await {
                Ok(written) => pause_after(written),
                Err(error) => {
                    tracing::warn!(%error, "keeping a copy of the ledger in the member");
                    desired.mark_changed();
                    AGAIN
                }
            };
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Brings the copy up to date; how many bytes that took. `known` is the index as it stands, once it is known.
    async fn keep(&self, ledger: &Ledger, known: &mut Option<Index>) -> Result<usize, BackupError> {
        let standing = match known.take() {
            Some(index) => index,
            None => self.index().await?.unwrap_or_default(),
        };
        let snapshot = ledger.snapshot(&standing.fingerprints(), BUCKETS)?;
        let mut next = Index {
            format: FORMAT,
            epoch: snapshot.epoch,
            cursor: snapshot.cursor,
            told: snapshot.told,
            clusters: snapshot.clusters,
            buckets: standing.buckets.clone(),
            customizations: customizations(ledger)?,
        };
        next.buckets.resize(BUCKETS, None);
        let mut written = 0;
        for (bucket, rows) in &snapshot.rows {
            next.buckets[*bucket] = match snapshot.fingerprints.get(*bucket).cloned().flatten() {
                None => None,
                Some(fingerprint) => {
                    let packed = pack(rows)?;
                    let before =
                        standing.buckets.get(*bucket).and_then(Option::as_ref).map(|chunk| chunk.secret);
                    let secret = other_secret(*bucket, before);
                    self.write(secret, "works", &packed).await?;
                    written += packed.len();
                    Some(Chunk { secret, hash: hash(&packed), fingerprint: STANDARD.encode(fingerprint) })
                }
            };
        }
        if next != standing {
            let text = json!(next).to_string();
            self.write(0, "index", text.as_bytes()).await?;
            written += text.len();
        }
        *known = Some(next);
        Ok(written)
    }

    /// Over what is there now and over nothing else: a write that was not answered and is carried out late changes nothing any more.
    async fn write(&self, secret: usize, field: &str, bytes: &[u8]) -> Result<(), MemberError> {
        let (name, data) = (self.name(secret), json!({field: STANDARD.encode(bytes)}));
        let id = secret_id(&self.namespace, &name);
        match self.member.get(&id).await? {
            Some(there) => {
                let version = object::resource_version(&there);
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                self.member.merge(&id, &patch).await.map(drop)
            }
            None => self.member.create(&secret_with(&self.namespace, &name, &data)).await.map(drop),
        }
    }

    fn name(&self, secret: usize) -> String {
        format!("{}-{secret}", self.prefix)
    }

    async fn read(&self, secret: usize, field: &str) -> Result<Option<Vec<u8>>, MemberError> {
        let secret = self.member.get(&secret_id(&self.namespace, &self.name(secret))).await?;
        let text = secret.as_ref().and_then(|secret| secret.get("data")?.get(field)?.as_str());
        Ok(text.and_then(|text| STANDARD.decode(text).ok()))
    }

    async fn index(&self) -> Result<Option<Index>, MemberError> {
        let index = self.read(0, "index").await?;
        let index: Option<Index> = index.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(index.filter(|index| index.format == FORMAT))
    }

    /// The copy, where there is one.
    async fn copy(&self) -> Result<Option<(Index, Vec<Row>)>, BackupError> {
        let Some(index) = self.index().await? else { return Ok(None) };
        let mut rows = Vec::new();
        for chunk in index.buckets.iter().flatten() {
            let packed = self.read(chunk.secret, "works").await?.unwrap_or_default();
            if hash(&packed) != chunk.hash {
                return Err(BackupError::Torn(self.name(chunk.secret)));
            }
            rows.extend(unpack(&packed)?);
        }
        Ok(Some((index, rows)))
    }
}

/// The Secret of a bucket that the index does not name at present.
fn other_secret(bucket: usize, named: Option<usize>) -> usize {
    let first = 1 + 2 * bucket;
    if named == Some(first) { first + 1 } else { first }
}

/// The customizations that the ledger holds, packed; those that are too large are told by the hub again.
fn customizations(ledger: &Ledger) -> Result<String, BackupError> {
    let Some((_, body)) = ledger.document(Table::Customizations as u32)? else { return Ok(String::new()) };
    let packed = zstd::encode_all(&body[..], LEVEL)?;
    if packed.len() > CUSTOMIZATIONS {
        tracing::warn!(
            bytes = packed.len(),
            "customizations that are too large for the ledger's copy are not in it"
        );
        return Ok(String::new());
    }
    Ok(STANDARD.encode(packed))
}

/// The change that puts packed customizations back; none where there are none, or they cannot be read.
fn document(packed: &str) -> Vec<Change> {
    let packed = STANDARD.decode(packed).unwrap_or_default();
    let body = zstd::bulk::decompress(&packed, BODY_LIMIT).unwrap_or_default();
    if body.is_empty() {
        return Vec::new();
    }
    vec![Change::Document { table: Table::Customizations as u32, hash: body::hash(&body), body: body.into() }]
}

fn pack(rows: &[Row]) -> Result<Vec<u8>, BackupError> {
    let packed = zstd::encode_all(json!(rows).to_string().as_bytes(), LEVEL)?;
    if packed.len() > CHUNK { Err(BackupError::TooLarge(packed.len())) } else { Ok(packed) }
}

fn unpack(packed: &[u8]) -> Result<Vec<Row>, BackupError> {
    let text = zstd::decode_all(packed)?;
    serde_json::from_slice(&text).map_err(|error| BackupError::Packing(error.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::member::memory::MemoryMember;

    fn put(key: &str, body: &str) -> Change {
        let body = Bytes::copy_from_slice(body.as_bytes());
        Change::Put {
            key: key.into(),
            uid: "u".into(),
            revision: 7,
            hash: body::hash(&body),
            body,
            suspended: false,
            preserve: false,
            generation: 1,
            retry: String::new(),
        }
    }

    /// Text that does not compress below half its size.
    fn noise(length: usize, seed: u64) -> String {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(33 + ((state >> 33) % 90) as u8)
        };
        (0..length).map(|_| next()).collect()
    }

    struct Rig {
        memory: MemoryMember,
        backup: LedgerBackup,
        ledger: Ledger,
        _directory: tempfile::TempDir,
    }

    fn rig() -> Rig {
        let memory = MemoryMember::new("m", 1, Duration::ZERO);
        let member: Arc<dyn Member> = Arc::new(memory.clone());
        let identity_store =
            IdentityStore::Secret { member, namespace: "default".into(), name: "agent-identity".into() };
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path()).unwrap();
        Rig { memory, backup: LedgerBackup::of(&identity_store).unwrap(), ledger, _directory: directory }
    }

    async fn restored(backup: &LedgerBackup) -> Option<(Vec<String>, (u64, u64))> {
        let directory = tempfile::tempdir().unwrap();
        backup.restore(directory.path()).await;
        let file = directory.path().join("ledger.sqlite");
        file.exists().then_some(())?;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it holds Secrets");
        let ledger = Ledger::open(directory.path()).unwrap();
        Some((ledger.keys().unwrap(), ledger.position().unwrap()))
    }

    #[tokio::test]
    async fn the_copy_comes_back_with_what_is_known_of_each_work() {
        let rig = rig();
        assert_eq!(rig.backup.prefix, "agent-ledger");
        assert_eq!(restored(&rig.backup).await, None);
        let seen = vec![karmada_proto::v1::Seen { timeline: 3, revision: 11 }];
        let seal = Bytes::from_static(b"proof");
        let told = [Change::Seal(seal.clone()), Change::Timeline(u64::MAX), Change::Seen(seen.clone())];
        rig.ledger.commit(&[Change::Epoch(4), put("a", "one"), put("b", "two"), Change::Cursor(9)]).unwrap();
        rig.ledger.commit(&told).unwrap();
        let ended = crate::ledger::Outcome {
            key: "a".into(),
            hash: body::hash(b"one"),
            applied: crate::reconcile::outcome(true, ""),
            placed: true,
            written: vec![1, u64::MAX],
            unanswered: false,
        };
        rig.ledger.ended(&[ended]).unwrap();
        rig.backup.keep(&rig.ledger, &mut None).await.unwrap();
        assert_eq!(restored(&rig.backup).await.unwrap(), (vec!["a".to_owned(), "b".to_owned()], (4, 9)));
        let directory = tempfile::tempdir().unwrap();
        rig.backup.restore(directory.path()).await;
        let again = Ledger::open(directory.path()).unwrap();
        assert_eq!(
            (again.timeline().unwrap(), again.seen().unwrap()),
            (u64::MAX, seen),
            "the hub knows its own word"
        );
        assert_eq!(again.epoch_seal().unwrap(), seal);
        for key in ["a", "b"] {
            let mut entry = rig.ledger.entry(key).unwrap().unwrap();
            // What was not applied when the copy was made may have been begun since.
            entry.unanswered = key == "b";
            assert_eq!(again.entry(key).unwrap(), Some(entry));
        }
        // The next process goes on from the index.
        rig.ledger.commit(&[Change::Forget { key: "a".into() }, put("c", "three")]).unwrap();
        rig.backup.keep(&rig.ledger, &mut None).await.unwrap();
        assert_eq!(restored(&rig.backup).await.unwrap().0, ["b", "c"]);
    }

    /// A process that ended while it wrote the copy down left no ledger, and the next one begins again.
    #[tokio::test]
    async fn a_copy_becomes_a_ledger_whole_or_not_at_all() {
        let rig = rig();
        rig.ledger.commit(&[Change::Epoch(4), put("a", "one"), Change::Cursor(9)]).unwrap();
        rig.backup.keep(&rig.ledger, &mut None).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let half = directory.path().join(RESTORING);
        std::fs::create_dir(&half).unwrap();
        Ledger::open(&half).unwrap().commit(&[Change::Epoch(1)]).unwrap();
        // Another ledger's, of which somebody moved the file away.
        let other = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(other.path()).unwrap();
        ledger.commit(&[Change::Epoch(3), put("old", "x")]).unwrap();
        std::fs::copy(other.path().join("ledger.sqlite-wal"), directory.path().join("ledger.sqlite-wal"))
            .unwrap();
        drop(ledger);
        rig.backup.restore(directory.path()).await;
        assert!(!half.exists());
        let again = Ledger::open(directory.path()).unwrap();
        assert_eq!((again.keys().unwrap(), again.position().unwrap()), (vec!["a".to_owned()], (4, 9)));
    }

    #[tokio::test]
    async fn only_what_changed_is_written() {
        let rig = rig();
        let all: Vec<Change> = (0..70).map(|at| put(&format!("w{at}"), &noise(20_000, at))).collect();
        rig.ledger.commit(&all).unwrap();
        let mut index = None;
        let whole = rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
        assert!(whole > 700_000, "{whole}");
        let writes = rig.memory.writes();
        assert_eq!(rig.backup.keep(&rig.ledger, &mut index).await.unwrap(), 0);
        assert_eq!(rig.memory.writes(), writes, "nothing changed");
        rig.ledger.commit(&[put("w7", "short")]).unwrap();
        let written = rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
        assert!(written < whole / 4, "{written} of {whole}");
        assert_eq!(rig.memory.writes(), writes + 2, "a bucket and the index");
        assert_eq!(restored(&rig.backup).await.unwrap().0.len(), 70);
    }

    #[test]
    fn what_is_written_is_bounded() {
        assert_eq!(pause_after(100), DEBOUNCE);
        let pause = pause_after(CHUNK * BUCKETS);
        assert!(CHUNK * BUCKETS / pause.as_secs() as usize <= RATE + 1024, "{pause:?}");
    }

    #[tokio::test]
    async fn a_copy_that_was_not_finished_changes_nothing_and_a_torn_one_is_not_taken() {
        let rig = rig();
        let mut index = None;
        rig.ledger.commit(&[put("a", "one"), put("b", "two"), put("c", "three"), Change::Cursor(1)]).unwrap();
        rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
        let before = restored(&rig.backup).await.unwrap();
        rig.ledger.commit(&[put("a", "1"), put("b", "2"), put("d", "4"), Change::Cursor(2)]).unwrap();
        rig.memory.fail("agent-ledger-0", Some(MemberError::Unreachable("off".into())));
        rig.backup.keep(&rig.ledger, &mut index).await.unwrap_err();
        assert_eq!(restored(&rig.backup).await.unwrap(), before, "all of the one before");
        rig.memory.fail("agent-ledger-0", None);
        rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
        assert_eq!(restored(&rig.backup).await.unwrap().1, (0, 2));
        let chunk = index.unwrap().buckets.into_iter().flatten().next().unwrap();
        rig.backup.write(chunk.secret, "works", b"something else").await.unwrap();
        assert_eq!(restored(&rig.backup).await, None, "the hub sends everything");
    }

    #[tokio::test]
    async fn a_ledger_on_disk_is_never_replaced() {
        let rig = rig();
        rig.ledger.commit(&[put("a", "one")]).unwrap();
        rig.backup.keep(&rig.ledger, &mut None).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        drop(Ledger::open(directory.path()).unwrap());
        rig.backup.restore(directory.path()).await;
        assert_eq!(Ledger::open(directory.path()).unwrap().keys().unwrap(), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_copied_after_a_moment_and_at_the_end() {
        let rig = rig();
        let ledger = Arc::new(rig.ledger);
        let stop = CancellationToken::new();
        let running = {
            let (backup, ledger, stop) = (rig.backup.clone(), ledger.clone(), stop.clone());
            tokio::spawn(async move { backup.run(&ledger, stop).await })
        };
        tokio::task::yield_now().await;
        ledger.commit(&[put("a", "one")]).unwrap();
        tokio::time::sleep(DEBOUNCE + Duration::from_secs(1)).await;
        assert_eq!(restored(&rig.backup).await.unwrap().0, ["a"]);
        ledger.commit(&[put("b", "two")]).unwrap();
        stop.cancel();
        running.await.unwrap();
        assert_eq!(restored(&rig.backup).await.unwrap().0, ["a", "b"]);
    }

    /// The member was slow over a bucket, the agent gave up and wrote a newer one.
    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_written_late_spoils_no_newer_copy() {
        for made_before in [false, true] {
            let rig = rig();
            let mut index = None;
            if made_before {
                rig.ledger.commit(&[put("a", "zero")]).unwrap();
                rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
            }
            rig.ledger.commit(&[put("a", "one")]).unwrap();
            rig.memory.carry_out_late(Some(Duration::from_secs(300)));
            assert!(rig.backup.keep(&rig.ledger, &mut index).await.is_err());
            rig.memory.carry_out_late(None);
            rig.ledger.commit(&[put("a", "two")]).unwrap();
            rig.backup.keep(&rig.ledger, &mut index).await.unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
            let (keys, _) = restored(&rig.backup).await.expect("it is whole");
            assert_eq!(keys, ["a"], "made before: {made_before}");
        }
    }

    /// A Pod that moves while its hub is away enforces what it was given, by the customizations that it was given with it.
    #[tokio::test]
    async fn documents_come_back_with_the_copy() {
        let rig = rig();
        let body = Bytes::from_static(b"[]");
        let document = Change::Document { table: 2, hash: body::hash(&body), body };
        rig.ledger.commit(&[put("a", "one"), document]).unwrap();
        rig.backup.keep(&rig.ledger, &mut None).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        rig.backup.restore(directory.path()).await;
        let again = Ledger::open(directory.path()).unwrap();
        assert_eq!(again.keys().unwrap(), ["a"]);
        assert_eq!(
            again.document(2).unwrap(),
            rig.ledger.document(2).unwrap(),
            "the Works are enforced without it"
        );
    }
}
