//! The resource `clusterlinks` of `edge.karmada.io`: one ClusterLink for each Cluster, from the fleet's state in memory.
//!
//! In: Clusters, Works, and the news of links. Out: objects that are listed and watched as stored ones are ([`VirtualResource`]).
//!
//! A link that stands otherwise is told at once, Works that wait within seconds. What moves all the time (when an agent was last heard,
//! bytes, round trips) is brought up to date when somebody asks and, while somebody watches, from time to time: a heartbeat is no event.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::names::cluster_of_execution_namespace;
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source, key_of};
use karmada_definitions::resource::{ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_fleet::cluster_link::{ClusterHead, to_object};
use karmada_gateway::SharedFleet;
use karmada_registry::cache::{Collection, Published};
use karmada_registry::{Registry, VirtualRequest, VirtualResource};
use karmada_schema::object::{ObjectKey, Stored};
use tokio_util::sync::CancellationToken;

use super::pending_works::PendingWorks;

/// What was brought up to date so lately is shown as it is.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// How often what moves all the time is brought up to date while somebody watches.
const EVERY: Duration = Duration::from_secs(10);

/// Works change together: their cluster is looked at once they have come to rest for so long, or were not for as long.
const DEBOUNCE: Duration = Duration::from_secs(3);

/// A link that will be lost is not looked at sooner than after so long, however near that is.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// Links that are brought up to date before others have their turn.
const TURN: usize = 64;

/// The links of one hub.
pub struct ClusterLinks {
    registry: Arc<Registry>,
    fleet: Arc<SharedFleet>,
    pending: PendingWorks,
    published: Published,
}

impl ClusterLinks {
    /// Of these; from now on `definition` is answered by them.
    pub fn provide(
        registry: &Arc<Registry>,
        fleet: &Arc<SharedFleet>,
        definition: &ResourceDefinition,
    ) -> Arc<ClusterLinks> {
        let published = Published::new(definition.storage.clone(), registry.now());
        let pending = PendingWorks::new(registry.clone(), fleet.clone());
        let shown =
            Arc::new(ClusterLinks { registry: registry.clone(), fleet: fleet.clone(), pending, published });
        registry.provide(definition, shown.clone());
        shown
    }

    /// What wakes it, beside the fleet's own news.
    pub fn sources() -> Vec<Source<Key>> {
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |work| {
            let cluster = cluster_of_execution_namespace(&key_of(work).namespace).map(Arc::from);
            cluster.map(|name| Key { namespace: Arc::from(""), name }).into_iter().collect()
        });
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster").but_status(), works.debounced(DEBOUNCE)]
    }

    /// Brings all up to date from time to time, for whoever watches.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if self.published.readers() > 0 {
                self.look_at_all().await;
            }
        }
    }

    pub(super) fn clusters() -> StorageId {
        StorageId("cluster.karmada.io/clusters".into())
    }

    /// Brings up to date what is not fresh.
    async fn look_at_all(&self) {
        let clusters = self.registry.cache().of_resource(&Self::clusters()).snapshot("").items;
        let now = self.registry.now();
        for (n, cluster) in clusters.iter().enumerate() {
            if !self.is_fresh(&cluster.key, now) {
                self.look_at(&cluster.key);
            }
            if n % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Revisions of published objects are moments.
    fn is_fresh(&self, key: &ObjectKey, now: Timestamp) -> bool {
        let shown = self.published.get(key);
        let at =
            shown.and_then(|shown| Timestamp::from_microsecond(i64::try_from(shown.revision).ok()?).ok());
        at.is_some_and(|at| now.duration_since(at).abs() < FRESH)
    }

    /// Publishes the link of one Cluster as it is now. After how long it will be lost, where it is offline.
    fn look_at(&self, key: &ObjectKey) -> Option<Duration> {
        let (now, cache) = (self.registry.now(), self.registry.cache());
        let mut until_lost = None;
        self.published.renew(key, now, |before| {
            let Some(cluster) = cache.get(&Self::clusters(), key) else {
                // One that cannot be read is not one that is gone.
                return before.filter(|_| cache.unreadable(&Self::clusters(), key).is_some()).cloned();
            };
            let head: ClusterHead = serde_json::from_slice(&cluster.json()).ok()?;
            let (link, pending) = (self.fleet.link(&key.name), self.pending.of(&key.name));
            until_lost = link.lost_at.map(|lost_at| lost_at.duration_since(now));
            Some(to_object(&head, &link, &pending, before, now))
        });
        until_lost.map(|left| Duration::try_from(left).unwrap_or_default().max(LOOKS_AGAIN))
    }
}

#[async_trait::async_trait]
impl VirtualResource for ClusterLinks {
    fn count(&self) -> usize {
        self.published.len()
    }

    async fn get(&self, asked: &VirtualRequest<'_>) -> Result<Arc<Stored>, Status> {
        let key = ObjectKey::new("", asked.name);
        if !self.is_fresh(&key, self.registry.now()) {
            self.look_at(&key);
        }
        self.published.get(&key).ok_or_else(|| Status::not_found(asked.definition, asked.name))
    }

    async fn list(&self, _: &VirtualRequest<'_>) -> Result<Collection, Status> {
        self.look_at_all().await;
        Ok(self.published.collection())
    }

    async fn watch(&self, asked: &VirtualRequest<'_>) -> Result<Collection, Status> {
        self.list(asked).await
    }
}

#[async_trait::async_trait]
impl Controller for ClusterLinks {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-link"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        // That it is lost is no news of anybody's: time alone makes it so.
        let until_lost = self.look_at(&ObjectKey::new("", &key.name));
        Ok(until_lost.map_or(Action::Done, Action::RequeueAfter))
    }
}
