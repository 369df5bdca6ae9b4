//! The guard over a hub in memory: what it carries out, that it does so once, and what another writer, a full disk or a hub that ended
//! between two writes leaves for the next look.

use karmada_gateway::ports::{Batch, RestoreHold, SessionStore};
use karmada_proto::v1::Seen;
use serde_json::json;

use super::super::testing::{NORTH, Rig};
use super::*;

fn north() -> Key {
    Key { namespace: Arc::from(""), name: Arc::from(NORTH) }
}

fn guard(rig: &Rig) -> Arc<SessionGuard> {
    SessionGuard::new(rig.registry.clone(), rig.gateway.clone(), rig.sessions.clone())
}

/// Another key asked, and a person decided for it.
fn adopt(cluster: &mut Value) {
    let asks = json!([{"key": "other", "uid": "u2", "since": "2026-01-01T00:00:00Z"}]);
    cluster["metadata"]["annotations"][keys::REQUESTS] = json!(asks.to_string());
    cluster["metadata"]["annotations"][keys::ADOPT] = json!("other");
}

async fn decide(rig: &Rig) {
    rig.edit("clusters", ("", NORTH), "", adopt).await;
}

fn is_carried_out(rig: &Rig) -> bool {
    let cluster = rig.cluster();
    keys::holds(&cluster, "other") && keys::requests(&cluster).is_empty()
}

fn version(rig: &Rig) -> u64 {
    rig.get("clusters", "", NORTH).unwrap().revision
}

#[tokio::test]
async fn a_decision_is_carried_out_once_and_ends_the_session_of_who_lost_by_it() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    decide(&rig).await;
    let guard = guard(&rig);
    assert_eq!(guard.reconcile(&north()).await.unwrap(), Action::Done);
    assert!(is_carried_out(&rig));
    // Its own write wakes it.
    assert!(rig.gateway.fleet().has_contact(NORTH));
    guard.reconcile(&north()).await.unwrap();
    assert!(!rig.gateway.fleet().has_contact(NORTH), "the key is not the Cluster's any more");
    let written = version(&rig);
    guard.reconcile(&north()).await.unwrap();
    assert_eq!(version(&rig), written, "nothing is left to write");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_writes_meanwhile_stays_and_a_decision_that_was_taken_back_is_none() {
    let rig = Rig::start().await;
    let agent = rig.agent().await;
    decide(&rig).await;
    rig.meanwhile.edited(&rig, "clusters", |cluster| cluster["metadata"]["labels"] = json!({"by": "hand"}));
    guard(&rig).reconcile(&north()).await.unwrap();
    assert!(is_carried_out(&rig));
    assert_eq!(rig.cluster()["metadata"]["labels"]["by"], "hand");

    let key = agent.peer.key_fingerprint.clone();
    rig.edit("clusters", ("", NORTH), "", move |cluster| keys::give(cluster, &[&key])).await;
    decide(&rig).await;
    rig.meanwhile.edited(&rig, "clusters", |cluster| {
        cluster["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::ADOPT);
    });
    guard(&rig).reconcile(&north()).await.unwrap();
    let cluster = rig.cluster();
    assert!(keys::holds(&cluster, &agent.peer.key_fingerprint) && !keys::holds(&cluster, "other"));
    assert_eq!(keys::requests(&cluster).len(), 1, "it asks on");
}

#[tokio::test]
async fn a_decision_that_could_not_be_written_is_carried_out_by_the_hub_that_comes_after() {
    let mut rig = Rig::start().await;
    let _agent = rig.agent().await;
    decide(&rig).await;
    rig.disk.is_full(true);
    assert!(guard(&rig).reconcile(&north()).await.is_err());
    assert!(!is_carried_out(&rig) && rig.gateway.fleet().has_contact(NORTH));
    rig.restart().await;
    assert!(guard(&rig).reconcile(&north()).await.is_err(), "the disk is full still");
    rig.disk.is_full(false);
    guard(&rig).reconcile(&north()).await.unwrap();
    assert!(is_carried_out(&rig));
}

#[tokio::test]
async fn a_hub_that_ended_while_it_forgot_a_cluster_forgets_the_rest_when_it_is_back() {
    let mut rig = Rig::start().await;
    rig.sessions.next_session(NORTH).await.unwrap();
    let batch = Batch { epoch: 4, revision: 1, timeline: 1 };
    let held = RestoreHold { batch, lives: vec![Seen { timeline: 9, revision: 5 }] };
    rig.sessions.set_restore_hold(NORTH, &held).await.unwrap();
    // So far it came.
    let number = rig.store.get("/fleet/sessions/north").await.unwrap().unwrap();
    rig.store.delete(&number.key, number.mod_revision).await.unwrap();
    rig.restart().await;
    for _ in 0..2 {
        assert_eq!(guard(&rig).reconcile(&north()).await.unwrap(), Action::Done);
        assert_eq!(rig.sessions.restore_hold(NORTH).await.unwrap(), None);
    }
    let kept = rig.store.list("/fleet/", None, 0).await.unwrap().items;
    assert_eq!(kept.iter().map(|item| &*item.key).collect::<Vec<_>>(), ["/fleet/starts"]);
}
