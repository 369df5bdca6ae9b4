//! A copy of the ledger in Secrets of the member, so that an agent whose Pod moved goes on enforcing although its
//! hub is away and its disk was left behind.
//!
//! Comes in: the ledger, after what is desired changed. Goes out: the ledger's file, compressed, in Secrets
//! `NAME-ledger-0` to `-15`. They are two sets of eight that are written in turn, each named by what it holds: a
//! copy that was not finished never spoils the one before. The ledger on disk stays the truth, and the copy may
//! be a moment behind it: what it lacks, the hub sends again from the cursor that the copy holds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::identity::{Keeper, secret_id};
use crate::ledger::Ledger;
use crate::member::{Member, MemberError};

/// Secrets in one copy.
const SET: usize = 8;
/// Bytes in one Secret; a Secret holds 1 MiB.
const CHUNK: usize = 700 * 1024;
/// What changes within this time goes into one copy: a burst is one write to the member, and what was applied is
/// in it too.
const SETTLE: Duration = Duration::from_secs(2);
/// Before it is tried again, where the member did not take it.
const AGAIN: Duration = Duration::from_secs(10);
/// Kept with the first Secret of a set: the copy's number, and of how many Secrets it consists.
const COPY: &str = "edge.karmada.io/ledger-copy";
const LEVEL: i32 = 3;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
enum VaultError {
    #[error("the member: {0}")]
    Member(#[from] MemberError),
    #[error("the ledger: {0}")]
    Ledger(#[from] crate::ledger::LedgerError),
    #[error("the file: {0}")]
    File(#[from] std::io::Error),
    #[error("the ledger is {0} bytes when compressed, more than {SET} Secrets hold")]
    TooLarge(usize),
}

/// The Secrets.
#[derive(Clone)]
pub struct Vault {
    member: Arc<dyn Member>,
    namespace: String,
    prefix: String,
}

impl Vault {
    /// Beside an identity that is kept in a Secret; none where that is in a directory, which then is no Pod's.
    #[must_use]
    pub fn of(keeper: &Keeper) -> Option<Self> {
        let Keeper::Secret { member, namespace, name } = keeper else { return None };
        let prefix = format!("{}-ledger", name.strip_suffix("-identity").unwrap_or(name));
        Some(Self { member: member.clone(), namespace: namespace.clone(), prefix })
    }

    /// Puts the newest copy into `directory`, where there is no ledger. Without a copy the ledger begins empty,
    /// which is right too: the hub sends everything.
    pub async fn restore(&self, directory: &Path) {
        let file = directory.join("ledger.sqlite");
        if file.exists() {
            return;
        }
        match self.newest().await {
            Ok(Some(bytes)) => match std::fs::write(&file, &bytes) {
                Ok(()) => {
                    tracing::info!(bytes = bytes.len(), "the ledger was restored from the member's Secrets");
                }
                Err(error) => tracing::warn!(%error, "restoring the ledger"),
            },
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "reading the copy of the ledger"),
        }
    }

    /// Keeps the copy up to date until `stop`, and writes what is left then.
    pub async fn run(&self, ledger: &Ledger, directory: &Path, stop: CancellationToken) {
        let mut desired = ledger.desired();
        let (mut number, mut pause) = (None, SETTLE);
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
            pause = SETTLE;
            if let Err(error) = self.keep(ledger, directory, &mut number).await {
                tracing::warn!(%error, "keeping a copy of the ledger in the member");
                desired.mark_changed();
                pause = AGAIN;
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    async fn keep(
        &self,
        ledger: &Ledger,
        directory: &Path,
        number: &mut Option<u64>,
    ) -> Result<(), VaultError> {
        let file = directory.join("ledger.copy");
        let _ = std::fs::remove_file(&file);
        ledger.copy_to(&file)?;
        let bytes = zstd::encode_all(std::fs::File::open(&file)?, LEVEL)?;
        std::fs::remove_file(&file)?;
        let chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        if chunks.len() > SET {
            return Err(VaultError::TooLarge(bytes.len()));
        }
        let last = match *number {
            Some(last) => last,
            None => self.headers().await?.into_iter().flatten().map(|header| header.0).max().unwrap_or(0),
        };
        let next = last + 1;
        for (index, chunk) in chunks.iter().enumerate() {
            let name = self.secret(next, index);
            let header = format!("{next}/{}", chunks.len());
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": name, "namespace": self.namespace, "annotations": {COPY: header}},
                "data": {"ledger": STANDARD.encode(chunk)},
            });
            self.member.apply(&secret).await?;
        }
        *number = Some(next);
        Ok(())
    }

    fn secret(&self, number: u64, index: usize) -> String {
        let set = if number.is_multiple_of(2) { 0 } else { SET };
        format!("{}-{}", self.prefix, set + index)
    }

    /// Number and size of the two copies.
    async fn headers(&self) -> Result<[Option<(u64, usize)>; 2], MemberError> {
        let mut headers = [None; 2];
        for (number, header) in headers.iter_mut().enumerate() {
            *header = self.get(number as u64, 0).await?.and_then(|secret| header_of(&secret));
        }
        Ok(headers)
    }

    async fn get(&self, number: u64, index: usize) -> Result<Option<Value>, MemberError> {
        self.member.get(&secret_id(&self.namespace, &self.secret(number, index))).await
    }

    /// The newest copy that is whole.
    async fn newest(&self) -> Result<Option<Vec<u8>>, MemberError> {
        let mut headers: Vec<(u64, usize)> = self.headers().await?.into_iter().flatten().collect();
        headers.sort_unstable_by(|one, other| other.cmp(one));
        for header in headers {
            if let Some(bytes) = self.whole(header).await? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    async fn whole(&self, header: (u64, usize)) -> Result<Option<Vec<u8>>, MemberError> {
        let mut bytes = Vec::new();
        for index in 0..header.1.min(SET) {
            let secret = self.get(header.0, index).await?.unwrap_or_default();
            let chunk = secret.pointer("/data/ledger").and_then(Value::as_str).unwrap_or_default();
            let Ok(chunk) = STANDARD.decode(chunk) else { return Ok(None) };
            if header_of(&secret) != Some(header) {
                return Ok(None);
            }
            bytes.extend(chunk);
        }
        Ok(zstd::decode_all(bytes.as_slice()).ok())
    }
}

fn header_of(secret: &Value) -> Option<(u64, usize)> {
    let (number, size) = secret.pointer("/metadata/annotations")?.get(COPY)?.as_str()?.split_once('/')?;
    Some((number.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::member::memory::MemoryMember;
    use crate::session::Change;

    fn put(key: &str, body: Vec<u8>) -> Change {
        Change::Put {
            key: key.into(),
            uid: "u".into(),
            revision: 7,
            hash: Bytes::from_static(b"hash"),
            body: body.into(),
            suspended: false,
            preserve: false,
            generation: 1,
            retry: String::new(),
        }
    }

    /// Text that does not compress below half its size.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn vault() -> Vault {
        let member: Arc<dyn Member> = Arc::new(MemoryMember::new("m", 1, Duration::ZERO));
        let keeper = Keeper::Secret { member, namespace: "default".into(), name: "agent-identity".into() };
        Vault::of(&keeper).unwrap()
    }

    async fn restored(vault: &Vault) -> Option<Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        vault.restore(directory.path()).await;
        directory.path().join("ledger.sqlite").exists().then_some(())?;
        Some(Ledger::open(directory.path()).unwrap().keys().unwrap())
    }

    #[tokio::test]
    async fn the_newest_whole_copy_comes_back() {
        let (vault, directory) = (vault(), tempfile::tempdir().unwrap());
        assert_eq!(vault.prefix, "agent-ledger");
        assert_eq!(restored(&vault).await, None);
        let ledger = Ledger::open(directory.path()).unwrap();
        let mut number = None;
        ledger.commit(&[put("a", b"one".to_vec()), Change::Cursor(9)]).unwrap();
        vault.keep(&ledger, directory.path(), &mut number).await.unwrap();
        // Of several Secrets.
        ledger.commit(&[put("b", noise(CHUNK * 2, 1))]).unwrap();
        vault.keep(&ledger, directory.path(), &mut number).await.unwrap();
        assert_eq!(restored(&vault).await.unwrap(), ["a", "b"]);
        // The next process goes on counting.
        ledger.commit(&[put("c", b"three".to_vec())]).unwrap();
        vault.keep(&ledger, directory.path(), &mut None).await.unwrap();
        assert_eq!(restored(&vault).await.unwrap(), ["a", "b", "c"]);
        // One that was not finished leaves the one before.
        let torn = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": vault.secret(4, 0), "namespace": "default", "annotations": {COPY: "4/2"}},
            "data": {"ledger": "AAAA"}});
        vault.member.apply(&torn).await.unwrap();
        assert_eq!(restored(&vault).await.unwrap(), ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_ledger_on_disk_is_never_replaced() {
        let (vault, directory) = (vault(), tempfile::tempdir().unwrap());
        let ledger = Ledger::open(directory.path()).unwrap();
        ledger.commit(&[put("a", b"one".to_vec())]).unwrap();
        vault.keep(&ledger, directory.path(), &mut None).await.unwrap();
        ledger.commit(&[Change::Forget { key: "a".into() }]).unwrap();
        vault.restore(directory.path()).await;
        assert_eq!(Ledger::open(directory.path()).unwrap().keys().unwrap(), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_copied_after_a_moment_and_at_the_end() {
        let (vault, directory) = (vault(), tempfile::tempdir().unwrap());
        let ledger = Arc::new(Ledger::open(directory.path()).unwrap());
        let stop = CancellationToken::new();
        let running = {
            let (vault, ledger, stop) = (vault.clone(), ledger.clone(), stop.clone());
            let path = directory.path().to_owned();
            tokio::spawn(async move { vault.run(&ledger, &path, stop).await })
        };
        tokio::task::yield_now().await;
        ledger.commit(&[put("a", b"one".to_vec())]).unwrap();
        tokio::time::sleep(SETTLE + Duration::from_secs(1)).await;
        assert_eq!(restored(&vault).await.unwrap(), ["a"]);
        ledger.commit(&[put("b", b"two".to_vec())]).unwrap();
        stop.cancel();
        running.await.unwrap();
        assert_eq!(restored(&vault).await.unwrap(), ["a", "b"]);
    }
}
