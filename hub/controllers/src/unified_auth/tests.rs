//! Who may be impersonated, over the port in memory.

use serde_json::{Value, json};

use super::*;
use crate::port::ApiError;
use crate::testing::{self, CLUSTER_API, Rig, WORK_API, bears_trouble};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ROLE: (&str, &str) = (RBAC, "ClusterRole");
const BINDING: (&str, &str) = (RBAC, "ClusterRoleBinding");

fn role(name: &str, clusters: &[&str]) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "resourceNames": clusters, "verbs": ["*"]}]})
}

fn binding(role: &str, user: &str) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": format!("{role}-{user}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
}

fn objects(more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    clusters.chain(more).collect()
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    let controller = UnifiedAuth::new(rig.shared.clone());
    let first = controller.reconcile(&key("m1")).await?;
    controller.reconcile(&key("m2")).await?;
    Ok(first)
}

/// Cluster and users of each ClusterRole that is not on its way out.
fn allowed(rig: &Rig) -> Vec<(String, String)> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let stays = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    let role = |work: Value| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let cluster = work["metadata"]["namespace"].as_str()?.replace("karmada-es-", "");
        let names = manifest["rules"][0]["resourceNames"].to_string();
        (manifest["kind"] == "ClusterRole").then_some((cluster, names))
    };
    stays.filter_map(role).collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(cluster, names)| ((*cluster).to_owned(), (*names).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn statement_78_who_may_use_a_proxy_may_be_impersonated_there_whatever_happens_between() {
    let objects = objects([role("all", &[]), binding("all", "jane")]);
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!((writes, api.values(WORK_API, "Work").len()), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn what_roles_and_bindings_say_otherwise_follows_and_nothing_is_left_of_what_they_said() {
    let rig = Rig::new(objects([role("one", &["m2"]), binding("one", "jane")])).await;
    look(&rig).await.unwrap();
    assert_eq!(allowed(&rig), pairs(&[("m2", "[\"jane\"]")]));
    rig.api.seed(binding("one", "bob"));
    rig.edit(ROLE, &key("one"), |role| role["rules"][0]["resourceNames"] = json!(["m1"])).await;
    look(&rig).await.unwrap();
    assert_eq!(allowed(&rig), pairs(&[("m1", "[\"bob\",\"jane\"]")]));
    for name in ["one-bob", "one-jane"] {
        rig.delete(BINDING, &key(name)).await;
    }
    let rig = rig.restarted().await;
    look(&rig).await.unwrap();
    assert_eq!(allowed(&rig), []);
}

#[tokio::test(start_paused = true)]
async fn a_work_of_a_policy_with_such_a_name_is_neither_written_nor_removed() {
    let rig = Rig::new(objects([])).await;
    let name = &unified_auth::work_names("m1")[0];
    let theirs = json!({"apiVersion": WORK_API, "kind": "Work",
        "metadata": {"name": name, "namespace": "karmada-es-m1", "annotations": {"clusterresourcebinding.karmada.io/name": "x"}},
        "spec": {"workload": {"manifests": [{"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "karmada-impersonator"}}]}}});
    rig.api.seed(theirs);
    rig.quiet().await;
    look(&rig).await.unwrap();
    rig.api.seed_all([role("all", &[]), binding("all", "jane")]);
    rig.quiet().await;
    look(&rig).await.unwrap();
    assert_eq!(rig.api.values(WORK_API, "Work").len(), 5, "it has a name of its own");
    rig.delete(BINDING, &key("all-jane")).await;
    look(&rig).await.unwrap();
    let left = rig.api.value(WORK_API, "Work", "karmada-es-m1", name).unwrap();
    assert!(left["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(allowed(&rig), pairs(&[("m1", "null")]));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_or_is_only_just_there_is_given_nothing_yet() {
    let rig = Rig::new(objects([role("all", &[]), binding("all", "jane")])).await;
    rig.api.refuse("create", "Work", ApiError::NotFound("no such namespace".into()));
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(NAMESPACE_WAIT));
    rig.delete((CLUSTER_API, "Cluster"), &key("m1")).await;
    let before = rig.api.revision();
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(rig.api.revision(), before);
}

/// A role that says nothing of proxies concerns no cluster, and one that names a cluster concerns that one.
#[tokio::test(start_paused = true)]
async fn a_change_wakes_the_clusters_that_it_is_about() {
    let clusters: Typed<Cluster> = Typed::default();
    let of = |value: Value| {
        let mut role: ClusterRole = serde_json::from_value(value).unwrap();
        unified_auth::keep_proxies(&mut role);
        meant(&reach(Some(&Arc::new(role))), &clusters)
    };
    assert_eq!(of(role("one", &["m2"])), [key("m2")]);
    assert!(of(json!({"metadata": {"name": "view"}, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}]})).is_empty());
}
