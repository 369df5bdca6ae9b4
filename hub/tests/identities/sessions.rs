//! Sessions: who was deleted, replaced or has ended is cut off within a second, and counts for nothing.

use std::time::Duration;

use karmada_certs::ClientKey;
use karmada_proto::v1::CloseCode;

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
