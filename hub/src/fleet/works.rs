//! Works of one cluster, out of the watch cache: the bytes on their way to an agent are the bytes that HTTP serves.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use karmada_api::names::execution_namespace;
use karmada_apiserver::cache::{CacheEvent, Shard};
use karmada_apiserver::object::Stored;
use karmada_apiserver::registry::Registry;
use karmada_apiserver::resource::StorageId;
use karmada_gateway::ports::{PortError, Work, WorkEvent, WorkFeed, WorkSource};

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

fn upsert(stored: &Stored) -> Option<WorkEvent> {
    match Work::from_json(stored.revision, stored.json.clone()) {
        Ok(work) => Some(WorkEvent::Upsert(work)),
        Err(error) => {
            tracing::error!(work = &*stored.key.name, %error, "a stored Work cannot be read");
            None
        }
    }
}

fn event(event: &CacheEvent) -> Option<WorkEvent> {
    if event.removed {
        let (key, uid) = (event.object.key.name.clone(), Arc::from(&*event.object.uid));
        return Some(WorkEvent::Deleted { key, uid, revision: event.revision });
    }
    upsert(&event.object)
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
                let mut first: Vec<WorkEvent> = snapshot.items.iter().filter_map(|s| upsert(s)).collect();
                first.push(WorkEvent::Synced { revision: snapshot.revision });
                (first, snapshot.revision)
            }
        };
        let then = stream::unfold((shard, place), move |(shard, place)| {
            let namespace = namespace.clone();
            async move {
                let mut subscription = shard.subscribe(place);
                let events = subscription.next().await.ok()?;
                let place = subscription.place();
                drop(subscription);
                let own = events.iter().filter(|e| *e.object.key.namespace == *namespace);
                let events: Vec<WorkEvent> = own.filter_map(|e| event(e)).collect();
                Some((stream::iter(events), (shard, place)))
            }
        });
        Ok(WorkFeed {
            full_listing: resumable.is_none(),
            events: stream::iter(first).chain(then.flatten()).boxed(),
        })
    }
}
