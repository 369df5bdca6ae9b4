//! The client over a registry with a store in memory: what is scaled, and which CronFederatedHPAs pass the fleet's gates.

use karmada_api::defaulting::cluster::Grades;
use karmada_api::validation::taint_policy::NoExecute;
use karmada_registry::admission::Admission;
use tokio_util::sync::DropGuard;

use super::*;
use crate::fleet::KarmadaPolicies;
use crate::registry_in_memory::{RegistryInMemory, standing_clock};

struct Rig {
    api: RegistryApi,
    _stop: DropGuard,
}

impl Rig {
    async fn start() -> Rig {
        let gates: Vec<Box<dyn Admission>> =
            vec![Box::new(KarmadaPolicies { taint_policies: NoExecute::Refused, grades: Grades::Completed })];
        let RegistryInMemory { registry, stop, .. } = RegistryInMemory::start(gates, standing_clock()).await;
        Rig { api: RegistryApi::new(Arc::new(registry), "scaler", Arc::default()), _stop: stop.drop_guard() }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Resource {
        self.api.resource_of(api_version, kind).unwrap()
    }

    async fn create(&self, object: Value) -> Result<Arc<Object>, ApiError> {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let kind = self.kind(&text("apiVersion"), &text("kind"));
        self.api.create(&kind, object).await
    }
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "nginx"}]);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}})
}

fn at(name: &str) -> Key {
    Key { namespace: "shop".into(), name: name.into() }
}

#[tokio::test]
async fn a_scale_sets_replicas_and_changes_nothing_else() {
    let rig = Rig::start().await;
    let made = rig.create(deployment()).await.unwrap();
    let kind = rig.kind("apps/v1", "Deployment");
    let scaled = rig.api.scale(&kind, &at("web"), 7).await.unwrap();
    assert_eq!((made.generation, scaled.generation), (1, 2));
    let (before, mut after) = (made.value().unwrap(), scaled.value().unwrap());
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|one| one["subresource"] == "scale" && one["manager"] == "scaler"));
    assert_eq!(after["spec"]["replicas"].take(), 7);
    let mut rest = before["spec"].clone();
    rest["replicas"].take();
    assert_eq!(after["spec"], rest);
    let again = rig.api.scale(&kind, &at("web"), 7).await.unwrap();
    assert_eq!(again.revision, scaled.revision, "no change, no write");
    assert!(matches!(rig.api.scale(&kind, &at("web"), -1).await, Err(ApiError::Invalid(_))));
}

#[tokio::test]
async fn what_is_not_there_or_has_no_scale_is_not_found() {
    let rig = Rig::start().await;
    let not_found = |words: &str| ApiError::NotFound(words.to_owned());
    let kind = rig.kind("apps/v1", "Deployment");
    let missing = rig.api.scale(&kind, &at("web"), 7).await.unwrap_err();
    assert_eq!(missing, not_found("deployments.apps \"web\" not found"));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}});
    rig.create(map).await.unwrap();
    let none = rig.api.scale(&rig.kind("v1", "ConfigMap"), &at("web"), 7).await.unwrap_err();
    assert_eq!(none, not_found("the server could not find the requested resource"));
}

#[tokio::test]
async fn a_cron_federated_hpa_is_stored_if_each_of_its_rules_runs_one_day() {
    let rig = Rig::start().await;
    let cron = |name: &str, schedule: &str, zone: &str| {
        json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "rules": [{"name": "up", "schedule": schedule, "timeZone": zone, "targetReplicas": 3}]}})
    };
    let good = rig.create(cron("good", "0 8 * * MON-FRI", "Europe/Berlin")).await.unwrap();
    let rule = &good.value().unwrap()["spec"]["rules"][0];
    assert_eq!(
        (&rule["successfulHistoryLimit"], &rule["suspend"]),
        (&json!(3), &json!(false)),
        "as defaulted"
    );
    for (schedule, zone, words) in [
        (
            "0 0 31 2 *",
            "",
            "spec.rules[0].schedule: Invalid value: \"0 0 31 2 *\": invalid cron format: no year has such a day",
        ),
        (
            "0 8 * * *",
            "Mars/Base",
            "spec.rules[0].timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base",
        ),
    ] {
        let Err(ApiError::Invalid(said)) = rig.create(cron("bad", schedule, zone)).await else {
            panic!("{schedule} is stored");
        };
        assert!(said.contains(words), "{said}");
    }
}

/// A binding says how it stands in each of ten thousand clusters; no other object is as large.
#[tokio::test]
async fn a_binding_over_ten_thousand_clusters_fits() {
    let rig = Rig::start().await;
    let clusters: Vec<Value> =
        (0..10_000).map(|at| json!({"name": format!("site-{at:05}"), "replicas": 2})).collect();
    let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"});
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop"},
        "spec": {"resource": resource, "replicas": 20_000, "clusters": clusters}});
    let mut binding = rig.create(binding).await.unwrap().value().unwrap();
    let stands = |cluster: &Value| {
        json!({"clusterName": cluster["name"], "applied": true, "health": "Healthy", "status": {
            "availableReplicas": 2, "generation": 3, "observedGeneration": 3, "readyReplicas": 2, "replicas": 2,
            "resourceTemplateGeneration": 3, "updatedReplicas": 2}})
    };
    let items: Vec<Value> = binding["spec"]["clusters"].as_array().unwrap().iter().map(stands).collect();
    binding["status"] = json!({"aggregatedStatus": items});
    let kind = rig.kind("work.karmada.io/v1alpha2", "ResourceBinding");
    let written = rig.api.update_status(&kind, binding).await.unwrap().value().unwrap();
    assert_eq!(written["status"]["aggregatedStatus"][9999]["clusterName"], "site-09999");
    let data = json!({"large": "x".repeat(2_000_000)});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let large = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "c", "namespace": "shop"},
        "spec": {"workload": {"manifests": [manifest]}}});
    let refused = rig.create(large).await.unwrap_err();
    assert!(refused.to_string().contains("Request entity too large"), "{refused}");
}
