//! One file over its life: reopened, locked, foreign, damaged, compacted, under load.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use karmada_store::{Event, Expect, SqliteOptions, SqliteStore, Store, StoreError};

fn options(folder: &Path) -> SqliteOptions {
    SqliteOptions::new(folder.join("hub.db"))
}

fn refusal(options: &SqliteOptions) -> String {
    match SqliteStore::open(options) {
        Err(StoreError::Backend(why)) => why,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened"),
    }
}

async fn fill(store: &dyn Store, keys: u64) {
    fill_on(store, 0..keys).await;
}

async fn fill_on(store: &dyn Store, keys: std::ops::Range<u64>) {
    for n in keys {
        store.put(&format!("/{n:04}"), Bytes::from(vec![b'v'; 500]), Expect::Absent).await.unwrap();
    }
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.first_epoch = 7;
    let store = SqliteStore::open(&options).unwrap();
    fill(&store, 50).await;
    let deleted = store.delete("/0007", 8).await.unwrap();
    store.raise_epoch(7).await.unwrap();
    store.compact(10).await.unwrap();
    let before = store.list("", None, 0).await.unwrap();
    store.close().await;
    options.first_epoch = 1;
    let store = SqliteStore::open(&options).unwrap();
    let after = store.list("", None, 0).await.unwrap();
    assert_eq!((after.items, after.revision), (before.items, deleted));
    assert_eq!((store.epoch(), store.revision(), store.oldest()), (8, deleted, 10));
    let mut watch = store.watch("", 10).unwrap();
    let batch = watch.next().await.unwrap().unwrap();
    assert_eq!(batch.len(), 41, "events outlive the process");
    assert!(matches!(batch.last(), Some(Event::Delete { key, .. }) if &**key == "/0007"));
    assert_eq!(store.put("/new", Bytes::new(), Expect::Absent).await.unwrap(), deleted + 1);
    store.close().await;
}

/// What the file's own index knows, as another reader of the file sees it.
fn indexed(path: &Path) -> Vec<(String, u64)> {
    let db = rusqlite::Connection::open(path).unwrap();
    let mut rows = db.prepare("SELECT key, revision FROM live ORDER BY key").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn the_index_follows_in_strides_and_a_start_finds_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.index_after = 40;
    let store = SqliteStore::open(&options).unwrap();
    fill(&store, 30).await;
    assert_eq!(indexed(&options.path), [], "one page less for each write");
    fill_on(&store, 30..45).await;
    assert_eq!(indexed(&options.path).len(), 40);
    // Of what is indexed: replaced, removed, removed and put again; and one that the index never saw, gone.
    store.put("/0001", "new".into(), Expect::Revision(2)).await.unwrap();
    store.delete("/0002", 3).await.unwrap();
    let removed = store.delete("/0003", 4).await.unwrap();
    store.put("/0003", "again".into(), Expect::Absent).await.unwrap();
    store.delete("/0044", 45).await.unwrap();
    let before = store.list("", None, 0).await.unwrap();
    assert_eq!(before.items.len(), 43);
    assert_eq!(before.items[2].create_revision, removed + 1);
    for limit in [1, 2, 3, 42, 43, 44] {
        let mut pages = Vec::new();
        loop {
            let after = pages.last().map(|kv: &karmada_store::KeyValue| kv.key.clone());
            let page = store.list("", after.as_deref(), limit).await.unwrap();
            assert!(page.items.len() == limit || !page.more, "full, or the last");
            pages.extend(page.items);
            if !page.more {
                break;
            }
        }
        assert_eq!(pages, before.items, "in pages of {limit}");
    }
    store.close().await;
    assert_eq!(indexed(&options.path).len(), 40, "closing writes nothing");
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.list("", None, 0).await.unwrap().items, before.items);
    for key in ["/0002", "/0044"] {
        assert_eq!(store.get(key).await.unwrap(), None);
        let refused = store.delete(key, 3).await;
        assert!(matches!(refused, Err(StoreError::Conflict { current: None })), "{refused:?}");
    }
    assert_eq!(store.get("/0003").await.unwrap().unwrap().value, "again");
    let head = store.revision();
    store.compact(head).await.unwrap();
    let live: Vec<(String, u64)> =
        before.items.iter().map(|kv| (kv.key.to_string(), kv.mod_revision)).collect();
    assert_eq!(indexed(&options.path), live, "nothing is forgotten that the index does not have");
    assert_eq!(store.list("", None, 0).await.unwrap().items, before.items);
    store.close().await;
}

