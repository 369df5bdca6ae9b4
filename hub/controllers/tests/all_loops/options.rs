//! Each option of whoever runs the hub, and each gate that is seen in what is placed, on and off: all loops together over a fleet in memory.

use karmada_core::feature_gates::FeatureGates;
use karmada_core::skipped_resources::SkipRules;
use serde_json::{Value, json};

use super::running::Running;
use super::*;
use karmada_controllers::port::fake::{FakeApi, resource};
use karmada_controllers::shared_options::SharedOptions;
use karmada_controllers::testing::{self, BINDING_API, POLICY_API, Rig, WORK_API};

/// What a hub with these gates and options makes of two clusters and these objects.
async fn outcome(objects: Vec<Value>, gates: FeatureGates, options: SharedOptions) -> Rig {
    let api = Arc::new(FakeApi::default());
    api.serve(resource("flink.apache.org/v1beta1", "FlinkDeployment", "flinkdeployments", true));
    let mut clusters: Vec<Value> =
        ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    if objects.iter().any(|object| object["kind"] == "Cluster") {
        clusters.clear();
    }
    api.seed_all(clusters.into_iter().chain(objects));
    let rig = Rig::configured(api, "2026-05-01T12:00:00Z", (gates, options)).await;
    let running = Running::over(&rig, LoopOptions::default()).await;
    running::rest(&rig, Duration::from_secs(10)).await;
    running.end().await;
    rig
}

async fn with_options(objects: Vec<Value>, options: SharedOptions) -> Rig {
    outcome(objects, FeatureGates::default(), options).await
}

fn policy(name: &str, (api_version, kind): (&str, &str), placement: &Value) -> Value {
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")}},
        "spec": {"resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": "web"}], "placement": placement}})
}

fn placed_map() -> Vec<Value> {
    vec![testing::config_map("web"), policy("p", ("v1", "ConfigMap"), &json!({}))]
}

fn binding(rig: &Rig, name: &str) -> Option<Value> {
    rig.api.value(BINDING_API, "ResourceBinding", "default", name)
}

/// The clusters of a binding, with their replicas.
fn targets(rig: &Rig, name: &str) -> Value {
    binding(rig, name).map_or(Value::Null, |binding| binding["spec"]["clusters"].clone())
}

