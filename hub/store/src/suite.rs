//! What every backend promises, as tests: [`store_suite!`](crate::store_suite) makes one `#[tokio::test]` of
//! each function here. In: a way to make an empty store. Out: a panic where a promise is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Event, Expect, KeyValue, Page, Revision, Store, StoreError, Watch, WatchError};

/// Makes an empty store.
pub trait Make: Fn() -> Arc<dyn Store> + Sync {}
impl<F: Fn() -> Arc<dyn Store> + Sync> Make for F {}

/// Runs the suite over the stores that `$make` makes: an expression evaluated once per test, to a
/// `Fn() -> Arc<dyn Store>`.
#[macro_export]
macro_rules! store_suite {
    ($make:expr) => {
        $crate::store_suite!(@tests $make;
            expectations_hold_or_nothing_is_written
            revisions_rise_and_keys_remember_their_creation
            concurrent_writers_lose_no_update
            a_list_and_the_events_after_it_make_the_next_list
            any_sequence_of_writes_does_what_a_map_would
            watches_see_each_event_once_in_order
            a_watch_resumes_from_any_revision
            prefixes_end_where_they_should
            pages_follow_one_another
            large_and_empty_values_come_back
            compaction_forgets_events_and_keeps_keys
            a_watcher_overtaken_by_compaction_is_told
            the_epoch_only_rises
            a_closed_store_says_so
        );
    };
    (@tests $make:expr; $($name:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let make = $make;
                $crate::suite::$name(&make).await;
            }
        )+
    };
}

/// How long anything here may take before it counts as never happening.
const PATIENCE: Duration = Duration::from_secs(30);

fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

async fn put(store: &dyn Store, key: &str, value: &str, expect: Expect) -> Revision {
    store.put(key, bytes(value), expect).await.expect("the put is as expected")
}

/// What a refused write found instead.
fn conflict<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Option<KeyValue> {
    match answer {
        Err(StoreError::Conflict { current }) => current,
        other => panic!("not a conflict: {other:?}"),
    }
}

async fn next(watch: &mut Watch) -> Result<Arc<[Event]>, WatchError> {
    let next = tokio::time::timeout(PATIENCE, watch.next()).await;
    next.expect("a batch comes in time").expect("not asked after the end")
}

/// Events up to and including `last`.
async fn events_through(watch: &mut Watch, last: Revision) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.revision() < last) {
        let batch = next(watch).await.expect("the watch goes on");
        assert!(!batch.is_empty(), "an empty batch says nothing");
        events.extend(batch.iter().cloned());
    }
    events
}

async fn list_all(store: &dyn Store, prefix: &str) -> Page {
    store.list(prefix, None, 0).await.expect("the list is read")
}

fn by_key(page: &Page) -> BTreeMap<Arc<str>, KeyValue> {
    page.items.iter().map(|item| (item.key.clone(), item.clone())).collect()
}

fn apply(state: &mut BTreeMap<Arc<str>, KeyValue>, event: &Event) {
    match event {
        Event::Put { current, previous } => {
            let before = state.insert(current.key.clone(), current.clone());
            assert_eq!(before.map(|kv| kv.value), *previous, "the event tells the value before");
        }
        Event::Delete { key, previous, .. } => {
            let before = state.remove(key).expect("only what is there is removed");
            assert_eq!(before.value, *previous, "the event tells the value before");
        }
    }
}

/// Numbers that are the same at every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The table of expectations: absent or at a revision, against missing, present and changed keys.
pub async fn expectations_hold_or_nothing_is_written(make: &impl Make) {
    let store = make();
    assert_eq!(conflict(store.put("/a", bytes("x"), Expect::Revision(1)).await), None);
    assert_eq!(conflict(store.delete("/a", 1).await), None);
    let first = put(&*store, "/a", "1", Expect::Absent).await;
    let there = store.get("/a").await.expect("read").expect("written");
    assert_eq!(
        there,
        KeyValue { key: "/a".into(), value: bytes("1"), create_revision: first, mod_revision: first }
    );
    for expect in [Expect::Absent, Expect::Revision(0), Expect::Revision(first + 1)] {
        assert_eq!(conflict(store.put("/a", bytes("x"), expect).await), Some(there.clone()), "{expect:?}");
    }
    assert_eq!(conflict(store.delete("/a", first + 1).await), Some(there.clone()));
    assert_eq!(store.revision(), first, "refused writes take no revision");
    let second = put(&*store, "/a", "2", Expect::Revision(first)).await;
    let found =
        conflict(store.put("/a", bytes("x"), Expect::Revision(first)).await).expect("the present value");
    assert_eq!((found.value, found.mod_revision), (bytes("2"), second));
    store.delete("/a", second).await.expect("removed");
    assert_eq!(store.get("/a").await.expect("read"), None);
    assert_eq!(conflict(store.delete("/a", second).await), None);
}

