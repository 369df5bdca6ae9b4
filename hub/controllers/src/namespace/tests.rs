//! The namespace controller as a shell.

use serde_json::json;

use super::*;
use crate::testing::{self, POLICY_API, Rig, WORK_API, bears_trouble};

fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    objects
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    let controller = NamespaceSync::new(rig.shared.clone(), SkipRules::default());
    controller.reconcile(&NamespaceKey { namespace: "team".into(), cluster: None }).await
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_to_every_cluster_whatever_happens_between() {
    let (api, writes) = bears_trouble(&objects(), look).await;
    assert_eq!((writes, api.values(WORK_API, "Work").len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_errand_for_one_cluster_looks_at_that_one_alone() {
    let rig = Rig::new(objects()).await;
    let controller = NamespaceSync::new(rig.shared.clone(), SkipRules::default());
    controller
        .reconcile(&NamespaceKey { namespace: "team".into(), cluster: Some("m2".into()) })
        .await
        .unwrap();
    let works = rig.api.values(WORK_API, "Work");
    assert_eq!(works.len(), 1);
    assert_eq!(works[0]["metadata"]["namespace"], "karmada-es-m2");
}

/// Its name tells something too, where a rule says so: others get it, and nothing fails.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_a_residency_rule_covers_goes_where_the_rule_allows_it() {
    let mut objects = objects();
    objects.push(json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ResidencyRule", "metadata": {"name": "r"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "team"}], "clusterAffinity": {"clusterNames": ["m2"]}}}));
    let (api, _) = bears_trouble(&objects, look).await;
    let places: Vec<Value> =
        api.values(WORK_API, "Work").iter().map(|work| work["metadata"]["namespace"].clone()).collect();
    assert_eq!(places, ["karmada-es-m2"]);
}

#[test]
fn a_cluster_that_overrides_mean_otherwise_now_is_news() {
    let cluster = |region: &str, labels: &Value, taints: &Value| -> Arc<Cluster> {
        let value = json!({"metadata": {"name": "m1", "uid": "u", "labels": labels},
            "spec": {"syncMode": "Pull", "region": region, "taints": taints}});
        Arc::new(serde_json::from_value(value).unwrap())
    };
    let api = crate::port::fake::FakeApi::default();
    let overrides: Typed<OverridePolicy> = Typed::default();
    let rule = |target: Value| json!({"targetCluster": target, "overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}});
    let by_region = rule(
        json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["r2"]}]}}),
    );
    let by_label = rule(json!({"labelSelector": {"matchLabels": {"env": "prod"}}}));
    overrides.observe(&Change::Applied(
        api.seed(json!({"apiVersion": POLICY_API, "kind": "ClusterOverridePolicy",
        "metadata": {"name": "o"}, "spec": {"overrideRules": [by_region, by_label]}})),
    ));
    let (none, prod) = (json!({}), json!({"env": "prod"}));
    let first = cluster("r1", &none, &json!([]));
    let transition = |before: Option<&Arc<Cluster>>, now: Option<Arc<Cluster>>| {
        is_news(&Transition { key: testing::key("", "m1"), before: before.cloned(), now }, &overrides)
    };
    assert!(transition(None, Some(first.clone())), "it came");
    assert!(!transition(Some(&first), None), "it went");
    let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
    assert!(!transition(Some(&first), Some(cluster("r1", &none, &taint))), "a taint");
    assert!(transition(Some(&first), Some(cluster("r2", &none, &taint))), "another region");
    assert!(!transition(Some(&first), Some(cluster("r3", &none, &taint))), "a region that no policy names");
    assert!(transition(Some(&first), Some(cluster("r1", &prod, &json!([])))), "a label");
    assert!(!transition(Some(&first), Some(cluster("r1", &json!({"a": "b"}), &json!([])))), "another label");
}

#[test]
fn an_override_concerns_the_namespaces_that_it_may_mean() {
    let policy = |selectors: Value| -> Arc<OverridePolicy> {
        let value = json!({"apiVersion": POLICY_API, "metadata": {"name": "o"}, "spec": {"resourceSelectors": selectors, "overrideRules": []}});
        Arc::new(serde_json::from_value(value).unwrap())
    };
    let concerns = |selectors: Value, name: &str| {
        means(&Transition { key: testing::key("", "o"), before: None, now: Some(policy(selectors)) }, name)
    };
    let named = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "team"}]);
    assert!(concerns(named.clone(), "team") && !concerns(named, "other"));
    assert!(concerns(json!([]), "any"));
    assert!(!concerns(json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]), "team"));
}
