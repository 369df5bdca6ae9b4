//! CronFederatedHPA: what is scaled, by which schedules, and how that went.
//!
//! Types alone, read and written as JSON by the controller that scales at the times of the schedules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use crate::omitempty::is_zero;

/// Group of everything that scales.
pub const AUTOSCALING_GROUP: &str = "autoscaling.karmada.io";

/// How many runs a history keeps where its rule does not say.
pub const DEFAULT_HISTORY_LIMIT: i32 = 3;

/// One that scales by schedules; in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPA {
    /// `autoscaling.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `CronFederatedHPA`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is scaled, and when.
    #[serde(default)]
    pub spec: CronFederatedHPASpec,
    /// How it went.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: CronFederatedHPAStatus,
}

/// What is scaled, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPASpec {
    /// What is scaled.
    #[serde(default)]
    pub scale_target_ref: ScaleTarget,
    /// When, and to what.
    #[serde(default)]
    pub rules: Vec<CronFederatedHPARule>,
}

/// What is scaled: a FederatedHPA, or anything that has a scale; in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTarget {
    /// Group and version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// One schedule, and what is scaled to by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPARule {
    /// Its name, by which its history is found.
    #[serde(default)]
    pub name: String,
    /// When, in the notation of cron.
    #[serde(default)]
    pub schedule: String,
    /// The zone whose clock the schedule means; UTC where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Replicas of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i32>,
    /// `minReplicas` of a FederatedHPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_min_replicas: Option<i32>,
    /// `maxReplicas` of a FederatedHPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_max_replicas: Option<i32>,
    /// Whether it rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How many runs that succeeded are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successful_history_limit: Option<i32>,
    /// How many runs that failed are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_history_limit: Option<i32>,
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPAStatus {
    /// By rule, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub execution_histories: Vec<ExecutionHistory>,
}

/// The runs of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionHistory {
    /// The rule's name.
    #[serde(default)]
    pub rule_name: String,
    /// When it runs next; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_execution_time: Option<Time>,
    /// Runs that succeeded, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successful_executions: Vec<SuccessfulExecution>,
    /// Runs that failed, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_executions: Vec<FailedExecution>,
}

/// A run that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessfulExecution {
    /// When it was to be.
    pub schedule_time: Time,
    /// When it was.
    pub execution_time: Time,
    /// The rule's `targetReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_replicas: Option<i32>,
    /// The rule's `targetMaxReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_max_replicas: Option<i32>,
    /// The rule's `targetMinReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_min_replicas: Option<i32>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedExecution {
    /// When it was to be.
    pub schedule_time: Time,
    /// When it was tried.
    pub execution_time: Time,
    /// Why.
    #[serde(default)]
    pub message: String,
}

impl CronFederatedHPA {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }
}

impl CronFederatedHPARule {
    /// Whether it rests.
    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }
}
