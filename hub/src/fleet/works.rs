//! Works of one cluster, out of the watch cache: what waits for an agent is the cache's own object.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use karmada_api::names::execution_namespace;
use karmada_api::strings::annotations;
use karmada_apiserver::cache::{CacheEvent, Shard};
use karmada_apiserver::object::{ObjectKey, Stored};
use karmada_apiserver::registry::Registry;
use karmada_apiserver::resource::StorageId;
use serde_json::Value;

use karmada_gateway::ports::{Body, Json, PortError, Work, WorkEvent, WorkFeed, WorkSource};

use crate::api_port::Cached;

/// The cache as a source of Works.
pub struct CachedWorks {
    registry: Arc<Registry>,
}

impl CachedWorks {
    /// A source over a registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        CachedWorks { registry }
    }

    fn shard(&self) -> Arc<Shard> {
        self.registry.cache().shard(&StorageId("work.karmada.io/works".into()))
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
    let found = found.and_then(|clusters| registry.get(&clusters, "", cluster));
    found.is_ok_and(|found| {
        found.deleting && found.value()["metadata"]["annotations"][annotations::KEEP_WORKLOADS] == "true"
    })
}

/// Whether a site that still holds a Work that is gone keeps what it carried: as the Work itself said, as its Cluster says on its way out,
/// and where it was deleted under an earlier Cluster of this name, whose end was another decision.
fn is_left_to_site(registry: &Registry, cluster: &str, work: &Value) -> bool {
    let found = registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
    let Ok(found) = found.and_then(|clusters| registry.get(&clusters, "", cluster)) else { return true };
    // Of second precision, as RFC 3339 in UTC: they compare as text.
    let joined = found.value()["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
    let earlier =
        work["metadata"]["deletionTimestamp"].as_str().is_some_and(|deleted| deleted <= joined.as_str());
    earlier || work["spec"]["preserveResourcesOnDeletion"] == true || keeps_workloads(registry, cluster)
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

fn event(registry: &Registry, cluster: &str, event: &CacheEvent) -> Option<WorkEvent> {
    if event.removed {
        let (key, uid) = (event.object.key.name.clone(), Arc::from(event.object.uid()));
        let preserve = is_left_to_site(registry, cluster, &event.object.value());
        return Some(WorkEvent::Deleted { key, uid, revision: event.revision, preserve });
    }
    upsert(registry, cluster, &event.object)
}

#[async_trait]
impl WorkSource for CachedWorks {
    async fn watch(&self, cluster: &str, resume: Option<u64>) -> Result<WorkFeed, PortError> {
        let shard = self.shard();
        let namespace = execution_namespace(cluster);
        let resumable = resume.filter(|revision| shard.list_at(*revision, "-", None, 1, &|_| false).is_ok());
        let (first, place) = match resumable {
            Some(revision) => (Vec::new(), revision),
            None => {
                let snapshot = shard.snapshot(&namespace);
                let mut first: Vec<WorkEvent> =
                    snapshot.items.iter().filter_map(|work| upsert(&self.registry, cluster, work)).collect();
                first.push(WorkEvent::Synced { revision: snapshot.revision });
                (first, snapshot.revision)
            }
        };
        let (registry, cluster) = (self.registry.clone(), cluster.to_owned());
        let then = stream::unfold((shard, place), move |(shard, place)| {
            let (registry, cluster, namespace) = (registry.clone(), cluster.clone(), namespace.clone());
            async move {
                let mut subscription = shard.subscribe(place);
                let events = subscription.next().await.ok()?;
                let place = subscription.place();
                drop(subscription);
                let own = events.iter().filter(|e| *e.object.key.namespace == *namespace);
                let events: Vec<WorkEvent> = own.filter_map(|e| event(&registry, &cluster, e)).collect();
                Some((stream::iter(events), (shard, place)))
            }
        });
        Ok(WorkFeed {
            full_listing: resumable.is_none(),
            events: stream::iter(first).chain(then.flatten()).boxed(),
        })
    }

    fn holds(&self, cluster: &str, key: &str) -> bool {
        self.shard().get(&ObjectKey::new(&execution_namespace(cluster), key)).is_some()
    }
}
