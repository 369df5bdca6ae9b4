//! The objects of one resource as they are read, wherever they come from: the watch cache of what is stored, or what a provider publishes.
//!
//! In: a [`ResourceCache`] and the revision up to which it shows everything. Out: the same to lists and watches, which need not know which it is.

use std::sync::Arc;

use karmada_store::Revision;
use tokio::sync::watch;

use super::resource_cache::ResourceCache;

/// The objects of one resource.
#[derive(Clone)]
pub struct Collection {
    resource_cache: Arc<ResourceCache>,
    revision: watch::Receiver<Revision>,
}

impl Collection {
    /// A resource's cache that goes on changing, and the revision up to which every change is in it.
    pub(super) fn following(
        resource_cache: Arc<ResourceCache>,
        revision: watch::Receiver<Revision>,
    ) -> Collection {
        Collection { resource_cache, revision }
    }

    /// Its objects and their recent changes.
    pub fn resource_cache(&self) -> &Arc<ResourceCache> {
        &self.resource_cache
    }

    /// The revision up to which every change is seen here.
    pub fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Waits until every change up to `revision` is seen here; for ever, where nothing changes any more.
    pub async fn wait_for(&self, revision: Revision) {
        if self.revision.clone().wait_for(|now| *now >= revision).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
