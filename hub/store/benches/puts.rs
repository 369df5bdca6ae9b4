//! How fast one file takes writes, and gives lists: `cargo bench -p karmada-store --features jemalloc` (`-- --one`, `--some`, `--many`,
//! `--reads` for a part).
//!
//! In: the parts to run, all without arguments. Out: one JSON line per figure: `{"row","ours","unit","goal","met"}`. Every put is an object
//! and an event of 2 KB, acknowledged after its fdatasync (`synchronous=FULL`).

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use karmada_store::{Expect, SqliteOptions, SqliteStore, Store};

/// As in the hub of a site.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const VALUE: usize = 2048;

/// One figure: what was measured, and what it should be at least (`>=`) or at most (`<`).
fn row(name: &str, ours: f64, unit: &str, goal: Option<(&str, f64)>) {
    let (goal, met) = match goal {
        Some((">=", goal)) => (format!("\">= {goal}\""), ours >= goal),
        Some((_, goal)) => (format!("\"< {goal}\""), ours < goal),
        None => ("null".to_owned(), true),
    };
    println!(r#"{{"row":"{name}","ours":{ours:.3},"unit":"{unit}","goal":{goal},"met":{met}}}"#);
}

async fn writer(store: Arc<SqliteStore>, writer: usize, keys: usize, until: Instant) -> Vec<Duration> {
    let mut revisions = vec![None; keys];
    let mut took = Vec::new();
    for n in 0.. {
        let begin = Instant::now();
        if begin > until {
            break;
        }
        let slot = n % keys;
        let expect = revisions[slot].map_or(Expect::Absent, Expect::Revision);
        let value = Bytes::from(vec![b'v'; VALUE]);
        let key = format!("/registry/deployments/namespace-{writer}/deployment-{slot:06}");
        revisions[slot] = Some(store.put(&key, value, expect).await.unwrap());
        took.push(begin.elapsed());
    }
    took
}

async fn puts(writers: usize, goal: bool) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Arc::new(SqliteStore::open(&SqliteOptions::new(folder.path().join("hub.db"))).unwrap());
    let begin = Instant::now();
    let until = begin + Duration::from_secs(5);
    let tasks = (0..writers).map(|n| tokio::spawn(writer(store.clone(), n, 200, until)));
    let mut took: Vec<Duration> =
        futures::future::join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    let rate = took.len() as f64 / begin.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    row(&format!("store puts, {writers} writers"), rate, "1/s", goal.then_some((">=", 10_000.0)));
    row(&format!("store put p50, {writers} writers"), at(0.5), "ms", goal.then_some(("<", 5.0)));
    row(&format!("store put p99, {writers} writers"), at(0.99), "ms", None);
    store.close().await;
}

async fn pages(store: &SqliteStore) -> usize {
    let (mut after, mut listed) = (None::<Arc<str>>, 0);
    loop {
        let page = store.list("/o/", after.as_deref(), 500).await.unwrap();
        listed += page.items.len();
        after = page.items.last().map(|kv| kv.key.clone());
        if !page.more {
            return listed;
        }
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

const OBJECTS: usize = 50_000;

/// How often clients list everything in pages, together, a second in objects: the median of five times.
async fn listed(store: &Arc<SqliteStore>, clients: usize) -> f64 {
    let mut rates = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let clients = (0..clients).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { pages(&store).await })
        });
        let listed: usize = futures::future::join_all(clients).await.into_iter().map(Result::unwrap).sum();
        assert_eq!(listed % OBJECTS, 0, "each lists all");
        rates.push(listed as f64 / begin.elapsed().as_secs_f64());
    }
    median(rates)
}

/// A store with `OBJECTS`, made in key order, or in such that neighbours by key are far apart in the log.
async fn filled(folder: &std::path::Path, is_scattered: bool) -> Arc<SqliteStore> {
    let store = Arc::new(SqliteStore::open(&SqliteOptions::new(folder.join("hub.db"))).unwrap());
    let fill = (0..64).map(|part| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in (part..OBJECTS).step_by(64) {
                let n = if is_scattered { (n * 7919) % OBJECTS } else { n };
                store.put(&format!("/o/{n:08}"), vec![b'v'; VALUE].into(), Expect::Absent).await.unwrap();
            }
        })
    });
    futures::future::join_all(fill).await.into_iter().for_each(Result::unwrap);
    store
}

async fn reads() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = filled(folder.path(), false).await;
    row("store list, pages of 500", listed(&store, 1).await, "objects/s", None);
    row("store list, pages of 500, 4 clients", listed(&store, 4).await, "objects/s", Some((">=", 500_000.0)));
    let mut whole = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        assert_eq!(store.list("/o/", None, 0).await.unwrap().items.len(), OBJECTS);
        whole.push(OBJECTS as f64 / begin.elapsed().as_secs_f64());
    }
    row("store list, whole", median(whole), "objects/s", None);
    let begin = Instant::now();
    let gets = (0..32).map(|part| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in (part..20_000).step_by(32) {
                store.get(&format!("/o/{:08}", (n * 7919) % OBJECTS)).await.unwrap().unwrap();
            }
        })
    });
    futures::future::join_all(gets).await;
    row("store get, 32 readers", 20_000.0 / begin.elapsed().as_secs_f64(), "1/s", None);
    store.close().await;

    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = filled(folder.path(), true).await;
    row("store list, pages of 500, written in no order", listed(&store, 1).await, "objects/s", None);
    row(
        "store list, pages of 500, written in no order, 4 clients",
        listed(&store, 4).await,
        "objects/s",
        None,
    );
    store.close().await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let asked = |part: &str| {
        let mut parts = std::env::args().filter(|arg| arg != "--bench").skip(1).peekable();
        parts.peek().is_none() || parts.any(|asked| asked == part)
    };
    runtime.block_on(async {
        for (writers, part) in [(1, "--one"), (32, "--some"), (128, "--many")] {
            if asked(part) {
                puts(writers, writers == 128).await;
            }
        }
        if asked("--reads") {
            reads().await;
        }
    });
}
