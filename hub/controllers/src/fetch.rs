//! Reading typed objects through the port, and writing them back as JSON. In: the port, a kind, a namespace and a name. Out: the object as
//! a type, or none; a kind that is not served is an error.

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

    /// Functions that find a kind by its apiVersion and name.
    macro_rules! served {
        ($($name:ident: $api_version:literal, $kind:literal;)*) => { $(
            #[doc = concat!("`", $api_version, "` ", $kind, ".\n\n# Errors\nThe kind is not served.")]
            pub fn $name(api: &dyn Api) -> Result<Resource, Error> {
                must(api, $api_version, $kind)
            }
        )* };
    }

    served! {
        clusters: "cluster.karmada.io/v1alpha1", "Cluster";
        works: "work.karmada.io/v1alpha1", "Work";
        customizations: "config.karmada.io/v1alpha1", "ResourceInterpreterCustomization";
        webhook_configurations: "config.karmada.io/v1alpha1", "ResourceInterpreterWebhookConfiguration";
        namespaces: "v1", "Namespace";
        quotas: "policy.karmada.io/v1alpha1", "FederatedResourceQuota";
        multi_cluster_services: "networking.karmada.io/v1alpha1", "MultiClusterService";
        service_exports: "multicluster.x-k8s.io/v1alpha1", "ServiceExport";
        service_imports: "multicluster.x-k8s.io/v1alpha1", "ServiceImport";
        endpoint_slices: "discovery.k8s.io/v1", "EndpointSlice";
        services: "v1", "Service";
        cluster_roles: "rbac.authorization.k8s.io/v1", "ClusterRole";
        cluster_role_bindings: "rbac.authorization.k8s.io/v1", "ClusterRoleBinding";
        taint_policies: "policy.karmada.io/v1alpha1", "ClusterTaintPolicy";
        link_policies: "edge.karmada.io/v1alpha1", "LinkPolicy";
        residency_rules: "edge.karmada.io/v1alpha1", "ResidencyRule";
        remedies: "remedy.karmada.io/v1alpha1", "Remedy";
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
pub async fn get_object(
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
    let found = get_object(api, resource, namespace, name).await?;
    found.map(|object| Ok(object.parse()?)).transpose()
}

/// A typed object as JSON.
///
/// # Errors
/// It cannot be written as JSON, as with a key that is no text.
pub fn to_value<T: Serialize>(object: &T) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| Error::Other(error.to_string()))
}
