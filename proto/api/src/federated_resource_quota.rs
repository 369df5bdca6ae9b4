//! FederatedResourceQuota: how much the workloads of a namespace may ask for in all clusters together, and what each cluster is given of it.
//!
//! Types alone, read and written as JSON: administrators write the spec, the hub counts the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::binding::ResourceList;

/// A quota; namespaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuota {
    /// `policy.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `FederatedResourceQuota`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is allowed.
    #[serde(default)]
    pub spec: FederatedResourceQuotaSpec,
    /// What is used of it.
    #[serde(default, skip_serializing_if = "FederatedResourceQuotaStatus::is_empty")]
    pub status: FederatedResourceQuotaStatus,
}

/// What is allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaSpec {
    /// In all clusters together.
    #[serde(default)]
    pub overall: ResourceList,
    /// What single clusters are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// What one cluster is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterAssignment {
    /// Which cluster.
    #[serde(default)]
    pub cluster_name: String,
    /// `spec.hard` of the ResourceQuota in it; absent: nothing is said of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<ResourceList>,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaStatus {
    /// What is allowed in all clusters together.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall: ResourceList,
    /// What is used of that.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall_used: ResourceList,
    /// What the ResourceQuotas in clusters say, by the clusters' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
}

/// What the ResourceQuota in one cluster says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQuotaStatus {
    /// Which cluster.
    #[serde(default)]
    pub cluster_name: String,
    /// What it allows.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// What is used of that.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}

impl FederatedResourceQuota {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Whether it is on its way out.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl FederatedResourceQuotaStatus {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
