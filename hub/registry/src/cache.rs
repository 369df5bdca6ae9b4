//! The watch cache: every live object once, as shared immutable bytes, and the recent events of every resource.
//!
//! In: the store's events, applied in revision order by one task ([`Cache::run`]). Out: gets, lists (at the present or at a
//! recent revision) and subscriptions, for HTTP, the controllers and the gateway alike.
//!
//! What is promised: a reader that waited for a revision sees every write up to it; a subscriber sees every event after the
//! revision it named, in order, once, or is told that it expired. Slow subscribers cost nothing: they pull from a ring that
//! is bounded in count, bytes and age, and whoever falls off it lists again.

mod collection;
mod event_ring;
mod key_ordered;
mod published;
mod resource_cache;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use collection::Collection;
pub use event_ring::{Expired, Subscription};
use karmada_definitions::resource::StorageId;
use karmada_schema::object::{ObjectKey, SharedValues, Stored};
use karmada_store::{Event, Revision, Store, StoreError};
use parking_lot::{Mutex, RwLock};
pub use published::Published;
pub use resource_cache::{Listing, ResourceCache};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use unreadable::Unreadable;
pub use unreadable::{NotRead, ValueTransformer};

/// All Kubernetes objects live under this prefix: `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
pub const PREFIX: &str = "/registry/";

/// Objects read at once when the cache is filled.
const PAGE: usize = 500;

/// After what time an object is tried again that could not be read for want of a key that is elsewhere.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// One applied write of one resource.
#[derive(Debug)]
pub struct CacheEvent {
    /// Which resource.
    pub storage: StorageId,
    /// The write's revision.
    pub revision: Revision,
    /// The object before, where there was one.
    pub previous: Option<Arc<Stored>>,
    /// The object after; for a removal, how it last stood, stamped with the removal's revision.
    pub object: Arc<Stored>,
    /// Whether it was removed.
    pub removed: bool,
}

/// The cache of all resources.
pub struct Cache {
    resource_caches: RwLock<BTreeMap<StorageId, Arc<ResourceCache>>>,
    /// The names of namespaces, each kept once for all objects in it.
    namespaces: Mutex<BTreeSet<Arc<str>>>,
    /// What many objects have alike.
    values: SharedValues,
    revision: watch::Sender<Revision>,
    /// None: objects are stored as they are.
    at_rest: Option<Arc<dyn ValueTransformer>>,
    unreadable: Unreadable,
}

/// The storage key of an object.
pub fn storage_key(storage: &StorageId, key: &ObjectKey) -> String {
    if key.namespace.is_empty() {
        format!("{PREFIX}{}/{}", storage.0, key.name)
    } else {
        format!("{PREFIX}{}/{}/{}", storage.0, key.namespace, key.name)
    }
}

/// `GROUP/PLURAL` of a storage key: the first two segments after the prefix.
fn storage_of(key: &str) -> Option<StorageId> {
    let rest = key.strip_prefix(PREFIX)?;
    let group_end = rest.find('/')?;
    let plural_end = group_end + 1 + rest[group_end + 1..].find('/')?;
    Some(StorageId(Arc::from(&rest[..plural_end])))
}

impl Cache {
    /// Reads everything the store holds, where objects are stored as they are.
    ///
    /// # Errors
    /// As of [`Cache::load_through`].
    pub async fn load(store: &dyn Store) -> Result<Arc<Cache>, StoreError> {
        Cache::load_through(store, None).await
    }

    /// Reads everything the store holds. While one page is taken in, the next is read already.
    ///
    /// # Errors
    /// The store cannot be read; [`StoreError::Closed`] where its reader is gone. An object that cannot be read alone is no error.
    pub async fn load_through(
        store: &dyn Store,
        at_rest: Option<Arc<dyn ValueTransformer>>,
    ) -> Result<Arc<Cache>, StoreError> {
        let cache = Cache {
            resource_caches: RwLock::default(),
            namespaces: Mutex::default(),
            values: SharedValues::default(),
            revision: watch::Sender::new(0),
            at_rest,
            unreadable: Unreadable::default(),
        };
        let read = |after: Option<&str>| tokio::spawn(store.list(PREFIX, after, PAGE));
        let mut reading = read(None);
        let mut revision = None;
        loop {
            // A reader that panicked has lost its page; the store is as good as closed.
            let page = reading.await.map_err(|_| StoreError::Closed)??;
            // Later pages may show writes after the first: the watch from the first page's revision brings them again,
            // and applying a write twice changes nothing.
            let first = *revision.get_or_insert(page.revision);
            let next = page.items.last().filter(|_| page.more).map(|last| read(Some(&last.key)));
            for item in &page.items {
                cache.place(&item.key, &item.value, item.mod_revision).await;
            }
            match next {
                Some(next) => reading = next,
                None => break cache.starts_at(first),
            }
        }
        Ok(Arc::new(cache))
    }

