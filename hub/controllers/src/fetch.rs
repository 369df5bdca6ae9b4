//! Reading typed objects through the port, and writing them back as JSON.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::port::{Api, ApiError, Object, Resource};
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
    ///
    /// # Errors
    /// The kind is not served.
    pub fn clusters(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "cluster.karmada.io/v1alpha1", "Cluster")
    }

    /// `work.karmada.io` Work.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn works(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "work.karmada.io/v1alpha1", "Work")
    }

    /// `config.karmada.io` ResourceInterpreterCustomization.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn customizations(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "config.karmada.io/v1alpha1", "ResourceInterpreterCustomization")
    }

    /// `config.karmada.io` ResourceInterpreterWebhookConfiguration.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn webhook_configurations(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "config.karmada.io/v1alpha1", "ResourceInterpreterWebhookConfiguration")
    }

    /// Core Namespace.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn namespaces(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "v1", "Namespace")
    }

    /// ResourceBinding, or ClusterResourceBinding for the empty namespace.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn bindings(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterResourceBinding" } else { "ResourceBinding" };
        must(api, "work.karmada.io/v1alpha2", kind)
    }

    /// PropagationPolicy, or ClusterPropagationPolicy for the empty namespace.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn policies(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
        must(api, "policy.karmada.io/v1alpha1", kind)
    }

    /// `policy.karmada.io` FederatedResourceQuota.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn quotas(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "policy.karmada.io/v1alpha1", "FederatedResourceQuota")
    }

    /// `networking.karmada.io` MultiClusterService.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn multi_cluster_services(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "networking.karmada.io/v1alpha1", "MultiClusterService")
    }

    /// `multicluster.x-k8s.io` ServiceExport.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn service_exports(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "multicluster.x-k8s.io/v1alpha1", "ServiceExport")
    }

    /// `multicluster.x-k8s.io` ServiceImport.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn service_imports(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "multicluster.x-k8s.io/v1alpha1", "ServiceImport")
    }

    /// `discovery.k8s.io` EndpointSlice.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn endpoint_slices(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "discovery.k8s.io/v1", "EndpointSlice")
    }

    /// Core Service.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn services(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "v1", "Service")
    }

    /// `rbac.authorization.k8s.io` ClusterRole.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn cluster_roles(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "rbac.authorization.k8s.io/v1", "ClusterRole")
    }

    /// `rbac.authorization.k8s.io` ClusterRoleBinding.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn cluster_role_bindings(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
    }

    /// `policy.karmada.io` ClusterTaintPolicy.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn taint_policies(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "policy.karmada.io/v1alpha1", "ClusterTaintPolicy")
    }

    /// `edge.karmada.io` LinkPolicy.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn link_policies(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "edge.karmada.io/v1alpha1", "LinkPolicy")
    }

    /// `edge.karmada.io` ResidencyRule.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn residency_rules(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "edge.karmada.io/v1alpha1", "ResidencyRule")
    }

    /// `remedy.karmada.io` Remedy.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn remedies(api: &dyn Api) -> Result<Resource, Error> {
        must(api, "remedy.karmada.io/v1alpha1", "Remedy")
    }

    /// OverridePolicy, or ClusterOverridePolicy for the empty namespace.
    ///
    /// # Errors
    /// The kind is not served.
    pub fn overrides(api: &dyn Api, namespace: &str) -> Result<Resource, Error> {
        let kind = if namespace.is_empty() { "ClusterOverridePolicy" } else { "OverridePolicy" };
        must(api, "policy.karmada.io/v1alpha1", kind)
    }
}

/// One object as it lies in the cache, or `None` where there is none.
///
/// # Errors
/// As of [`Api::get`], save that there is none.
pub async fn object(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, Error> {
    match api.get(resource, namespace, name).await {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One object, or `None` where there is none.
///
/// # Errors
/// As of [`object`], or it does not fit the type.
pub async fn get<T: DeserializeOwned>(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<T>, Error> {
    let found = object(api, resource, namespace, name).await?;
    found.map(|object| Ok(object.parse()?)).transpose()
}

/// A typed object as JSON.
///
/// # Errors
/// It cannot be written as JSON, as with a key that is no text.
pub fn to_value<T: Serialize>(object: &T) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| Error::Other(error.to_string()))
}
