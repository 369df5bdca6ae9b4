//! Rebalancing (`--rebalancing-budget`): a hub with two real members; what all stands in one of them is moved where there is room, once it is steady.

use std::path::Path;

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::hub::{Hub, HubOptions};
use tests::kube_binaries::programs_or_skip;
use tests::member::{Member, MemberOptions};
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{RegisterCommand, await_object, get, has, has_condition};

const WORKLOAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 8
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx, resources: {requests: {cpu: \"1\"}}}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
";

const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web-deployment";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
/// Long ago.
const THEN: &str = "2026-01-01T00:00:00Z";

fn cluster_path(name: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}")
}

/// An agent beside a member of that name, which the hub shows Ready with its room.
fn join(hub: &Hub, name: &str, kubeconfig: &Path) -> Agent {
    let register = RegisterCommand::make(hub, &[]);
    let agent = Agent::start(AgentOptions {
        hub: register.hub,
        token: Some(register.token),
        ca_hash: Some(register.ca_hash),
        cluster_name: Some(name.to_owned()),
        kubeconfig: Some(kubeconfig.to_owned()),
        ..AgentOptions::default()
    });
    await_object(hub.api(), "the hub", &cluster_path(name), |cluster| {
        has_condition(cluster, "Ready", "True", "")?;
        has(cluster, "/status/resourceSummary/allocatable/cpu", &json!("16"))
    });
    agent
}

/// Has it that a cluster became Ready long ago: nothing is moved before that was for ten minutes.
fn steady(hub: &Hub, name: &str) {
    let mut conditions = get(hub.api(), &cluster_path(name)).unwrap()["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!(THEN);
    }
    let path = format!("{}/status", cluster_path(name));
    hub.api().merge(&path, &json!({"status": {"conditions": conditions}})).unwrap();
}

/// Who has how many replicas.
fn placed(binding: &Value) -> Value {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    clusters.iter().map(|one| json!([one["name"], one["replicas"]])).collect()
}

#[test]
fn what_stands_in_one_member_is_moved_to_where_there_is_room() {
    if programs_or_skip().is_none() {
        return;
    }
    let args = ["--rebalancing-budget=4", "--descheduling-interval=3s"].map(str::to_owned).to_vec();
    let hub = Hub::start(HubOptions { args, ..HubOptions::default() });
    let members = Member::start_all(["one", "two"].map(MemberOptions::new));
    let _one = join(&hub, "one", &members[0].kubeconfig());
    hub.kubectl().apply(WORKLOAD);
    let in_one = json!([["one", 8]]);
    let ready = |binding: &Value| has(binding, "/status/aggregatedStatus/0/status/readyReplicas", &json!(8));
    await_object(hub.api(), "the hub", BINDING, |binding| {
        so(placed(binding) == in_one, || binding.to_string())?;
        ready(binding)
    });
    let _two = join(&hub, "two", &members[1].kubeconfig());
    // Some looks go by: what became Ready a moment ago draws nothing.
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert_eq!(placed(&get(hub.api(), BINDING).unwrap()), in_one);
    // What its agent told of room before the Pods ran would have more stay there.
    await_object(hub.api(), "the hub", &cluster_path("one"), |cluster| {
        has(cluster, "/status/resourceSummary/allocated/cpu", &json!("8"))
    });

    ["one", "two"].iter().for_each(|name| steady(&hub, name));
    hub.api().merge(&format!("{BINDING}/status"), &json!({"status": {"lastScheduledTime": THEN}})).unwrap();
    // By their grades the two nodes of each have room for four replicas each, beside the eight that are there.
    let divided = json!([["one", 5], ["two", 3]]);
    await_object(hub.api(), "the hub", BINDING, |binding| {
        so(placed(binding) == divided, || binding.to_string())
    });
    for (member, (name, replicas)) in members.iter().zip([("one", 5), ("two", 3)]) {
        await_object(member.api(), name, DEPLOYMENT, |web| {
            has(web, "/spec/replicas", &json!(replicas))?;
            has(web, "/status/readyReplicas", &json!(replicas))
        });
    }
    eventually("it is told", TIMEOUT, || {
        let which = ["events", "-n", "default", "--field-selector", "reason=RebalanceBindingSucceed"];
        let words = hub.kubectl().field(&which, "{.items[*].message}");
        so(words.contains("moved 3 of 8 replicas to where they would be placed now"), || words.clone())
    });
    let page = hub.api().text("/metrics").unwrap();
    let counted = "karmada_descheduler_rebalance_attempts_total{result=\"success\"} 1";
    assert!(page.lines().any(|line| line == counted), "it was moved once, and the scheduler left it there");
}
