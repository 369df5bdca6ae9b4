//! A ResidencyRule keeps a template out of a cluster: its other clusters go on, whoever names the clusters.

use super::*;
use crate::testing::key;

const RULE_API: &str = "edge.karmada.io/v1alpha1";

fn rule(labels: &Value) -> Value {
    json!({"apiVersion": RULE_API, "kind": "ResidencyRule", "metadata": {"name": "home", "generation": 1},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": labels}], "clusterAffinity": {"clusterNames": ["m2"]}}})
}

fn objects(spec: &Value) -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["m1", "m2", "m3"].iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    let mut binding = testing::binding("web", &json!({}), &[]);
    for (field, value) in spec.as_object().unwrap() {
        binding["spec"][field] = value.clone();
    }
    objects.extend([testing::config_map("web"), binding]);
    objects
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    Binding::new(rig.shared.clone()).reconcile(&key("default", "web-configmap")).await
}

fn places(api: &crate::port::fake::FakeApi) -> Vec<String> {
    let of = |work: &Value| work["metadata"]["namespace"].as_str().unwrap().to_owned();
    api.values(WORK_API, "Work").iter().map(of).collect()
}

/// As a person edits `spec.clusters`, and as a referrer requires it.
#[tokio::test(start_paused = true)]
async fn the_other_clusters_go_on() {
    let everywhere = json!([{"name": "m1"}, {"name": "m2"}, {"name": "m3"}]);
    for spec in [
        json!({"clusters": everywhere}),
        json!({"requiredBy": [{"namespace": "default", "name": "x", "clusters": everywhere}]}),
    ] {
        let mut objects = objects(&spec);
        objects.push(rule(&json!({})));
        let (api, _) = testing::bears_trouble(&objects, look).await;
        assert_eq!(places(&api), ["karmada-es-m2"], "{spec}");
    }
}

/// What is there when the rule comes stays as it is, and gets nothing new.
#[tokio::test(start_paused = true)]
async fn what_is_there_stays_and_gets_nothing_new() {
    let rig = Rig::new(objects(&json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}))).await;
    look(&rig).await.unwrap();
    rig.api.seed(rule(&json!({})));
    rig.edit(("v1", "ConfigMap"), &key("default", "web"), |map| map["data"] = json!({"of": "new"})).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    let data = |at: usize| {
        rig.api.values(WORK_API, "Work")[at]["spec"]["workload"]["manifests"][0]["data"]["of"].clone()
    };
    assert_eq!((data(0), data(1)), (json!("web"), json!("new")));
}

/// An override takes the label off by which the rule knows the template.
#[tokio::test(start_paused = true)]
async fn overrides_are_no_way_around() {
    let mut objects = objects(&json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}));
    objects[6]["metadata"]["labels"] = json!({"data": "personal"});
    objects.extend([
        rule(&json!({"matchLabels": {"data": "personal"}})),
        json!({"apiVersion": testing::POLICY_API, "kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "default"}, "spec": {"overrideRules": [
            {"overriders": {"labelsOverrider": [{"operator": "remove", "value": {"data": "personal"}}]}}]}}),
    ]);
    let (api, _) = testing::bears_trouble(&objects, look).await;
    assert_eq!(places(&api), ["karmada-es-m2"]);
}

/// The gate of the API refuses what the controller did not see: a rule that came a moment ago.
#[tokio::test(start_paused = true)]
async fn what_the_api_refuses_for_a_rule_is_no_failure() {
    let rig = Rig::new(objects(&json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}))).await;
    let refusal = ApiError::Forbidden {
        reason: "ResidencyViolated".into(),
        message: "residency rule home does not allow it".into(),
    };
    rig.api.refuse("create", "Work", refusal);
    look(&rig).await.unwrap();
    assert_eq!(places(&rig.api), ["karmada-es-m2"]);
    rig.api.refuse(
        "create",
        "Work",
        ApiError::Forbidden { reason: "Forbidden".into(), message: "no".into() },
    );
    assert!(look(&rig).await.is_err(), "any other refusal is");
}
