//! What is served and what is stored, the clock and where ids come from: everything that a step of a write may look at.
//!
//! In: the store, the cache, a first catalogue, a clock and a source of ids. Out: definitions, objects and lists, or a `Status` (404, 500).
//! Objects are only read here; `serve`, `announce` and `provide` change what is served. How something is written stands in `registry` and
//! its steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use karmada_definitions::resource::{Catalogue, ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_schema::object::{ObjectKey, Stored};
use karmada_schema::time;
use karmada_store::Store;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;

use crate::cache::{Cache, Collection};
use crate::crd::conversion::watched::Watched;
use crate::virtual_resource::{VirtualRequest, VirtualResource};

/// The wall clock.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Where new uids come from.
pub type Ids = Arc<dyn Fn() -> uuid::Uuid + Send + Sync>;

/// What is served now, and all objects.
pub struct RegistryContext {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    catalogue: ArcSwap<Catalogue>,
    announced: ArcSwap<Catalogue>,
    catalogue_changed: watch::Sender<u64>,
    providers: RwLock<BTreeMap<StorageId, Arc<dyn VirtualResource>>>,
    clock: Clock,
    ids: Ids,
    watched: Arc<Watched>,
}

impl RegistryContext {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        catalogue: Catalogue,
        clock: Clock,
        ids: Ids,
    ) -> RegistryContext {
        let catalogue = Arc::new(catalogue);
        let announced = ArcSwap::new(catalogue.clone());
        let (catalogue, catalogue_changed) = (ArcSwap::new(catalogue), watch::Sender::new(0));
        RegistryContext {
            store,
            cache,
            catalogue,
            announced,
            catalogue_changed,
            providers: RwLock::default(),
            clock,
            ids,
            watched: Arc::default(),
        }
    }

    /// A number that differs at each call.
    pub(crate) fn seed(&self) -> u64 {
        (self.ids)().as_u64_pair().0
    }

    /// What is served now.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.load_full()
    }

    /// The resource at a path.
    ///
    /// # Errors
    /// 404: it is not served.
    pub fn definition(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Arc<ResourceDefinition>, Status> {
        self.catalogue.load().resource(group, version, plural).cloned().ok_or_else(Status::no_resource)
    }

    /// What discovery tells of: what is served, but for kinds whose definitions do not say yet that they are.
    pub fn announced(&self) -> Arc<Catalogue> {
        self.announced.load_full()
    }

    /// Serves another set of resources from now on. Discovery goes on telling of the former one: see [`RegistryContext::announce`].
    pub fn serve(&self, catalogue: Catalogue) {
        self.catalogue.store(Arc::new(catalogue));
        self.catalogue_changed.send_modify(|n| *n += 1);
    }

    /// Has discovery tell of these from now on.
    pub fn announce(&self, catalogue: Arc<Catalogue>) {
        self.announced.store(catalogue);
    }

    /// Resolves at the next change of what is served.
    pub fn catalogue_changes(&self) -> watch::Receiver<u64> {
        self.catalogue_changed.subscribe()
    }

    /// The objects.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The present as metadata writes it: RFC 3339, whole seconds, UTC.
    pub fn now_text(&self) -> String {
        time::seconds((self.clock)())
    }

    /// The present.
    pub fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    /// A new uid.
    pub fn new_uid(&self) -> String {
        (self.ids)().to_string()
    }

    /// One object by name.
    ///
    /// # Errors
    /// There is none (404), or it is stored and cannot be read (500).
    pub fn get(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        let key = ObjectKey::new(namespace, name);
        self.cache.get(&definition.storage, &key).ok_or_else(|| self.absent(definition, &key))
    }

    /// One object by name, or that there is none: for who must not take one that cannot be read for one that is gone.
    ///
    /// # Errors
    /// It is stored and cannot be read (500).
    pub fn find(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Stored>>, Status> {
        match self.get(definition, namespace, name) {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// From now on `provider` answers for a resource that is not stored.
    pub fn provide(&self, definition: &ResourceDefinition, provider: Arc<dyn VirtualResource>) {
        self.providers.write().insert(definition.storage.clone(), provider);
    }

    /// Who answers for a resource that is not stored.
    fn provider(&self, definition: &ResourceDefinition) -> Option<Arc<dyn VirtualResource>> {
        self.providers.read().get(&definition.storage).cloned()
    }

    /// How many objects of the resource there are, about.
    pub fn count(&self, definition: &ResourceDefinition) -> usize {
        match definition.is_virtual {
            true => self.provider(definition).map_or(0, |provider| provider.count()),
            false => self.cache.of_resource(&definition.storage).len(),
        }
    }

    /// One object, stored or not.
    ///
    /// # Errors
    /// There is no such object, it cannot be read, or its provider says why not.
    pub async fn read(&self, asked: &VirtualRequest<'_>) -> Result<Arc<Stored>, Status> {
        let absent = || Status::not_found(asked.definition, asked.name);
        match asked.definition.is_virtual {
            true => self.provider(asked.definition).ok_or_else(absent)?.get(asked).await,
            false => self.get(asked.definition, asked.namespace, asked.name),
        }
    }

    /// All objects of a resource for a list, stored or not. Of a resource whose provider is not there, there are none.
    ///
    /// # Errors
    /// One of them cannot be read, or the provider says why not.
    pub async fn list(&self, asked: &VirtualRequest<'_>) -> Result<Collection, Status> {
        match (asked.definition.is_virtual, self.provider(asked.definition)) {
            (true, Some(provider)) => provider.list(asked).await,
            _ => self.stored_objects(asked),
        }
    }

    /// The objects of a resource whose changes are told, stored or not.
    ///
    /// # Errors
    /// As [`RegistryContext::list`].
    pub async fn watch(&self, asked: &VirtualRequest<'_>) -> Result<Collection, Status> {
        match (asked.definition.is_virtual, self.provider(asked.definition)) {
            (true, Some(provider)) => provider.watch(asked).await,
            _ => self.stored_objects(asked),
        }
    }

    fn stored_objects(&self, asked: &VirtualRequest<'_>) -> Result<Collection, Status> {
        self.all_readable(asked.definition, asked.namespace)?;
        Ok(self.cache.collection(&asked.definition.storage))
    }

    /// The answer to an object of a virtual resource that was posted.
    ///
    /// # Errors
    /// The provider says why not.
    pub async fn answer(&self, asked: &VirtualRequest<'_>, object: Value) -> Result<Value, Status> {
        let provider = self.provider(asked.definition).ok_or_else(Status::method_not_allowed)?;
        provider.create(asked, object).await
    }

    /// What is said of an object that is not in the cache: it is not there, or cannot be read.
    pub(crate) fn absent(&self, definition: &ResourceDefinition, key: &ObjectKey) -> Status {
        match self.cache.unreadable(&definition.storage, key) {
            Some(why) => Status::internal(why),
            None => Status::not_found(definition, &key.name),
        }
    }

    /// Refuses to speak of all objects in `namespace` (empty: anywhere) where one cannot be read.
    ///
    /// # Errors
    /// Which one, and why.
    pub fn all_readable(&self, definition: &ResourceDefinition, namespace: &str) -> Result<(), Status> {
        self.cache
            .unreadable_in(&definition.storage, namespace)
            .map_or(Ok(()), |why| Err(Status::internal(why)))
    }

    /// An object's bytes in the form in which they are stored at `path`: encrypted, where the resource is.
    pub(crate) fn sealed(
        &self,
        definition: &ResourceDefinition,
        path: &str,
        bytes: &Bytes,
    ) -> Result<Bytes, Status> {
        self.cache.sealed(&definition.storage, path, bytes).map_err(Status::internal)
    }

    /// Stored objects as they are shown in the definition's version, where only a webhook can tell; others stay as they are.
    ///
    /// # Errors
    /// The kind's conversion webhook cannot be asked, or does not convert them.
    pub async fn view(
        &self,
        definition: &ResourceDefinition,
        objects: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        match &definition.custom {
            Some(custom) => crate::crd::conversion::view(custom, &self.cache, objects).await,
            None => Ok(objects),
        }
    }

    /// The object of an event as it is shown in the definition's version. All who watch share what a webhook is asked for.
    ///
    /// # Errors
    /// The kind's conversion webhook cannot be asked, or does not convert it.
    pub async fn view_event(
        &self,
        definition: &ResourceDefinition,
        object: &Arc<Stored>,
    ) -> Result<Arc<Stored>, Status> {
        match &definition.custom {
            Some(custom) => self.watched.view(custom, &self.cache, object.clone()).await,
            None => Ok(object.clone()),
        }
    }

    /// Makes the cache entry of bytes that were, or on a dry run were not, written.
    pub(crate) fn stored(bytes: &Bytes, revision: u64) -> Result<Arc<Stored>, Status> {
        Stored::read(bytes, revision).map(Arc::new).map_err(Status::internal)
    }
}
