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

pub(super) const SERVICES: &[&str] = &["MultiClusterService"];

pub(super) const CONFIG: &str = "config.karmada.io";
pub(super) const CUSTOMIZATIONS: &[&str] = &["ResourceInterpreterCustomization"];

const DEPENDENCIES: &str = "what is in a namespace follows nothing that is in none: let a policy select it";
const PARTS: &str = "the parts of a workload are placed and counted apart where the hub runs with the gate MultiplePodTemplatesScheduling";
const NODES: &str = "a cluster's room is counted by what a replica requests; its agent is asked which nodes may run it where the hub runs with \
                     --enable-scheduler-estimator";
const SIDES: &str = "providerClusters and consumerClusters say between which clusters";
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

fn balances(value: &Value) -> bool {
    value.as_array().is_some_and(|types| types.iter().any(|one| one == "LoadBalancer"))
}

fn headless(value: &Value) -> bool {
    value == "Headless"
}

fn push(value: &Value) -> bool {
    value == "Push"
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
    field(POLICY, POLICIES, "spec.association", said, "it has no effect, and is deprecated"),
    field(crate::WORK_GROUP, &["ClusterResourceBinding"], "spec.propagateDeps", said, DEPENDENCIES),
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
        "spec.syncMode",
        push,
        "nothing is sent to a cluster without an agent: register one with karmadactl",
    ),
    field(CONFIG, CUSTOMIZATIONS, "spec.customizations.componentResource.luaScript", said, PARTS),
    kind(
        "networking.karmada.io",
        &["MultiClusterIngress"],
        "the hub checks and keeps it: who has traffic cross clusters by it is a controller of its own, installed beside, as under Karmada",
    ),
    field(
        "networking.karmada.io",
        SERVICES,
        "spec.types",
        balances,
        "no load balancer is made of it: CrossCluster is acted on",
    ),
    field("networking.karmada.io", SERVICES, "spec.ports", said, "all ports of the Service cross clusters"),
    field("networking.karmada.io", SERVICES, "spec.range", said, SIDES),
    field("networking.karmada.io", SERVICES, "spec.serviceProvisionClusters", said, SIDES),
    field("networking.karmada.io", SERVICES, "spec.serviceConsumptionClusters", said, SIDES),
    field(
        "multicluster.x-k8s.io",
        &["ServiceImport"],
        "spec.type",
        headless,
        "no Service is derived of it: ClusterSetIP is acted on",
    ),
    kind("search.karmada.io", &["ResourceRegistry"], "nothing is cached or searched by it yet"),
    field(crate::EDGE_GROUP, &["LinkPolicy"], "spec.contact", said, "agents are in contact always"),
    field(crate::EDGE_GROUP, &["LinkPolicy"], "spec.budget", said, "no link is bounded yet"),
    field(
        crate::EDGE_GROUP,
        &["LinkPolicy"],
        "spec.renewal",
        said,
        "who comes after its certificate has ended joins anew",
    ),
    field(
        crate::EDGE_GROUP,
        &["LinkPolicy"],
        "spec.transports",
        said,
        "the agent chooses its transport: --transport",
    ),
];
