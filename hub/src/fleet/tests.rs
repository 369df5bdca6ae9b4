//! The shells between agents' reports and the hub's objects, over a hub in memory with one agent: what each writes and sends, that it
//! writes nothing where nothing changed, and what a full disk or another process leaves for the next try.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_api::strings::{annotations, finalizers};
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller};
use karmada_core::registration::keys;
use karmada_gateway::ports::{Applied, StatusSink, WorkReport};
use karmada_proto::v1::hub_frame;
use karmada_registry::{VirtualRequest, VirtualResource};
use serde_json::{Value, json};

use super::testing::{NORTH, Rig};
use super::{ClusterLinks, ClusterStatusRepair, Models};

const ES: &str = "karmada-es-north";

fn north() -> Key {
    Key { namespace: Arc::from(""), name: Arc::from(NORTH) }
}

fn status(version: &str) -> Bytes {
    Bytes::from(
        json!({"kubernetesVersion": version, "conditions": [
            {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "well"}]})
        .to_string(),
    )
}

async fn make_work(rig: &Rig, name: &str) -> String {
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": name, "finalizers": [finalizers::EXECUTION]},
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]}}});
    rig.create("works", ES, work).await.uid().to_owned()
}

fn applied(key: &str, uid: &str, generation: u64) -> WorkReport {
    let outcome = Applied { ok: true, reason: "AppliedSuccessful".into(), message: "applied".into() };
    WorkReport {
        key: key.into(),
        uid: uid.into(),
        revision: 1,
        generation,
        hash: None,
        applied: Some(outcome),
        manifest_statuses: None,
    }
}

// ---------------------------------------------------------------------------------------- reports

#[tokio::test]
async fn a_report_is_written_once_and_only_into_the_work_that_it_is_about() {
    let rig = Rig::start().await;
    let uid = make_work(&rig, "w").await;
    rig.reports.work_status(NORTH, applied("w", "another life", 1)).await.unwrap();
    let untouched = rig.get("works", ES, "w").unwrap();
    assert!(untouched.value()["status"]["conditions"].is_null());
    rig.reports.work_status(NORTH, applied("w", &uid, 1)).await.unwrap();
    let written = rig.get("works", ES, "w").unwrap();
    assert_eq!(written.value()["status"]["conditions"][0]["type"], "Applied");
    rig.later(Duration::from_secs(5));
    rig.reports.work_status(NORTH, applied("w", &uid, 1)).await.unwrap();
    assert_eq!(rig.get("works", ES, "w").unwrap().revision, written.revision, "the same again is no write");
    rig.reports.work_status(NORTH, applied("gone", &uid, 1)).await.unwrap();
    assert!(rig.get("works", ES, "gone").is_none(), "a report makes no Work");
}

#[tokio::test]
async fn what_cannot_be_written_comes_again_and_what_never_can_does_not() {
    let rig = Rig::start().await;
    let uid = make_work(&rig, "w").await;
    rig.disk.is_full(true);
    let refused = rig.reports.work_status(NORTH, applied("w", &uid, 1)).await.unwrap_err();
    assert!(refused.retriable, "{refused:?}");
    rig.disk.is_full(false);
    rig.reports.work_status(NORTH, applied("w", &uid, 1)).await.unwrap();
    let nonsense = WorkReport { manifest_statuses: Some("[".into()), ..applied("w", &uid, 1) };
    assert!(!rig.reports.work_status(NORTH, nonsense).await.unwrap_err().retriable);
    assert!(!rig.reports.cluster_status(NORTH, "[]".into()).await.unwrap_err().retriable);
}

#[tokio::test]
async fn a_cluster_that_is_told_of_is_looked_at_by_its_controller() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    rig.reports.cluster_status(NORTH, status("v1.36.1")).await.unwrap();
    assert_eq!(rig.cluster()["status"]["kubernetesVersion"], "v1.36.1");
    assert_eq!(rig.called.len(), 1);
    let revision = rig.get("clusters", "", NORTH).unwrap().revision;
    rig.later(Duration::from_secs(5));
    rig.reports.cluster_status(NORTH, status("v1.36.1")).await.unwrap();
    assert_eq!(rig.get("clusters", "", NORTH).unwrap().revision, revision, "the same again is no write");
}

