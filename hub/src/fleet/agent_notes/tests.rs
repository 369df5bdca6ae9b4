//! The loop over a hub in memory with one agent: what it notes, that it does so once, and what another writer, a full disk or another start
//! of the hub leave of it.

use serde_json::json;

use super::super::testing::{NORTH, Rig};
use super::*;

fn north() -> Key {
    Key { namespace: Arc::from(""), name: Arc::from(NORTH) }
}

fn notes(rig: &Rig) -> Arc<AgentNoteController> {
    AgentNoteController::new(rig.registry.clone(), rig.gateway.fleet().clone())
}

fn version(rig: &Rig) -> u64 {
    rig.get("clusters", "", NORTH).unwrap().revision
}

#[tokio::test]
async fn what_an_agent_shows_is_noted_once_and_outlives_session_and_hub() {
    let mut rig = Rig::start().await;
    assert_eq!(notes(&rig).reconcile(&north()).await.unwrap(), Action::Done, "there is no such Cluster");
    let agent = rig.agent().await;
    assert_eq!(notes(&rig).reconcile(&north()).await.unwrap(), Action::Done);
    let noted = AgentNote::of(&rig.cluster()).unwrap();
    assert_eq!((&noted.authority, noted.certificate_ends), (&agent.peer.issuer, agent.peer.not_after));
    let written = version(&rig);
    notes(&rig).reconcile(&north()).await.unwrap();
    let peer = agent.peer.clone();
    drop(agent);
    rig.restart().await;
    notes(&rig).reconcile(&north()).await.unwrap();
    assert_eq!(AgentNote::of(&rig.cluster()), Some(noted), "nobody is there to say otherwise");
    let _agent = rig.connect(peer).await;
    notes(&rig).reconcile(&north()).await.unwrap();
    assert_eq!(version(&rig), written, "it is the same agent with the same certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_writes_meanwhile_stays() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    rig.meanwhile
        .edited(&rig, "clusters", |cluster| cluster["metadata"]["annotations"]["by"] = json!("hand"));
    notes(&rig).reconcile(&north()).await.unwrap();
    let cluster = rig.cluster();
    assert_eq!(cluster["metadata"]["annotations"]["by"], "hand");
    assert!(AgentNote::of(&cluster).is_some());
}

#[tokio::test]
async fn what_could_not_be_written_is_tried_again() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    rig.disk.is_full(true);
    assert!(notes(&rig).reconcile(&north()).await.is_err());
    assert_eq!(AgentNote::of(&rig.cluster()), None);
    rig.disk.is_full(false);
    notes(&rig).reconcile(&north()).await.unwrap();
    assert!(AgentNote::of(&rig.cluster()).is_some());
}

/// What somebody wrote over it is put right when the agent is heard of again.
#[tokio::test]
async fn a_note_that_is_none_is_written_anew() {
    let rig = Rig::start().await;
    let _agent = rig.agent().await;
    rig.edit("clusters", ("", NORTH), "", |cluster| {
        cluster["metadata"]["annotations"][karmada_api::strings::annotations::AGENT] = json!("somebody's");
    })
    .await;
    notes(&rig).reconcile(&north()).await.unwrap();
    assert!(AgentNote::of(&rig.cluster()).is_some());
}
