//! What controllers use of the Kubernetes API of the hub.
//!
//! In: resources, names and JSON. Out: objects as the registry stored them. `hub` implements it over the
//! registry, so that controllers pass the same admission, validation and concurrency checks as anybody;
//! tests implement it over a memory store. Controllers never see HTTP or the store.

#[cfg(any(test, feature = "fake"))]
pub mod fake;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::workqueues::Workqueues;

/// A resource as clients name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// Version.
    pub version: Arc<str>,
    /// Plural name, as in the path.
    pub plural: Arc<str>,
    /// Kind of one object.
    pub kind: Arc<str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Where an object stands: its namespace (empty when cluster-scoped) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// Which template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateKey {
    /// Its resource.
    pub resource: Resource,
    /// Where it stands.
    pub key: Key,
}

/// Where an object's JSON is read when somebody asks: who holds many objects holds no copies of them.
pub trait JsonSource: std::fmt::Debug + Send + Sync {
    /// The whole object as JSON.
    fn json(&self) -> Bytes;
}

impl JsonSource for Bytes {
    fn json(&self) -> Bytes {
        self.clone()
    }
}

/// One stored object: what most callers ask of it, and where the rest is.
#[derive(Debug)]
pub struct Object {
    /// Namespace and name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion` as a number.
    pub revision: u64,
    /// `metadata.generation`, 0 where absent.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// A digest of labels, annotations, owners and finalizers; equal ones within one process mean that none of them differ.
    pub metadata_digest: u64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// The rest.
    pub json_source: Arc<dyn JsonSource>,
}

impl Object {
    /// The whole object as JSON.
    pub fn json(&self) -> Bytes {
        self.json_source.json()
    }

    /// Reads the object as a typed kind.
    ///
    /// # Errors
    /// [`ApiError::Invalid`] where it does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.json()).map_err(|error| ApiError::Invalid(error.to_string()))
    }

    /// Reads the object as plain JSON.
    ///
    /// # Errors
    /// [`ApiError::Invalid`] where it is no JSON.
    pub fn value(&self) -> Result<Value, ApiError> {
        self.parse()
    }
}

/// One change of a watched resource.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object was created or changed to this.
    Applied(Arc<Object>),
    /// The object is gone; this is how it last stood.
    Deleted(Arc<Object>),
}

/// Why a call failed, as far as a controller branches on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// No such object (or no such resource).
    #[error("not found: {0}")]
    NotFound(String),
    /// An object of that name exists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// The object changed since it was read, or a precondition failed: read again and decide again.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The object was refused by validation or admission.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Refused by policy; `reason` is the Status reason (`Forbidden`, `QuotaExceeded`…).
    #[error("forbidden ({reason}): {message}")]
    Forbidden {
        /// Status reason.
        reason: String,
        /// Status message.
        message: String,
    },
    /// Anything else: the store failed, the hub is shutting down. Try again later.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl ApiError {
    /// Whether somebody else wrote meanwhile: who reads again and decides again needs to tell nobody of it.
    pub fn is_of_a_race(&self) -> bool {
        matches!(self, ApiError::Conflict(_) | ApiError::AlreadyExists(_))
    }
}

/// What `delete` does with dependants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// The object goes at once, dependants are collected after.
    Background,
    /// Dependants first.
    Foreground,
    /// Dependants stay and lose the owner reference.
    Orphan,
}

/// The hub's API as controllers use it. Every write is a whole object with the `metadata.resourceVersion` it was
/// read at; a write that would change nothing is not written (the stored object comes back as it was).
#[async_trait::async_trait]
pub trait Api: Send + Sync + 'static {
    /// Where controllers enter their queues, if somebody looks at how those fare.
    fn workqueues(&self) -> Option<&Workqueues> {
        None
    }

    /// Every resource served now that can be listed and watched, preferred versions only; sorted.
    fn resources(&self) -> Arc<[Resource]>;

    /// The served resource of an apiVersion and kind, if there is one.
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Resource>;

    /// Resolves when the set of served resources changes after the call (a CRD came or went).
    async fn resources_changed(&self);

    /// One object from the cache.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where there is no such object or resource; [`ApiError::Unavailable`] where it cannot be read in the store.
    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError>;

    /// Every object of a resource (`namespace` empty: of all namespaces) from the cache, in key order.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where the resource is not served; [`ApiError::Unavailable`] where one of them cannot be read in the store.
    async fn list(&self, resource: &Resource, namespace: &str) -> Result<Vec<Arc<Object>>, ApiError>;

    /// What exists now as `Applied`, then every change. Ends when the watcher fell behind or the resource is no
    /// longer served: watch again (what changed meanwhile, deletions included, is then for the caller to diff).
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where the resource is not served.
    async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
    ) -> Result<BoxStream<'static, Change>, ApiError>;

    /// Creates the object.
    ///
    /// # Errors
    /// [`ApiError::AlreadyExists`]; a refusal ([`ApiError::Invalid`], [`ApiError::Forbidden`]), or no such resource or namespace.
    async fn create(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError>;

    /// Replaces the object's metadata and spec.
    ///
    /// # Errors
    /// [`ApiError::Conflict`] where it was changed since it was read, [`ApiError::NotFound`] where it is gone; or a refusal.
    async fn update(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError>;

    /// Applies what the object says of one that is there, in the name of `manager`: what others say otherwise is overruled.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where there is no such object, or a refusal.
    async fn apply(&self, resource: &Resource, object: Value, manager: &str)
    -> Result<Arc<Object>, ApiError>;

    /// Sets how many replicas an object is to have, as its subresource `scale` does. It needs no version: whoever was faster is overruled.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where there is no such object or its kind has no scale, or a refusal.
    async fn scale(&self, resource: &Resource, key: &Key, replicas: i32) -> Result<Arc<Object>, ApiError>;

    /// Replaces the object's status.
    ///
    /// # Errors
    /// As of [`Api::update`].
    async fn update_status(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError>;

    /// Deletes the object if its uid is `uid` (empty: whatever it is).
    ///
    /// # Errors
    /// [`ApiError::NotFound`] where it is gone, [`ApiError::Conflict`] where another object has the name; or a refusal.
    async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: DeletionPropagation,
    ) -> Result<(), ApiError>;
}