#[tokio::test(start_paused = true)]
async fn of_a_namespace_that_is_skipped_nothing_is_placed() {
    for (namespaces, is_bound) in [("kube-.*", true), ("def.*", false), ("def", true)] {
        let skip = SkipRules::new([namespaces]).unwrap();
        let rig = with_options(placed_map(), SharedOptions { skip, ..SharedOptions::default() }).await;
        assert_eq!(binding(&rig, "web-configmap").is_some(), is_bound, "{namespaces}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_skipped_is_not_carried_along() {
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    for (namespaces, works) in [("kube-.*", 2), ("te.m", 0)] {
        let skip = SkipRules::new([namespaces]).unwrap();
        let rig = with_options(vec![team.clone()], SharedOptions { skip, ..SharedOptions::default() }).await;
        let carries = |work: &&Value| work["spec"]["workload"]["manifests"][0]["kind"] == "Namespace";
        let all = rig.api.values(WORK_API, "Work");
        let carried: Vec<&Value> = all.iter().filter(carries).collect();
        assert_eq!(carried.len(), works, "{namespaces}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_api_that_is_skipped_nothing_is_placed() {
    for (apis, is_bound) in [("", true), ("v1/Secret,ConfigMap", false), ("v1/Secret", true), ("apps", true)]
    {
        let skip = SkipRules::default().with_apis(apis.parse().unwrap());
        let rig = with_options(placed_map(), SharedOptions { skip, ..SharedOptions::default() }).await;
        assert_eq!(binding(&rig, "web-configmap").is_some(), is_bound, "{apis}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_places_what_is_given_to_its_name_and_nothing_else() {
    for (named, given_to, is_placed) in [
        ("default-scheduler", "", true),
        ("default-scheduler", "edge", false),
        ("edge", "edge", true),
        ("edge", "", false),
    ] {
        let mut objects = placed_map();
        if !given_to.is_empty() {
            objects[1]["spec"]["schedulerName"] = json!(given_to);
        }
        let options = SharedOptions { scheduler_name: named.to_owned(), ..SharedOptions::default() };
        let rig = with_options(objects, options).await;
        let wanted = if is_placed { json!([{"name": "m1"}, {"name": "m2"}]) } else { Value::Null };
        assert_eq!(targets(&rig, "web-configmap"), wanted, "{named} {given_to}");
    }
}

fn deployment(replicas: u32) -> Value {
    let container = json!({"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "1"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "t-web", "generation": 1},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}}})
}

fn divided(preference: &Value) -> Value {
    let mut scheduling = json!({"replicaSchedulingType": "Divided"});
    scheduling.as_object_mut().unwrap().extend(preference.as_object().unwrap().clone());
    json!({"replicaScheduling": scheduling})
}

/// Also where others have some: each selected cluster has the workload.
#[tokio::test(start_paused = true)]
async fn clusters_without_replicas_have_the_workload_where_that_is_wanted() {
    let even = divided(&json!({"replicaDivisionPreference": "Weighted"}));
    for (replicas, empty_workloads, wanted) in
        [(0, false, vec![]), (0, true, vec![0, 0]), (1, false, vec![1]), (1, true, vec![0, 1])]
    {
        let policy = policy("p", ("apps/v1", "Deployment"), &even);
        let options = SharedOptions { empty_workloads, ..SharedOptions::default() };
        let rig = with_options(vec![deployment(replicas), policy], options).await;
        let works = rig.api.values(WORK_API, "Work").into_iter();
        let manifests = works.map(|work| work["spec"]["workload"]["manifests"][0].clone());
        let mut numbers: Vec<i64> =
            manifests.filter_map(|manifest| manifest["spec"]["replicas"].as_i64()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, wanted, "{replicas} {empty_workloads}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_takes_over_where_the_gate_is_on() {
    let on = FeatureGates::default().with(Gate::PropagationPolicyPreemption);
    for (gates, holder) in [(FeatureGates::default(), "id-weak"), (on, "id-strong")] {
        let mut template = testing::config_map("web");
        template["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "id-weak"});
        let weak = policy("weak", ("v1", "ConfigMap"), &json!({}));
        let mut strong = policy("strong", ("v1", "ConfigMap"), &json!({}));
        strong["spec"]["priority"] = json!(5);
        strong["spec"]["preemption"] = json!("Always");
        let rig = outcome(vec![template, weak, strong], gates, SharedOptions::default()).await;
        let binding = binding(&rig, "web-configmap").unwrap();
        assert_eq!(binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], holder);
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_of_several_parts_is_told_by_them_where_the_gate_is_on() {
    let on = FeatureGates::default().with(Gate::MultiplePodTemplatesScheduling);
    let flink = ("flink.apache.org/v1beta1", "FlinkDeployment");
    for (gates, replicas, parts) in [(FeatureGates::default(), json!(4), 0), (on, Value::Null, 2)] {
        let template = json!({"apiVersion": flink.0, "kind": flink.1,
            "metadata": {"name": "web", "namespace": "default", "uid": "t-web", "generation": 1},
            "spec": {"jobManager": {"replicas": 1, "resource": {"cpu": 1, "memory": "1024m"}},
                "taskManager": {"replicas": 3, "resource": {"cpu": 1, "memory": "1024m"}}, "job": {"parallelism": 3},
                "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"}}});
        let rig =
            outcome(vec![template, policy("p", flink, &json!({}))], gates, SharedOptions::default()).await;
        let spec = binding(&rig, "web-flinkdeployment").unwrap()["spec"].clone();
        assert_eq!(spec["replicas"], replicas, "{spec}");
        assert_eq!(spec["components"].as_array().map_or(0, Vec::len), parts, "{spec}");
    }
}

/// By its sums a cluster has room that no single node has.
#[tokio::test(start_paused = true)]
async fn grades_of_nodes_count_where_the_gate_is_on() {
    let off = FeatureGates::default().without(Gate::CustomizedClusterResourceModeling);
    let by_room = divided(&json!({"replicaDivisionPreference": "Aggregated"}));
    for (gates, reason) in [(FeatureGates::default(), "Unschedulable"), (off, "Success")] {
        let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
        cluster["spec"]["resourceModels"] = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "9223372036854775807"}]}]);
        cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "9", "pods": "90"},
            "allocatableModelings": [{"grade": 0, "count": 18}, {"grade": 1, "count": 0}]});
        let policy = policy("p", ("apps/v1", "Deployment"), &by_room);
        let rig =
            outcome(vec![cluster, namespace, deployment(2), policy], gates, SharedOptions::default()).await;
        let binding = binding(&rig, "web-deployment").unwrap();
        assert_eq!(binding["status"]["conditions"][0]["reason"], reason, "{binding}");
    }
}