/// Revisions rise with every write; an update keeps the creation, a new life of a key has a new one.
pub async fn revisions_rise_and_keys_remember_their_creation(make: &impl Make) {
    let store = make();
    assert_eq!((store.revision(), list_all(&*store, "").await.revision), (0, 0));
    let created = put(&*store, "/a", "1", Expect::Absent).await;
    let updated = put(&*store, "/a", "2", Expect::Revision(created)).await;
    let other = put(&*store, "/b", "1", Expect::Absent).await;
    let deleted = store.delete("/a", updated).await.expect("removed");
    let again = put(&*store, "/a", "3", Expect::Absent).await;
    let revisions = [0, created, updated, other, deleted, again];
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
    assert_eq!(store.revision(), again);
    let list = by_key(&list_all(&*store, "").await);
    assert_eq!((list["/a"].create_revision, list["/a"].mod_revision), (again, again));
    assert_eq!((list["/b"].create_revision, list["/b"].mod_revision), (other, other));
}

/// Many writers add to few numbers by compare-and-swap: every addition is in the end, no revision is given
/// out twice, and each writer sees its own rise.
pub async fn concurrent_writers_lose_no_update(make: &impl Make) {
    const WRITERS: u64 = 16;
    const ADDITIONS: u64 = 25;
    let store = make();
    for key in 0..3 {
        put(&*store, &format!("/sum/{key}"), "0", Expect::Absent).await;
    }
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for addition in 0..ADDITIONS {
                revisions.push(add_one(&*store, &format!("/sum/{}", (writer + addition) % 3)).await);
            }
            revisions
        })
    });
    let mut seen = BTreeSet::new();
    for writer in futures::future::join_all(writers).await {
        let revisions = writer.expect("the writer ran to its end");
        assert!(revisions.is_sorted_by(|a, b| a < b), "a later write has a later revision: {revisions:?}");
        for revision in revisions {
            assert!(seen.insert(revision), "revision {revision} was given out twice");
        }
    }
    let number = |kv: &KeyValue| String::from_utf8_lossy(&kv.value).parse::<u64>().expect("a number");
    let page = list_all(&*store, "/sum/").await;
    assert_eq!(page.items.iter().map(number).sum::<u64>(), WRITERS * ADDITIONS);
    assert_eq!(store.revision(), 3 + WRITERS * ADDITIONS);
}

async fn add_one(store: &dyn Store, key: &str) -> Revision {
    let mut current = store.get(key).await.expect("read").expect("there");
    loop {
        let sum = String::from_utf8_lossy(&current.value).parse::<u64>().expect("a number") + 1;
        match store.put(key, bytes(sum.to_string()), Expect::Revision(current.mod_revision)).await {
            Ok(revision) => return revision,
            refused => current = conflict(refused).expect("never deleted"),
        }
    }
}

/// List at R plus the events in (R, R'] is the list at R', for lists taken while others write.
pub async fn a_list_and_the_events_after_it_make_the_next_list(make: &impl Make) {
    let store = make();
    let writers: Vec<_> = (0..4).map(|seed| tokio::spawn(scribble(store.clone(), seed, 150))).collect();
    let mut lists = Vec::new();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        let page = list_all(&*store, "/s/").await;
        let watch = store.watch("/s/", page.revision).expect("a listed revision can be watched from");
        lists.push((page, watch));
        tokio::task::yield_now().await;
        if lists.len() > 40 {
            break;
        }
    }
    for writer in writers {
        writer.await.expect("the writer ran to its end");
    }
    // A write to wait for, so that every watch has an end.
    let last = put(&*store, "/s/last", "", Expect::Absent).await;
    let end = list_all(&*store, "/s/").await;
    assert_eq!(end.revision, last);
    assert!(!lists.is_empty(), "lists were taken");
    for (page, mut watch) in lists {
        let mut state = by_key(&page);
        assert!(state.values().all(|kv| kv.mod_revision <= page.revision), "a list shows its own revision");
        for event in events_through(&mut watch, last).await {
            assert!(event.revision() > page.revision);
            apply(&mut state, &event);
        }
        assert_eq!(state, by_key(&end), "from revision {}", page.revision);
    }
}

