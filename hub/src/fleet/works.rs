//! Works of each cluster, out of the watch cache: what waits for an agent is the cache's own object.
//!
//! In: the cache's Works, followed once for all agents. Out: to each session the Works of its cluster; a write wakes no other session.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{self, FutureExt};
use futures::stream::{self, StreamExt};
use karmada_api::names::execution_namespace;
use karmada_api::strings::annotations;
use karmada_definitions::resource::StorageId;
use karmada_gateway::ports::{Body, Former, Json, PortError, Work, WorkEvent, WorkFeed, WorkSource};
use karmada_gateway::router::{Change, History, Read, Router};
use karmada_registry::Registry;
use karmada_registry::cache::{CacheEvent, Expired, Listing, ResourceCache};
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::registry_api::Cached;

/// Works that may wait for one session before it reads the cache anew.
const MOST: usize = 4096;

/// The cache as a source of Works.
pub struct CachedWorks {
    registry: Arc<Registry>,
    resource_cache: Arc<ResourceCache>,
    router: Arc<Router<Changed>>,
}

impl CachedWorks {
    /// A source over a registry, which follows its Works until told to stop. Must be called within a tokio runtime.
    pub fn start(registry: Arc<Registry>, tasks: &TaskTracker, stop: CancellationToken) -> Self {
        let resource_cache = registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
        let router = Router::new(MOST);
        // Whoever opens from here on reads at least up to this place.
        let place = resource_cache.revision();
        tasks.spawn(stop.run_until_cancelled_owned(follow(resource_cache.clone(), router.clone(), place)));
        CachedWorks { registry, resource_cache, router }
    }
}

/// Takes every change of a Work to the session that it is for.
async fn follow(resource_cache: Arc<ResourceCache>, router: Arc<Router<Changed>>, mut place: u64) {
    loop {
        let mut subscription = resource_cache.subscribe(place);
        match subscription.next().await {
            Ok(events) => {
                place = subscription.place();
                for event in events {
                    let namespace = event.object.key.namespace.clone();
                    router.route(&namespace, &Changed::of(event));
                }
            }
            // So far behind that changes are not kept any more: everybody reads what there is. The place comes first, so that who
            // opens in between reads from beyond it.
            Err(Expired) => {
                place = resource_cache.revision();
                router.lose_place();
                tracing::warn!(
                    "the router of Works fell behind the store: every session reads its Works anew"
                );
            }
        }
    }
}

impl Json for Cached {
    fn json(&self) -> Bytes {
        self.0.json()
    }
}

/// Whether a Cluster on its way out leaves to its site what was placed there. Asked for each Work as it goes, so that it does
/// not matter who deletes the Work: the Cluster outlives all of them.
fn keeps_workloads(registry: &Registry, cluster: &str) -> bool {
    let found = registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
    let found = found.and_then(|clusters| registry.find(&clusters, "", cluster));
    match found {
        Ok(Some(found)) => {
            found.deleting && found.value()["metadata"]["annotations"][annotations::KEEP_WORKLOADS] == "true"
        }
        Ok(None) => false,
        // Nobody knows what it says: what the site keeps can still be removed later.
        Err(status) => {
            tracing::warn!(
                cluster,
                why = status.message,
                "the Cluster cannot be read: its site keeps what goes"
            );
            true
        }
    }
}

