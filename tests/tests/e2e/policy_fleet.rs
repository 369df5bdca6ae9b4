//! The fleet of the tests of what policies decide: a hub that lets workloads move, and four members in three regions.
//!
//! In: [`shared`] for tests that leave sites and Clusters as they are, [`alone`] for those that lose or taint some. Out: a [`Fleet`]; templates and
//! policies as JSON; where a Deployment is, as hub and members tell, and as karmadactl had said.

#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is handed in")]

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};
use tests::api::text_at;
use tests::folder::Folder;
use tests::hub::{Hub, HubOptions};
use tests::kube_binaries::programs_or_skip;
use tests::member::{Member, MemberOptions};
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{Fleet, Site, get, has_condition, karmadactl};

/// The members with their regions and zones, which their Nodes tell. Each has two nodes of 8 CPUs and 32 GiB; by its grade such a node has room for 4 CPUs
/// and 32 GiB.
const SITES: [(&str, &str, &str); 4] = [
    ("near-1", "north", "north-1"),
    ("near-2", "north", "north-2"),
    ("far", "south", "south-1"),
    ("spare", "west", "west-1"),
];

/// As `deploy/presets/lost-sites.yaml` wants it, with the gates of what else is tried, and without waits between evictions.
const FLAGS: [&str; 6] = [
    "--feature-gates=Failover=true,PropagationPolicyPreemption=true,WorkloadAffinity=true,StatefulFailoverInjection=true",
    "--enable-no-execute-taint-eviction",
    "--allow-no-execute-taint-policy",
    "--resource-eviction-rate=100",
    "--cluster-monitor-grace-period=5s",
    // The two that run only where they are named.
    "--controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer",
];

static FLEET: OnceLock<RwLock<Fleet>> = OnceLock::new();

fn fleet() -> Option<&'static RwLock<Fleet>> {
    programs_or_skip()?;
    Some(FLEET.get_or_init(|| RwLock::new(start())))
}

/// The fleet, for tests that place workloads and leave all else. `None` where members cannot be had; that is said.
pub fn shared() -> Option<RwLockReadGuard<'static, Fleet>> {
    Some(fleet()?.read().unwrap_or_else(PoisonError::into_inner))
}

/// The fleet for one test alone. It is whole, whatever the one before left.
pub fn alone() -> Option<RwLockWriteGuard<'static, Fleet>> {
    let mut fleet = fleet()?.write().unwrap_or_else(PoisonError::into_inner);
    for site in &fleet.sites {
        // What a test that failed left there.
        fleet.hub.api().merge(&cluster(site.name), &json!({"spec": {"taints": null}})).unwrap();
    }
    fleet.mend();
    Some(fleet)
}

fn start() -> Fleet {
    let args = FLAGS.map(str::to_owned).to_vec();
    let hub = Hub::start(HubOptions { args, ..HubOptions::default() });
    let members = Member::start_all(SITES.map(|(name, region, zone)| {
        let mut options = MemberOptions::new(name);
        for node in &mut options.nodes {
            node.labels = [("region", region), ("zone", zone)]
                .map(|(what, said)| (format!("topology.kubernetes.io/{what}"), said.to_owned()))
                .to_vec();
        }
        options
    }));
    let fleet =
        Fleet::joined(Folder::new("policies"), hub, SITES.map(|site| site.0).into_iter().zip(members));
    for site in &fleet.sites {
        eventually(&format!("the room of {}", site.name), TIMEOUT, || {
            let cluster = site.cluster(&fleet.hub)?;
            let cpu = text_at(&cluster, "/status/resourceSummary/allocatable/cpu");
            so(cpu == "16", || cluster.to_string())
        });
    }
    fleet
}

/// The path of a Cluster on the hub.
pub fn cluster(name: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}")
}

/// The path of a Deployment's binding on the hub.
pub fn binding(namespace: &str, name: &str) -> String {
    format!("/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/{name}-deployment")
}

/// The path of a Deployment, on hub and members.
pub fn deployment_path(namespace: &str, name: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
}

/// A Deployment whose Pods ask for nothing.
pub fn deployment(namespace: &str, name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}}})
}

/// The same, whose Pods ask for something.
pub fn asking(mut deployment: Value, requests: Value) -> Value {
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    deployment
}

/// A policy for the Deployment of its name.
pub fn policy(namespace: &str, name: &str, placement: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name, "namespace": namespace},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}], "placement": placement}})
}

/// A placement in each of these clusters, with all replicas.
pub fn in_clusters(names: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": names}})
}

/// A placement in these clusters, with replicas divided by fixed weights.
pub fn by_weights(weights: &[(&str, u64)]) -> Value {
    let names: Vec<&str> = weights.iter().map(|(name, _)| *name).collect();
    let mut placement = in_clusters(&names);
    let weight =
        |(name, weight): &(&str, u64)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    placement["replicaScheduling"] = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights.iter().map(weight).collect::<Vec<_>>()}});
    placement
}

