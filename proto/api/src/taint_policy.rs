//! ClusterTaintPolicy: which taints a cluster has by what its conditions say.
//!
//! Types alone, read as JSON; which are refused is in [`crate::validation`].

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::policy::ClusterAffinity;

/// A policy of taints; cluster-scoped, without a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicy {
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which taints, where and when.
    #[serde(default)]
    pub spec: ClusterTaintPolicySpec,
}

/// Which taints, where and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicySpec {
    /// Which clusters; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
    /// When the taints come: all must hold, and none at all never do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// When they go: all must hold, and none at all never do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// The taints.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

/// What a condition of a cluster is to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// The condition's type.
    #[serde(default)]
    pub condition_type: String,
    /// `In` or `NotIn`.
    #[serde(default)]
    pub operator: String,
    /// Statuses.
    #[serde(default)]
    pub status_values: Vec<String>,
}

impl ClusterTaintPolicy {
    /// Name of the policy.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }
}