#[tokio::test]
async fn orphans_stand_on_the_cluster_until_the_site_let_go_of_them() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    make_work(&rig, "held").await;
    let found = vec!["stray".to_owned(), "held".to_owned()];
    rig.reports.orphans(NORTH, found.clone()).await.unwrap();
    let stands = rig.cluster()["metadata"]["annotations"][annotations::ORPHANS].clone();
    assert_eq!(stands, r#"{"stray":"undecided"}"#);
    let revision = rig.get("clusters", "", NORTH).unwrap().revision;
    rig.reports.orphans(NORTH, found).await.unwrap();
    assert_eq!(rig.get("clusters", "", NORTH).unwrap().revision, revision, "they are known");
    assert_eq!(rig.reports.orphans_decided(NORTH), []);
    let decided = |cluster: &mut Value| {
        cluster["metadata"]["annotations"][annotations::ORPHANS] = json!(r#"{"stray":"release"}"#);
    };
    rig.edit("clusters", ("", NORTH), "", decided).await;
    assert_eq!(rig.reports.orphans_decided(NORTH), [("stray".to_owned(), true)]);
    // The hub dies between what the site said and its writing: the site says it again.
    rig.disk.is_full(true);
    assert!(rig.reports.finalize_work(NORTH, "stray", "", &[]).await.unwrap_err().retriable);
    rig.disk.is_full(false);
    rig.reports.finalize_work(NORTH, "stray", "", &[]).await.unwrap();
    assert!(rig.cluster()["metadata"]["annotations"][annotations::ORPHANS].is_null());
}

#[tokio::test]
async fn a_work_ends_with_the_word_that_is_meant_for_it_alone() {
    let rig = Rig::start().await;
    let uid = make_work(&rig, "w").await;
    rig.reports.finalize_work(NORTH, "w", &uid, &[]).await.unwrap();
    assert!(rig.get("works", ES, "w").is_some(), "nobody deleted it");
    let key = karmada_schema::object::ObjectKey::new(ES, "w");
    let user = super::write_options::write_options().user;
    rig.registry.delete(&rig.definition("works"), &key, &Default::default(), &user).await.unwrap();
    rig.reports.finalize_work(NORTH, "w", "another life", &[]).await.unwrap();
    assert!(rig.get("works", ES, "w").is_some(), "another Work of this name was meant");
    rig.reports.finalize_work(NORTH, "w", &uid, &[]).await.unwrap();
    assert!(rig.get("works", ES, "w").is_none());
    rig.reports.finalize_work(NORTH, "w", &uid, &[]).await.unwrap();
}

// ----------------------------------------------------------------------------------------- repair

/// How many times the agent is asked to tell its cluster's status.
fn asked(said: &[hub_frame::Body]) -> usize {
    said.iter().filter(|body| matches!(body, hub_frame::Body::Resync(again) if again.cluster)).count()
}

#[tokio::test]
async fn an_agent_is_asked_again_for_what_somebody_edited() {
    let rig = Rig::start().await;
    let mut agent = rig.agent().await;
    let repair = ClusterStatusRepair::new(rig.registry.clone(), rig.gateway.clone());
    rig.reports.cluster_status(NORTH, status("v1.36.1")).await.unwrap();
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done);
    let edited = |cluster: &mut Value| cluster["status"]["kubernetesVersion"] = json!("v9");
    rig.edit("clusters", ("", NORTH), "status", edited).await;
    let first = repair.reconcile(&north()).await.unwrap();
    assert!(matches!(first, Action::RequeueAfter(wait) if wait <= Duration::from_secs(1)), "{first:?}");
    assert_eq!(asked(&agent.hears().await), 0, "a report that is being written looks so, too");
    rig.later(Duration::from_secs(2));
    assert!(matches!(repair.reconcile(&north()).await.unwrap(), Action::RequeueAfter(_)));
    assert_eq!(asked(&agent.hears().await), 1);
    assert!(matches!(repair.reconcile(&north()).await.unwrap(), Action::RequeueAfter(_)));
    assert_eq!(asked(&agent.hears().await), 0, "nobody is asked twice at once");
    rig.reports.cluster_status(NORTH, status("v1.36.1")).await.unwrap();
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done);
}

/// Another process of the hub knows nothing of what was reported before it: it asks nobody for it.
#[tokio::test]
async fn nothing_is_asked_of_who_is_gone_or_said_nothing_yet() {
    let rig = Rig::start().await;
    let repair = ClusterStatusRepair::new(rig.registry.clone(), rig.gateway.clone());
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done, "there is no such Cluster");
    let mut agent = rig.agent().await;
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done);
    rig.reports.cluster_status(NORTH, status("v1.36.1")).await.unwrap();
    let peer = agent.peer.clone();
    drop(agent);
    let edited = |cluster: &mut Value| cluster["status"]["kubernetesVersion"] = json!("v9");
    rig.edit("clusters", ("", NORTH), "status", edited).await;
    rig.later(Duration::from_secs(60));
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done, "nobody is there to say it");
    agent = rig.connect(peer).await;
    assert_eq!(repair.reconcile(&north()).await.unwrap(), Action::Done);
    assert_eq!(asked(&agent.hears().await), 0);
}