/// Objects as one file.
fn file(objects: &[&Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// `kubectl apply` of all of them, on the hub.
#[track_caller]
pub fn apply(fleet: &Fleet, objects: &[&Value]) {
    fleet.hub.kubectl().apply(&file(objects));
}

/// Where a Deployment is to be, with how many replicas.
pub type Places = BTreeMap<String, u64>;

/// Of names and numbers.
pub fn places(wanted: &[(&str, u64)]) -> Places {
    wanted.iter().map(|(name, replicas)| ((*name).to_owned(), *replicas)).collect()
}

/// What a binding says.
pub fn placed(binding: &Value) -> Places {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let target = |one: &Value| (text_at(one, "/name").to_owned(), one["replicas"].as_u64().unwrap_or(0));
    clusters.iter().map(target).collect()
}

/// Waits until the hub has placed a Deployment so, and no otherwise.
#[track_caller]
pub fn await_placed(fleet: &Fleet, (namespace, name): (&str, &str), wanted: &Places) {
    eventually(&format!("{namespace}/{name} placed in {wanted:?}"), TIMEOUT, || {
        let binding = get(fleet.hub.api(), &binding(namespace, name))?;
        so(placed(&binding) == *wanted, || binding.to_string())
    });
}

/// Waits until the hub says of a Deployment that it is placed nowhere, and why: `text`.
#[track_caller]
pub fn await_unplaced(fleet: &Fleet, (namespace, name): (&str, &str), text: &str) {
    eventually(&format!("{namespace}/{name} placed nowhere"), TIMEOUT, || {
        let binding = get(fleet.hub.api(), &binding(namespace, name))?;
        has_condition(&binding, "Scheduled", "False", text)?;
        so(placed(&binding).is_empty(), || binding.to_string())
    });
}

/// Waits until a member runs so many replicas of a Deployment, and says so itself; of none it knows nothing.
#[track_caller]
pub fn await_replicas(site: &Site, (namespace, name): (&str, &str), replicas: u64) {
    let kubectl = site.member.kubectl().in_namespace(namespace);
    let wanted = if replicas == 0 { String::new() } else { format!("{replicas}/{replicas}") };
    eventually(&format!("{replicas} of {namespace}/{name} in {}", site.name), TIMEOUT, || {
        let pods = site.member.running_pods(namespace).map_err(|error| format!("{error:#}"))?;
        let of_it = pods.iter().filter(|pod| pod.starts_with(&format!("{name}-"))).count() as u64;
        so(of_it == replicas, || format!("{of_it} Pods run: {pods:?}"))?;
        let said = kubectl.field(&["deployment", name], "{.spec.replicas}/{.status.readyReplicas}");
        so(said == wanted, || said)
    });
}

/// Waits until a Deployment is placed so, each of these members runs its part of it, and the others know nothing of it.
#[track_caller]
pub fn await_runs(fleet: &Fleet, of: (&str, &str), wanted: &Places) {
    await_placed(fleet, of, wanted);
    for site in &fleet.sites {
        await_replicas(site, of, wanted.get(site.name).copied().unwrap_or(0));
    }
    let (what, total) = (["deployment", of.1], wanted.values().sum::<u64>().to_string());
    let kubectl = fleet.hub.kubectl().in_namespace(of.0);
    kubectl.wait_for_field(&what, "{.status.readyReplicas}", &total, TIMEOUT);
}

/// The clusters that a review says are chosen; all that it says beside them.
fn chosen(reviews: &str) -> (Places, Value) {
    let mut reviews: Vec<Value> = serde_json::from_str(reviews).expect("karmadactl prints JSON");
    assert_eq!(reviews.len(), 1);
    let status = reviews.remove(0)["status"].take();
    let clusters = status["clusters"].as_array().cloned().unwrap_or_default();
    let chosen = clusters.iter().filter(|cluster| cluster["verdict"] == "Chosen");
    let places =
        chosen.map(|one| (text_at(one, "/name").to_owned(), one["replicas"].as_u64().unwrap_or(0))).collect();
    (places, status)
}

/// What `karmadactl schedule --dry-run` says of a template and its policies.
#[track_caller]
pub fn predicted(fleet: &Fleet, objects: &[&Value]) -> (Places, Value) {
    let name = format!("{}.yaml", text_at(objects[0], "/metadata/namespace"));
    let path = fleet.folder.path().join(name);
    std::fs::write(&path, file(objects)).unwrap();
    let args = ["schedule", "--dry-run", "-o", "json", "-f"];
    let path = path.display().to_string();
    chosen(&karmadactl(&fleet.hub.kubeconfig(), &[&args[..], &[&path]].concat()).ok())
}

/// What `karmadactl explain-placement` says of a Deployment of the hub.
#[track_caller]
pub fn explained(fleet: &Fleet, (namespace, name): (&str, &str)) -> (Places, Value) {
    let args = ["explain-placement", "Deployment", name, "-n", namespace, "-o", "json"];
    chosen(&karmadactl(&fleet.hub.kubeconfig(), &args).ok())
}

/// Applies a template and its policies: it runs where karmadactl had said, and karmadactl says so afterwards.
#[track_caller]
pub fn apply_as_predicted(fleet: &Fleet, objects: &[&Value], wanted: &[(&str, u64)]) {
    let of = (text_at(objects[0], "/metadata/namespace"), text_at(objects[0], "/metadata/name"));
    let (said, review) = predicted(fleet, objects);
    let wanted = places(wanted);
    assert_eq!(said, wanted, "{review}");
    apply(fleet, objects);
    await_runs(fleet, of, &wanted);
    let (said, review) = explained(fleet, of);
    assert_eq!(said, wanted, "{review}");
}

/// karmadactl on the hub; it must succeed.
#[track_caller]
pub fn ctl(fleet: &Fleet, args: &[&str]) -> String {
    karmadactl(&fleet.hub.kubeconfig(), args).ok()
}

/// Has a namespace go, and all that is in it; nobody waits for that, as each test has one of its own.
pub fn leave(fleet: &Fleet, namespace: &str) {
    fleet.hub.kubectl().ok(&["delete", "namespace", namespace, "--wait=false"]);
}
