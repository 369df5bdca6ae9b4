//! The controllers' API client over the registry: the same admission and concurrency as for users, without HTTP.
//!
//! In: the calls of the port, in one component's name. Out: objects as they lie in the cache, streams of changes, writes; a refusal of the
//! API as an [`ApiError`].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use karmada_controllers::port::{
    Api, ApiError, Change, DeletionPropagation, JsonSource, Key, Object, Resource,
};
use karmada_controllers::workqueues::Workqueues;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_definitions::version::split_api_version;
use karmada_kinds::{FieldManager, scale};
use karmada_registry::cache::CacheEvent;
use karmada_registry::{DeleteOptions, Origin, Registry, User, WriteOptions, Written};
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::{Value, json};

/// The registry as the controllers see it.
pub struct RegistryApi {
    registry: Arc<Registry>,
    user: User,
    workqueues: Arc<Workqueues>,
}

impl RegistryApi {
    /// A client for one component, under its own name; its queues are entered in `workqueues`.
    pub fn new(registry: Arc<Registry>, component: &str, workqueues: Arc<Workqueues>) -> Self {
        let user = User {
            name: component.to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            origin: Origin::Controller,
            ..User::default()
        };
        RegistryApi { registry, user, workqueues }
    }

    fn definition(&self, resource: &Resource) -> Result<Arc<ResourceDefinition>, ApiError> {
        let catalogue = self.registry.catalogue();
        let found = catalogue.resource(&resource.group, &resource.version, &resource.plural);
        found.cloned().ok_or_else(|| ApiError::NotFound(format!("no resource {}", resource.plural)))
    }

    fn options(&self, subresource: &str) -> WriteOptions {
        WriteOptions {
            user: self.user.clone(),
            field_manager: self.user.name.clone(),
            subresource: subresource.to_owned(),
            ..WriteOptions::default()
        }
    }

    async fn write(
        &self,
        resource: &Resource,
        object: Value,
        subresource: &str,
    ) -> Result<Arc<Object>, ApiError> {
        let definition = self.definition(resource)?;
        let key = key_of(&definition, &object);
        let options = self.options(subresource);
        // Named at a version, the object is tried once: a second try meets another version and is refused before it is read.
        let mut object = Some(object);
        let mut change =
            |_: Option<&Value>| object.take().ok_or_else(|| Status::conflict(&definition, &key.name));
        let written = self.registry.update(&definition, &key, &options, &mut change).await;
        written.map(|w| written_object(&w)).map_err(refused)
    }
}

/// Where an object that a controller made belongs.
fn key_of(definition: &ResourceDefinition, object: &Value) -> ObjectKey {
    let namespace = if definition.namespaced { meta::namespace(object) } else { "" };
    ObjectKey::new(namespace, meta::name(object))
}

fn written_object(written: &Written) -> Arc<Object> {
    Arc::new(to_object(&written.object))
}

/// An object where it lies in the watch cache.
#[derive(Debug)]
pub(crate) struct Cached(pub(crate) Arc<Stored>);

impl JsonSource for Cached {
    fn json(&self) -> Bytes {
        self.0.json()
    }
}

/// The port's view of a cached object.
pub(crate) fn to_object(stored: &Arc<Stored>) -> Object {
    Object {
        key: Key { namespace: stored.key.namespace.clone(), name: stored.key.name.clone() },
        uid: Arc::from(stored.uid()),
        revision: stored.revision,
        generation: stored.generation,
        deleting: stored.deleting,
        metadata_digest: stored.metadata_digest,
        labels: stored.labels(),
        json_source: Arc::new(Cached(stored.clone())),
    }
}

fn change(event: &CacheEvent) -> Change {
    let object = Arc::new(to_object(&event.object));
    if event.removed { Change::Deleted(object) } else { Change::Applied(object) }
}

/// What a refusal means to a controller.
pub(crate) fn refused(status: Status) -> ApiError {
    match (&*status.reason, status.code) {
        ("NotFound", _) => ApiError::NotFound(status.message),
        ("AlreadyExists", _) => ApiError::AlreadyExists(status.message),
        ("Conflict", _) => ApiError::Conflict(status.message),
        (_, 403) => ApiError::Forbidden { reason: status.reason.into_owned(), message: status.message },
        (_, 400 | 413 | 415 | 422) => ApiError::Invalid(status.message),
        _ => ApiError::Unavailable(status.message),
    }
}

fn resource(definition: &ResourceDefinition) -> Resource {
    Resource {
        group: definition.group.clone(),
        version: definition.version.clone(),
        plural: definition.plural.clone(),
        kind: definition.kind.clone(),
        namespaced: definition.namespaced,
    }
}

#[async_trait]
impl Api for RegistryApi {
    fn workqueues(&self) -> Option<&Workqueues> {
        Some(&self.workqueues)
    }

