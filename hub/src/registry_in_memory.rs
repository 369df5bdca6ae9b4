//! A registry over a store in memory, for tests of what stands on one.
//!
//! In: the gates of its writes, and what its clock shows. Out: the registry with its store and cache, and the word that ends the cache's task.

use std::sync::Arc;

use karmada_kinds::catalogue;
use karmada_registry::admission::Admission;
use karmada_registry::cache::Cache;
use karmada_registry::{Clock, Parts, Registry};
use karmada_store::{MemoryStore, Store};
use tokio_util::sync::CancellationToken;

/// What a test stands on.
pub(crate) struct RegistryInMemory {
    pub registry: Registry,
    pub store: Arc<dyn Store>,
    pub cache: Arc<Cache>,
    pub stop: CancellationToken,
}

impl RegistryInMemory {
    /// One that is empty. Must be called within a tokio runtime.
    pub async fn start(admission: Vec<Box<dyn Admission>>, clock: Clock) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let registry = Registry::new(Parts {
            store: store.clone(),
            cache: cache.clone(),
            catalogue: catalogue::shipped(),
            admission,
            authorizer: karmada_access::Authorizer::new(cache.clone()),
            clock,
            ids: Arc::new(uuid::Uuid::new_v4),
        });
        RegistryInMemory { registry, store, cache, stop }
    }
}

/// A clock that stands still.
pub(crate) fn standing_clock() -> Clock {
    Arc::new(|| jiff::Timestamp::from_second(1_750_000_000).unwrap())
}
