//! Silence, taints, and namespaces carried along.

use jiff::SignedDuration;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_core::cluster::{Contact, Grace, deadline, silent, taints};
use karmada_core::namespace;
use karmada_core::skipped_resources::SkipRules;
use serde_json::{Value, json};

use super::{member, now};

fn seconds_ago(seconds: i64) -> jiff::Timestamp {
    now().checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}

fn ready(status: &str) -> Cluster {
    let mut cluster = member("m1");
    cluster.status.conditions[0].status = status.to_owned();
    cluster
}

#[test]
fn silence_makes_a_cluster_unknown() {
    let heard =
        |seconds| Contact { last_heard: Some(seconds_ago(seconds)), listening_since: seconds_ago(9999) };
    let never = |seconds| Contact { last_heard: None, listening_since: seconds_ago(seconds) };
    let mut fresh = member("m1");
    fresh.status.conditions.clear();
    let table = [
        (ready("True"), heard(39), None),
        (ready("True"), heard(40), Some("ClusterStatusUnknown")),
        (ready("False"), heard(40), Some("ClusterStatusUnknown")),
        (ready("Unknown"), heard(400), None),
        (ready("True"), never(59), None),
        (ready("True"), never(60), Some("ClusterStatusUnknown")),
        (fresh.clone(), never(59), None),
        (fresh, never(60), Some("ClusterStatusNeverUpdated")),
    ];
    for (cluster, contact, wanted) in table {
        let said = silent(&cluster, &contact, &Grace::default(), now());
        assert_eq!(said.as_ref().map(|c| c.reason.as_str()), wanted, "{contact:?}");
        assert!(said.is_none_or(|c| c.status == "Unknown"));
    }
    assert_eq!(deadline(&heard(10), &Grace::default()), seconds_ago(-30));
}

#[test]
fn taints_follow_the_condition() {
    let with = |cluster: &Cluster, taints: Value| {
        let mut cluster = cluster.clone();
        cluster.spec.taints = serde_json::from_value(taints).unwrap();
        cluster
    };
    let mine = json!({"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"});
    let not_ready = json!({"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"});
    let by_hand = json!({"key": "cluster.karmada.io/not-ready", "effect": "NoExecute"});
    let keys = |cluster: &Cluster| {
        taints(cluster, now()).map(|list| {
            list.iter()
                .map(|t| format!("{}:{}", t.key.trim_start_matches("cluster.karmada.io/"), t.effect))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(keys(&ready("True")), None);
    assert_eq!(
        keys(&with(&ready("True"), json!([mine, not_ready, by_hand]))).unwrap(),
        ["unschedulable:NoSchedule", "not-ready:NoExecute"]
    );
    assert_eq!(keys(&ready("False")).unwrap(), ["not-ready:NoSchedule"]);
    assert_eq!(keys(&with(&ready("False"), json!([not_ready]))), None);
    assert_eq!(
        keys(&with(&ready("Unknown"), json!([not_ready, mine]))).unwrap(),
        ["unschedulable:NoSchedule", "unreachable:NoSchedule"]
    );
    let mut fresh = member("m1");
    fresh.status.conditions.clear();
    assert_eq!(keys(&fresh).unwrap(), ["not-ready:NoSchedule"]);
}

#[test]
fn a_clusters_grace_runs_from_its_joining() {
    let (before, made) = (seconds_ago(100), seconds_ago(30));
    let known = |last_heard| Contact { last_heard, listening_since: seconds_ago(9999) };
    let mut fresh = member("m1");
    fresh.status.conditions.clear();
    let verdict = |cluster: &Cluster, contact: Contact, created| {
        silent(cluster, &contact.of_one_made(created, now()), &Grace::default(), now())
            .map(|said| said.reason)
    };
    assert_eq!(verdict(&fresh, known(None), Some(made)), None, "a new cluster has its 60 s");
    assert_eq!(
        verdict(&fresh, known(Some(before)), Some(made)),
        None,
        "who was heard before was another of that name"
    );
    assert!(verdict(&fresh, known(None), Some(seconds_ago(60))).is_some());
    assert!(verdict(&ready("True"), known(Some(seconds_ago(41))), Some(seconds_ago(500))).is_some());
    assert!(verdict(&fresh, known(None), None).is_some(), "when it was made is not known");
}

fn space(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "n-1", "resourceVersion": "3", "labels": labels},
           "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

#[test]
fn which_namespaces_go_along() {
    let skip = SkipRules::default();
    let label = "namespace.karmada.io/skip-auto-propagation";
    let table = [
        (space("team", json!({})), true),
        (space("default", json!({})), false),
        (space("kube-system", json!({})), false),
        (space("karmada-system", json!({})), false),
        (space("karmada-cluster", json!({})), false),
        (space("karmada-es-north", json!({})), false),
        (space("karmada-monitoring", json!({})), true),
        (space("karmada-test", json!({})), true),
        (space("karmada", json!({})), true),
        (space("team", json!({label: "True"})), false),
        (space("team", json!({label: "no"})), true),
    ];
    for (object, wanted) in table {
        assert_eq!(namespace::is_carried_along(&object, &skip), wanted, "{object}");
    }
    let mut leaving = space("team", json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    assert!(!namespace::is_carried_along(&leaving, &skip));
}

#[test]
fn the_work_of_a_namespace() {
    let policy: OverridePolicy =
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"overrideRules": [
        {"overriders": {"labelsOverrider": [{"operator": "add", "value": {"site": "eu"}}]}}]}}))
        .unwrap();
    let work =
        namespace::namespace_work(&space("team-a", json!({"a": "b"})), &member("m1"), &[policy]).unwrap();
    let work = serde_json::to_value(work).unwrap();
    assert_eq!(
        (&work["metadata"]["name"], &work["metadata"]["namespace"]),
        (&json!("team-a-5cc7c7959b"), &json!("karmada-es-m1"))
    );
    assert_eq!(work["metadata"]["ownerReferences"][0]["uid"], "n-1");
    let resolution = |policy: &str| {
        let policy: OverridePolicy = serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"overrideRules": [
            {"overriders": {"annotationsOverrider": [{"operator": "add", "value": {"work.karmada.io/conflict-resolution": policy}}]}}]}})).unwrap();
        let work = namespace::namespace_work(&space("team-a", json!({})), &member("m1"), &[policy]).unwrap();
        work.spec.workload.manifests[0]["metadata"]["annotations"]["work.karmada.io/conflict-resolution"]
            .clone()
    };
    assert_eq!((resolution("overwrite"), resolution("nonsense")), (json!("overwrite"), json!("abort")));
    let manifest = &work["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest["metadata"]["labels"], json!({"a": "b", "site": "eu", "karmada.io/managed": "true"}));
    assert_eq!(
        (manifest.get("spec"), manifest.get("status"), manifest["metadata"].get("uid")),
        (None, None, None)
    );
}
