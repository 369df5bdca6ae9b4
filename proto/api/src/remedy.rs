//! Remedy: what is to be done for a cluster by what its conditions say.
//!
//! Types alone, read as JSON; the actions of those that match are listed in `status.remedyActions` of a Cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::policy::ClusterAffinity;

/// A remedy; cluster-scoped, without a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What, where and when.
    #[serde(default)]
    pub spec: RemedySpec,
}

/// What, where and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemedySpec {
    /// Which clusters; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// When: one must hold; absent: always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_matches: Vec<DecisionMatch>,
    /// What.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// One reason for a remedy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionMatch {
    /// What a condition of the cluster is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_condition_match: Option<ClusterConditionRequirement>,
}

/// What a condition of a cluster is to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConditionRequirement {
    /// The condition's type.
    #[serde(default)]
    pub condition_type: String,
    /// `Equal` or `NotEqual`.
    #[serde(default)]
    pub operator: String,
    /// Its status.
    #[serde(default)]
    pub condition_status: String,
}
