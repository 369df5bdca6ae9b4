//! Quotas of single clusters, over the port in memory.

use serde_json::{Value, json};

use super::*;
use crate::port::ApiError;
use crate::testing::{self, CLUSTER_API, POLICY_API, Rig, WORK_API, bears_trouble, key};

const QUOTA: (&str, &str) = (POLICY_API, "FederatedResourceQuota");

fn quota(assigned: &[(&str, &str)]) -> Value {
    let assignments: Vec<Value> =
        assigned.iter().map(|(cluster, cpu)| json!({"clusterName": cluster, "hard": {"cpu": cpu}})).collect();
    json!({"apiVersion": POLICY_API, "kind": "FederatedResourceQuota", "metadata": {"name": "q", "namespace": "team", "generation": 1},
        "spec": {"overall": {"cpu": "10"}, "staticAssignments": assignments}})
}

fn objects(assigned: &[(&str, &str)]) -> Vec<Value> {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
    clusters.chain([quota(assigned)]).collect()
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    FederatedResourceQuotaSync::new(rig.shared.clone()).reconcile(&key("team", "q")).await
}

/// Cluster and processors of each Work that is not on its way out.
fn given(rig: &Rig) -> Vec<(String, String)> {
    let works = rig.api.values(WORK_API, "Work").into_iter();
    let stays = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
    stays
        .map(|work| {
            let cluster = work["metadata"]["namespace"].as_str().unwrap().replace("karmada-es-", "");
            let hard = &work["spec"]["workload"]["manifests"][0]["spec"]["hard"];
            (cluster, hard["cpu"].as_str().unwrap().to_owned())
        })
        .collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(cluster, cpu)| ((*cluster).to_owned(), (*cpu).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn clusters_are_given_what_they_are_assigned_whatever_happens_between() {
    let (api, writes) = bears_trouble(&objects(&[("m1", "4"), ("m2", "6")]), look).await;
    assert_eq!((writes, api.values(WORK_API, "Work").len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_assigned_otherwise_follows_and_what_is_not_any_more_goes() {
    let rig = Rig::new(objects(&[("m1", "4"), ("m2", "6")])).await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("m1", "4"), ("m2", "6")]));
    let assigned = quota(&[("m1", "5")])["spec"].clone();
    rig.edit(QUOTA, &key("team", "q"), |quota| quota["spec"] = assigned).await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[("m1", "5")]));
    rig.delete(QUOTA, &key("team", "q")).await;
    // Also where the hub ended in between.
    let rig = rig.restarted().await;
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_there_is_given_nothing_and_waited_for_by_nobody() {
    let rig = Rig::new(objects(&[("m1", "4"), ("m3", "6")])).await;
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(given(&rig), pairs(&[("m1", "4")]));
    rig.edit((CLUSTER_API, "Cluster"), &key("", "m1"), |cluster| {
        cluster["metadata"]["labels"] = json!({"a": "b"});
    })
    .await;
    rig.delete((CLUSTER_API, "Cluster"), &key("", "m1")).await;
    for work in rig.api.values(WORK_API, "Work") {
        let name = work["metadata"]["name"].as_str().unwrap().to_owned();
        rig.remove((WORK_API, "Work"), &key("karmada-es-m1", &name)).await;
    }
    look(&rig).await.unwrap();
    assert_eq!(given(&rig), pairs(&[]), "it is leaving");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_its_execution_namespace_yet_is_looked_at_again() {
    let rig = Rig::new(objects(&[("m1", "4")])).await;
    rig.api.refuse("create", "Work", ApiError::NotFound("no such namespace".into()));
    assert_eq!(look(&rig).await.unwrap(), Action::RequeueAfter(NAMESPACE_WAIT));
    assert_eq!(look(&rig).await.unwrap(), Action::Done);
    assert_eq!(given(&rig), pairs(&[("m1", "4")]));
}
