//! A cluster fails, and what is in it goes elsewhere: all loops together over a fleet in memory.

use karmada_api::policy::PurgeMode;
use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::running::Running;
use super::*;
use karmada_controllers::port::Api;
use karmada_controllers::testing::{self, BINDING_API, CLUSTER_API, POLICY_API, Rig, WORK_API, key};

/// One ConfigMap that a policy places in one of two clusters.
fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    objects.push(testing::config_map("web"));
    objects.push(json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-web"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}}}));
    objects
}

struct Fleet {
    rig: Rig,
    running: Running,
}

impl Fleet {
    async fn new(purge_mode: PurgeMode) -> Self {
        let gates = FeatureGates::default().with(Gate::Failover);
        let lifecycle =
            LifecycleOptions { no_execute_eviction: true, purge_mode, ..LifecycleOptions::default() };
        Fleet::told(gates, lifecycle).await
    }

    async fn told(gates: FeatureGates, lifecycle: LifecycleOptions) -> Self {
        let before = Rig::new(objects()).await;
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let options = LoopOptions { lifecycle, ..LoopOptions::default() };
        let running = Running::over(&rig, options).await;
        let fleet = Fleet { rig, running };
        fleet.rest().await;
        fleet
    }

    /// Returns when nobody has anything to do.
    async fn rest(&self) {
        running::rest(&self.rig, Duration::from_secs(10)).await;
    }

    fn binding(&self) -> Value {
        self.rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap()
    }

    /// The clusters that the binding is in, and those that it is leaving.
    fn places(&self) -> (Vec<String>, Vec<String>) {
        let spec = &self.binding()["spec"];
        let names = |list: &str, field: &str| {
            let list = spec[list].as_array().into_iter().flatten();
            list.map(|one| one[field].as_str().unwrap().to_owned()).collect()
        };
        (names("clusters", "name"), names("gracefulEvictionTasks", "fromCluster"))
    }

    fn works(&self) -> Vec<String> {
        let of = |work: &Value| {
            let going = if work["metadata"]["deletionTimestamp"].is_null() { "" } else { " going" };
            format!("{}{going}", work["metadata"]["namespace"].as_str().unwrap())
        };
        let works = self.rig.api.values(WORK_API, "Work");
        let is_map = |work: &&Value| work["spec"]["workload"]["manifests"][0]["kind"] == "ConfigMap";
        works.iter().filter(is_map).map(of).collect()
    }

    async fn taint(&self, taints: Value) {
        self.rig
            .edit((CLUSTER_API, "Cluster"), &key("", "m1"), |cluster| cluster["spec"]["taints"] = taints)
            .await;
        self.rest().await;
    }

