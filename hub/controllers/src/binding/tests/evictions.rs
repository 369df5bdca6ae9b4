//! Works of clusters that a binding leaves, over the port in memory.

use karmada_core::feature_gates::{FeatureGates, Gate};
use serde_json::json;

use super::*;
use crate::testing::{self, BINDING_API as API, Rig, key};

const WORK: (&str, &str) = (WORK_API, "Work");

async fn look(rig: &Rig) -> Result<Action, Error> {
    let action = Binding::new(rig.shared.clone()).reconcile(&key("default", "web-configmap")).await;
    rig.quiet().await;
    action
}

/// `web` is in `m1`, and has its Work there.
async fn placed() -> Rig {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    let objects = clusters.chain([testing::config_map("web"), testing::binding("web", &json!({}), &["m1"])]);
    let rig = Rig::new(objects).await;
    look(&rig).await.unwrap();
    assert_eq!(works(&rig), ["m1"]);
    rig
}

/// It leaves `m1` for `m2`.
async fn move_on(rig: &Rig, purge_mode: &str) {
    rig.edit((API, "ResourceBinding"), &key("default", "web-configmap"), |binding| {
        binding["spec"]["clusters"] = json!([{"name": "m2"}]);
        binding["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "m1", "purgeMode": purge_mode, "reason": "TaintUntolerated",
            "producer": "TaintManager", "clustersBeforeFailover": ["m1"], "preservedLabelState": {"app.io/job": "a"}}]);
    })
    .await;
}

/// The clusters that have a Work, those that are on their way out marked.
fn works(rig: &Rig) -> Vec<String> {
    let of = |work: &Value| {
        let going = if work["metadata"]["deletionTimestamp"].is_null() { "" } else { " going" };
        let namespace = work["metadata"]["namespace"].as_str().unwrap();
        format!("{}{going}", namespace.trim_start_matches("karmada-es-"))
    };
    rig.api.values(WORK.0, WORK.1).iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn statement_30_what_leaves_gracefully_or_never_keeps_its_work() {
    for purge_mode in ["Gracefully", "Never"] {
        let rig = placed().await;
        move_on(&rig, purge_mode).await;
        assert_eq!(look(&rig).await.unwrap(), Action::Done);
        assert_eq!(works(&rig), ["m1", "m2"], "{purge_mode}");
        rig.edit((API, "ResourceBinding"), &key("default", "web-configmap"), |binding| {
            binding["spec"]["gracefulEvictionTasks"] = json!([]);
        })
        .await;
        look(&rig).await.unwrap();
        assert_eq!(works(&rig), ["m1 going", "m2"], "without the task it goes");
    }
}

#[tokio::test(start_paused = true)]
async fn statement_31_what_leaves_at_once_is_gone_before_anything_new_comes() {
    let rig = placed().await;
    move_on(&rig, "Directly").await;
    for _ in 0..2 {
        assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(PURGE_WAIT));
        assert_eq!(works(&rig), ["m1 going"]);
    }
    let name = rig.api.values(WORK.0, WORK.1)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.remove(WORK, &key("karmada-es-m1", &name)).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(works(&rig), ["m2"]);
}

/// The Work of a cluster that another binding requires stays: waiting for its end would be waiting for ever.
#[tokio::test(start_paused = true)]
async fn statement_31_a_work_that_another_binding_requires_blocks_nothing() {
    let rig = placed().await;
    move_on(&rig, "Directly").await;
    rig.edit((API, "ResourceBinding"), &key("default", "web-configmap"), |binding| {
        binding["spec"]["requiredBy"] =
            json!([{"namespace": "default", "name": "app", "clusters": [{"name": "m1"}]}]);
    })
    .await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(works(&rig), ["m1", "m2"]);
}

#[tokio::test(start_paused = true)]
async fn statement_70_status_that_went_along_is_on_the_new_object_where_the_gate_is_on() {
    for (gates, wanted) in [
        (FeatureGates::default(), Value::Null),
        (FeatureGates::default().with(Gate::StatefulFailoverInjection), json!("a")),
    ] {
        let rig = placed().await;
        move_on(&rig, "Directly").await;
        let name = rig.api.values(WORK.0, WORK.1)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        rig.remove(WORK, &key("karmada-es-m1", &name)).await;
        let rig = Rig::started(rig.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        look(&rig).await.unwrap();
        let work = &rig.api.values(WORK.0, WORK.1)[0];
        assert_eq!(work["spec"]["workload"]["manifests"][0]["metadata"]["labels"]["app.io/job"], wanted);
    }
}