/// Whether a site that still holds a Work that is gone keeps what it carried: as the Work itself said, as its Cluster says on its way out,
/// and where it was deleted under an earlier Cluster of this name, whose end was another decision.
fn is_left_to_site(registry: &Registry, cluster: &str, work: &Value) -> bool {
    let found = registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
    let Ok(found) = found.and_then(|clusters| registry.get(&clusters, "", cluster)) else { return true };
    let joined = found.value()["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
    is_of_earlier(work, &joined, &registry.now_text())
        || work["spec"]["preserveResourcesOnDeletion"] == true
        || keeps_workloads(registry, cluster)
}

/// Whether a Work was deleted before its cluster was joined. A cluster that was joined at an hour that is still to come, which a clock
/// showed that was ahead, is not known to be younger.
fn is_of_earlier(work: &Value, joined: &str, now: &str) -> bool {
    // Of second precision, as RFC 3339 in UTC: they compare as text.
    let deleted = work["metadata"]["deletionTimestamp"].as_str();
    joined <= now && deleted.is_some_and(|deleted| deleted <= joined)
}

fn upsert(registry: &Registry, cluster: &str, stored: &Arc<Stored>) -> Option<WorkEvent> {
    match Work::from_json(stored.revision, Body::shared(Arc::new(Cached(stored.clone())))) {
        Ok(mut work) => {
            work.preserve |= work.deleting && keeps_workloads(registry, cluster);
            Some(WorkEvent::Upsert(work))
        }
        Err(error) => {
            tracing::error!(work = &*stored.key.name, %error, "a stored Work cannot be read");
            None
        }
    }
}

fn event(registry: &Registry, cluster: &str, changed: &Changed) -> Option<WorkEvent> {
    let event = &changed.event;
    if event.removed {
        let (key, uid) = (event.object.key.name.clone(), Arc::from(event.object.uid()));
        let preserve = is_left_to_site(registry, cluster, &event.object.value());
        return Some(WorkEvent::Deleted { key, uid, revision: event.revision, preserve });
    }
    let mut upsert = upsert(registry, cluster, &event.object)?;
    if let (WorkEvent::Upsert(work), Some(former)) = (&mut upsert, &changed.former) {
        let body = Body::shared(Arc::new(Cached(former.clone())));
        work.former = Some(Former { revision: former.revision, body });
    }
    Some(upsert)
}

/// A change of a Work where it lies in the cache, read once the session that it is for takes it.
#[derive(Clone)]
struct Changed {
    event: Arc<CacheEvent>,
    /// The Work before this change, and before those that it took the place of.
    former: Option<Arc<Stored>>,
}

impl Changed {
    fn of(event: Arc<CacheEvent>) -> Self {
        Changed { former: event.previous.clone(), event }
    }
}

impl Change for Changed {
    fn key(&self) -> &Arc<str> {
        &self.event.object.key.name
    }
    fn revision(&self) -> u64 {
        self.event.revision
    }
    fn follows(&mut self, earlier: &Self) {
        self.former.clone_from(&earlier.former);
    }
}

/// The cache's Works as the router reads them.
struct Shelf<'a> {
    registry: &'a Registry,
    resource_cache: &'a ResourceCache,
    cluster: &'a str,
}

impl History<WorkEvent> for Shelf<'_> {
    fn after(&self, namespace: &str, revision: u64) -> Option<Read<WorkEvent>> {
        let events = match self.resource_cache.subscribe(revision).next().now_or_never() {
            Some(Ok(events)) => events,
            Some(Err(Expired)) => return None,
            None => Vec::new(),
        };
        let revision = events.last().map_or(revision, |last| last.revision);
        let own = events.iter().filter(|e| *e.object.key.namespace == *namespace);
        Some(Read {
            items: own.filter_map(|e| event(self.registry, self.cluster, &Changed::of(e.clone()))).collect(),
            revision,
        })
    }

    fn all(&self, namespace: &str) -> Read<WorkEvent> {
        let Listing { items, revision } = self.resource_cache.snapshot(namespace);
        let works = items.iter().filter_map(|work| upsert(self.registry, self.cluster, work));
        Read { items: works.chain([WorkEvent::Synced { revision }]).collect(), revision }
    }
}

#[async_trait]
impl WorkSource for CachedWorks {
    async fn watch(&self, cluster: &str, resume: Option<u64>) -> Result<WorkFeed, PortError> {
        let shelf = Shelf { registry: &self.registry, resource_cache: &self.resource_cache, cluster };
        let opened = self.router.open(&execution_namespace(cluster), resume, &shelf);
        let (registry, cluster) = (self.registry.clone(), cluster.to_owned());
        let then = opened.then.filter_map(move |changed| future::ready(event(&registry, &cluster, &changed)));
        Ok(WorkFeed {
            full_listing: opened.full_listing,
            events: stream::iter(opened.first.items).chain(then).boxed(),
        })
    }

    fn all(&self, cluster: &str) -> Vec<Work> {
        let Listing { items, .. } = self.resource_cache.snapshot(&execution_namespace(cluster));
        let works = items.iter().filter_map(|work| upsert(&self.registry, cluster, work));
        works
            .filter_map(|event| if let WorkEvent::Upsert(work) = event { Some(work) } else { None })
            .collect()
    }

    fn find(&self, cluster: &str, key: &str) -> Option<Work> {
        let stored = self.resource_cache.get(&ObjectKey::new(&execution_namespace(cluster), key))?;
        match upsert(&self.registry, cluster, &stored)? {
            WorkEvent::Upsert(work) => Some(work),
            WorkEvent::Deleted { .. } | WorkEvent::Synced { .. } => None,
        }
    }

    fn holds(&self, cluster: &str, key: &str) -> bool {
        self.resource_cache.get(&ObjectKey::new(&execution_namespace(cluster), key)).is_some()
    }
}

#[cfg(test)]
mod tests;
