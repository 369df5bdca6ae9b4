//! A Service that one site gives to another, with all loops together over a fleet in memory: from the export to what the importer is sent, and back.

use serde_json::{Value, json};

use super::running::{self, Running};
use super::*;
use karmada_controllers::port::Api;
use karmada_controllers::testing::{self, CLUSTER_API, POLICY_API, Rig, WORK_API, key};

const API: &str = "multicluster.x-k8s.io/v1alpha1";

/// A cluster that has the two kinds.
fn cluster(name: &str) -> [Value; 2] {
    let [mut cluster, namespace] = testing::cluster(name, &json!({}));
    cluster["status"]["apiEnablements"] = json!([{"groupVersion": API, "resources": [
        {"name": "serviceexports", "kind": "ServiceExport"}, {"name": "serviceimports", "kind": "ServiceImport"}]}]);
    [cluster, namespace]
}

/// An object of the kind that is called `web`, and the policy that places it in one cluster.
fn placed(kind: &str, spec: &Value, cluster: &str) -> [Value; 2] {
    let name = kind.to_lowercase();
    let object = json!({"apiVersion": API, "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "uid": format!("t-{name}"), "generation": 1}, "spec": spec});
    let policy = json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")}},
        "spec": {"resourceSelectors": [{"apiVersion": API, "kind": kind}], "propagateDeps": kind == "ServiceImport",
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}}}});
    [object, policy]
}

struct Fleet {
    rig: Rig,
    running: Running,
}

impl Fleet {
    async fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let rig = Rig::new(objects).await;
        let running = Running::over(&rig, LoopOptions::default()).await;
        let fleet = Fleet { rig, running };
        fleet.rest().await;
        fleet
    }

    async fn rest(&self) {
        running::rest(&self.rig, Duration::from_secs(10)).await;
    }

    /// The agent of a cluster says that all is applied, and where the Service is reached.
    async fn reports(&self, cluster: &str, slices: &[&str]) {
        let resource = self.rig.api.resource_of(WORK_API, "Work").unwrap();
        let slice = |name: &&str| json!({"name": name, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
        let slices: Vec<Value> = slices.iter().map(slice).collect();
        let namespace = format!("karmada-es-{cluster}");
        let works = self.rig.api.values(WORK_API, "Work").into_iter();
        for mut work in works.filter(|work| work["metadata"]["namespace"] == json!(namespace)) {
            work["status"] = match work["spec"]["suspendDispatching"] == true {
                true => json!({"manifestStatuses": [{"status": {"endpointSlices": slices}}]}),
                false => {
                    json!({"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful",
                    "message": "", "lastTransitionTime": "2026-05-01T12:00:00Z"}]})
                }
            };
            self.rig.api.update_status(&resource, work).await.unwrap();
        }
        self.rest().await;
    }

    /// What a cluster is sent, as `KIND/NAME`.
    fn sent(&self, cluster: &str) -> Vec<String> {
        let namespace = format!("karmada-es-{cluster}");
        let works = self.rig.api.values(WORK_API, "Work").into_iter();
        let live = works.filter(|work| {
            work["metadata"]["namespace"] == json!(namespace)
                && work["metadata"]["deletionTimestamp"].is_null()
        });
        let of = |work: Value| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let held = work["spec"]["suspendDispatching"] == true || manifest["kind"] == "Namespace";
            (!held).then(|| {
                format!(
                    "{}/{}",
                    manifest["kind"].as_str().unwrap(),
                    manifest["metadata"]["name"].as_str().unwrap()
                )
            })
        };
        let mut all: Vec<String> = live.filter_map(of).collect();
        all.sort();
        all
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_site_exports_another_imports_until_either_goes() {
    let ports = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let kinds = [placed("ServiceExport", &json!({}), "a"), placed("ServiceImport", &ports, "c")];
    let clusters = ["a", "c"].into_iter().flat_map(cluster);
    let fleet = Fleet::new(clusters.chain([namespace]).chain(kinds.into_iter().flatten())).await;
    assert_eq!(fleet.sent("a"), ["ServiceExport/web"]);
    assert_eq!(fleet.sent("c"), ["Service/derived-web", "ServiceImport/web"], "nothing is told yet");

    fleet.reports("a", &[]).await;
    fleet.reports("a", &["web-1", "web-2"]).await;
    let all = [
        "EndpointSlice/imported-a-web-1",
        "EndpointSlice/imported-a-web-2",
        "Service/derived-web",
        "ServiceImport/web",
    ];
    assert_eq!(fleet.sent("c"), all);
    let rest = fleet.rig.api.revision();
    fleet.rest().await;
    assert_eq!(fleet.rig.api.revision(), rest, "at rest nothing is written");

    fleet.reports("a", &["web-2"]).await;
    assert_eq!(fleet.sent("c"), all[1..]);
    fleet.rig.delete((CLUSTER_API, "Cluster"), &key("", "a")).await;
    fleet.rest().await;
    assert_eq!(fleet.sent("c"), all[2..], "what the site gave goes with it");
    fleet.rig.delete((API, "ServiceImport"), &key("default", "web")).await;
    fleet.rest().await;
    assert!(fleet.rig.api.value("v1", "Service", "default", "derived-web").is_none());
    fleet.running.end().await;
}
