//! WorkloadRebalancer: workloads that are to be placed anew, and what came of it.
//!
//! Types alone, read and written as JSON: a person lists workloads, the controller notes what came of each.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use crate::omitempty::is_zero;

/// A rebalancer; cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancer {
    /// `apps.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `WorkloadRebalancer`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which workloads.
    #[serde(default)]
    pub spec: RebalancerSpec,
    /// What came of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: RebalancerStatus,
}

/// Which workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalancerSpec {
    /// The workloads.
    #[serde(default)]
    pub workloads: Vec<WorkloadReference>,
    /// How long it stays once it is finished; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A template. They are sorted by apiVersion, kind, namespace and name where a list of them is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Namespace, empty for one of the whole cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalancerStatus {
    /// By workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    /// The generation that this is of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When the last was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// What came of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// The workload.
    #[serde(default)]
    pub workload: WorkloadReference,
    /// Absent until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RebalanceResult>,
    /// Why it failed, as a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Whether a workload is placed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebalanceResult {
    /// Its scheduling was asked for.
    Successful,
    /// It was not.
    Failed,
}

/// Reason of a failure: nothing places the workload.
pub const REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

impl WorkloadRebalancer {
    /// Name of the rebalancer.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }
}
