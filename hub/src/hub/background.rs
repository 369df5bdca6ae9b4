//! What runs beside requests, and the words that end it, in their order.
//!
//! In: futures and reconcilers. Out: tasks that are waited for when the hub stops.

use std::sync::Arc;

use karmada_registry::Registry;
use karmada_registry::cache::Cache;
use karmada_registry::reconciler::{self, Reconciler};
use karmada_store::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one hub.
#[derive(Default)]
pub(super) struct Background {
    pub tasks: TaskTracker,
    /// Nobody is asked to come any more.
    pub closing: CancellationToken,
    /// All tasks end.
    pub stop: CancellationToken,
    /// The cache follows its store no longer.
    pub stop_cache: CancellationToken,
    /// The hub can no longer do its work.
    pub failed: CancellationToken,
}

impl Background {
    /// Runs a reconciler of the registry's.
    pub fn reconcile(&self, registry: &Arc<Registry>, reconciler: impl Reconciler + 'static) {
        self.tasks.spawn(reconciler::run(registry.clone(), Box::new(reconciler), self.stop.clone()));
    }

    /// Keeps the cache as its store is.
    pub fn follow(&self, cache: Arc<Cache>, store: Arc<dyn Store>) -> JoinHandle<()> {
        let (stop, failed) = (self.stop_cache.clone(), self.failed.clone());
        tokio::spawn(async move {
            if let Err(error) = cache.run(store, stop).await {
                tracing::error!(%error, "the watch cache lost its store");
                failed.cancel();
            }
        })
    }
}

/// A hub that could not be started to its end, or was dropped, leaves nothing running.
impl Drop for Background {
    fn drop(&mut self) {
        for word in [&self.closing, &self.stop, &self.stop_cache] {
            word.cancel();
        }
    }
}
