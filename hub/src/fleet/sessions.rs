//! What must outlive the process: the epoch with its seal, the hub's starts, and the sessions' fence, beside the Kubernetes
//! objects in the store.
//!
//! In: the store, and the CA whose key seals epochs. Out: where the hub stands, and whether what an agent remembers is of
//! this hub's past. A file that was copied back lacks the starts that came after the copy, so that a cursor which one of
//! those told is found out even where the revisions have passed it since.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_certs::Pin;
use karmada_gateway::ports::{Batch, PortError, Position, SessionStore};
use karmada_store::{Expect, Store, StoreError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;

/// Session numbers live here, one key a cluster.
const PREFIX: &str = "/fleet/sessions/";
/// Since when the deletes of a cluster are held, `EPOCH/REVISION/START`, one key a cluster.
const HELD: &str = "/fleet/held-deletes/";
/// The hub's starts, JSON, oldest first.
const STARTS: &str = "/fleet/starts";
/// Starts that are remembered. An agent that was away for more is listed everything.
const MOST: usize = 1000;

/// One start of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    id: u64,
    /// The newest revision when it began.
    first: u64,
}

/// The fence in the store.
pub struct StoredSessions {
    store: Arc<dyn Store>,
    data: Arc<DataDir>,
    starts: Vec<Start>,
    /// The epoch that was sealed last, and by which CA: the same for every session.
    sealed: Mutex<Option<(u64, Pin, Bytes)>>,
}

impl StoredSessions {
    /// Over a store to which this start has written nothing yet; remembers the start, which is `id` (random, and not zero).
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn open(store: Arc<dyn Store>, data: Arc<DataDir>, id: u64) -> Result<Self, StoreError> {
        let held = store.get(STARTS).await?;
        let before = held.as_ref().and_then(|kv| serde_json::from_slice(&kv.value).ok()).unwrap_or_default();
        let starts = begun(before, Start { id: id.max(1), first: store.revision() });
        let value = serde_json::to_vec(&starts).unwrap_or_default();
        let expect = held.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
        store.put(STARTS, Bytes::from(value), expect).await?;
        Ok(Self { store, data, starts, sealed: Mutex::new(None) })
    }
}

impl StoredSessions {
    /// The cluster is gone: its number and what was held from it are not kept.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn forget(&self, cluster: &str) -> Result<(), PortError> {
        for key in [format!("{PREFIX}{cluster}"), format!("{HELD}{cluster}")] {
            let Some(held) = self.store.get(&key).await.map_err(|error| later(&error))? else { continue };
            match self.store.delete(&key, held.mod_revision).await {
                // Written since: a session of the next cluster of this name.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(later(&error)),
            }
        }
        Ok(())
    }
}

/// The starts, now that another began.
fn begun(mut starts: Vec<Start>, start: Start) -> Vec<Start> {
    starts.push(start);
    starts.drain(..starts.len().saturating_sub(MOST));
    starts
}

/// Whether `cursor`, told by the start `timeline`, is a place in the history of `starts`, which has come to `now`.
fn in_past(starts: &[Start], now: u64, timeline: u64, cursor: u64) -> bool {
    let Some(at) = starts.iter().rposition(|start| start.id == timeline) else { return false };
    cursor <= starts.get(at + 1).map_or(now, |next| next.first)
}

