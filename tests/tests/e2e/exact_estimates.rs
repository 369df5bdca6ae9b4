//! Exact room: the agent is asked which of its nodes may run a workload before it is placed, and which of its replicas find none after.

use serde_json::{Value, json};
use tests::api::Api;
use tests::hub::HubOptions;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{await_object, has};
use crate::private_site::Line;
use crate::resource_models::add_node;

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
    eventually("the summary promises room", TIMEOUT, || {
        let cpu = cluster.field(&["cluster", "lone"], "{.status.resourceSummary.allocatable.cpu}");
        so(cpu == "16", || cpu.clone())
    });
    cluster.apply(WORKLOAD);
    let binding = ["resourcebinding", "fast-deployment", "-n", "default"];
    eventually("it has no place", TIMEOUT, || {
        let reason = cluster.field(&binding, "{.status.conditions[?(@.type=='Scheduled')].reason}");
        so(reason == "Unschedulable", || reason.clone())
    });
    assert_eq!(cluster.field(&binding, "{.spec.clusters}"), "");
    for (name, label) in [("plain-1", json!({"disk": "hdd"})), ("plain-2", json!({"disk": "ssd"}))] {
        member.merge(&format!("/api/v1/nodes/{name}"), &json!({"metadata": {"labels": label}})).unwrap();
    }
    eventually("a node may run it now", TIMEOUT, || {
        let placed = cluster.field(&binding, "{.spec.clusters[0].name} {.spec.clusters[0].replicas}");
        so(placed == "lone 2", || placed.clone())
    });
}

/// What a Deployment's controller and the scheduler of the member would make: a ReplicaSet, and a Pod of it that no node was found for.
fn add_waiting_pod(member: &Api, deployment: &Value) {
    let owned = |name: &str, owner: &Value| {
        let reference = json!([{"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true}]);
        json!({"name": name, "labels": {"app": "slow"}, "ownerReferences": reference})
    };
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned("slow-1", deployment),
        "spec": {"selector": deployment["spec"]["selector"], "template": deployment["spec"]["template"]}});
    let set = member.create("/apis/apps/v1/namespaces/default/replicasets", &set).unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    member.create("/api/v1/namespaces/default/serviceaccounts", &account).unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": owned("slow-1-a", &set),
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "main", "image": "nginx"}]}});
    member.create("/api/v1/namespaces/default/pods", &pod).unwrap();
    let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    member
        .merge("/api/v1/namespaces/default/pods/slow-1-a/status", &json!({"status": {"conditions": waits}}))
        .unwrap();
}

/// The descheduler asks the agent which replicas wait for a node, and gives them up; the scheduler places them anew, for want of another site
/// in the same one.
#[test]
fn replicas_that_find_no_node_are_given_up() {
    let args = ["--enable-descheduler", "--descheduling-interval=2s", "--unschedulable-threshold=1s"];
    let args = args.map(str::to_owned).to_vec();
    let Some(line) = Line::under(HubOptions { args, ..HubOptions::default() }) else { return };
    let member = line.member.api();
    add_node(member, "plain-1", "8", "32Gi");
    let cluster = line.hub.kubectl();
    eventually("the summary promises room", TIMEOUT, || {
        let cpu = cluster.field(&["cluster", "lone"], "{.status.resourceSummary.allocatable.cpu}");
        so(cpu == "8", || cpu.clone())
    });
    cluster.apply(&WORKLOAD.replace("fast", "slow"));
    let path = "/apis/apps/v1/namespaces/default/deployments/slow";
    let deployment =
        await_object(member, "the member", path, |found| has(found, "/spec/replicas", &json!(2)));
    add_waiting_pod(member, &deployment);
    eventually("a replica is given up", TIMEOUT, || {
        let events = [
            "events",
            "-n",
            "default",
            "--field-selector",
            "reason=DescheduleBindingSucceed,involvedObject.kind=Deployment",
        ];
        let words = cluster.field(&events, "{.items[*].message}");
        so(words.contains("gave up replicas that find no node (lone: 1 of 2)"), || words.clone())
    });
}
