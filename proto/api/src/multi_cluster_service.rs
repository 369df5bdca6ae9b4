//! MultiClusterService: a Service that is reached across clusters, and what sites tell of where it is reached.
//!
//! Types alone: the object as JSON, whose fields that nothing acts on are kept as they are; and what an agent reports of endpoints.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What it is to be: traffic goes from consumers to providers.
pub const CROSS_CLUSTER: &str = "CrossCluster";

/// A MultiClusterService.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterService {
    /// `networking.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `MultiClusterService`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Between which clusters.
    #[serde(default)]
    pub spec: MultiClusterServiceSpec,
    /// How it stands.
    #[serde(default)]
    pub status: MultiClusterServiceStatus,
}

/// Between which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterServiceSpec {
    /// `CrossCluster` or `LoadBalancer`; exactly one.
    #[serde(default)]
    pub types: Vec<String>,
    /// Where its Pods are; none: in all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_clusters: Vec<ClusterSelector>,
    /// From where it is reached; none: from all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumer_clusters: Vec<ClusterSelector>,
    /// What nothing here acts on.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A cluster by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSelector {
    /// The name.
    #[serde(default)]
    pub name: String,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterServiceStatus {
    /// `ServiceApplied`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What nothing here acts on.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl MultiClusterService {
    /// Namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }

    /// Name: that of the Service, too.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Whether it is being deleted.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }
}

/// Where a Service is reached in a member, as its agent tells it: the status of the Work by which the hub asked for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndpoints {
    /// All that the member has, without those that came from other clusters.
    #[serde(default)]
    pub endpoint_slices: Vec<MemberSlice>,
    /// Endpoints that are not listed, as they were too many.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub unlisted: usize,
}

fn is_none_left(count: &usize) -> bool {
    *count == 0
}

/// One EndpointSlice of a member, without what is of no use elsewhere: nodes, Pods, zones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberSlice {
    /// Its name there.
    #[serde(default)]
    pub name: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default)]
    pub address_type: String,
    /// Addresses, and whether they serve.
    #[serde(default)]
    pub endpoints: Vec<Value>,
    /// Ports.
    #[serde(default)]
    pub ports: Vec<Value>,
}
