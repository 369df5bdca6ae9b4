//! Reading typed objects through the port, and writing them back as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::port::{Api, ApiError, Resource};
use crate::runner::Error;

/// The resources that Karmada's controllers live on.
pub mod kinds {
    use super::{Api, Error, Resource};

    /// A kind that must be served, by its apiVersion and kind.
    fn must(api: &dyn Api, api_version: &str, kind: &str) -> Result<Resource, Error> {
        let found = api.resource_of(api_version, kind);
        found.ok_or_else(|| Error::Other(format!("{api_version} {kind} is not served")))
    }

    /// `cluster.karmada.io` Cluster.
    pub fn clusters(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "cluster.karmada.io/v1alpha1", "Cluster")
    }

    /// `work.karmada.io` Work.
    pub fn works(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "work.karmada.io/v1alpha1", "Work")
    }

    /// Core Namespace.
    pub fn namespaces(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "v1", "Namespace")
    }

    /// ResourceBinding, or ClusterResourceBinding for the empty namespace.
    pub fn bindings(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterResourceBinding" } else { "ResourceBinding" };
        must(api, "work.karmada.io/v1alpha2", kind)
    }

    /// PropagationPolicy, or ClusterPropagationPolicy for the empty namespace.
    pub fn policies(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
        must(api, "policy.karmada.io/v1alpha1", kind)
    }

    /// OverridePolicy, or ClusterOverridePolicy for the empty namespace.
    pub fn overrides(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterOverridePolicy" } else { "OverridePolicy" };
        must(api, "policy.karmada.io/v1alpha1", kind)
    }
}

/// One object, or `None` where there is none.
pub async fn get<T: DeserializeOwned>(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<T>, Error> {
    match api.get(resource, namespace, name).await {
        Ok(object) => Ok(Some(object.parse()?)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A typed object as JSON.
pub fn to_value<T: Serialize>(object: &T) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| Error::Other(error.to_string()))
}

/// A list read typed, and kept until one of its objects changes: policies and clusters are read far more often than written.
pub struct Snapshot<T> {
    held: parking_lot::Mutex<Option<Held<T>>>,
}

struct Held<T> {
    revisions: Vec<u64>,
    items: std::sync::Arc<Vec<T>>,
}

impl<T> Default for Snapshot<T> {
    fn default() -> Self {
        Snapshot { held: parking_lot::Mutex::new(None) }
    }
}

impl<T: DeserializeOwned + Send + Sync> Snapshot<T> {
    /// Every object of `resource` (`namespace` empty: of all namespaces), as the cache has it now.
    pub async fn list(
        &self,
        api: &dyn Api,
        resource: &Resource,
        namespace: &str,
    ) -> Result<std::sync::Arc<Vec<T>>, Error> {
        let objects = api.list(resource, namespace).await?;
        let revisions: Vec<u64> = objects.iter().map(|object| object.revision).collect();
        let mut held = self.held.lock();
        if let Some(held) = held.as_ref().filter(|held| held.revisions == revisions) {
            return Ok(held.items.clone());
        }
        let mut items = Vec::with_capacity(objects.len());
        for object in &objects {
            match object.parse() {
                Ok(typed) => items.push(typed),
                Err(error) => {
                    tracing::warn!(kind = &*resource.kind, name = &*object.key.name, %error, "an object cannot be read");
                }
            }
        }
        let items = std::sync::Arc::new(items);
        *held = Some(Held { revisions, items: items.clone() });
        Ok(items)
    }
}
