//! The objects of one resource as they are read, wherever they come from: the watch cache of what is stored, what a provider publishes,
//! or what was put together for one answer.
//!
//! In: a [`ResourceCache`] and the revision up to which it shows everything. Out: the same to lists and watches, which need not know which it is.

use std::sync::Arc;

use karmada_schema::object::Stored;
use karmada_store::Revision;
use tokio::sync::watch;

use super::resource_cache::ResourceCache;

/// The objects of one resource.
#[derive(Clone)]
pub struct Collection {
    resource_cache: Arc<ResourceCache>,
    revision: watch::Receiver<Revision>,
    remembers: bool,
}

impl Collection {
    /// A resource's cache that goes on changing, and the revision up to which every change is in it.
    pub(super) fn following(
        resource_cache: Arc<ResourceCache>,
        revision: watch::Receiver<Revision>,
    ) -> Collection {
        Collection { resource_cache, revision, remembers: true }
    }

    /// Objects as they are at one moment, for one answer: nothing will happen to them, and nothing before is known.
    pub fn of_one_moment(items: impl IntoIterator<Item = Arc<Stored>>, revision: Revision) -> Collection {
        let resource_cache = ResourceCache::starting_at(revision);
        items.into_iter().for_each(|object| resource_cache.place(object));
        // A receiver goes on showing the last value when its sender is gone.
        let (_, shown) = watch::channel(revision);
        Collection { resource_cache: Arc::new(resource_cache), revision: shown, remembers: false }
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

    /// Whether a later page can show what the first one did, for as long as recent changes are kept.
    pub fn remembers(&self) -> bool {
        self.remembers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn objects_of_one_moment_are_listed_in_order_and_wait_for_nothing() {
        let object = |name: &str| {
            let bytes = format!(r#"{{"kind":"A","apiVersion":"v1","metadata":{{"name":"{name}"}}}}"#);
            Arc::new(Stored::read(&bytes.into(), 7).unwrap())
        };
        let all = Collection::of_one_moment([object("b"), object("a")], 7);
        let (items, more) = all.resource_cache().list("", None, 1, &|_| true);
        assert_eq!((&*items[0].key.name, more, all.revision()), ("a", true, 7));
        assert!(!all.remembers());
        let later = tokio::time::timeout(std::time::Duration::from_secs(3600), all.wait_for(8)).await;
        assert!(later.is_err(), "nothing changes any more");
    }
}
