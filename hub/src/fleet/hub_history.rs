//! What must outlive the process: the epoch with its seal, the hub's starts, and the sessions' fence, beside the Kubernetes
//! objects in the store.
//!
//! In: the store, and the CA whose key seals epochs. Out: where the hub stands, and whether what an agent remembers is of
//! this hub's past, as `karmada_fleet::hub_starts` decides.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_certs::Pin;
use karmada_fleet::hub_starts::{self, HubStarts};
use karmada_gateway::ports::{
    Batch, ClusterIncarnation, CursorOrigin, PortError, Position, RestoreHold, SessionStore,
};
use karmada_store::{Expect, Store, StoreError};
use parking_lot::Mutex;

use crate::data_dir::DataDir;

/// Session numbers live here, one key a cluster.
const PREFIX: &str = "/fleet/sessions/";
/// Since when the deletes of a cluster are held, `EPOCH/REVISION/START`, one key a cluster.
const HELD: &str = "/fleet/held-deletes/";
/// The hub's starts, JSON, oldest first.
const STARTS: &str = "/fleet/starts";

/// The fence in the store.
pub struct StoredSessions {
    store: Arc<dyn Store>,
    data: Arc<DataDir>,
    starts: HubStarts,
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
        let before = held.as_ref().map(|kv| starts_in(&kv.value)).unwrap_or_default();
        let starts = before.begun(id, store.revision());
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

/// The starts as they are stored, or none.
fn starts_in(stored: &[u8]) -> HubStarts {
    HubStarts::read(stored).unwrap_or_else(|error| {
        tracing::error!(%error, "the hub's earlier starts cannot be read in the store: every agent is listed everything");
        HubStarts::default()
    })
}

/// What is held from a cluster, as it is stored; `None` where that cannot be read.
fn held_in(stored: &[u8]) -> Option<RestoreHold> {
    std::str::from_utf8(stored).ok()?.parse().ok()
}

fn later(error: &StoreError) -> PortError {
    PortError::later(error.to_string())
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn position(&self) -> Result<Position, PortError> {
        let timeline = self.starts.present();
        Ok(Position { epoch: self.store.epoch(), revision: self.store.revision(), timeline })
    }

    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError> {
        // The next one must have a successor, too.
        if seen >= u64::MAX - 1 {
            return Err(PortError::never("there is no epoch above the one that the agent names"));
        }
        self.store.raise_epoch(seen).await.map_err(|error| later(&error))
    }

    async fn set_restore_hold(&self, cluster: &str, held: &RestoreHold) -> Result<(), PortError> {
        let (key, value) = (format!("{HELD}{cluster}"), Bytes::from(held.to_string()));
        let held = self.store.get(&key).await.map_err(|error| later(&error))?;
        if held.as_ref().is_some_and(|kv| kv.value == value) {
            return Ok(());
        }
        let expect = held.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
        self.store.put(&key, value, expect).await.map(drop).map_err(|error| later(&error))
    }

    async fn restore_hold(&self, cluster: &str) -> Result<Option<RestoreHold>, PortError> {
        let held = self.store.get(&format!("{HELD}{cluster}")).await.map_err(|error| later(&error))?;
        let Some(kv) = held else { return Ok(None) };
        if let Some(held) = held_in(&kv.value) {
            return Ok(Some(held));
        }
        // Since when is not known any more, but that a person has not been asked is: from here on, then.
        let Position { epoch, revision, timeline } = self.position().await?;
        let anew = RestoreHold { batch: Batch { epoch, revision, timeline }, lives: Vec::new() };
        tracing::error!(
            cluster,
            "what is stored of the deletes held back from the cluster cannot be read: they are held anew"
        );
        self.set_restore_hold(cluster, &anew).await?;
        Ok(Some(anew))
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
        self.starts.has(self.store.revision(), (timeline, cursor))
    }

    fn told_as(&self, timeline: u64, whose: ClusterIncarnation<'_>) -> u64 {
        hub_starts::told_as(timeline, whose)
    }

    fn told(&self, whose: ClusterIncarnation<'_>, timeline: u64, cursor: u64) -> CursorOrigin {
        self.starts.who_was_told(self.store.revision(), whose, (timeline, cursor))
    }

    async fn end_restore_hold(&self, cluster: &str, held: Batch) -> Result<(), PortError> {
        let key = format!("{HELD}{cluster}");
        let Some(now) = self.store.get(&key).await.map_err(|error| later(&error))? else { return Ok(()) };
        if held_in(&now.value).is_none_or(|stands| stands.batch != held) {
            return Ok(());
        }
        match self.store.delete(&key, now.mod_revision).await {
            // Held anew since, by another life.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(later(&error)),
        }
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
mod full_disk;

#[cfg(test)]
mod tests {
    use karmada_proto::v1::Seen;

    use super::*;

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
        let batch = Batch { epoch: 4, revision: 1, timeline: 1 };
        let held = RestoreHold { batch, lives: vec![Seen { timeline: 9, revision: 5 }] };
        sessions.set_restore_hold("north", &held).await.unwrap();
        sessions.end_restore_hold("north", Batch { revision: 2, ..batch }).await.unwrap();
        assert_eq!(sessions.restore_hold("north").await.unwrap(), Some(held.clone()), "another one ends");
        sessions.end_restore_hold("north", batch).await.unwrap();
        sessions.end_restore_hold("north", batch).await.unwrap();
        assert_eq!(sessions.restore_hold("north").await.unwrap(), None);
        sessions.set_restore_hold("north", &held).await.unwrap();
        let at = format!("{HELD}north");
        let before = store.get(&at).await.unwrap().unwrap().mod_revision;
        store.put(&at, Bytes::from("nonsense"), Expect::Revision(before)).await.unwrap();
        let position = sessions.position().await.unwrap();
        let anew = sessions.restore_hold("north").await.unwrap().expect("what cannot be read is held");
        assert_eq!((anew.batch.epoch, anew.batch.revision), (position.epoch, position.revision));
        assert_eq!(sessions.restore_hold("north").await.unwrap(), Some(anew), "and a word for it counts");
        sessions.next_session("south").await.unwrap();
        sessions.forget("north").await.unwrap();
        sessions.forget("north").await.unwrap();
        let kept = store.list("/fleet/", None, 0).await.unwrap().items;
        let kept: Vec<&str> = kept.iter().map(|item| &*item.key).collect();
        assert_eq!(kept, ["/fleet/sessions/south", "/fleet/starts"]);
        assert_eq!(sessions.restore_hold("north").await.unwrap(), None);
        assert!(
            sessions.next_session("north").await.unwrap() > last,
            "an older session of that name may still live"
        );
    }
}
