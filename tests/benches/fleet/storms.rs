//! What comes down on a whole fleet at once, and how long its hub is at work with it.
//!
//! In: an empty hub; how many clusters, namespaces and workloads, and how many taints come and go. Out: a row of wall clock, CPU time and the process's
//! memory at its highest so far, for each: clusters join a hub with namespaces, workloads are created under one policy, one cluster's label makes all of them
//! go there too, the policy is edited, taints flap, the hub starts again. The wall clock ends when the loops are at rest, the quiet by which that is told
//! left out.

use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;
use karmada_controllers::port::Api;
use serde_json::{Value, json};

use crate::fleet::{self, NAMESPACES, change, cluster_name, clusters, kind, make_all};
use crate::gauge::{self, Gauge, QUIET_IN_ALL, row};

const POLICY_API: &str = "policy.karmada.io/v1alpha1";
/// Clusters that have the label from the start.
const CHOSEN: usize = 4;

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Storm {
    /// Clusters.
    pub clusters: usize,
    /// Namespaces that every cluster gets, those of the workloads among them.
    pub namespaces: usize,
    /// Deployments, all of one policy.
    pub workloads: usize,
    /// Taints that come or go.
    pub flaps: usize,
}

/// Runs everything in a hub of its own.
pub async fn run(storm: Storm, directory: &Path) {
    let now = Timestamp::now();
    let (hub, api) = crate::start(directory, now).await;
    let gauge = Gauge::new(hub.workqueues.clone());
    make_all(&api, &kind(&api, "v1", "Namespace"), (0..storm.namespaces).map(namespace)).await;
    measure(&gauge, "clusters join", async || join(&api, storm).await).await;
    row("objects Work after the joins", fleet::works(&api).await as f64, "objects");
    make_all(&api, &kind(&api, POLICY_API, "ClusterPropagationPolicy"), [policy()].into_iter()).await;
    measure(&gauge, "workloads under one policy", async || {
        make_all(
            &api,
            &kind(&api, "apps/v1", "Deployment"),
            (0..storm.workloads).map(|n| fleet::deployment(n, 0)),
        )
        .await;
    })
    .await;
    measure(&gauge, "one more cluster is chosen by its label", async || choose(&api, CHOSEN).await).await;
    measure(&gauge, "the policy is edited", async || tolerate(&api).await).await;
    measure(&gauge, "taints flap", async || flap(&api, storm).await).await;
    row("objects Work in the end", fleet::works(&api).await as f64, "objects");
    hub.stop().await;
    restart(directory, now).await;
}

async fn restart(directory: &Path, now: Timestamp) {
    let (begun, before) = (Instant::now(), gauge::cpu());
    let (hub, _) = crate::start(directory, now).await;
    row("the hub starts again: until it serves", begun.elapsed().as_secs_f64(), "s");
    let gauge = Gauge::new(hub.workqueues.clone());
    gauge.rest().await;
    told("the hub starts again", begun, before);
    hub.stop().await;
}

async fn measure(gauge: &Gauge, name: &str, event: impl AsyncFnOnce()) {
    gauge.rest().await;
    let (begun, before, keys) = (Instant::now(), gauge::cpu(), gauge.keys());
    event().await;
    gauge.rest().await;
    told(name, begun, before);
    row(&format!("{name}: keys"), (gauge.keys() - keys) as f64, "keys");
}

fn told(name: &str, begun: Instant, cpu_before: std::time::Duration) {
    row(&format!("{name}: until at rest"), begun.elapsed().saturating_sub(QUIET_IN_ALL).as_secs_f64(), "s");
    row(&format!("{name}: CPU"), (gauge::cpu() - cpu_before).as_secs_f64(), "s");
    row(&format!("{name}: highest memory so far"), gauge::highest_memory(), "MB");
}

fn namespace(number: usize) -> Value {
    let name = if number < NAMESPACES { format!("shop-{number}") } else { format!("room-{number}") };
    json!({"metadata": {"name": name}})
}

fn policy() -> Value {
    json!({"apiVersion": POLICY_API, "kind": "ClusterPropagationPolicy", "metadata": {"name": "all"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"chosen": "yes"}}}}}})
}

/// Clusters join, four of them with the label, and tell their status.
async fn join(api: &dyn Api, storm: Storm) {
    let resource = clusters(api);
    let joining = (0..storm.clusters).map(|number| fleet::cluster(number, number / CHOSEN));
    make_all(api, &resource, joining).await;
    for number in 0..storm.clusters {
        let ready = |cluster: &mut Value| cluster["status"] = fleet::status(10);
        change(api, &resource, ("", &cluster_name(number)), true, ready).await;
    }
    for number in 0..CHOSEN {
        choose(api, number).await;
    }
}

async fn choose(api: &dyn Api, number: usize) {
    let label = |cluster: &mut Value| cluster["metadata"]["labels"]["chosen"] = json!("yes");
    change(api, &clusters(api), ("", &cluster_name(number)), false, label).await;
}

async fn tolerate(api: &dyn Api) {
    let policies = kind(api, POLICY_API, "ClusterPropagationPolicy");
    let tolerations = json!([{"key": "maintenance", "operator": "Exists"}]);
    let edit = |policy: &mut Value| policy["spec"]["placement"]["clusterTolerations"] = tolerations.clone();
    change(api, &policies, ("", "all"), false, edit).await;
}

/// A taint that forbids new placements comes on one cluster after the other, those that hold the workloads first, and goes again.
async fn flap(api: &dyn Api, storm: Storm) {
    let resource = clusters(api);
    for time in 0..storm.flaps {
        let taint = json!([{"key": "maintenance", "value": "now", "effect": "NoSchedule"}]);
        let taints = if time.is_multiple_of(2) { taint } else { json!([]) };
        let name = cluster_name(time / 2 % storm.clusters);
        change(api, &resource, ("", &name), false, |cluster| cluster["spec"]["taints"] = taints.clone())
            .await;
    }
}
