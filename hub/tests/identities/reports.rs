//! What a site's word makes of its Cluster and of its Works: room for people stays, and an outcome is of one body.

use std::time::Duration;

use karmada_certs::ClientKey;
use karmada_proto::v1::{Applied, Credit, Orphans, Removed, Upsert, WorkStatus, agent_frame, hub_frame};
use serde_json::Value;

use crate::world::{Session, World, until};

const ORPHANS: &str = "edge.karmada.io/orphans";

async fn connected(world: &World) -> Session {
    let key = ClientKey::generate().unwrap();
    let certificate = world.join("north", "u1", &key).await.certificate(&key);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    session.say(agent_frame::Body::Credit(Credit { messages: 100, bytes: 1 << 20 })).await;
    session
}

/// Bytes of a Cluster's annotations, of which Kubernetes allows 256 KiB.
fn annotated(world: &World) -> usize {
    let cluster = world.cluster("north").unwrap();
    let all = cluster["metadata"]["annotations"].as_object().unwrap();
    all.iter().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_leave_room_on_a_cluster_for_what_people_decide() {
    let world = World::start().await;
    let session = connected(&world).await;
    for tens in 0..10 {
        let keys = (0..100).map(|at| format!("{tens}{at:02}{}", "x".repeat(243))).collect();
        session.say(agent_frame::Body::Orphans(Orphans { keys })).await;
    }
    let listed = || world.cluster("north").unwrap()["metadata"]["annotations"][ORPHANS].is_string();
    until("the orphans", listed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(annotated(&world) < 40 << 10, "{} bytes", annotated(&world));
    let told = world.events("north", "OrphansFound");
    let said = told.iter().any(|event| event["message"].as_str().unwrap().contains("more are not listed"));
    assert!(said, "{told:?}");
    world.annotate("north", "note", &"y".repeat(200 << 10)).await;
}

/// It was given for an orphan; a Work of that name came, and went as Works go. What is found under the name later is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_on_an_orphan_ends_with_a_work_of_its_name() {
    let world = World::start().await;
    let mut session = connected(&world).await;
    world.place("north", "w").await;
    let upsert = loop {
        if let hub_frame::Body::Upsert(upsert) = session.next().await.expect("the Work is sent") {
            break upsert;
        }
    };
    world.annotate("north", ORPHANS, r#"{"other":"delete","w":"delete"}"#).await;
    world.delete_work("north", "w").await;
    let removed = Removed {
        key: "w".into(),
        uid: upsert.uid.clone(),
        revision: upsert.revision,
        held: true,
        ..Removed::default()
    };
    session.say(agent_frame::Body::Removed(removed)).await;
    let words = || world.cluster("north").unwrap()["metadata"]["annotations"][ORPHANS].clone();
    until("the end of the word", || words() == r#"{"other":"delete"}"#).await;
}

fn applied(upsert: &Upsert, hash: &[u8]) -> agent_frame::Body {
    agent_frame::Body::WorkStatus(WorkStatus {
        key: upsert.key.clone(),
        uid: upsert.uid.clone(),
        revision: upsert.revision,
        generation: upsert.generation,
        hash: hash.to_vec().into(),
        applied: Some(Applied { ok: true, reason: "AppliedSuccessful".into(), ..Applied::default() }),
        ..WorkStatus::default()
    })
}

/// A generation is a number: another life of the hub gave the same one to other content.
#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_another_body_is_no_outcome_of_this_one() {
    let world = World::start().await;
    let mut session = connected(&world).await;
    world.place("north", "w").await;
    let upsert = loop {
        let body = session.next().await.expect("the Work is sent");
        if let hub_frame::Body::Upsert(upsert) = body {
            break upsert;
        }
    };
    let conditions = || world.work("north", "w")["status"]["conditions"].clone();
    session.say(applied(&upsert, b"of another body.")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(conditions(), Value::Null, "generation {}", upsert.generation);
    session.say(applied(&upsert, &upsert.hash)).await;
    until("the outcome", || conditions()[0]["status"] == "True").await;
    assert_eq!(conditions()[0]["observedGeneration"], upsert.generation);
}
