//! Nodes of a member by the grades of its Cluster (`spec.resourceModels`): counted beside the member, shown on the hub, and counted anew
//! where a node, a Pod or the grades change.

use std::time::Duration;

use serde_json::{Value, json};
use tests::api::Api;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::get;
use crate::private_site::{CLUSTER, Line};

const MOST: &str = "9223372036854775807";

/// A node of the API alone, as a kubelet would report it.
pub fn add_node(member: &Api, name: &str, cpu: &str, memory: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    member.create("/api/v1/nodes", &node).unwrap();
    let amounts = json!({"cpu": cpu, "memory": memory, "pods": "10"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}});
    member.merge(&format!("/api/v1/nodes/{name}/status"), &status).unwrap();
}

/// A Pod that was bound to a node.
fn add_pod(member: &Api, node: &str, cpu: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    member.create("/api/v1/namespaces/default/serviceaccounts", &account).unwrap();
    let container = json!({"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"},
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [container]}});
    member.create("/api/v1/namespaces/default/pods", &pod).unwrap();
}

/// Grades that begin at so many cores and GiB each, the last without an end.
fn grades(begins: &[(u32, u32)]) -> Value {
    let end = |at: usize, of: fn(&(u32, u32)) -> u32, unit: &str| {
        begins.get(at + 1).map_or(MOST.to_owned(), |next| format!("{}{unit}", of(next)))
    };
    let begin =
        |amount: u32, unit: &str| if amount == 0 { "0".to_owned() } else { format!("{amount}{unit}") };
    let grade = |(at, (cpu, memory)): (usize, &(u32, u32))| {
        json!({"grade": at, "ranges": [
            {"name": "cpu", "min": begin(*cpu, ""), "max": end(at, |next| next.0, "")},
            {"name": "memory", "min": begin(*memory, "Gi"), "max": end(at, |next| next.1, "Gi")},
        ]})
    };
    begins.iter().enumerate().map(grade).collect()
}

/// Waits until the hub shows so many nodes of each grade.
#[track_caller]
fn await_counts(line: &Line, wanted: &[u64]) {
    eventually(&format!("nodes by grade: {wanted:?}"), TIMEOUT, || {
        let cluster = get(line.hub.api(), CLUSTER)?;
        let shown = &cluster["status"]["resourceSummary"]["allocatableModelings"];
        let counts: Vec<Value> =
            wanted.iter().enumerate().map(|(grade, count)| json!({"grade": grade, "count": count})).collect();
        so(*shown == json!(counts), || cluster["status"]["resourceSummary"].to_string())
    });
}

#[test]
fn nodes_are_counted_by_the_grades_that_the_cluster_names() {
    let Some(line) = Line::start() else { return };
    let member = line.member.api();
    add_node(member, "small", "1", "2Gi");
    add_node(member, "middle-1", "3", "6Gi");
    add_node(member, "middle-2", "3", "6Gi");
    add_node(member, "lopsided", "16", "2Gi");
    add_node(member, "large", "8", "32Gi");
    // By the standard grades, which a Cluster has unless it names others: from 0, 1, 2, 4… cores and 0, 4, 16, 32… GiB.
    await_counts(&line, &[2, 2, 0, 1, 0, 0, 0, 0, 0]);
    let own = json!({"spec": {"resourceModels": grades(&[(0, 0), (2, 4), (4, 8)])}});
    line.hub.api().merge(CLUSTER, &own).unwrap();
    await_counts(&line, &[2, 2, 1]);
    // What a Pod takes, its node has not any more.
    add_pod(member, "middle-1", "1500m");
    await_counts(&line, &[3, 1, 1]);
    member.delete("/api/v1/nodes/large").unwrap();
    add_node(member, "middle-3", "2", "4Gi");
    await_counts(&line, &[3, 2, 0]);
    let fewer = json!({"spec": {"resourceModels": grades(&[(0, 0), (1, 1)])}});
    line.hub.api().merge(CLUSTER, &fewer).unwrap();
    await_counts(&line, &[0, 5]);
}

/// The hub believes what an agent tells twice, a minute apart.
const AT_REST: Duration = Duration::from_secs(90);

/// Nodes come after the join, and say where the cluster is once they have come to rest; what a person said and took out stays out.
#[test]
fn where_a_cluster_is_its_nodes_say_when_they_come() {
    let Some(line) = Line::start() else { return };
    let shows = |what: &str, within: Duration, path: &str, wanted: &Value| {
        eventually(what, within, || {
            let cluster = get(line.hub.api(), CLUSTER)?;
            so(cluster.pointer(path).unwrap_or(&Value::Null) == wanted, || cluster.to_string())
        });
    };
    let said = "/metadata/annotations/edge.karmada.io~1topology-said";
    line.hub.api().merge(CLUSTER, &json!({"spec": {"region": "mars"}})).unwrap();
    shows("it is noted what a person says", TIMEOUT, said, &json!("region"));
    line.hub.api().merge(CLUSTER, &json!({"spec": {"region": null}})).unwrap();
    let labels = json!({"topology.kubernetes.io/region": "north", "topology.kubernetes.io/zone": "north-1"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "first", "labels": labels}});
    line.member.api().create("/api/v1/nodes", &node).unwrap();
    shows("the hub knows of the Node", TIMEOUT, "/status/nodeSummary/totalNum", &json!(1));
    shows("more Nodes may come", TIMEOUT, "/spec/zones", &Value::Null);
    shows("they have come to rest", AT_REST, "/spec/zones", &json!(["north-1"]));
    shows("it stays taken out", TIMEOUT, "/spec/region", &Value::Null);
    shows("both are noted", TIMEOUT, said, &json!("region,zones"));
}
