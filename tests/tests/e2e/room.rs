//! Exact room: the agent is asked which of its nodes may run a workload, before it is placed.

use serde_json::json;
use tests::hub::HubOptions;
use tests::wait::{PATIENCE, eventually, so};

use crate::grades::add_node;
use crate::line::Line;

const WORKLOAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: fast, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: fast}}
  template:
    metadata: {labels: {app: fast}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: main, image: nginx, resources: {requests: {cpu: \"1\"}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: fast, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: fast}]
  placement:
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
";

/// The summary promises room on any node; the agent knows which nodes the selector means.
#[test]
fn a_workload_goes_where_nodes_may_run_it() {
    let args = vec!["--enable-scheduler-estimator".to_owned()];
    let Some(line) = Line::under(HubOptions { args, ..HubOptions::default() }) else { return };
    let member = line.member.api();
    add_node(member, "plain-1", "8", "32Gi");
    add_node(member, "plain-2", "8", "32Gi");
    let cluster = line.hub.kubectl();
    eventually("the summary promises room", PATIENCE, || {
        let cpu = cluster.field(&["cluster", "lone"], "{.status.resourceSummary.allocatable.cpu}");
        so(cpu == "16", || cpu.clone())
    });
    cluster.apply(WORKLOAD);
    let binding = ["resourcebinding", "fast-deployment", "-n", "default"];
    eventually("it has no place", PATIENCE, || {
        let reason = cluster.field(&binding, "{.status.conditions[?(@.type=='Scheduled')].reason}");
        so(reason == "Unschedulable", || reason.clone())
    });
    assert_eq!(cluster.field(&binding, "{.spec.clusters}"), "");
    for (name, label) in [("plain-1", json!({"disk": "hdd"})), ("plain-2", json!({"disk": "ssd"}))] {
        member.merge(&format!("/api/v1/nodes/{name}"), &json!({"metadata": {"labels": label}})).unwrap();
    }
    eventually("a node may run it now", PATIENCE, || {
        let placed = cluster.field(&binding, "{.spec.clusters[0].name} {.spec.clusters[0].replicas}");
        so(placed == "lone 2", || placed.clone())
    });
}
