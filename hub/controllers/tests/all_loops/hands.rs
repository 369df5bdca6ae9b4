//! What people's hands do to what the loops made, and what follows of it: bindings deleted or edited, labels of clusters, Services of
//! MultiClusterServices.

use std::time::Duration;

use karmada_core::feature_gates::{FeatureGates, Gate};

use super::*;
use karmada_controllers::port::fake::FakeApi;
use karmada_controllers::testing::multi_cluster_services as mcs;

const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");

/// Where the Works of `kind` are, and what stands at `pointer` in their manifests.
fn placed(rig: &Rig, kind: &str, pointer: &str) -> BTreeMap<String, Value> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let live = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    let of_kind = live.filter_map(|work| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let namespace = work["metadata"]["namespace"].as_str()?.to_owned();
        (manifest["kind"] == kind)
            .then(|| (namespace, manifest.pointer(pointer).cloned().unwrap_or_default()))
    });
    of_kind.collect()
}

/// Sites let go of what is taken from them.
async fn sites_let_go(rig: &Rig) {
    for work in rig.api.values(WORK_API, "Work") {
        let metadata = &work["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            let at =
                [&metadata["namespace"], &metadata["name"]].map(|text| text.as_str().unwrap().to_owned());
            rig.edit((WORK_API, "Work"), &key(&at[0], &at[1]), |work| {
                work["metadata"]["finalizers"] = json!([]);
            })
            .await;
        }
    }
}

async fn two_sites() -> Fleet {
    let sites = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"group": "a"})));
    Fleet::over(Rig::new(sites.chain([policy("web", "a"), testing::config_map("web")])).await).await
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_somebody_edits_or_deletes_is_made_as_its_policy_says() {
    let fleet = two_sites().await;
    let both: Vec<String> = ["karmada-es-m1", "karmada-es-m2"].map(str::to_owned).into();
    let clusters = |rig: &Rig| placed(rig, "ConfigMap", "").into_keys().collect::<Vec<_>>();
    assert_eq!(clusters(&fleet.rig), both);
    let only = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    fleet
        .rig
        .edit(BINDING, &key("default", "web-configmap"), |b| b["spec"]["placement"] = only.clone())
        .await;
    fleet.rest().await;
    sites_let_go(&fleet.rig).await;
    fleet.rest().await;
    assert_eq!(clusters(&fleet.rig), both, "edited");
    fleet.rig.delete(BINDING, &key("default", "web-configmap")).await;
    for _ in 0..3 {
        running::rest(&fleet.rig, Duration::from_secs(60)).await;
        sites_let_go(&fleet.rig).await;
    }
    fleet.rest().await;
    assert_eq!(clusters(&fleet.rig), both, "deleted");
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn placing_a_template_wakes_the_detector_no_further() {
    let fleet = two_sites().await;
    let costs = fleet.cost(async |rig: &Rig| {
        let scale = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m1"}]);
        rig.edit(BINDING, &key("default", "web-configmap"), scale).await;
    });
    assert_eq!(of(&costs.await, "wake resource-detector"), 0);
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_label_of_a_cluster_brings_the_overrides_that_look_for_it_and_takes_them_away() {
    let sites = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"group": "a"})));
    let level = json!({"path": "/data/level", "operator": "add", "value": "prod"});
    let rule = json!({"targetCluster": {"labelSelector": {"matchLabels": {"env": "prod"}}}, "overriders": {"plaintext": [level]}});
    let overrides = json!({"apiVersion": POLICY_API, "kind": "OverridePolicy",
        "metadata": {"name": "o", "namespace": "default", "generation": 1}, "spec": {"overrideRules": [rule]}});
    let mut map = testing::config_map("web");
    map["data"] = json!({"a": "b"});
    let fleet = Fleet::over(Rig::new(sites.chain([policy("web", "a"), map, overrides])).await).await;
    let level = |rig: &Rig| placed(rig, "ConfigMap", "/data/level")["karmada-es-m1"].clone();
    for (labels, wanted) in
        [(json!({"group": "a", "env": "prod"}), json!("prod")), (json!({"group": "a"}), json!(null))]
    {
        fleet
            .rig
            .edit(CLUSTER, &key("", "m1"), |cluster| cluster["metadata"]["labels"] = labels.clone())
            .await;
        fleet.rest().await;
        assert_eq!(level(&fleet.rig), wanted, "{labels}");
    }
    let costs = fleet.cost(async |rig: &Rig| {
        let note = json!({"group": "a", "note": "1"});
        rig.edit(CLUSTER, &key("", "m1"), |cluster| cluster["metadata"]["labels"] = note).await;
    });
    assert_eq!(of(&costs.await, "wake binding-controller"), 0, "no policy looks at that label");
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_service_of_a_multi_cluster_service_reaches_its_clusters() {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "t"}, "spec": {"ports": [{"port": 80}]}});
    let mut objects = mcs::objects([mcs::mcs(&["p"], &["c"]), service]);
    for cluster in objects.iter_mut().filter(|object| object["kind"] == "Cluster") {
        let serves = |group: &str, name: &str, kind: &str| json!({"groupVersion": group, "resources": [{"name": name, "kind": kind}]});
        cluster["status"]["apiEnablements"] = json!([
            serves("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
            serves("v1", "services", "Service")
        ]);
    }
    let api = Arc::new(FakeApi::default());
    api.seed_all(objects);
    let gates = FeatureGates::default().with(Gate::MultiClusterService);
    let fleet = Fleet::over(Rig::started(api, "2026-05-01T12:00:00Z", gates).await).await;
    let ports = |rig: &Rig| placed(rig, "Service", "/spec/ports/0/port").into_values().collect::<Vec<_>>();
    assert_eq!(ports(&fleet.rig), [json!(80), json!(80)]);
    fleet
        .rig
        .edit(("v1", "Service"), &key("shop", "web"), |s| s["spec"]["ports"][0]["port"] = json!(8080))
        .await;
    fleet.rest().await;
    assert_eq!(ports(&fleet.rig), [json!(8080), json!(8080)]);
    fleet.end().await;
}