#[tokio::test]
async fn a_file_of_the_first_layout_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.index_after = 1;
    let store = SqliteStore::open(&options).unwrap();
    fill(&store, 20).await;
    store.delete("/0005", 6).await.unwrap();
    let before = store.list("", None, 0).await.unwrap();
    store.close().await;
    // Layout 1: every write is in the index, and nothing says so.
    let first = "DELETE FROM meta WHERE name IN ('indexed', 'live'); ALTER TABLE log DROP COLUMN sum;
         ALTER TABLE live DROP COLUMN sum; ALTER TABLE meta DROP COLUMN sum; PRAGMA user_version = 1";
    rusqlite::Connection::open(&options.path).unwrap().execute_batch(first).unwrap();
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.list("", None, 0).await.unwrap().items, before.items);
    store.close().await;
    let version = "PRAGMA user_version = 5";
    rusqlite::Connection::open(&options.path).unwrap().execute_batch(version).unwrap();
    assert!(refusal(&options).contains("has layout version 5, this program knows 4"));
}

#[tokio::test]
async fn one_file_one_hub() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let store = SqliteStore::open(&options).unwrap();
    let why = refusal(&options);
    assert!(why.contains("hub.db") && why.contains("in use by another process"), "{why}");
    for name in ["hub.db", "hub.db-wal", "hub.db.lock"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} holds secrets");
    }
    store.close().await;
    SqliteStore::open(&options).unwrap().close().await;
}

#[tokio::test]
async fn foreign_and_damaged_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    rusqlite::Connection::open(&options.path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let before = std::fs::read(&options.path).unwrap();
    assert!(refusal(&options).contains("another program"));
    assert_eq!(std::fs::read(&options.path).unwrap(), before);

    options.path = folder.path().join("text");
    std::fs::write(&options.path, "not a database, ".repeat(1000)).unwrap();
    assert!(refusal(&options).contains("not a database"));

    options.path = folder.path().join("damaged");
    let store = SqliteStore::open(&options).unwrap();
    fill(&store, 200).await;
    store.close().await;
    let mut content = std::fs::read(&options.path).unwrap();
    content[4 * 8192..5 * 8192].fill(0xaa);
    std::fs::write(&options.path, content).unwrap();
    let why = refusal(&options);
    assert!(why.contains("damaged"), "{why}");
}

#[tokio::test]
async fn a_slow_watcher_is_served_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.ring_bytes = 5000;
    let store = SqliteStore::open(&options).unwrap();
    let mut slow = store.watch("/", 0).unwrap();
    fill(&store, 1000).await;
    let mut revisions = Vec::new();
    while revisions.len() < 1000 {
        let batch = slow.next().await.unwrap().unwrap();
        assert!(batch.len() <= 256, "batches are bounded");
        revisions.extend(batch.iter().map(Event::revision));
    }
    assert_eq!(revisions, (1..=1000).collect::<Vec<_>>());
    store.close().await;
}

/// Rows of the log, as another reader of the file sees them.
fn log_rows(path: &Path) -> u64 {
    let db = rusqlite::Connection::open(path).unwrap();
    db.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

#[tokio::test]
async fn compaction_removes_rows_and_keeps_what_live_keys_need() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let store = SqliteStore::open(&options).unwrap();
    fill(&store, 10).await;
    let mut revision = 1;
    for n in 0..700 {
        revision = store.put("/0000", format!("{n}").into(), Expect::Revision(revision)).await.unwrap();
    }
    store.delete("/0009", 10).await.unwrap();
    let last = store.put("/end", Bytes::new(), Expect::Absent).await.unwrap();
    store.compact(last - 1).await.unwrap();
    // Rows go in steps behind the answer: one for each later write at the least.
    for n in 0..5 {
        store.put(&format!("/tick/{n}"), Bytes::new(), Expect::Absent).await.unwrap();
    }
    assert_eq!(log_rows(&options.path), 9 + 1 + 5, "nine first keys, the last one and the ticks");
    let page = store.list("", None, 0).await.unwrap();
    assert_eq!((page.items.len(), &page.items[0].value[..]), (15, &b"699"[..]));
    store.close().await;
}

