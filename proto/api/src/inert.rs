//! What the API takes and nothing acts on yet: whoever writes it is told so in the answer.
//!
//! In: an object that is created, or changed from what it was. Out: warnings, each with the place and what follows. One
//! table holds it all; a capability that comes takes its rows out.

use serde_json::Value;

use crate::object;

/// One thing that is taken and not acted on.
pub struct Row {
    /// API group.
    group: &'static str,
    /// Kinds of that group.
    kinds: &'static [&'static str],
    /// Where it stands, `[]` for each element of a list; empty for the whole kind.
    path: &'static str,
    /// Which values mean something.
    means: fn(&Value) -> bool,
    /// What follows, and what to do instead where there is something.
    pub words: &'static str,
}

const POLICY: &str = crate::POLICY_GROUP;
const POLICIES: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];
const BINDINGS: &[&str] = &["ResourceBinding", "ClusterResourceBinding"];

/// Anything that is there and says something.
fn said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
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
    field(
        POLICY,
        POLICIES,
        "spec.propagateDeps",
        said,
        "dependencies do not follow yet: let a policy select what the resources refer to",
    ),
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
    field(
        POLICY,
        POLICIES,
        "spec.failover.application",
        said,
        "nothing is moved away from where it is unhealthy yet",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.failover.cluster",
        said,
        "nothing is moved away from a cluster that fails yet",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.schedulePriority",
        said,
        "bindings are not scheduled in the order of their priority yet",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.placement.workloadAffinity",
        said,
        "workloads are not placed by each other yet",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.placement.clusterTolerations[].tolerationSeconds",
        said,
        "nothing is evicted from a tainted cluster yet, now or later",
    ),
    field(
        POLICY,
        POLICIES,
        "spec.placement.spreadConstraints[].spreadByLabel",
        said,
        "clusters are not grouped by labels yet: use spreadByField",
    ),
    field(
        crate::WORK_GROUP,
        BINDINGS,
        "spec.gracefulEvictionTasks[].fromCluster",
        said,
        "nothing ends an eviction yet: the cluster keeps the resource until the task is removed",
    ),
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

/// Whether nothing acts on a kind at all.
pub fn is_inert(group: &str, kind: &str) -> bool {
    ROWS.iter().any(|row| row.path.is_empty() && row.group == group && row.kinds.contains(&kind))
}

/// What to tell whoever writes `new`. Of a change, only where the specification changed.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let body = |object: &Value| {
        let mut object = object.clone();
        for part in ["metadata", "status"] {
            object::root(&mut object).remove(part);
        }
        object
    };
    let rows = ROWS.iter().filter(|row| row.group == group && row.kinds.contains(&kind));
    let mut rows = rows.peekable();
    if rows.peek().is_none() || old.is_some_and(|old| body(old) == body(new)) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for row in rows {
        if row.path.is_empty() {
            out.push(format!("{kind}: {}", row.words));
            continue;
        }
        let steps: Vec<&str> = row.path.split('.').collect();
        let mut places = Vec::new();
        walk(new, &steps, String::new(), row.means, &mut places);
        out.extend(places.into_iter().map(|place| format!("{place}: {}", row.words)));
    }
    out
}