    fn resources(&self) -> Arc<[Resource]> {
        let mut all: Vec<Resource> =
            self.registry.catalogue().preferred().iter().map(|d| resource(d)).collect();
        all.sort();
        all.into()
    }

    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let (group, version) = split_api_version(api_version);
        self.registry.catalogue().kind(group, version, kind).map(|d| resource(d))
    }

    async fn resources_changed(&self) {
        let mut changes = self.registry.catalogue_changes();
        // The sender lives as long as the registry.
        let _ = changes.changed().await;
    }

    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError> {
        let definition = self.definition(resource)?;
        self.registry
            .get(&definition, namespace, name)
            .map(|stored| Arc::new(to_object(&stored)))
            .map_err(refused)
    }

    async fn list(&self, resource: &Resource, namespace: &str) -> Result<Vec<Arc<Object>>, ApiError> {
        let definition = self.definition(resource)?;
        self.registry.all_readable(&definition, namespace).map_err(refused)?;
        let resource_cache = self.registry.cache().of_resource(&definition.storage);
        Ok(resource_cache
            .snapshot(namespace)
            .items
            .iter()
            .map(|stored| Arc::new(to_object(stored)))
            .collect())
    }

    async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
    ) -> Result<BoxStream<'static, Change>, ApiError> {
        let definition = self.definition(resource)?;
        let resource_cache = self.registry.cache().of_resource(&definition.storage);
        let snapshot = resource_cache.snapshot(namespace);
        let namespace = namespace.to_owned();
        let place = snapshot.revision;
        let first = stream::iter(
            snapshot.items.into_iter().map(|stored| Change::Applied(Arc::new(to_object(&stored)))),
        );
        let then = stream::unfold((resource_cache, place), move |(resource_cache, place)| {
            let namespace = namespace.clone();
            async move {
                let mut subscription = resource_cache.subscribe(place);
                let events = subscription.next().await.ok()?;
                let place = subscription.place();
                drop(subscription);
                let inside =
                    |e: &&Arc<CacheEvent>| namespace.is_empty() || *e.object.key.namespace == *namespace;
                let changes: Vec<Change> = events.iter().filter(inside).map(|e| change(e)).collect();
                Some((stream::iter(changes), (resource_cache, place)))
            }
        });
        Ok(first.chain(then.flatten()).boxed())
    }

    async fn create(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        let definition = self.definition(resource)?;
        let namespace = key_of(&definition, &object).namespace;
        let written = self.registry.create(&definition, &namespace, object, &self.options("")).await;
        written.map(|w| written_object(&w)).map_err(refused)
    }

    async fn update(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        let ends = &*resource.plural == "namespaces" && object["metadata"]["deletionTimestamp"].is_string();
        self.write(resource, object, if ends { "finalize" } else { "" }).await
    }

    async fn apply(
        &self,
        resource: &Resource,
        object: Value,
        manager: &str,
    ) -> Result<Arc<Object>, ApiError> {
        let definition = self.definition(resource)?;
        let key = key_of(&definition, &object);
        let options = WriteOptions { field_manager: manager.to_owned(), applied: true, ..self.options("") };
        let now = self.registry.now_text();
        let manager = FieldManager { name: manager, subresource: "", now: &now, force: true };
        let mut change = |live: Option<&Value>| match live {
            None => Err(Status::not_found(&definition, &key.name)),
            live => karmada_kinds::apply(&definition, live, &object, manager),
        };
        let written = self.registry.update(&definition, &key, &options, &mut change).await;
        written.map(|w| written_object(&w)).map_err(refused)
    }

    async fn scale(&self, resource: &Resource, key: &Key, replicas: i32) -> Result<Arc<Object>, ApiError> {
        let definition = self.definition(resource)?;
        let paths = scale::scale_paths(&definition).ok_or_else(Status::no_resource).map_err(refused)?;
        let key = ObjectKey::new(&key.namespace, &key.name);
        let wanted = json!({"spec": {"replicas": replicas}});
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(&definition, &key.name))?;
            match scale::unscalable(&definition, live) {
                Some(problem) => Err(Status::bad_request(problem)),
                None => scale::set(&definition, &paths, live, &wanted),
            }
        };
        let written = self.registry.update(&definition, &key, &self.options("scale"), &mut change).await;
        written.map(|w| written_object(&w)).map_err(refused)
    }

    async fn update_status(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.write(resource, object, "status").await
    }

    async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: DeletionPropagation,
    ) -> Result<(), ApiError> {
        let definition = self.definition(resource)?;
        let policy = match propagation {
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
            DeletionPropagation::Orphan => "Orphan",
        };
        let mut options = json!({"propagationPolicy": policy});
        if !uid.is_empty() {
            options["preconditions"] = json!({"uid": uid});
        }
        let options: DeleteOptions =
            serde_json::from_value(options).map_err(|error| ApiError::Invalid(error.to_string()))?;
        let key = ObjectKey::new(&key.namespace, &key.name);
        self.registry.delete(&definition, &key, &options, &self.user).await.map(|_| ()).map_err(refused)
    }
}

#[cfg(test)]
mod tests;
