//! The policies of `deploy/presets`: each is applied to a fleet in memory, with all loops running, and a site is taken away.

use k8s_openapi::api::core::v1::Taint;
use karmada_api::cluster::Cluster;
use karmada_api::policy::PropagationPolicy;
use karmada_api::taint_policy::ClusterTaintPolicy;
use karmada_core::feature_gates::FeatureGates;
use karmada_core::taint_policy;
use serde_json::{Value, json};

use super::running::{self, Running};
use super::*;
use karmada_controllers::port::Api;
use karmada_controllers::testing::{self, BINDING_API, CLUSTER_API, Rig, WORK_API, key};

/// A fleet in which one Deployment of six replicas is to go where a preset says.
struct Fleet {
    rig: Rig,
    running: Running,
}

fn deployment(preset: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "t-web", "generation": 1, "labels": {"preset": preset}},
        "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]}}}})
}

impl Fleet {
    /// Of these clusters, by their labels; `zone` is a field of the Cluster.
    async fn new(preset: &str, text: &str, clusters: &[(&str, Value)]) -> Self {
        let mut policy: Value = serde_saphyr::from_str(text).unwrap();
        policy["metadata"]["generation"] = json!(1);
        policy["metadata"]["labels"] = json!({"clusterpropagationpolicy.karmada.io/permanent-id": preset});
        let mut objects = vec![policy, deployment(preset)];
        for (name, labels) in clusters {
            let [mut cluster, namespace] = testing::cluster(name, labels);
            cluster["status"]["resourceSummary"] =
                json!({"allocatable": {"cpu": "40", "memory": "64Gi", "pods": "110"}});
            cluster["spec"]["zones"] = labels.get("zone").map_or(json!([]), |zone| json!([zone]));
            objects.extend([cluster, namespace]);
        }
        let before = Rig::new(objects).await;
        let gates = FeatureGates::default().with(Gate::Failover);
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let lifecycle = LifecycleOptions { no_execute_eviction: true, ..LifecycleOptions::default() };
        let running = Running::over(&rig, LoopOptions { lifecycle, ..LoopOptions::default() }).await;
        let fleet = Fleet { rig, running };
        fleet.rest().await;
        fleet
    }

    async fn rest(&self) {
        running::rest(&self.rig, Duration::from_secs(10)).await;
    }

    /// Where its replicas are, as `a 3, b 3`.
    fn places(&self) -> String {
        let binding =
            self.rig.api.value(BINDING_API, "ResourceBinding", "default", "web-deployment").unwrap();
        let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let words =
            clusters.iter().map(|one| format!("{} {}", one["name"].as_str().unwrap(), one["replicas"]));
        words.collect::<Vec<_>>().join(", ")
    }

    /// The site has been unreachable for longer than the presets bear: it has the taints by which `lost-sites.yaml` says so. The agents of the
    /// rig are always there, so that what the hub itself would say of one that is not has another key here.
    async fn lose(&self, site: &str) {
        let mut taint = json!(taints_of_a_lost_site("Unknown"));
        taint.as_array_mut().unwrap().push(json!({"key": "lost", "effect": "NoSchedule"}));
        let cluster = (CLUSTER_API, "Cluster");
        self.rig.edit(cluster, &key("", site), |cluster| cluster["spec"]["taints"] = taint).await;
        self.rest().await;
    }

    /// The agent of a site says that all is well there.
    async fn report(&self, site: &str) {
        let resource = self.rig.api.resource_of(WORK_API, "Work").unwrap();
        let namespace = format!("karmada-es-{site}");
        for mut work in self.rig.api.values(WORK_API, "Work") {
            if work["metadata"]["namespace"] == json!(namespace) {
                let identifier = json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "default", "name": "web"});
                work["status"] = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful",
                    "message": "", "lastTransitionTime": "2026-05-01T12:00:00Z"}],
                    "manifestStatuses": [{"identifier": identifier, "health": "Healthy", "status": {"replicas": 6, "readyReplicas": 6}}]});
                self.rig.api.update_status(&resource, work).await.unwrap();
            }
        }
        self.rest().await;
    }

    /// The site is well again.
    async fn heal(&self, site: &str) {
        let cluster = (CLUSTER_API, "Cluster");
        self.rig.edit(cluster, &key("", site), |cluster| cluster["spec"]["taints"] = json!([])).await;
        self.rest().await;
    }

    /// The manifest that a site was sent.
    fn sent(&self, site: &str) -> Option<Value> {
        let namespace = format!("karmada-es-{site}");
        let works = self.rig.api.values(WORK_API, "Work");
        let of_site = works.into_iter().filter(|work| work["metadata"]["namespace"] == json!(namespace));
        of_site
            .map(|work| work["spec"]["workload"]["manifests"][0].clone())
            .find(|manifest| manifest["kind"] == "Deployment")
    }
}

