//! FederatedHPA: which workload follows what its Pods use, in all clusters together, within which bounds.
//!
//! Types alone, read and written as JSON; `metrics`, `behavior` and the status are those of a HorizontalPodAutoscaler.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerStatus, MetricSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::cron_federated_hpa::ScaleTarget;
use crate::omitempty::is_zero;

/// One that scales by what is measured; in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedHPA {
    /// `autoscaling.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `FederatedHPA`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is scaled, by what, how far and how fast.
    #[serde(default)]
    pub spec: FederatedHPASpec,
    /// What was measured, and what came of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: HorizontalPodAutoscalerStatus,
}

/// What is scaled, by what, how far and how fast.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederatedHPASpec {
    /// What is scaled: anything in the same namespace that has a scale.
    #[serde(default)]
    pub scale_target_ref: ScaleTarget,
    /// No fewer replicas than these; one where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// No more replicas than these.
    #[serde(default)]
    pub max_replicas: i32,
    /// What is measured. The one that asks for most replicas counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// How fast it goes up and down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

impl FederatedHPA {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }
}

impl FederatedHPASpec {
    /// No fewer replicas than these.
    pub fn at_least(&self) -> i32 {
        self.min_replicas.unwrap_or(1).max(0)
    }

    /// No more replicas than these, and where the bounds contradict each other, this one holds.
    pub fn at_most(&self) -> i32 {
        self.max_replicas.max(0)
    }
}