/// The places under `value` where `steps` lead to something that means something.
fn walk(value: &Value, steps: &[&str], place: String, means: fn(&Value) -> bool, out: &mut Vec<String>) {
    let Some((step, rest)) = steps.split_first() else {
        if means(value) {
            out.push(place);
        }
        return;
    };
    let name = step.trim_end_matches("[]");
    let Some(inner) = value.get(name) else { return };
    let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    if name.len() == step.len() {
        return walk(inner, rest, place, means, out);
    }
    for (index, element) in inner.as_array().into_iter().flatten().enumerate() {
        walk(element, rest, format!("{place}[{index}]"), means, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An object that has everything that the table names: the value at each path, in order.
    fn full(rows: &[(&str, Value)]) -> Value {
        let mut object = json!({"metadata": {"name": "a"}});
        for (path, value) in rows {
            let mut wrapped = value.clone();
            for step in path.split('.').rev() {
                let name = step.trim_end_matches("[]");
                let inner = if name.len() == step.len() { wrapped } else { json!([wrapped]) };
                wrapped = json!({ name: inner });
            }
            json_merge(&mut object, wrapped);
        }
        object
    }

    fn json_merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    json_merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    /// A group, its kinds, and what stands in an object of them: path and value.
    type Said<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, Value)]);

    #[test]
    fn each_field_that_does_nothing_is_named() {
        let policy = [
            ("spec.propagateDeps", json!(true)),
            ("spec.association", json!(true)),
            ("spec.preemption", json!("Always")),
            ("spec.activationPreference", json!("Lazy")),
            ("spec.failover.application", json!({"decisionConditions": {"tolerationSeconds": 5}})),
            ("spec.failover.cluster", json!({"purgeMode": "Directly"})),
            ("spec.schedulePriority", json!({"priorityClassName": "gold"})),
            ("spec.placement.workloadAffinity", json!({"affinity": {"groupByLabelKey": "app"}})),
            ("spec.placement.clusterTolerations[].tolerationSeconds", json!(30)),
            ("spec.placement.spreadConstraints[].spreadByLabel", json!("rack")),
        ];
        let table: [Said<'_>; 3] = [
            (POLICY, POLICIES, &policy),
            (crate::WORK_GROUP, BINDINGS, &[("spec.gracefulEvictionTasks[].fromCluster", json!("north"))]),
            (
                crate::CLUSTER_GROUP,
                &["Cluster"],
                &[("spec.taints[].effect", json!("NoExecute")), ("spec.syncMode", json!("Push"))],
            ),
        ];
        let mut held = 0;
        for (group, kinds, fields) in table {
            held += fields.len();
            for kind in kinds {
                let told = warnings(group, kind, &full(fields), None);
                let places: Vec<&str> = told.iter().map(|text| text.split(": ").next().unwrap()).collect();
                let wanted: Vec<String> = fields.iter().map(|(path, _)| path.replace("[]", "[0]")).collect();
                assert_eq!(places, wanted, "{kind}");
            }
        }
        assert_eq!(
            ROWS.iter().filter(|row| !row.path.is_empty()).count(),
            held,
            "every row is in this table"
        );
    }

    #[test]
    fn what_acts_is_not_warned_of() {
        let policy = json!({"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "propagateDeps": false,
            "preemption": "Never", "priority": 3, "dependentOverrides": ["a"], "conflictResolution": "Overwrite",
            "suspension": {"dispatching": true}, "preserveResourcesOnDeletion": true, "schedulerName": "default-scheduler",
            "placement": {"clusterAffinities": [{"affinityName": "a"}], "clusterTolerations": [{"key": "a", "effect": "NoExecute"}],
                "spreadConstraints": [{"spreadByField": "region"}], "replicaScheduling": {"replicaSchedulingType": "Divided"}}}});
        for kind in POLICIES {
            assert!(
                warnings(POLICY, kind, &policy, None).is_empty(),
                "{:?}",
                warnings(POLICY, kind, &policy, None)
            );
        }
        let cluster = json!({"spec": {"syncMode": "Pull", "taints": [{"key": "a", "effect": "NoSchedule"}], "resourceModels": [{"grade": 0}]}});
        assert!(warnings(crate::CLUSTER_GROUP, "Cluster", &cluster, None).is_empty());
        assert!(
            warnings(POLICY, "OverridePolicy", &json!({"spec": {"overrideRules": [{}]}}), None).is_empty()
        );
        assert!(warnings("", "Pod", &json!({"spec": {"propagateDeps": true}}), None).is_empty());
    }

    #[test]
    fn it_is_told_when_it_is_said_and_not_again() {
        let of =
            |interval: &str| json!({"metadata": {"name": "a"}, "spec": {"contact": {"interval": interval}}});
        let told = |new: &Value, old: Option<&Value>| warnings("edge.karmada.io", "LinkPolicy", new, old);
        assert_eq!(
            told(&of("1h"), None),
            [
                "LinkPolicy: no link is governed by it yet: no batch of deletes waits, no budget or window holds"
            ]
        );
        let mut labelled = of("1h");
        labelled["metadata"]["labels"] = json!({"a": "b"});
        labelled["status"] = json!({"x": 1});
        assert!(told(&labelled, Some(&of("1h"))).is_empty());
        assert_eq!(told(&of("2h"), Some(&of("1h"))).len(), 1);
        assert!(is_inert("edge.karmada.io", "LinkPolicy") && !is_inert(POLICY, "PropagationPolicy"));
    }
}
