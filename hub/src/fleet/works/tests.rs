//! Works over a registry in memory: who is woken by a write, and what a feed tells.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::fleet::write_options::write_options;
use crate::registry_in_memory::{RegistryInMemory, standing_clock};

/// A session that is not polled before it is woken, and counts how often that is.
#[derive(Default)]
struct Sleeper(AtomicUsize);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Rig {
    registry: Arc<Registry>,
    works: CachedWorks,
    _stop: DropGuard,
}

impl Rig {
    async fn start() -> Rig {
        let RegistryInMemory { registry, stop, .. } =
            RegistryInMemory::start(Vec::new(), standing_clock()).await;
        let registry = Arc::new(registry);
        let works = CachedWorks::start(registry.clone(), &TaskTracker::new(), stop.clone());
        Rig { registry, works, _stop: stop.drop_guard() }
    }

    async fn write(&self, cluster: &str, name: &str) -> u64 {
        let works = self.registry.definition("work.karmada.io", "v1alpha1", "works").unwrap();
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": name},
            "spec": {"workload": {"manifests": []}}});
        let namespace = execution_namespace(cluster);
        let written = self.registry.create(&works, &namespace, work, &write_options()).await.unwrap();
        written.object.revision
    }

    async fn change(&self, cluster: &str, name: &str, to: u64) -> u64 {
        let works = self.registry.definition("work.karmada.io", "v1alpha1", "works").unwrap();
        let key = ObjectKey::new(&execution_namespace(cluster), name);
        let mut change = |work: Option<&Value>| {
            let mut work = work.cloned().unwrap_or_default();
            work["spec"]["workload"]["manifests"] = json!([{"apiVersion": "v1", "kind": "A", "value": to}]);
            Ok(work)
        };
        let written = self.registry.update(&works, &key, &write_options(), &mut change).await.unwrap();
        written.object.revision
    }
}

/// Each change comes with the Work before it; of changes that were not read, the last one with the Work before the first.
#[tokio::test(start_paused = true)]
async fn a_change_comes_with_what_was_before_all_that_it_stands_for() {
    let rig = Rig::start().await;
    let sleeper = Arc::new(Sleeper::default());
    let formers = |told: Vec<WorkEvent>| -> Vec<Option<u64>> {
        let former = |event| match event {
            WorkEvent::Upsert(work) => Some(work.former.map(|former| former.revision)),
            _ => None,
        };
        told.into_iter().filter_map(former).collect()
    };
    let first = rig.write("north", "a").await;
    settle().await;
    let mut feed = rig.works.watch("north", None).await.unwrap();
    assert_eq!(formers(said(&mut feed, &sleeper)), [None], "what is listed is as it is");
    let second = rig.change("north", "a", 1).await;
    settle().await;
    assert_eq!(formers(said(&mut feed, &sleeper)), [Some(first)]);
    for at in 2..5 {
        rig.change("north", "a", at).await;
    }
    settle().await;
    assert_eq!(formers(said(&mut feed, &sleeper)), [Some(second)], "three changes that waited are one");
    let mut resumed = rig.works.watch("north", Some(first)).await.unwrap();
    let told = formers(said(&mut resumed, &sleeper));
    assert_eq!(
        (told[0], told[1], told.len()),
        (Some(first), Some(second), 4),
        "what history keeps is told one by one"
    );
}

/// What the feed has to say at this moment.
fn said(feed: &mut WorkFeed, sleeper: &Arc<Sleeper>) -> Vec<WorkEvent> {
    let waker = Waker::from(sleeper.clone());
    let mut cx = Context::from_waker(&waker);
    let mut all = Vec::new();
    while let Poll::Ready(Some(event)) = feed.events.poll_next_unpin(&mut cx) {
        all.push(event);
    }
    all
}

async fn settle() {
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How many sessions `writes` writes of Works of one cluster wake, where so many are connected.
async fn woken(clusters: usize, writes: usize) -> usize {
    let rig = Rig::start().await;
    let mut feeds = Vec::new();
    for cluster in 0..clusters {
        let mut feed = rig.works.watch(&format!("c{cluster}"), None).await.unwrap();
        let sleeper = Arc::new(Sleeper::default());
        assert_eq!(said(&mut feed, &sleeper).len(), 1, "the end of an empty listing");
        feeds.push((feed, sleeper));
    }
    for write in 0..writes {
        let revision = rig.write("c3", &format!("w{write}")).await;
        settle().await;
        let (feed, sleeper) = &mut feeds[3];
        let told = said(feed, sleeper);
        assert!(matches!(&told[..], [WorkEvent::Upsert(work)] if work.revision == revision), "{told:?}");
    }
    let woken: BTreeMap<usize, usize> =
        feeds.iter().enumerate().map(|(at, (_, sleeper))| (at, sleeper.0.load(Ordering::SeqCst))).collect();
    assert_eq!(woken[&3], writes, "its own is woken once by each");
    woken.values().sum()
}

#[tokio::test(start_paused = true)]
async fn a_write_wakes_the_session_of_its_cluster_and_no_other_however_many_there_are() {
    let few = woken(10, 5).await;
    assert_eq!((few, woken(1000, 5).await), (5, 5));
}

/// A session that comes later, one that was cut and one that was passed by are told what they lack, once.
#[tokio::test(start_paused = true)]
async fn a_session_goes_on_where_another_ended() {
    let rig = Rig::start().await;
    let sleeper = Arc::new(Sleeper::default());
    let first = rig.write("north", "a").await;
    rig.write("south", "x").await;
    let mut feed = rig.works.watch("north", None).await.unwrap();
    let told = said(&mut feed, &sleeper);
    assert!(
        matches!(&told[..], [WorkEvent::Upsert(work), WorkEvent::Synced { .. }] if work.revision == first)
    );
    drop(feed);
    let second = rig.write("north", "b").await;
    settle().await;
    let mut feed = rig.works.watch("north", Some(first)).await.unwrap();
    assert!(!feed.full_listing);
    let third = rig.write("north", "c").await;
    settle().await;
    let revisions = |told: Vec<WorkEvent>| -> Vec<u64> {
        let work = |event| match event {
            WorkEvent::Upsert(work) => work.revision,
            other => panic!("{other:?}"),
        };
        told.into_iter().map(work).collect()
    };
    assert_eq!(revisions(said(&mut feed, &sleeper)), [second, third]);
    for round in 0..MOST + 10 {
        rig.write("north", &format!("more{round}")).await;
        if round % 100 == 0 {
            settle().await;
        }
    }
    settle().await;
    let waker = Waker::from(sleeper.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(matches!(feed.events.poll_next_unpin(&mut cx), Poll::Ready(None)), "it is told to begin anew");
    let mut feed = rig.works.watch("north", Some(third)).await.unwrap();
    assert!(feed.full_listing, "history does not reach so far");
    assert_eq!(said(&mut feed, &sleeper).len(), MOST + 10 + 3 + 1);
}

#[test]
fn a_work_is_of_an_earlier_cluster_by_hours_that_have_passed() {
    let work = json!({"metadata": {"deletionTimestamp": "2026-03-01T00:00:00Z"}});
    for (joined, earlier) in
        [("2026-02-01T00:00:00Z", false), ("2026-03-02T00:00:00Z", true), ("2026-05-01T00:00:00Z", false)]
    {
        assert_eq!(is_of_earlier(&work, joined, "2026-04-01T00:00:00Z"), earlier, "{joined}");
    }
    assert!(!is_of_earlier(&json!({}), "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z"));
}