    /// The agent of a cluster says that all is well.
    async fn report(&self, cluster: &str) {
        let resource = self.rig.api.resource_of(WORK_API, "Work").unwrap();
        let namespace = format!("karmada-es-{cluster}");
        for mut work in self.rig.api.values(WORK_API, "Work") {
            if work["metadata"]["namespace"] == json!(namespace) {
                work["status"] = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful",
                    "message": "", "lastTransitionTime": "2026-05-01T12:00:00Z"}],
                    "manifestStatuses": [{"identifier": {"version": "v1", "kind": "ConfigMap", "name": "web"}, "health": "Healthy"}]});
                self.rig.api.update_status(&resource, work).await.unwrap();
            }
        }
        self.rest().await;
    }

    async fn end(self) {
        self.running.end().await;
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn outage() -> Value {
    json!([{"key": "outage", "effect": "NoExecute", "timeAdded": "2026-05-01T11:59:00Z"}])
}

#[tokio::test(start_paused = true)]
async fn statement_67_a_tainted_cluster_keeps_what_it_has_until_another_has_it_in_health() {
    let fleet = Fleet::new(PurgeMode::Gracefully).await;
    fleet.report("m1").await;
    assert_eq!(fleet.places(), (names(&["m1"]), names(&[])));
    fleet.taint(outage()).await;
    assert_eq!(fleet.places(), (names(&["m2"]), names(&["m1"])));
    assert_eq!(fleet.works(), names(&["karmada-es-m1", "karmada-es-m2"]));
    fleet.report("m2").await;
    assert_eq!(fleet.places(), (names(&["m2"]), names(&[])));
    assert_eq!(fleet.works(), names(&["karmada-es-m1 going", "karmada-es-m2"]));
    // The cluster is well again: nothing moves back by itself.
    fleet.taint(json!([])).await;
    assert_eq!(fleet.places(), (names(&["m2"]), names(&[])));
    fleet.end().await;
}

/// A taint of effect NoExecute moves nothing unless the gate and both flags say so.
#[tokio::test(start_paused = true)]
async fn where_the_gate_or_a_flag_is_off_nothing_leaves_a_tainted_cluster() {
    let [on, off] = [FeatureGates::default().with(Gate::Failover), FeatureGates::default()];
    for (gates, taint_manager, no_execute_eviction, leaves) in [
        (&off, true, true, false),
        (&on, false, true, false),
        (&on, true, false, false),
        (&on, true, true, true),
    ] {
        let lifecycle =
            LifecycleOptions { taint_manager, no_execute_eviction, ..LifecycleOptions::default() };
        let fleet = Fleet::told(gates.clone(), lifecycle).await;
        fleet.report("m1").await;
        fleet.taint(outage()).await;
        let wanted = if leaves { (names(&["m2"]), names(&["m1"])) } else { (names(&["m1"]), names(&[])) };
        assert_eq!(fleet.places(), wanted, "{gates:?} {lifecycle:?}");
        fleet.end().await;
    }
}

/// Without the gate nobody ends what leaves gracefully.
#[tokio::test(start_paused = true)]
async fn what_leaves_gracefully_has_left_once_it_is_well_elsewhere_where_the_gate_is_on() {
    let on = FeatureGates::default().with(Gate::Failover);
    let off = on.clone().without(Gate::GracefulEviction);
    for (gates, leaving) in [(on, names(&[])), (off, names(&["m1"]))] {
        let lifecycle = LifecycleOptions { no_execute_eviction: true, ..LifecycleOptions::default() };
        let fleet = Fleet::told(gates, lifecycle).await;
        fleet.report("m1").await;
        fleet.taint(outage()).await;
        fleet.report("m2").await;
        assert_eq!(fleet.places(), (names(&["m2"]), leaving));
        fleet.end().await;
    }
}

/// Who taints clusters by their conditions runs with the gate alone.
#[tokio::test(start_paused = true)]
async fn clusters_are_tainted_by_policies_where_the_gate_is_on() {
    let on = FeatureGates::default().with(Gate::Failover);
    for (gates, tainted) in [(FeatureGates::default(), 0), (on, 1)] {
        let fleet = Fleet::told(gates, LifecycleOptions::default()).await;
        fleet.rig.api.seed(json!({"apiVersion": POLICY_API, "kind": "ClusterTaintPolicy", "metadata": {"name": "ready"},
            "spec": {"addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
                "taints": [{"key": "up", "effect": "NoSchedule"}]}}));
        fleet.rest().await;
        let cluster = fleet.rig.api.value(CLUSTER_API, "Cluster", "", "m1").unwrap();
        assert_eq!(cluster["spec"]["taints"].as_array().map_or(0, Vec::len), tainted, "{cluster}");
        fleet.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn statement_68_what_is_purged_directly_is_gone_before_another_cluster_gets_it() {
    let fleet = Fleet::new(PurgeMode::Directly).await;
    fleet.report("m1").await;
    fleet.taint(outage()).await;
    assert_eq!(fleet.places(), (names(&["m2"]), names(&["m1"])));
    assert_eq!(fleet.works(), names(&["karmada-es-m1 going"]));
    let name = fleet.rig.api.values(WORK_API, "Work").into_iter().find_map(|work| {
        let is_map = work["spec"]["workload"]["manifests"][0]["kind"] == "ConfigMap";
        is_map.then(|| work["metadata"]["name"].as_str().unwrap().to_owned())
    });
    fleet.rig.remove((WORK_API, "Work"), &key("karmada-es-m1", &name.unwrap())).await;
    fleet.rest().await;
    assert_eq!(fleet.works(), names(&["karmada-es-m2"]));
    fleet.report("m2").await;
    assert_eq!(fleet.places(), (names(&["m2"]), names(&[])));
    fleet.end().await;
}

/// A Deployment that is divided between both clusters, each of which says that it is well.
async fn divided() -> (Rig, Running) {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let policy = json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "id-p"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], "placement": divided}});
    let template = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "t-web", "generation": 1},
        "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    let rig = Rig::new(clusters.chain([policy, template])).await;
    let running = Running::over(&rig, LoopOptions::default()).await;
    running::rest(&rig, Duration::from_secs(5)).await;
    report_deployments(&rig).await;
    (rig, running)
}

