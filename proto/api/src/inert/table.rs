//! The table of what the API takes and nothing acts on yet. A capability that comes takes its rows out.
//!
//! In: nothing. Out: rows, each with the kinds, the place, which values mean something, and what follows.

use serde_json::Value;

/// One thing that is taken and not acted on.
pub struct Row {
    /// API group.
    pub(super) group: &'static str,
    /// Kinds of that group.
    pub(super) kinds: &'static [&'static str],
    /// Where it stands, `[]` for each element of a list; empty for the whole kind.
    pub(super) path: &'static str,
    /// Which values mean something.
    pub(super) means: fn(&Value) -> bool,
    /// What follows, and what to do instead where there is something.
    pub words: &'static str,
}

pub(super) const POLICY: &str = crate::POLICY_GROUP;
pub(super) const POLICIES: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];
pub(super) const BINDINGS: &[&str] = &["ResourceBinding", "ClusterResourceBinding"];

const DEPENDENCIES: &str = "dependencies do not follow yet: let a policy select what the resources refer to";
const UNHEALTHY: &str = "nothing is moved away from where it is unhealthy yet";
const FAILED: &str = "nothing is moved away from a cluster that fails yet";
const PRIORITY: &str = "bindings are not scheduled in the order of their priority yet";
const TOLERATION: &str = "nothing is evicted from a tainted cluster yet, now or later";
const PARTS: &str = "the parts of a workload are not placed or counted apart yet";
const NODES: &str =
    "a cluster's room is counted by what a replica requests; which nodes may run it is not asked yet";
const DIALS: &str = "the hub connects to no cluster: the cluster's agent connects to the hub";

/// Anything that is there and says something.
fn said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

fn always(value: &Value) -> bool {
    value == "Always"
}

fn lazy(value: &Value) -> bool {
    value == "Lazy"
}

fn push(value: &Value) -> bool {
    value == "Push"
}

fn no_execute(value: &Value) -> bool {
    value == "NoExecute"
}

const fn field(
    group: &'static str,
    kinds: &'static [&'static str],
    path: &'static str,
    means: fn(&Value) -> bool,
    words: &'static str,
) -> Row {
    Row { group, kinds, path, means, words }
}

const fn kind(group: &'static str, kinds: &'static [&'static str], words: &'static str) -> Row {
    Row { group, kinds, path: "", means: said, words }
}

/// Everything.
pub const ROWS: &[Row] = &[
    field(POLICY, POLICIES, "spec.propagateDeps", said, DEPENDENCIES),
    field(POLICY, POLICIES, "spec.association", said, "it has no effect, and is deprecated"),
    field(
        POLICY,
        POLICIES,
        "spec.preemption",
        always,
        "a resource stays with the policy that has it; none is taken over yet",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.activationPreference",
        lazy,
        "a change of the policy takes effect at once all the same",
    ),
    field(POLICY, POLICIES, "spec.failover.application", said, UNHEALTHY),
    field(POLICY, POLICIES, "spec.failover.cluster", said, FAILED),
    field(POLICY, POLICIES, "spec.schedulePriority", said, PRIORITY),
    field(POLICY, POLICIES, "spec.placement.clusterTolerations[].tolerationSeconds", said, TOLERATION),
    field(
        crate::WORK_GROUP,
        BINDINGS,
        "spec.gracefulEvictionTasks[].fromCluster",
        said,
        "nothing ends an eviction yet: the cluster keeps the resource until the task is removed",
    ),
    field(crate::WORK_GROUP, BINDINGS, "spec.propagateDeps", said, DEPENDENCIES),
    field(crate::WORK_GROUP, BINDINGS, "spec.failover.application", said, UNHEALTHY),
    field(crate::WORK_GROUP, BINDINGS, "spec.failover.cluster", said, FAILED),
    field(crate::WORK_GROUP, BINDINGS, "spec.schedulePriority", said, PRIORITY),
    field(
        crate::WORK_GROUP,
        BINDINGS,
        "spec.placement.clusterTolerations[].tolerationSeconds",
        said,
        TOLERATION,
    ),
    field(crate::WORK_GROUP, BINDINGS, "spec.components", said, PARTS),
    field(crate::WORK_GROUP, BINDINGS, "spec.clusters[].components", said, PARTS),
    field(crate::WORK_GROUP, BINDINGS, "spec.requiredBy[].clusters[].components", said, PARTS),
    field(crate::WORK_GROUP, BINDINGS, "spec.replicaRequirements.nodeClaim", said, NODES),
    field(crate::WORK_GROUP, BINDINGS, "spec.replicaRequirements.namespace", said, NODES),
    field(crate::WORK_GROUP, BINDINGS, "spec.replicaRequirements.priorityClassName", said, NODES),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.apiEndpoint", said, DIALS),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.secretRef", said, DIALS),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.impersonatorSecretRef", said, DIALS),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.insecureSkipTLSVerification", said, DIALS),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.proxyURL", said, DIALS),
    field(crate::CLUSTER_GROUP, &["Cluster"], "spec.proxyHeader", said, DIALS),
    field(
        crate::CLUSTER_GROUP,
        &["Cluster"],
        "spec.taints[].effect",
        no_execute,
        "the taint keeps new workloads away, but evicts nothing yet",
    ),
    field(
        crate::CLUSTER_GROUP,
        &["Cluster"],
        "spec.syncMode",
        push,
        "nothing is sent to a cluster without an agent: register one with karmadactl",
    ),
    kind(POLICY, &["ClusterTaintPolicy"], "no cluster is tainted by it yet"),
    kind(POLICY, &["FederatedResourceQuota"], "nothing is limited or counted by it yet"),
    kind(
        "apps.karmada.io",
        &["WorkloadRebalancer"],
        "nothing is scheduled anew by it yet: set spec.rescheduleTriggeredAt of the binding",
    ),
    kind("autoscaling.karmada.io", &["FederatedHPA", "CronFederatedHPA"], "nothing is scaled by it yet"),
    kind(
        "config.karmada.io",
        &["ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration"],
        "resources are read as without it: no customization is asked yet",
    ),
    kind(
        "networking.karmada.io",
        &["MultiClusterService", "MultiClusterIngress"],
        "no traffic crosses clusters by it yet",
    ),
    kind(
        "multicluster.x-k8s.io",
        &["ServiceExport", "ServiceImport"],
        "no Service crosses clusters by it yet",
    ),
    kind("search.karmada.io", &["ResourceRegistry"], "nothing is cached or searched by it yet"),
    kind("remedy.karmada.io", &["Remedy"], "no remedy is taken yet"),
    kind(
        "edge.karmada.io",
        &["LinkPolicy"],
        "no link is governed by it yet: no batch of deletes waits, no budget or window holds",
    ),
];