/// Random writes on few keys, racing with others: conflicts are part of the game.
async fn scribble(store: Arc<dyn Store>, seed: u64, writes: u64) {
    let mut dice = Dice(seed);
    for n in 0..writes {
        let key = format!("/s/{}", dice.roll(12));
        let current = store.get(&key).await.expect("read");
        let answer = match current {
            Some(kv) if dice.roll(4) == 0 => store.delete(&key, kv.mod_revision).await,
            Some(kv) => {
                store.put(&key, bytes(format!("{seed}/{n}")), Expect::Revision(kv.mod_revision)).await
            }
            None => store.put(&key, bytes(format!("{seed}/{n}")), Expect::Absent).await,
        };
        if !matches!(answer, Ok(_) | Err(StoreError::Conflict { .. })) {
            panic!("neither written nor refused: {answer:?}");
        }
    }
}

/// One writer, random operations with right and wrong expectations, against a map.
pub async fn any_sequence_of_writes_does_what_a_map_would(make: &impl Make) {
    for seed in 0..4 {
        let (store, mut dice) = (make(), Dice(seed));
        let mut model: BTreeMap<String, KeyValue> = BTreeMap::new();
        let mut head = 0;
        for n in 0..150 {
            let key = format!("/m/{}", dice.roll(5));
            let there = model.get(&key).cloned();
            let right = there.as_ref().map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
            let expect = match dice.roll(4) {
                0 => Expect::Absent,
                1 => Expect::Revision(dice.roll(head + 2)),
                _ => right,
            };
            let value = bytes(format!("{n}"));
            let answer = match expect {
                Expect::Revision(revision) if dice.roll(3) == 0 => {
                    let answer = store.delete(&key, revision).await;
                    if expect == right {
                        model.remove(&key);
                    }
                    answer
                }
                _ => {
                    if expect == right {
                        let (key, revision): (Arc<str>, _) = (key.as_str().into(), head + 1);
                        let create_revision = there.as_ref().map_or(revision, |kv| kv.create_revision);
                        let kv =
                            KeyValue { key, value: value.clone(), create_revision, mod_revision: revision };
                        model.insert(kv.key.to_string(), kv);
                    }
                    store.put(&key, value, expect).await
                }
            };
            if expect == right {
                head += 1;
                assert_eq!(answer.ok(), Some(head), "seed {seed}, operation {n}");
            } else {
                assert_eq!(conflict(answer), there, "seed {seed}, operation {n}");
            }
        }
        let page = list_all(&*store, "").await;
        assert_eq!((page.revision, store.revision()), (head, head));
        assert_eq!(page.items, model.into_values().collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Only the prefix's events, in order, once, with the values before; several watchers see the same.
pub async fn watches_see_each_event_once_in_order(make: &impl Make) {
    let store = make();
    let mut watches: Vec<_> = (0..3).map(|_| store.watch("/w/", 0).expect("from the beginning")).collect();
    let mut other = store.watch("/other/", 0).expect("from the beginning");
    let created = put(&*store, "/w/a", "1", Expect::Absent).await;
    put(&*store, "/x", "1", Expect::Absent).await;
    let updated = put(&*store, "/w/a", "2", Expect::Revision(created)).await;
    let elsewhere = put(&*store, "/other/a", "1", Expect::Absent).await;
    let deleted = store.delete("/w/a", updated).await.expect("removed");
    let key: Arc<str> = "/w/a".into();
    let put_event = |value: &str, revision, previous: Option<&str>| Event::Put {
        current: KeyValue {
            key: key.clone(),
            value: bytes(value),
            create_revision: created,
            mod_revision: revision,
        },
        previous: previous.map(bytes),
    };
    let expected = vec![
        put_event("1", created, None),
        put_event("2", updated, Some("1")),
        Event::Delete { key: key.clone(), revision: deleted, previous: bytes("2") },
    ];
    for watch in &mut watches {
        assert_eq!(events_through(watch, deleted).await, expected);
    }
    let seen = events_through(&mut other, elsewhere).await;
    assert_eq!(seen.iter().map(Event::revision).collect::<Vec<_>>(), [elsewhere]);
}

/// A watch from R sees exactly what came after R, for every R; ahead of the store it is refused.
pub async fn a_watch_resumes_from_any_revision(make: &impl Make) {
    let store = make();
    let mut revision = put(&*store, "/r", "0", Expect::Absent).await;
    for n in 1..20 {
        revision = put(&*store, "/r", &n.to_string(), Expect::Revision(revision)).await;
    }
    for after in 0..revision {
        let mut watch = store.watch("/r", after).expect("kept");
        let seen = events_through(&mut watch, revision).await;
        let revisions: Vec<_> = seen.iter().map(Event::revision).collect();
        assert_eq!(revisions, (after + 1..=revision).collect::<Vec<_>>());
    }
    match store.watch("/r", revision + 1) {
        Err(StoreError::Future { asked, current }) => assert_eq!((asked, current), (revision + 1, revision)),
        other => panic!("watched from the future: {other:?}"),
    }
    let mut watch = store.watch("/r", revision).expect("the present");
    let next = put(&*store, "/r", "next", Expect::Revision(revision)).await;
    assert_eq!(events_through(&mut watch, next).await.len(), 1);
}

/// Keys beside a prefix are not of it, whatever bytes come next.
pub async fn prefixes_end_where_they_should(make: &impl Make) {
    let store = make();
    let keys =
        ["/a", "/a/", "/a/b", "/a/b/c", "/a/\u{7f}", "/a/é", "/a/\u{10ffff}", "/a0", "/a.", "/ab", "/b/a"];
    let mut watch = store.watch("/a/", 0).expect("from the beginning");
    for key in keys {
        put(&*store, key, key, Expect::Absent).await;
    }
    for prefix in ["", "/", "/a", "/a/", "/a/b", "/a/b/", "/a/\u{10ffff}", "/ab", "/c", "/a/é"] {
        let mut expected: Vec<_> = keys.into_iter().filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        let page = list_all(&*store, prefix).await;
        assert_eq!(page.items.iter().map(|kv| &*kv.key).collect::<Vec<_>>(), expected, "{prefix:?}");
        assert!(!page.more);
    }
    let last = put(&*store, "/a/z", "", Expect::Absent).await;
    let seen = events_through(&mut watch, last).await;
    assert_eq!(seen.len(), 7, "six keys of the prefix and the last one: {seen:?}");
}

/// Pages of any size, put together, are the list; `more` is true on all but the last.
pub async fn pages_follow_one_another(make: &impl Make) {
    let store = make();
    for n in 0..10 {
        put(&*store, &format!("/p/{n}"), "", Expect::Absent).await;
    }
    put(&*store, "/q", "", Expect::Absent).await;
    let whole = list_all(&*store, "/p/").await;
    for limit in 1..=11 {
        let (mut items, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = store.list("/p/", after.as_deref(), limit).await.expect("read");
            assert!(page.items.len() <= limit);
            items.extend(page.items);
            assert_eq!(page.more, items.len() < 10, "limit {limit}");
            after = items.last().map(|kv: &KeyValue| kv.key.to_string());
            if !page.more {
                break;
            }
        }
        assert_eq!(items, whole.items, "limit {limit}");
    }
    for (after, expected) in
        [("", 10), ("/a", 10), ("/p/", 10), ("/p/4", 5), ("/p/45", 5), ("/p/9", 0), ("/z", 0)]
    {
        let page = store.list("/p/", Some(after), 0).await.expect("read");
        assert_eq!(page.items.len(), expected, "after {after:?}");
    }
}

/// Values from nothing to 1.5 MB, byte for byte, in gets, lists and events.
pub async fn large_and_empty_values_come_back(make: &impl Make) {
    let store = make();
    let mut watch = store.watch("", 0).expect("from the beginning");
    let mut last = 0;
    for size in [0, 1, 8191, 8192, 100_000, 1_500_000] {
        let value: Bytes = (0..size).map(|n| (n % 251) as u8).collect();
        let key = format!("/{size}");
        last = store.put(&key, value.clone(), Expect::Absent).await.expect("written");
        assert_eq!(store.get(&key).await.expect("read").expect("there").value, value);
        let events = events_through(&mut watch, last).await;
        assert!(matches!(&events[..], [Event::Put { current, .. }] if current.value == value), "size {size}");
    }
    assert_eq!(list_all(&*store, "").await.items.iter().map(|kv| kv.value.len()).sum::<usize>(), 1_616_384);
    // An empty value is a value: updating it tells so.
    let empty = store.get("/0").await.expect("read").expect("there");
    last = last.max(put(&*store, "/0", "x", Expect::Revision(empty.mod_revision)).await);
    let events = events_through(&mut watch, last).await;
    assert!(matches!(&events[..], [Event::Put { previous: Some(previous), .. }] if previous.is_empty()));
}

/// Compaction takes old events and nothing else; the revision does not fall, even if all keys are gone.
pub async fn compaction_forgets_events_and_keeps_keys(make: &impl Make) {
    let store = make();
    let a = put(&*store, "/a", "1", Expect::Absent).await;
    let b = put(&*store, "/b", "1", Expect::Absent).await;
    let a2 = put(&*store, "/a", "2", Expect::Revision(a)).await;
    store.compact(b).await.expect("compacted");
    assert_eq!(store.oldest(), b);
    for after in [0, a] {
        match store.watch("", after) {
            Err(StoreError::Compacted { asked, oldest }) => assert_eq!((asked, oldest), (after, b)),
            other => panic!("watched from a compacted revision: {other:?}"),
        }
    }
    let mut watch = store.watch("", b).expect("the compacted revision itself can be watched from");
    let events = events_through(&mut watch, a2).await;
    assert!(matches!(&events[..], [Event::Put { previous: Some(previous), .. }] if *previous == bytes("1")));
    assert_eq!(list_all(&*store, "").await.items.len(), 2, "live keys stay");
    store.compact(a).await.expect("compacting less than before changes nothing");
    assert_eq!(store.oldest(), b);
    assert!(matches!(store.compact(a2 + 1).await, Err(StoreError::Future { .. })));
    store.delete("/a", a2).await.expect("removed");
    let last = store.delete("/b", b).await.expect("removed");
    store.compact(last).await.expect("compacted");
    assert_eq!((store.revision(), list_all(&*store, "").await.revision), (last, last));
    assert_eq!(put(&*store, "/a", "3", Expect::Absent).await, last + 1);
}

/// A watcher that has not read what is now compacted is told that it lost its place, and then nothing more.
pub async fn a_watcher_overtaken_by_compaction_is_told(make: &impl Make) {
    let store = make();
    let mut behind = store.watch("", 0).expect("from the beginning");
    let a = put(&*store, "/a", "1", Expect::Absent).await;
    let a2 = put(&*store, "/a", "2", Expect::Revision(a)).await;
    let mut abreast = store.watch("", a2).expect("the present");
    store.compact(a2).await.expect("compacted");
    assert_eq!(next(&mut behind).await.err(), Some(WatchError::Lagged));
    assert!(behind.next().await.is_none());
    let a3 = put(&*store, "/a", "3", Expect::Revision(a2)).await;
    assert_eq!(events_through(&mut abreast, a3).await.len(), 1);
}

/// Raised above what was seen, never lowered.
pub async fn the_epoch_only_rises(make: &impl Make) {
    let store = make();
    let first = store.epoch();
    assert!(first > 0);
    assert_eq!(store.raise_epoch(first - 1).await.expect("answered"), first, "an older life changes nothing");
    assert_eq!(store.raise_epoch(first).await.expect("raised"), first + 1);
    assert_eq!(store.raise_epoch(first + 41).await.expect("raised"), first + 42);
    assert_eq!(store.epoch(), first + 42);
    assert_eq!(store.revision(), 0, "an epoch is no write");
}

/// After close: what was acknowledged is still delivered to watchers, everything else says closed.
pub async fn a_closed_store_says_so(make: &impl Make) {
    let store = make();
    put(&*store, "/before", "x", Expect::Absent).await;
    let mut watch = store.watch("", 1).expect("the present");
    for n in 0..5 {
        put(&*store, &format!("/{n}"), "x", Expect::Absent).await;
    }
    tokio::time::timeout(PATIENCE, store.close()).await.expect("closes in time");
    tokio::time::timeout(PATIENCE, store.close()).await.expect("closing again is no harm");
    assert!(matches!(store.put("/late", bytes("x"), Expect::Absent).await, Err(StoreError::Closed)));
    assert!(matches!(store.delete("/0", 1).await, Err(StoreError::Closed)));
    assert!(matches!(store.get("/0").await, Err(StoreError::Closed)));
    assert!(matches!(store.list("", None, 0).await, Err(StoreError::Closed)));
    assert!(matches!(store.watch("", 0), Err(StoreError::Closed)));
    assert!(matches!(store.raise_epoch(9).await, Err(StoreError::Closed)));
    assert_eq!(events_through(&mut watch, 6).await.len(), 5);
    assert_eq!(next(&mut watch).await.err(), Some(WatchError::Closed));
    assert!(watch.next().await.is_none());
}