    fn starts_at(&self, revision: Revision) {
        self.resource_caches.read().values().for_each(|resource_cache| resource_cache.start_at(revision));
        self.revision.send_replace(revision);
    }

    async fn place(&self, key: &str, value: &Bytes, revision: Revision) {
        let Some(storage) = storage_of(key) else { return };
        match self.read(&storage, key, value, revision).await {
            Ok(stored) => self.of_resource(&storage).place(stored),
            Err(why) => self.cannot_read(&storage, key, why),
        }
    }

    fn cannot_read(&self, storage: &StorageId, key: &str, why: String) {
        tracing::error!(key, why, "an object in the store cannot be read; whoever asks for it is told so");
        self.unreadable.add(storage, object_key(storage, key), why);
    }

    /// Applies the store's events until told to stop.
    ///
    /// # Errors
    /// The store is closed, or what the cache has not seen yet is no longer kept ([`StoreError::Compacted`]).
    pub async fn run(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        stop: CancellationToken,
    ) -> Result<(), StoreError> {
        let mut events = store.watch(PREFIX, self.revision())?;
        let mut trim = tokio::time::interval(Duration::from_secs(30));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                batch = events.next() => match batch {
                    Some(Ok(batch)) => tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        () = self.apply_all(&batch) => {}
                    },
                    Some(Err(karmada_store::WatchError::Lagged)) => events = store.watch(PREFIX, self.revision())?,
                    Some(Err(karmada_store::WatchError::Closed)) | None => return Err(StoreError::Closed),
                },
                _ = trim.tick() => self.trim(),
            }
        }
    }

    async fn apply_all(&self, events: &[Event]) {
        for event in events {
            self.apply(event).await;
        }
    }

    async fn apply(&self, event: &Event) {
        if let Some(storage) = storage_of(event.key()) {
            let resource_cache = self.of_resource(&storage);
            match event {
                Event::Put { current, .. } => {
                    let (key, revision) = (&current.key, current.mod_revision);
                    match self.read(&storage, key, &current.value, revision).await {
                        Ok(stored) => {
                            self.unreadable.remove(&storage, &stored.key);
                            resource_cache.apply(&storage, Some(stored), None, revision);
                        }
                        Err(why) => self.cannot_read(&storage, key, why),
                    }
                }
                Event::Delete { key, revision, .. } => {
                    let key = object_key(&storage, key);
                    self.unreadable.remove(&storage, &key);
                    resource_cache.apply(&storage, None, Some(&key), *revision);
                }
            }
        }
        self.revision.send_replace(event.revision());
    }

    /// The object in stored bytes, or why there is none in them.
    async fn read(
        &self,
        storage: &StorageId,
        key: &str,
        value: &Bytes,
        revision: Revision,
    ) -> Result<Arc<Stored>, String> {
        let no_object = |error: serde_json::Error| {
            unreadable::without_keys(key, value)
                .unwrap_or_else(|| format!("{key:?} holds no object: {error}"))
        };
        let Some(at_rest) = &self.at_rest else {
            return self.shared(Stored::read_sharing(value, revision, &self.values).map_err(no_object)?);
        };
        let value = self.opened(&**at_rest, storage, key, value).await?;
        let stored = Stored::read_sharing(&value, revision, &self.values);
        let stored = stored.map_err(|error| format!("{key:?} holds no object: {error}"))?;
        // What a key alone can encrypt may still have been copied from elsewhere.
        if stored.key != object_key(storage, key) {
            return Err(format!("{key:?} holds an object of another name"));
        }
        self.shared(stored)
    }

    /// What was stored encrypted. What is needed for it and is away is waited for: an object is not left out for that.
    async fn opened(
        &self,
        at_rest: &dyn ValueTransformer,
        storage: &StorageId,
        key: &str,
        value: &Bytes,
    ) -> Result<Bytes, String> {
        loop {
            match at_rest.open(storage, key, value).await {
                Ok(value) => return Ok(value),
                Err(NotRead::Never(why)) => return Err(why),
                Err(NotRead::NotNow(why)) => {
                    tracing::error!(key, why, "an object cannot be read now: waiting until it can");
                    tokio::time::sleep(READ_AGAIN).await;
                }
            }
        }
    }

    /// The object with its namespace's name shared.
    fn shared(&self, mut stored: Stored) -> Result<Arc<Stored>, String> {
        let mut namespaces = self.namespaces.lock();
        match namespaces.get(&stored.key.namespace) {
            Some(known) => stored.key.namespace = known.clone(),
            None => drop(namespaces.insert(stored.key.namespace.clone())),
        }
        Ok(Arc::new(stored))
    }

    fn trim(&self) {
        self.namespaces.lock().retain(|name| Arc::strong_count(name) > 1);
        self.values.sweep();
        let now = tokio::time::Instant::now();
        for resource_cache in self.resource_caches.read().values() {
            resource_cache.trim(now);
        }
    }

    /// The cache of one resource, made on first use.
    pub fn of_resource(&self, storage: &StorageId) -> Arc<ResourceCache> {
        if let Some(resource_cache) = self.resource_caches.read().get(storage) {
            return resource_cache.clone();
        }
        let mut resource_caches = self.resource_caches.write();
        resource_caches
            .entry(storage.clone())
            .or_insert_with(|| Arc::new(ResourceCache::starting_at(self.revision())))
            .clone()
    }

    /// The objects of one resource, as they are listed and watched.
    pub fn collection(&self, storage: &StorageId) -> Collection {
        Collection::following(self.of_resource(storage), self.revision.subscribe())
    }

    /// One live object.
    pub fn get(&self, storage: &StorageId, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.of_resource(storage).get(key)
    }

    /// Why an object is not here though it is stored: it cannot be read.
    pub fn unreadable(&self, storage: &StorageId, key: &ObjectKey) -> Option<String> {
        self.unreadable.why(storage, key)
    }

    /// The same of any object in `namespace` (empty: anywhere).
    pub fn unreadable_in(&self, storage: &StorageId, namespace: &str) -> Option<String> {
        self.unreadable.any_in(storage, namespace)
    }

    /// How many objects cannot be read.
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.count()
    }

    /// What is stored of an object's bytes, or why nothing can be now.
    pub(crate) fn sealed(&self, storage: &StorageId, key: &str, value: &Bytes) -> Result<Bytes, String> {
        match &self.at_rest {
            None => Ok(value.clone()),
            Some(at_rest) => at_rest.seal(storage, key, value.clone()),
        }
    }

    /// The revision up to which every write is seen here.
    pub fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Waits until every write up to `revision` is seen here.
    pub async fn wait_for(&self, revision: Revision) {
        let mut seen = self.revision.subscribe();
        // The sender lives as long as the cache, so this cannot fail while `self` is borrowed.
        let _ = seen.wait_for(|now| *now >= revision).await;
    }

    /// Object count of every resource, for metrics.
    pub fn counts(&self) -> Vec<(StorageId, usize)> {
        self.resource_caches
            .read()
            .iter()
            .map(|(id, resource_cache)| (id.clone(), resource_cache.len()))
            .collect()
    }
}

/// Resolves once one of the resources' caches has an event after the revision beside it.
pub async fn any_changed(resource_caches: &[(Arc<ResourceCache>, Revision)]) {
    let each = resource_caches.iter().map(|(resource_cache, seen)| {
        Box::pin(async move {
            // Who fell off the ring has something to look at, too.
            let _ = resource_cache.subscribe(*seen).next().await;
        })
    });
    futures::future::select_all(each).await;
}

fn object_key(storage: &StorageId, key: &str) -> ObjectKey {
    let rest = &key[(PREFIX.len() + storage.0.len() + 1).min(key.len())..];
    match rest.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new("", rest),
    }
}