fn later(error: &StoreError) -> PortError {
    PortError::later(error.to_string())
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn position(&self) -> Result<Position, PortError> {
        let timeline = self.starts.last().map_or(0, |start| start.id);
        Ok(Position { epoch: self.store.epoch(), revision: self.store.revision(), timeline })
    }

    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError> {
        // The next one must have a successor, too.
        if seen >= u64::MAX - 1 {
            return Err(PortError::never("there is no epoch above the one that the agent names"));
        }
        self.store.raise_epoch(seen).await.map_err(|error| later(&error))
    }

    async fn hold_deletes(&self, cluster: &str, since: Batch) -> Result<(), PortError> {
        let (key, value) = (format!("{HELD}{cluster}"), Bytes::from(since.to_string()));
        let held = self.store.get(&key).await.map_err(|error| later(&error))?;
        if held.as_ref().is_some_and(|kv| kv.value == value) {
            return Ok(());
        }
        let expect = held.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
        self.store.put(&key, value, expect).await.map(drop).map_err(|error| later(&error))
    }

    async fn holds_deletes(&self, cluster: &str) -> Result<Option<Batch>, PortError> {
        let held = self.store.get(&format!("{HELD}{cluster}")).await.map_err(|error| later(&error))?;
        Ok(held.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok()))
    }

    fn seal(&self, epoch: u64) -> Bytes {
        let authorities = self.data.authorities();
        let signing = authorities.signing();
        let mut sealed = self.sealed.lock();
        if let Some((.., seal)) = sealed.as_ref().filter(|(of, by, _)| *of == epoch && *by == signing.pin()) {
            return seal.clone();
        }
        match signing.seal_epoch(epoch) {
            Ok(seal) => sealed.insert((epoch, signing.pin(), seal.into())).2.clone(),
            Err(error) => {
                tracing::error!(epoch, %error, "sealing the epoch");
                Bytes::new()
            }
        }
    }

    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool {
        self.data.authorities().seal_keys().verify(epoch, seal)
    }

    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool {
        in_past(&self.starts, self.store.revision(), timeline, cursor)
    }

    async fn next_session(&self, cluster: &str) -> Result<u64, PortError> {
        let key = format!("{PREFIX}{cluster}");
        loop {
            let held = self.store.get(&key).await.map_err(|error| later(&error))?;
            let last = held
                .as_ref()
                .and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok())
                .unwrap_or(0u64);
            // Above every number that was given out, also where the cluster was forgotten since: each was a write.
            let next = last.max(self.store.revision()) + 1;
            let expect = held.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
            match self.store.put(&key, Bytes::from(next.to_string()), expect).await {
                Ok(_) => return Ok(next),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(later(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file is copied at 50 in the second start, which goes on to 100; the copy is put back, starts anew and goes past
    /// 100 with other content.
    #[test]
    fn a_cursor_of_a_life_that_was_taken_back_is_none_of_ours() {
        let copy = begun(begun(Vec::new(), Start { id: 1, first: 0 }), Start { id: 2, first: 30 });
        assert!(in_past(&copy, 100, 2, 100), "as long as it runs");
        let restored = begun(copy.clone(), Start { id: 3, first: 50 });
        for (timeline, cursor, ours) in [
            (1, 30, true),
            (1, 31, false),
            (2, 29, true),
            (2, 50, true),
            (2, 51, false),
            (2, 100, false),
            (3, 120, true),
            (3, 121, false),
            (4, 10, false),
            (0, 10, false),
        ] {
            assert_eq!(in_past(&restored, 120, timeline, cursor), ours, "{timeline}/{cursor}");
        }
        let other = begun(copy, Start { id: 9, first: 100 });
        assert!(!in_past(&other, 200, 3, 60), "a start that came after the copy is not known");
    }

    #[tokio::test]
    async fn what_is_kept_of_a_cluster_that_is_gone_goes_and_numbers_rise_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let now = jiff::Timestamp::from_second(1_750_000_000).unwrap();
        let data = Arc::new(DataDir::open(directory.path(), now).unwrap());
        let store: Arc<dyn Store> = Arc::new(karmada_store::MemoryStore::new());
        let sessions = StoredSessions::open(store.clone(), data, 1).await.unwrap();
        let mut last = 0;
        for _ in 0..3 {
            let next = sessions.next_session("north").await.unwrap();
            assert!(next > last);
            last = next;
        }
        sessions.hold_deletes("north", Batch { epoch: 4, revision: 1, timeline: 1 }).await.unwrap();
        sessions.next_session("south").await.unwrap();
        sessions.forget("north").await.unwrap();
        sessions.forget("north").await.unwrap();
        let kept = store.list("/fleet/", None, 0).await.unwrap().items;
        let kept: Vec<&str> = kept.iter().map(|item| &*item.key).collect();
        assert_eq!(kept, ["/fleet/sessions/south", "/fleet/starts"]);
        assert_eq!(sessions.holds_deletes("north").await.unwrap(), None);
        assert!(
            sessions.next_session("north").await.unwrap() > last,
            "an older session of that name may still live"
        );
    }

    #[test]
    fn starts_are_bounded() {
        let starts = (1..=3000).fold(Vec::new(), |all, id| begun(all, Start { id, first: id * 10 }));
        assert_eq!((starts.len(), starts[0].id), (MOST, 2001));
    }
}
