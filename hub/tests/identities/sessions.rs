//! Sessions: who was deleted, replaced or has ended is cut off within a second, and counts for nothing.

use std::time::Duration;

use karmada_certs::ClientKey;
use karmada_proto::v1::{CloseCode, Credit, Removed, agent_frame, hub_frame};
use serde_json::json;

use crate::world::{HOUR, World, until};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "edge.karmada.io/agent-key";

fn key() -> ClientKey {
    ClientKey::generate().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_clusters_session_ends_and_the_next_owner_is_no_clone() {
    let world = World::start().await;
    let (old, new) = (key(), key());
    let certificate = world.join("north", "u1", &old).await.certificate(&old);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    world.delete_cluster("north").await;
    until("the cluster's end", || world.cluster("north").is_none()).await;
    assert_eq!(session.closed_within(SECOND).await, Some(CloseCode::Unregistered));
    let certificate = world.join("north", "u2", &new).await.certificate(&new);
    let mut next = world.connect(&certificate, "north").await;
    next.welcomed().await;
    assert!(session.renew("north", &old).await.is_err(), "the old stream renews nothing");
    assert_eq!(world.cluster("north").unwrap()["metadata"]["annotations"][KEY], new.fingerprint());
    assert_eq!(next.closed_within(SECOND).await, None, "the rightful one stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_taken_away_ends_its_session() {
    let world = World::start().await;
    let (old, new) = (key(), key());
    let certificate = world.join("north", "u1", &old).await.certificate(&old);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    world.annotate("north", KEY, &new.fingerprint()).await;
    assert_eq!(session.closed_within(SECOND).await, Some(CloseCode::Revoked));
    let next = world.issue("north", &new, HOUR);
    let started = std::time::Instant::now();
    world.connect(&next, "north").await.welcomed().await;
    assert!(started.elapsed() < 2 * SECOND, "whose key no longer holds is not waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_certificate() {
    let world = World::start().await;
    let owner = key();
    world.join("north", "u1", &owner).await.certificate(&owner);
    let short = world.issue("north", &owner, 3 * SECOND);
    let mut session = world.connect(&short, "north").await;
    session.welcomed().await;
    let started = std::time::Instant::now();
    assert_eq!(session.closed_within(6 * SECOND).await, Some(CloseCode::Recycle));
    assert!(started.elapsed() < 4 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_keeps_the_key_before_it_and_a_stale_one_renews_nothing() {
    let world = World::start().await;
    let (first, second, third) = (key(), key(), key());
    let certificate = world.join("north", "u1", &first).await.certificate(&first);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    session.renew("north", &first).await.unwrap();
    session.renew("north", &second).await.unwrap();
    let keys = format!("{},{}", second.fingerprint(), first.fingerprint());
    assert_eq!(world.cluster("north").unwrap()["metadata"]["annotations"][KEY], keys);
    world.annotate("north", KEY, &third.fingerprint()).await;
    assert!(session.renew("north", &first).await.is_err());
    assert_eq!(world.cluster("north").unwrap()["metadata"]["annotations"][KEY], third.fingerprint());
}

/// A cluster is deleted while a Work of it is there. Whoever is connected is asked to remove it and is waited for; for whoever is
/// gone for good nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_deleted_waits_for_its_works_and_not_for_a_site_that_is_gone() {
    let world = World::start().await;
    for answers in [true, false] {
        let owner = key();
        let certificate = world.join("north", &format!("u-{answers}"), &owner).await.certificate(&owner);
        let mut session = world.connect(&certificate, "north").await;
        session.welcomed().await;
        session.say(agent_frame::Body::Credit(Credit { messages: 100, bytes: 1 << 20 })).await;
        world.place("north", "w").await;
        world.delete_cluster("north").await;
        let tombstone = loop {
            match session.next().await.expect("the session stays as long as there is something to remove") {
                hub_frame::Body::Tombstone(tombstone) => break tombstone,
                hub_frame::Body::Close(close) => panic!("{close:?}"),
                _ => {}
            }
        };
        assert_eq!(tombstone.key, "w");
        tokio::time::sleep(2 * SECOND).await;
        assert!(world.cluster("north").is_some(), "it is waited for");
        if answers {
            let uid = tombstone.uid.clone();
            let removed = Removed { key: "w".into(), uid, held: true, ..Removed::default() };
            session.say(agent_frame::Body::Removed(removed)).await;
            until("the cluster's end", || world.cluster("north").is_none()).await;
            assert_eq!(session.closed_within(2 * SECOND).await, Some(CloseCode::Unregistered));
        } else {
            drop(session);
            tokio::time::sleep(SECOND).await;
            assert!(world.cluster("north").is_some(), "a link that breaks is no site that is gone");
            world.pass(600);
            until("the end of a cluster whose site is gone", || world.cluster("north").is_none()).await;
        }
        let namespaces = world.hub.registry.definition("", "v1", "namespaces").unwrap();
        until("the end of its namespace", || {
            world.hub.registry.get(&namespaces, "", "karmada-es-north").is_err()
        })
        .await;
    }
}

/// What nothing acts on is told where kubectl shows it.
#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_acts_on_is_told_in_a_header() {
    let world = World::start().await;
    let mut https = world.https(Some(&world.administrator(HOUR))).await;
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"});
    let policy = |name: &str, more: bool| {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name},
            "spec": {"resourceSelectors": [selector], "association": more}})
    };
    let path = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
    assert_eq!(https.warnings_of_create(path, &policy("plain", false)).await, [""; 0]);
    let told = https.warnings_of_create(path, &policy("more", true)).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("299 - \"") && told[0].contains("spec.association"), "{told:?}");
}

/// What is kept of an agent for the time when it is away: also the end of a certificate that it was given in its session.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_agents_certificate_is_kept_on_its_cluster() {
    let world = World::start().await;
    let owner = key();
    let certificate = world.join("north", "u1", &owner).await.certificate(&owner);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    let note = || {
        let cluster = world.cluster("north").unwrap();
        let text = cluster["metadata"]["annotations"]["edge.karmada.io/agent"].as_str()?.to_owned();
        serde_json::from_str::<serde_json::Value>(&text).ok()
    };
    let ends = || Some(note()?["certificateEnds"].as_str()?.parse::<jiff::Timestamp>().unwrap().as_second());
    until("the note", || ends().is_some()).await;
    let (before, authority) = (ends().unwrap(), note().unwrap()["authority"].clone());
    assert_eq!(authority, world.hub.data.authorities().ends()[0].name);
    const MONTH: i64 = 30 * 24 * 3600;
    world.pass(MONTH);
    session.renew("north", &owner).await.unwrap();
    until("the renewed one's end", || ends().unwrap() >= before + MONTH - 60).await;
    assert_eq!(note().unwrap()["authority"], authority);
}