/// What `lost-sites.yaml` adds to a cluster of which its condition Ready says this.
fn taints_of_a_lost_site(ready: &str) -> Vec<Taint> {
    let text = include_str!("../../../../deploy/presets/lost-sites.yaml");
    let policies: Vec<ClusterTaintPolicy> = serde_saphyr::from_multiple(text).unwrap();
    let [mut cluster, _] = testing::cluster("m", &json!({}));
    cluster["status"]["conditions"] = json!([{"type": "Ready", "status": ready, "reason": "R", "message": "",
        "lastTransitionTime": "2026-05-01T11:58:00Z"}]);
    let cluster: Cluster = serde_json::from_value(cluster).unwrap();
    let since = "2026-05-01T11:58:00Z".parse().unwrap();
    let taints = taint_policy::taints(&cluster, &policies, since).unwrap_or_default();
    let well = "2026-05-01T12:00:00Z".parse().unwrap();
    let mut healed = cluster;
    healed.spec.taints.clone_from(&taints);
    healed.status.conditions[0].status = "True".to_owned();
    assert_eq!(taint_policy::taints(&healed, &policies, well), Some(Vec::new()), "they go once it is well");
    taints
}

/// What is lost and what says itself that it is not well are told apart, and borne alike.
#[test]
fn presets_bear_a_lost_site_for_a_minute() {
    for (ready, key) in
        [("Unknown", "cluster.karmada.io/unreachable"), ("False", "cluster.karmada.io/not-ready")]
    {
        let taints = taints_of_a_lost_site(ready);
        assert_eq!(
            taints.iter().map(|taint| (&*taint.key, &*taint.effect)).collect::<Vec<_>>(),
            [(key, "NoExecute")]
        );
        for text in [
            include_str!("../../../../deploy/presets/active-active.yaml"),
            include_str!("../../../../deploy/presets/remote-standby.yaml"),
            include_str!("../../../../deploy/presets/spread-over-zones.yaml"),
            include_str!("../../../../deploy/presets/two-cities-three-centres.yaml"),
        ] {
            let policy: PropagationPolicy = serde_saphyr::from_str(text).unwrap();
            let mut borne = policy.spec.placement.cluster_tolerations.iter();
            assert!(
                borne.any(|one| one.key.as_deref() == Some(key) && one.toleration_seconds == Some(60)),
                "{text}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn active_active_serves_in_both_sites_and_then_in_the_one_that_is_left() {
    let active = json!({"role": "active"});
    let sites = [("a", active.clone()), ("b", active), ("c", json!({"role": "other"}))];
    let text = include_str!("../../../../deploy/presets/active-active.yaml");
    let fleet = Fleet::new("active-active", text, &sites).await;
    assert_eq!(fleet.places(), "a 3, b 3");
    assert_eq!(fleet.sent("a").unwrap()["spec"]["replicas"], 3);
    fleet.lose("a").await;
    assert_eq!(fleet.places(), "b 6");
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_cities_three_centres_goes_to_the_far_city_last() {
    let (near, far) = (json!({"city": "near"}), json!({"city": "far"}));
    let sites = [("east", near.clone()), ("remote", far), ("west", near)];
    let text = include_str!("../../../../deploy/presets/two-cities-three-centres.yaml");
    // The rigs' clock stands still.
    assert!(text.contains("failback-after: 10m"));
    let fleet = Fleet::new("two-cities-three-centres", &text.replace("10m", "0s"), &sites).await;
    assert_eq!(fleet.places(), "east 3, west 3");
    fleet.lose("east").await;
    assert_eq!(fleet.places(), "west 6");
    fleet.lose("west").await;
    assert_eq!(fleet.places(), "remote 6");
    assert_eq!(fleet.sent("remote").unwrap()["spec"]["replicas"], 6);
    fleet.report("remote").await;
    fleet.heal("west").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    fleet.rest().await;
    assert_eq!(fleet.places(), "west 6", "it gives back");
    assert!(fleet.sent("remote").is_some(), "and keeps its own until west is healthy");
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_remote_standby_takes_over() {
    let sites = [("main", json!({"role": "primary"})), ("spare", json!({"role": "standby"}))];
    let text = include_str!("../../../../deploy/presets/remote-standby.yaml");
    let fleet = Fleet::new("remote-standby", text, &sites).await;
    assert_eq!(fleet.places(), "main 6");
    assert!(fleet.sent("spare").is_none());
    fleet.lose("main").await;
    assert_eq!(fleet.places(), "spare 6");
    fleet.running.end().await;
}

#[tokio::test(start_paused = true)]
async fn deployments_are_spread_over_zones_and_stay_so() {
    let zone = |name: &str| json!({"zone": name});
    let sites = [("a1", zone("a")), ("a2", zone("a")), ("b1", zone("b")), ("c1", zone("c"))];
    let text = include_str!("../../../../deploy/presets/spread-over-zones.yaml");
    let fleet = Fleet::new("none in particular", text, &sites).await;
    let zones = |places: &str| {
        let mut zones: Vec<char> = places.split(", ").filter_map(|place| place.chars().next()).collect();
        zones.dedup();
        zones
    };
    let before = fleet.places();
    assert_eq!(zones(&before).len(), 2, "{before}");
    assert!(before.matches(" 3").count() == 2, "{before}");
    let lost = before.split(' ').next().unwrap().to_owned();
    fleet.lose(&lost).await;
    let after = fleet.places();
    assert!(!after.contains(&lost) && zones(&after).len() == 2, "{before}; then {after}");
    fleet.running.end().await;
}
