//! Who may be impersonated in a cluster: the recorded cases, and what differs.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use karmada_api::cluster::Cluster;
use karmada_api::work::Work;
use karmada_core::unified_auth;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::recorded::{self, Differences, compare};
use crate::without_nulls;

const PARTS: &str = "`*/proxy` is the proxy of clusters, as it is to the hub's authorizer";
const DIFFERENCES: Differences = &[(27, PARTS), (86, PARTS), (89, PARTS), (116, PARTS)];

fn list<T: DeserializeOwned>(value: &Value) -> Vec<T> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| serde_json::from_value(without_nulls(item.clone())).unwrap()).collect()
}

fn cluster(case: &Value) -> Cluster {
    let name = &case["cluster"]["name"];
    serde_json::from_value(json!({"metadata": {"name": name, "uid": "u1"}, "spec": {"syncMode": "Pull"}}))
        .unwrap()
}

/// Works as they were recorded. With nobody allowed a role without rules was sent, and its binding; here nothing is.
fn wanted(case: &Value) -> Vec<Value> {
    let works = case["works"].as_array().cloned().unwrap_or_default();
    let is_empty = |work: &Value| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        manifest["kind"] == "ClusterRole" && manifest["rules"].is_null()
    };
    if works.iter().any(is_empty) { Vec::new() } else { works }
}

fn written(work: &Work) -> Value {
    let mut value = serde_json::to_value(work).unwrap();
    value.as_object_mut().unwrap().retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
    without_nulls(value)
}

#[test]
fn recorded_proxy_authorization() {
    recorded::run("proxyauth.json", "recorded_proxy_authorization", DIFFERENCES, |case| {
        let (roles, bindings): (Vec<ClusterRole>, Vec<ClusterRoleBinding>) =
            (list(&case["clusterRoles"]), list(&case["clusterRoleBindings"]));
        let cluster = cluster(case);
        let subjects = unified_auth::subjects(cluster.name(), &roles, &bindings);
        let works: Vec<Value> =
            unified_auth::impersonation_works(&cluster, &subjects).iter().map(written).collect();
        compare(&json!(wanted(case)), &json!(works))
    });
}

#[test]
fn who_is_in_the_group_of_masters_is_not_passed_on_as_such() {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "cluster-admin"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "cluster-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "name": "system:masters"}]}))
    .unwrap();
    assert!(unified_auth::subjects("m", [&role], [&binding]).is_empty());
}

#[test]
fn a_cluster_that_leaves_and_a_rule_without_verbs_give_nothing() {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "a"},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": []}]}))
    .unwrap();
    assert_eq!(unified_auth::reach(role.rules.as_deref().unwrap()), unified_auth::Reach::Nothing);
    let mut leaving = cluster(&json!({"cluster": {"name": "m"}}));
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let subjects = unified_auth::Subjects { users: ["jane".to_owned()].into(), ..Default::default() };
    assert!(unified_auth::impersonation_works(&leaving, &subjects).is_empty());
}