#[tokio::test]
async fn the_store_compacts_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.keep_events = 100;
    let store = SqliteStore::open(&options).unwrap();
    let mut revision = store.put("/a", Bytes::new(), Expect::Absent).await.unwrap();
    for _ in 0..1000 {
        revision = store.put("/a", Bytes::new(), Expect::Revision(revision)).await.unwrap();
    }
    assert!((revision - 201..=revision - 100).contains(&store.oldest()), "{}", store.oldest());
    assert!(log_rows(&options.path) <= 201);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_stays_small_under_steady_load() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let store = Arc::new(SqliteStore::open(&options).unwrap());
    let writers = (0..16).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..200 {
                let value = Bytes::from(vec![0; 16_384]);
                store.put(&format!("/{writer}/{n}"), value, Expect::Absent).await.unwrap();
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let size = std::fs::metadata(folder.path().join("hub.db-wal")).unwrap().len();
    assert!(size < 40 << 20, "52 MB of values went through a log of {size} bytes");
    store.close().await;
    assert!(!folder.path().join("hub.db-wal").exists(), "closing leaves one file");
}

#[tokio::test]
async fn dropping_the_store_without_closing_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let store = SqliteStore::open(&options).unwrap();
    let never_polled = store.put("/never", Bytes::new(), Expect::Absent);
    fill(&store, 20).await;
    let mut watch = store.watch("", 20).unwrap();
    drop(store);
    assert!(watch.next().await.unwrap().is_err(), "watches end with the store");
    assert!(matches!(never_polled.await, Err(StoreError::Closed)));
    // That end is the last thing to happen: the file is free.
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.list("", None, 0).await.unwrap().items.len(), 20);
    store.close().await;
}

#[tokio::test]
async fn large_values_that_change_again_and_again_do_not_fill_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.keep_bytes = 8 << 20;
    let store = SqliteStore::open(&options).unwrap();
    let value = |n: u8| Bytes::from(vec![n; 1 << 20]);
    let mut revision = store.put("/a", value(0), Expect::Absent).await.unwrap();
    for n in 1..100 {
        revision = store.put("/a", value(n), Expect::Revision(revision)).await.unwrap();
    }
    assert!(store.oldest() > 80, "{}", store.oldest());
    assert_eq!(store.get("/a").await.unwrap().unwrap().value, value(99));
    assert!(store.watch("", revision - 3).is_ok(), "what is recent is kept");
    store.close().await;
    let bytes = std::fs::metadata(&options.path).unwrap().len();
    assert!(bytes < 60 << 20, "{bytes}");
}

/// Writes go on into a file that has no name any more, and are gone with the process: they must not be acknowledged.
#[tokio::test]
async fn a_file_that_is_taken_away_is_noticed_at_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let away = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&options(folder.path())).unwrap();
    fill(&store, 3).await;
    let put = |key: &str| store.put(key, Bytes::from_static(b"v"), Expect::Absent);
    for name in ["hub.db", "hub.db-wal"] {
        let (here, there) = (folder.path().join(name), away.path().join(name));
        std::fs::rename(&here, &there).unwrap();
        let told = put(&format!("/while-{name}-is-gone")).await.unwrap_err().to_string();
        assert!(told.contains("removed, moved or replaced") && told.contains(name), "{told}");
        assert!(store.health().is_err());
        assert!(store.get("/0001").await.unwrap().is_some(), "what is there is read");
        std::fs::rename(&there, &here).unwrap();
        put(&format!("/after-{name}-came-back")).await.unwrap();
        assert!(store.health().is_ok());
    }
    store.close().await;
    let store = SqliteStore::open(&options(folder.path())).unwrap();
    for key in ["/0002", "/after-hub.db-came-back", "/after-hub.db-wal-came-back"] {
        assert!(store.get(key).await.unwrap().is_some(), "{key}");
    }
    store.close().await;
}
