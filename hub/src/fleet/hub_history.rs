//! What must outlive the process: the epoch with its seal, the hub's starts, and the sessions' fence, beside the Kubernetes
//! objects in the store.
//!
//! In: the store, and the CA whose key seals epochs. Out: where the hub stands, and whether what an agent remembers is of
//! this hub's past. A file that was copied back lacks the starts that came after the copy, so that a cursor which one of
//! those told is found out even where the revisions have passed it since. Each Cluster's agent is told a start by a number of its own, so
//! that what one Cluster's agent remembers counts for no other.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_certs::Pin;
use karmada_gateway::ports::{
    Batch, ClusterIncarnation, CursorOrigin, PortError, Position, RestoreHold, SessionStore,
};
use karmada_proto::body;
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
    /// Whether it was told to each Cluster's agent by a number of its own. Earlier versions told all the same.
    #[serde(default)]
    is_told_apart: bool,
}

/// What of a start's number all Clusters are told alike: by this it is known again, whosever number it is.
const ALIKE: u64 = !0xffff_ffff;

impl Start {
    /// The number by which this start is told to `whose` agent.
    fn told_as(self, whose: ClusterIncarnation<'_>) -> u64 {
        told_as(self.id, whose)
    }

    /// Whether `told` is this start as it was told to some agent.
    fn is(self, told: u64) -> bool {
        if self.is_told_apart { self.id & ALIKE == told & ALIKE } else { self.id == told }
    }
}

fn told_as(id: u64, ClusterIncarnation { cluster, uid }: ClusterIncarnation<'_>) -> u64 {
    let hash = body::hash(format!("{id:x}/{cluster}/{uid}").as_bytes());
    let own = hash.iter().take(4).fold(0, |own, byte| (own << 8) | u64::from(*byte));
    // Zero stands for no start.
    ((id & ALIKE) | own).max(1)
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
        let before = held.as_ref().map(|kv| starts_in(&kv.value)).unwrap_or_default();
        let starts = begun(before, Start { id: id.max(1), first: store.revision(), is_told_apart: true });
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

/// The starts as they are stored. Where they cannot be read every agent's cursor counts as another hub's, and each is listed everything: slow,
/// and nothing is lost by it.
fn starts_in(stored: &[u8]) -> Vec<Start> {
    serde_json::from_slice(stored).unwrap_or_else(|error| {
        tracing::error!(%error, "the hub's earlier starts cannot be read in the store: every agent is listed everything");
        Vec::new()
    })
}

/// The starts, now that another began.
fn begun(mut starts: Vec<Start>, start: Start) -> Vec<Start> {
    starts.push(start);
    starts.drain(..starts.len().saturating_sub(MOST));
    starts
}

/// Whether `cursor`, told by a start that `is` meant, is a place in the history of `starts`, which has come to `now`.
fn in_past(starts: &[Start], now: u64, cursor: u64, is: impl Fn(Start) -> bool) -> bool {
    let Some(at) = starts.iter().rposition(|start| is(*start)) else { return false };
    cursor <= starts.get(at + 1).map_or(now, |next| next.first)
}

/// Who was told `cursor` by the start that an agent knows as `timeline`, seen from the Cluster for which it speaks now.
fn who_was_told(
    starts: &[Start],
    now: u64,
    whose: ClusterIncarnation<'_>,
    (timeline, cursor): (u64, u64),
) -> CursorOrigin {
    let is_ours = |start: Start| start.is_told_apart && start.told_as(whose) == timeline;
    if in_past(starts, now, cursor, is_ours) {
        CursorOrigin::ThisCluster
    } else if in_past(starts, now, cursor, |start| start.is(timeline)) {
        CursorOrigin::AnotherCluster
    } else {
        CursorOrigin::InAnotherLife
    }
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
        in_past(&self.starts, self.store.revision(), cursor, |start| start.id == timeline)
    }

    fn told_as(&self, timeline: u64, whose: ClusterIncarnation<'_>) -> u64 {
        told_as(timeline, whose)
    }

    fn told(&self, whose: ClusterIncarnation<'_>, timeline: u64, cursor: u64) -> CursorOrigin {
        who_was_told(&self.starts, self.store.revision(), whose, (timeline, cursor))
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

    fn start(id: u64, first: u64) -> Start {
        Start { id, first, is_told_apart: true }
    }

    const NORTH: ClusterIncarnation<'_> = ClusterIncarnation { cluster: "north", uid: "u1" };

    /// The file is copied at 50 in the second start, which goes on to 100; the copy is put back, starts anew and goes past
    /// 100 with other content.
    #[test]
    fn a_cursor_of_a_life_that_was_taken_back_is_none_of_ours() {
        let is_past = |starts: &[Start], now, timeline, cursor| {
            in_past(starts, now, cursor, |start| start.id == timeline)
        };
        let copy = begun(begun(Vec::new(), start(1, 0)), start(2, 30));
        assert!(is_past(&copy, 100, 2, 100), "as long as it runs");
        let restored = begun(copy.clone(), start(3, 50));
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
            assert_eq!(is_past(&restored, 120, timeline, cursor), ours, "{timeline}/{cursor}");
        }
        let other = begun(copy, start(9, 100));
        assert!(!is_past(&other, 200, 3, 60), "a start that came after the copy is not known");
    }

    #[test]
    fn a_cursor_counts_for_the_cluster_and_the_life_of_it_that_it_was_told_for() {
        let id = |number: u64| (number << 40) | 0xabcd;
        let starts =
            vec![Start { is_told_apart: false, ..start(id(1), 0) }, start(id(2), 30), start(id(3), 50)];
        let of = |cluster, uid| ClusterIncarnation { cluster, uid };
        let told = |timeline, cursor| who_was_told(&starts, 120, NORTH, (timeline, cursor));
        for (timeline, cursor, who) in [
            (told_as(id(2), NORTH), 50, CursorOrigin::ThisCluster),
            (told_as(id(2), NORTH), 51, CursorOrigin::InAnotherLife),
            (told_as(id(3), NORTH), 120, CursorOrigin::ThisCluster),
            (told_as(id(3), of("south", "u1")), 120, CursorOrigin::AnotherCluster),
            (told_as(id(3), of("north", "u0")), 120, CursorOrigin::AnotherCluster),
            (told_as(id(3), of("south", "u1")), 121, CursorOrigin::InAnotherLife),
            (id(3), 120, CursorOrigin::AnotherCluster),
            (id(1), 30, CursorOrigin::AnotherCluster),
            (id(1), 31, CursorOrigin::InAnotherLife),
            (told_as(id(1), NORTH), 10, CursorOrigin::InAnotherLife),
            (told_as(id(9), NORTH), 10, CursorOrigin::InAnotherLife),
            (0, 0, CursorOrigin::InAnotherLife),
        ] {
            assert_eq!(told(timeline, cursor), who, "{timeline:x}/{cursor}");
        }
    }

    #[test]
    fn starts_of_an_earlier_version_are_read() {
        let read: Vec<Start> = serde_json::from_str(r#"[{"id":7,"first":1}]"#).unwrap();
        assert_eq!(read, [Start { is_told_apart: false, ..start(7, 1) }]);
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

    #[test]
    fn starts_are_bounded() {
        let starts = (1..=3000).fold(Vec::new(), |all, id| begun(all, start(id, id * 10)));
        assert_eq!((starts.len(), starts[0].id), (MOST, 2001));
    }
}