#[tokio::test]
async fn a_word_on_orphans_is_carried_to_the_site() {
    let rig = Rig::start().await;
    let mut agent = rig.agent().await;
    let repair = ClusterStatusRepair::new(rig.registry.clone(), rig.gateway.clone());
    make_work(&rig, "placed-since").await;
    let decided = |cluster: &mut Value| {
        cluster["metadata"]["annotations"][annotations::ORPHANS] =
            json!(r#"{"placed-since":"delete","kept":"undecided","stray":"release"}"#);
    };
    rig.edit("clusters", ("", NORTH), "", decided).await;
    agent.hears().await;
    repair.reconcile(&north()).await.unwrap();
    let gone = agent.hears().await.into_iter().filter_map(|body| match body {
        hub_frame::Body::Tombstone(gone) => Some((gone.key, gone.preserve)),
        _ => None,
    });
    let gone: Vec<_> = gone.collect();
    assert_eq!(gone, [("stray".to_owned(), true)], "what is undecided stays, and what the hub holds by now");
    // What was decided was of another: it is not carried out once this Work is gone.
    let left = rig.cluster();
    let left = left["metadata"]["annotations"][annotations::ORPHANS].as_str().unwrap().to_owned();
    assert_eq!(left, r#"{"kept":"undecided","stray":"release"}"#);
}

// ---------------------------------------------------------------------------------- resource models

#[tokio::test]
async fn an_agent_is_told_once_by_which_grades_it_counts() {
    let rig = Rig::start().await;
    let mut agent = rig.agent().await;
    agent.hears().await;
    let models = Models::new(rig.registry.clone(), rig.gateway.clone(), true);
    let told = |said: Vec<hub_frame::Body>| {
        let models = |body| match body {
            hub_frame::Body::Resync(again) if !again.resource_models.is_empty() => {
                Some(again.resource_models)
            }
            _ => None,
        };
        said.into_iter()
            .filter_map(models)
            .map(|json| serde_json::from_slice::<Value>(&json).unwrap())
            .collect()
    };
    let none: Vec<Value> = Vec::new();
    let own = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "9223372036854775807"}]}]);
    let wanted = own.clone();
    let grades = move |cluster: &mut Value| cluster["spec"]["resourceModels"] = wanted.clone();
    rig.edit("clusters", ("", NORTH), "", grades).await;
    models.reconcile(&north()).await.unwrap();
    let first: Vec<Value> = told(agent.hears().await);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0][0]["ranges"], own[0]["ranges"]);
    models.reconcile(&north()).await.unwrap();
    assert_eq!(told(agent.hears().await), none, "it knows them");
    let peer = agent.peer.clone();
    drop(agent);
    models.reconcile(&north()).await.unwrap();
    agent = rig.connect(peer).await;
    models.reconcile(&north()).await.unwrap();
    assert_eq!(told(agent.hears().await), first, "another process counts by the standard again");
    let off = Models::new(rig.registry.clone(), rig.gateway.clone(), false);
    off.reconcile(&north()).await.unwrap();
    assert_eq!(told(agent.hears().await), [json!([])], "grades do not count");
}

// ------------------------------------------------------------------------------------ cluster links

#[tokio::test]
async fn a_link_is_shown_for_each_cluster_and_goes_with_it() {
    let rig = Rig::start().await;
    let shown = rig.registry.definition("edge.karmada.io", "v1alpha1", "clusterlinks").unwrap();
    let links = ClusterLinks::provide(&rig.registry, rig.gateway.fleet(), &shown);
    let user = super::write_options::write_options().user;
    let asked = VirtualRequest { definition: &shown, user: &user, namespace: "", name: NORTH };
    assert_eq!(links.get(&asked).await.unwrap_err().code, 404);
    let agent = rig.agent().await;
    assert_eq!(links.reconcile(&north()).await.unwrap(), Action::Done);
    let link = links.get(&asked).await.unwrap();
    assert_eq!(link.value()["status"]["state"], "Connected");
    let before = links.get(&asked).await.unwrap().revision;
    rig.later(Duration::from_secs(1));
    links.reconcile(&north()).await.unwrap();
    assert_eq!(links.get(&asked).await.unwrap().revision, before, "a heartbeat is no event");
    drop(agent);
    assert!(
        matches!(links.reconcile(&north()).await.unwrap(), Action::RequeueAfter(_)),
        "it may be lost yet"
    );
    assert_eq!(links.get(&asked).await.unwrap().value()["status"]["state"], "Offline");
    rig.later(Duration::from_secs(60));
    assert_eq!(links.reconcile(&north()).await.unwrap(), Action::Done);
    assert_eq!(links.get(&asked).await.unwrap().value()["status"]["state"], "Lost");
    let unmarked = |cluster: &mut Value| cluster["metadata"]["annotations"][keys::KEY] = json!("other");
    rig.edit("clusters", ("", NORTH), "", unmarked).await;
    let key = karmada_schema::object::ObjectKey::new("", NORTH);
    rig.registry.delete(&rig.definition("clusters"), &key, &Default::default(), &user).await.unwrap();
    links.reconcile(&north()).await.unwrap();
    assert_eq!(links.get(&asked).await.unwrap_err().code, 404);
}
