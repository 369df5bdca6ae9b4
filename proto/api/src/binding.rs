//! ResourceBinding and ClusterResourceBinding: one template, the clusters chosen for it, and how it stands there.
//!
//! Types alone, read and written as JSON: the scheduler fills `spec.clusters`, the controllers make a Work for each of those and gather the
//! status.
//!
//! Both kinds have the same spec and status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::omitempty::{is_false, is_zero};
use crate::policy::{
    ConflictResolution, FailoverBehavior, Placement, PurgeMode, ReplicaSchedulingType, SuspendClusters,
};
use karmada_quantity::Quantity;

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// A binding of either kind; `kind` and `metadata.namespace` tell which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBinding {
    /// `work.karmada.io/v1alpha2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `ResourceBinding` or `ClusterResourceBinding`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted where.
    pub spec: BindingSpec,
    /// How it stands.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: BindingStatus,
}

/// What is wanted where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The template.
    #[serde(default)]
    pub resource: ObjectReference,
    /// Whether what it refers to follows it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// What one replica asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// How many replicas the template wants; 0 for what has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Parts of a workload with several pod templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The clusters chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// Clusters that are being left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// Bindings that need this one, with their clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// Which scheduler takes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Where it may go; absent for what only follows others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// When it is moved away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// What to do with objects that are in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// When a person last asked to place it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// What is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Whether member objects stay when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Rank in the scheduler's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// Groups of workloads that want to be together or apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

/// The template of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Namespace, empty for cluster-scoped ones.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The version that the binding was made from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// What one replica asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// What it asks of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// What it uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// Namespace of the workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

/// What a replica asks of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Required node affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Node labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One part of a workload with several pod templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Replicas.
    #[serde(default)]
    pub replicas: i32,
    /// What one replica asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// What one replica of a part asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// What it asks of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// What it uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

/// A cluster chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// Its name.
    pub name: String,
    /// How many replicas it gets; 0 for what has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// How many replicas of each part it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// How many replicas of a part a cluster gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetComponent {
    /// Name of the part.
    pub name: String,
    /// Replicas.
    pub replicas: i32,
}

/// A cluster that is being left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster.
    pub from_cluster: String,
    /// What happens to what runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// How many replicas it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Why, as a word.
    #[serde(default)]
    pub reason: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who asked.
    #[serde(default)]
    pub producer: String,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Whether it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Status that goes along, as labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// Where it was before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

/// A binding that needs this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSnapshot {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// What is held back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Nothing is sent to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Nothing is sent to these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// It is not scheduled. Never written by the hub itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// Rank in the scheduler's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePriority {
    /// Higher goes first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
}

/// Groups of workloads that want to be together or apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// `key=value` of the group to be with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub affinity_group: String,
    /// `key=value` of the group to be apart from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub anti_affinity_group: String,
}

/// How a binding stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// The generation that the scheduler last decided on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scheduler_observed_generation: i64,
    /// The named affinity that holds now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_observing_affinity_name: String,
    /// When it was last scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// `Scheduled`, `FullyApplied`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How it stands in each cluster, by cluster name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

impl BindingStatus {
    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// Bytes of JSON of the largest binding that is stored: ten thousand clusters, with what a Deployment reports in each, are three megabytes, which no
/// other kind comes to.
pub const LARGEST_BINDING: usize = 8 << 20;

/// How a template stands in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// The cluster.
    pub cluster_name: String,
    /// Its status there, as the interpreter reflects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// Whether it was applied.
    #[serde(default, skip_serializing_if = "is_false")]
    pub applied: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    /// Its health there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// Health of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    /// It does what it shall.
    Healthy,
    /// It does not.
    Unhealthy,
    /// Nobody knows.
    Unknown,
}

impl ResourceBinding {
    /// Name of the binding.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Namespace of the binding, empty for a ClusterResourceBinding.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }

    /// One label of the binding.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// One annotation of the binding.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

impl BindingSpec {
    /// Whether each cluster has all of the parts: of one part alone that is divided, each has as many replicas as it was given.
    pub fn has_whole_sets(&self) -> bool {
        match &self.components[..] {
            [] => false,
            [one] => {
                let is_divided = self.replica_scheduling_type() == ReplicaSchedulingType::Divided;
                self.replicas == 0 || !is_divided || one.replicas != self.replicas
            }
            _ => true,
        }
    }

    /// Whether the template has replicas to place, or several parts that have, so that capacity and division matter. One part alone is told by
    /// the replicas.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || self.components.len() > 1
    }

    /// How replicas are scheduled: all to every cluster where nothing is said.
    pub fn replica_scheduling_type(&self) -> ReplicaSchedulingType {
        match self.placement.as_ref().and_then(|p| p.replica_scheduling.as_ref()) {
            None => ReplicaSchedulingType::Duplicated,
            Some(strategy) => strategy.replica_scheduling_type.unwrap_or(ReplicaSchedulingType::Divided),
        }
    }
}
