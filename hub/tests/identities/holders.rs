//! What who shows a certificate of the hub's can take of the port: for a join no more than who shows none, and of streams what an
//! agent needs.

use std::time::{Duration, Instant};

use karmada_certs::{ClientKey, KeyedCertificate};

use crate::strangers::{
    DEADLINE, EXHAUSTED, Sender, TOO_LARGE, connection_of, status, unfinished, unfinished_call,
};
use crate::world::{HOUR, World, until};

const SECOND: Duration = Duration::from_secs(1);

async fn agent(world: &World, cluster: &str) -> KeyedCertificate {
    let key = ClientKey::generate().unwrap();
    world.join(cluster, &format!("u-{cluster}"), &key).await.certificate(&key)
}

/// How so many unfinished joins of one connection end.
async fn flood(sender: &Sender, calls: usize) -> Vec<String> {
    let one = |mut sender: Sender| async move { status(&mut sender, unfinished(60_000, 1_000)).await };
    let all: Vec<_> = (0..calls).map(|_| tokio::spawn(one(sender.clone()))).collect();
    let mut codes = Vec::new();
    for one in all {
        codes.push(one.await.unwrap());
    }
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_opens_no_more_of_a_join_than_none() {
    let world = World::start().await;
    let gone = agent(&world, "gone").await;
    world.delete_cluster("gone").await;
    for identity in [agent(&world, "north").await, gone, world.administrator(HOUR)] {
        let mut sender = connection_of(&world, 1, Some(&identity)).await;
        let join = tokio::time::timeout(5 * SECOND, status(&mut sender, unfinished(4_000_000, 0)));
        assert_eq!(join.await.as_deref(), Ok(TOO_LARGE), "refused by what it announces");
    }
    let person = connection_of(&world, 1, Some(&world.administrator(HOUR))).await;
    let started = Instant::now();
    let codes = flood(&person, 30).await;
    let count = |code: &str| codes.iter().filter(|one| *one == code).count();
    assert_eq!((count(DEADLINE), count(EXHAUSTED)), (4, 26), "{codes:?}");
    assert!(started.elapsed() < 14 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_a_short_message() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    let mut sender = connection_of(&world, 1, Some(&north)).await;
    let started = Instant::now();
    let code = status(&mut sender, unfinished_call("Connect", 4_000_000, 1_000)).await;
    assert_eq!(code, "0", "the stream says why in a frame, and ends");
    assert!(started.elapsed() < 5 * SECOND, "nothing more is waited for: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_key_has_few_sessions_and_few_connections() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    let streams = connection_of(&world, 1, Some(&north)).await;
    let started = Instant::now();
    let hello = |mut sender: Sender| async move {
        status(&mut sender, unfinished_call("Connect", 60_000, 1_000)).await;
        started.elapsed().as_secs()
    };
    let all: Vec<_> = (0..12).map(|_| tokio::spawn(hello(streams.clone()))).collect();
    let mut ends = Vec::new();
    for one in all {
        ends.push(one.await.unwrap());
    }
    // Those beyond are refused at once.
    let (waited, refused) = (|end: &&u64| (5..15).contains(*end), |end: &&u64| **end < 5);
    let counts = (ends.iter().filter(waited).count(), ends.iter().filter(refused).count());
    assert_eq!(counts, (8, 4), "each is waited for ten seconds, eight at a time: {ends:?}");
    drop(streams);
    let mut session = world.connect(&agent(&world, "south").await, "south").await;
    session.welcomed().await;
    let mut connections = Vec::new();
    for _ in 0..6 {
        connections.push(connection_of(&world, 1, Some(&north)).await);
        tokio::time::sleep(SECOND / 5).await;
    }
    until("the oldest go", || connections.iter().filter(|one| one.is_closed()).count() == 2).await;
    assert!(connections[0].is_closed() && connections[1].is_closed());
    assert_eq!(session.closed_within(SECOND).await, None, "another key's is not concerned");
}