/// Every site has what its Work says now, and is well.
async fn report_deployments(rig: &Rig) {
    let resource = rig.api.resource_of(WORK_API, "Work").unwrap();
    for mut work in rig.api.values(WORK_API, "Work") {
        let replicas = work["spec"]["workload"]["manifests"][0]["spec"]["replicas"].clone();
        let is_live = work["metadata"]["deletionTimestamp"].is_null();
        if work["spec"]["workload"]["manifests"][0]["kind"] != "Deployment" || !is_live {
            continue;
        }
        let applied = json!({"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "",
            "lastTransitionTime": "2026-05-01T12:00:00Z", "observedGeneration": work["metadata"]["generation"]});
        let identifier = json!({"ordinal": 0, "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"});
        let status = json!({"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
        work["status"] = json!({"conditions": [applied],
            "manifestStatuses": [{"identifier": identifier, "status": status, "health": "Healthy"}]});
        rig.api.update_status(&resource, work).await.unwrap();
    }
    running::rest(rig, Duration::from_secs(20)).await;
}

/// The replicas that each site is to run.
fn runs(rig: &Rig) -> BTreeMap<String, i64> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let live = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    let of = |work: Value| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let replicas = manifest["spec"]["replicas"].as_i64().filter(|_| manifest["kind"] == "Deployment")?;
        Some((work["metadata"]["namespace"].as_str()?.to_owned(), replicas))
    };
    live.filter_map(of).collect()
}

/// That the rest is well is said of what ran there before: it is to take over more.
#[tokio::test(start_paused = true)]
async fn what_leaves_stays_until_the_rest_runs_all_of_it() {
    let (rig, running) = divided().await;
    let sites = |m1: Option<i64>, m2: i64| -> BTreeMap<String, i64> {
        let all = [("karmada-es-m1", m1), ("karmada-es-m2", Some(m2))].into_iter();
        all.filter_map(|(site, replicas)| Some((site.to_owned(), replicas?))).collect()
    };
    assert_eq!(runs(&rig), sites(Some(2), 2));
    let outage = json!([{"key": "down", "effect": "NoExecute"}]);
    rig.edit((CLUSTER_API, "Cluster"), &key("", "m1"), |cluster| cluster["spec"]["taints"] = outage).await;
    let task = json!({"fromCluster": "m1", "purgeMode": "Gracefully", "replicas": 2, "reason": "TaintUntolerated", "producer": "TaintManager"});
    rig.edit((BINDING_API, "ResourceBinding"), &key("default", "web-deployment"), |binding| {
        binding["spec"]["clusters"] = json!([{"name": "m2", "replicas": 2}]);
        binding["spec"]["gracefulEvictionTasks"] = json!([task]);
    })
    .await;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(runs(&rig).contains_key("karmada-es-m1"), "{:?}", runs(&rig));
    }
    assert_eq!(runs(&rig), sites(Some(2), 4));
    report_deployments(&rig).await;
    assert_eq!(runs(&rig), sites(None, 4));
    running.end().await;
}
