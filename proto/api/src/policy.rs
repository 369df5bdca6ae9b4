//! PropagationPolicy and ClusterPropagationPolicy: what goes where.
//!
//! Types alone, read and written as JSON. Two questions are answered here: what `priority` is where none is said, and whether a policy is
//! being deleted.
//!
//! Both kinds have the same spec and no status. Field meanings are the public API's; limits and defaults beyond
//! the schema are in [`crate::defaulting`] and [`crate::validation`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::omitempty::{is_false, is_zero};

/// A policy of either kind; `kind` and `metadata.namespace` tell which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PropagationPolicy {
    /// `policy.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `PropagationPolicy` or `ClusterPropagationPolicy`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What goes where.
    pub spec: PropagationSpec,
}

/// The spec of both kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// Which resources.
    #[serde(default)]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated, without effect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub association: bool,
    /// Whether what a workload refers to follows it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// Which clusters, and how replicas are divided.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// Rank among policies that match the same resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether claimed resources may be taken from weaker policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
    /// Names of the override policies that must exist first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// Which scheduler takes the bindings.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// When workloads are moved away from clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// What to do with objects of the member that are in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// `Lazy`: a change of the policy waits for the next change of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// What is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether member objects stay when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Rank in the scheduler's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePrioritySource>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Selects resources of one kind: by name, by labels, or all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty means any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; when given, labels are not looked at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// Whether a policy takes resources from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preemption {
    /// It takes over what a policy of lower priority has claimed.
    Always,
    /// It takes nothing over.
    Never,
}

/// What happens when the member already has such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictResolution {
    /// It is left alone, and the Work fails.
    Abort,
    /// It is taken over.
    Overwrite,
}

/// When a changed policy takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActivationPreference {
    /// With the next change of the template.
    Lazy,
}

/// Which clusters, and how replicas are divided among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// One set of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Several sets, tried in order; excludes `cluster_affinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Taints of clusters that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// Over how many groups the workload spreads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Workloads that want to be, or not to be, together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// A set of clusters: every given part must hold, and exclusion wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// By labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// By provider, region and zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// By name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Not these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// A named set of clusters, with sets that take what does not fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// Name, unique in the placement.
    #[serde(default)]
    pub affinity_name: String,
    /// The set.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Sets that take what this one cannot hold, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinity>,
}

/// A named set of clusters that takes what does not fit elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverflowAffinity {
    /// Name, unique in the placement.
    #[serde(default)]
    pub affinity_name: String,
    /// The set.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

/// Requirements on the fields of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// All must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<FieldSelectorRequirement>,
}

/// One requirement on the fields of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelectorRequirement {
    /// `provider`, `region` or `zone`.
    #[serde(default)]
    pub key: String,
    /// `In` or `NotIn`.
    #[serde(default)]
    pub operator: String,
    /// Values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Over how many groups of clusters a workload spreads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// What makes a group: `cluster`, `region`, `zone`, `provider`; excludes the label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spread_by_field: String,
    /// The label that makes a group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spread_by_label: String,
    /// At most so many groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_groups: i64,
    /// At least so many groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_groups: i64,
}

/// How replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingStrategy {
    /// Every cluster gets all of them, or they are divided. Absent means divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// How they are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// Weights of a weighted division.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

/// Whether replicas are copied or divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaSchedulingType {
    /// Every cluster gets all replicas.
    Duplicated,
    /// The replicas are shared out.
    Divided,
}

/// How replicas are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaDivisionPreference {
    /// Into as few clusters as possible.
    Aggregated,
    /// By weight.
    Weighted,
}

/// Weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Fixed weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// `AvailableReplicas`: by free room; wins over the fixed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeight>,
}

/// Where weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DynamicWeight {
    /// From how many more replicas the cluster could hold.
    AvailableReplicas,
}

/// The weight of a set of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// Which clusters.
    #[serde(default)]
    pub target_cluster: ClusterAffinity,
    /// Weight of each of them, at least 1.
    pub weight: i64,
}

/// Workloads that want to be, or not to be, together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Together with workloads of the same label value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Apart from workloads of the same label value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// The label that groups workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityTerm {
    /// Label key.
    pub group_by_label_key: String,
}

/// When workloads are moved away from clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailoverBehavior {
    /// Because the workload is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// Because the cluster is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// Moving an unhealthy workload away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailoverBehavior {
    /// How long it may be unhealthy.
    #[serde(default)]
    pub decision_conditions: DecisionConditions,
    /// What happens to what runs where it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// How long a graceful move may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// What of its status goes along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// How long a workload may be unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i32>,
}

/// Moving workloads away from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailoverBehavior {
    /// What happens to what runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// What of its status goes along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// What happens to a workload in the cluster that it leaves. `Immediately` and `Graciously` are the names of
/// older versions; objects that were stored with them stay readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PurgeMode {
    /// Deleted first, then placed elsewhere.
    #[serde(alias = "Immediately")]
    Directly,
    /// Deleted when the replacement runs.
    #[serde(alias = "Graciously")]
    Gracefully,
    /// Left to a person.
    Never,
}

/// What of a workload's status goes along when it moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservation {
    /// What is taken, and the label it becomes.
    #[serde(default)]
    pub rules: Vec<StatePreservationRule>,
}

/// One piece of status that goes along.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// The label it becomes.
    pub alias_label_name: String,
    /// Where it is in the status.
    pub json_path: String,
}

/// What is held back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// Nothing is sent to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Nothing is sent to these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters to which nothing is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// Where the rank in the scheduler's queue comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePrioritySource {
    /// `KubePriorityClass`.
    pub priority_class_source: String,
    /// Name of the PriorityClass.
    pub priority_class_name: String,
}

impl PropagationPolicy {
    /// Name of the policy.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Namespace of the policy, empty for a ClusterPropagationPolicy.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }

    /// `spec.priority`, 0 where absent.
    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// Whether the policy is being deleted.
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// One label of the policy.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata
            .labels
            .as_ref()
            .and_then(|labels: &BTreeMap<String, String>| labels.get(key))
            .map(String::as_str)
    }
}
