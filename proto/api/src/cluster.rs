//! Cluster: a member, what it can do and how it is.
//!
//! Types alone, read and written as JSON: the agent reports the status, people and the hub write the spec; the scheduler reads both.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::binding::ResourceList;
use crate::omitempty::{is_false, is_zero};
use karmada_quantity::Quantity;

/// A member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// `cluster.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `Cluster`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata; cluster-scoped.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// How it is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: ClusterStatus,
}

/// What a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Unique id: the uid of the member's namespace kube-system.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// `Pull` or `Push`.
    #[serde(default)]
    pub sync_mode: String,
    /// Where its API server is, for those who can reach it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    /// Secret with token and caBundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Secret with the impersonation token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    /// Whether its certificate is not checked.
    #[serde(rename = "insecureSkipTLSVerification", default, skip_serializing_if = "is_false")]
    pub insecure_skip_tls_verification: bool,
    /// Proxy on the way to it.
    #[serde(rename = "proxyURL", default, skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,
    /// Headers for the proxy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Deprecated: its one zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Its zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// What keeps workloads away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Grades by which nodes are counted. Shared, as most clusters of a fleet are counted alike.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resource_models: Arc<Vec<ResourceModel>>,
}

/// A secret of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretReference {
    /// Namespace.
    #[serde(default)]
    pub namespace: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// A grade of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModel {
    /// Number, from 0.
    #[serde(default)]
    pub grade: u64,
    /// What a node of it has.
    #[serde(default)]
    pub ranges: Vec<ResourceModelRange>,
}

/// How much of a resource nodes of a grade have: from `min`, below `max`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModelRange {
    /// The resource.
    #[serde(default)]
    pub name: String,
    /// At least.
    #[serde(default)]
    pub min: Quantity,
    /// Less than.
    #[serde(default)]
    pub max: Quantity,
}

/// How a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Version of its API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// What it serves, sorted.
    /// Many clusters say the same, so that who holds many of them may share it.
    #[serde(rename = "apiEnablements", default, skip_serializing_if = "is_zero")]
    pub api_enablements: Arc<Vec<ApiEnablement>>,
    /// `Ready`, `CompleteAPIEnablements`, and what users add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// What it has and what is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// What remedies ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// What a cluster serves of one group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    /// Group and version.
    #[serde(default)]
    pub group_version: String,
    /// Its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
}

/// One resource that a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// Plural.
    #[serde(default)]
    pub name: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
}

/// The nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// All of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_num: i32,
    /// Those that are ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ready_num: i32,
}

/// What a cluster has and what is used of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// What its nodes offer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// What pods without a node ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocating: ResourceList,
    /// What pods on nodes ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    /// Free nodes by grade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// How many nodes of a grade are free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableModeling {
    /// The grade.
    #[serde(default)]
    pub grade: u64,
    /// Nodes.
    #[serde(default)]
    pub count: i64,
}

impl Cluster {
    /// Name of the cluster.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether the cluster is being deleted.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the cluster serves a kind (of an apiVersion).
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        self.status
            .api_enablements
            .iter()
            .filter(|enablement| enablement.group_version == api_version)
            .any(|enablement| enablement.resources.iter().any(|resource| resource.kind == kind))
    }
}
