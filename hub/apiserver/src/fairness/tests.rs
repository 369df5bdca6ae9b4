//! Seats as requests meet them: floods, waits, and levels that change.

use futures::FutureExt as _;
use karmada_registry::cache::storage_key;
use karmada_schema::object::{ObjectKey, encode, meta};
use karmada_store::{Expect, MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;

struct World {
    fairness: Arc<Fairness>,
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    _stop: DropGuard,
}

async fn put(store: &dyn Store, object: &Value) -> u64 {
    let kind = object["kind"].as_str().unwrap();
    let plural = format!("{GROUP}/{}s", kind.to_lowercase());
    let key = storage_key(&StorageId(plural.into()), &ObjectKey::new("", meta::name(object)));
    let bytes = encode(object, kind, &format!("{GROUP}/v1"));
    match store.put(&key, bytes.clone(), Expect::Absent).await {
        Err(karmada_store::StoreError::Conflict { current }) => {
            store.put(&key, bytes, Expect::Revision(current.unwrap().mod_revision)).await.unwrap()
        }
        written => written.unwrap(),
    }
}

async fn world(seats: u32) -> World {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for object in karmada_kinds::flow_control::levels().iter().chain(&karmada_kinds::flow_control::schemas())
    {
        put(&*store, object).await;
    }
    let cache = Cache::load(&*store).await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
    World { fairness: Fairness::new(&cache, seats), store, cache, _stop: stop.drop_guard() }
}

fn user(name: &str) -> User {
    User { name: name.into(), groups: vec!["system:authenticated".into()], ..User::default() }
}

fn pods() -> Attributes {
    Attributes {
        verb: "list".into(),
        resource: "pods".into(),
        namespace: "a".into(),
        ..Attributes::default()
    }
}

impl World {
    async fn seat(&self, who: &str) -> Result<Seat, TooMany> {
        self.fairness.seat(&user(who), &pods(), 1).await.1
    }
}

#[tokio::test(start_paused = true)]
async fn a_flooded_level_admits_another_flows_request_next() {
    // 12 seats in all: global-default has one.
    let world = world(12).await;
    let first = world.seat("flood").await.unwrap();
    let mut flood: Vec<_> = (0..1000).map(|_| Box::pin(world.seat("flood"))).collect();
    let mut rejected = 0;
    for one in &mut flood {
        rejected += usize::from(one.as_mut().now_or_never().is_some_and(|outcome| outcome.is_err()));
    }
    assert_eq!(rejected, 1000 - 6 * 50, "six queues of fifty take what they can");
    let _lent = world.seat("other").await.expect("its first request is lent a seat");
    let mut other = Box::pin(world.seat("other"));
    assert!(other.as_mut().now_or_never().is_none(), "with the next it waits like anybody");
    drop(first);
    let seat = other.await.unwrap();
    // The seat is the other's: none of those who came before has it.
    for one in flood.iter_mut().take(50) {
        assert!(one.as_mut().now_or_never().is_none(), "the flood's first come after");
    }
    drop(seat);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_sent_away_and_leaves_no_trace() {
    let world = world(12).await;
    let first = world.seat("a").await.unwrap();
    assert_eq!(world.seat("a").await.unwrap_err(), TooMany);
    let mut gone = Box::pin(world.seat("a"));
    assert!(gone.as_mut().now_or_never().is_none());
    drop(gone);
    drop(first);
    let again = world.seat("c").await.unwrap();
    drop(again);
    let metrics = world.fairness.metrics();
    for line in [
        "apiserver_flowcontrol_rejected_requests_total{priority_level=\"global-default\"} 1",
        "apiserver_flowcontrol_dispatched_requests_total{priority_level=\"global-default\"} 2",
        "apiserver_flowcontrol_current_executing_seats{priority_level=\"global-default\"} 0",
        "apiserver_flowcontrol_current_inqueue_requests{priority_level=\"global-default\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn masters_never_wait_and_new_levels_count_at_once() {
    let world = world(12).await;
    let mut root = user("root");
    root.groups.push("system:masters".into());
    let mut seats = Vec::new();
    for _ in 0..100 {
        seats.push(world.fairness.seat(&root, &pods(), 10).await.1.unwrap());
    }
    let held = world.seat("a").await.unwrap();
    let mut waits = Box::pin(world.seat("a"));
    assert!(waits.as_mut().now_or_never().is_none());
    let mut level = karmada_kinds::flow_control::levels()
        .into_iter()
        .find(|level| meta::name(level) == "global-default")
        .unwrap();
    level["metadata"]["uid"] = json!("u-1");
    level["spec"]["limited"]["nominalConcurrencyShares"] = json!(1000);
    let revision = put(&*world.store, &level).await;
    world.cache.wait_for(revision).await;
    // The next request, whoever's, brings the new limits in.
    let (judged, seat) = world.fairness.seat(&user("b"), &pods(), 1).await;
    assert_eq!(judged.level, "u-1");
    assert!(seat.is_ok() && waits.await.is_ok());
    drop(held);
}
