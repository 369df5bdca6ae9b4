//! Values in other bytes: the same writes for everybody, and nothing of the bytes before left in the files.

use std::path::Path;

use bytes::Bytes;
use karmada_store::{Event, Expect, SqliteOptions, SqliteStore, Store, StoredValue};

const CLEAR: &str = "in-clear-in-clear-in-clear";

fn options(folder: &Path) -> SqliteOptions {
    SqliteOptions { overwrite_deleted: true, ..SqliteOptions::new(folder.join("hub.db")) }
}

/// The files beside `hub.db` that hold a text, itself among them.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let holds = |path: &std::path::PathBuf| {
        std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    };
    let mut found: Vec<String> =
        files.filter(holds).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}

/// Puts a store together whose values, whose history and whose free pages have the text.
async fn filled(store: &SqliteStore) {
    for n in 0..300 {
        let key = format!("/{n:04}");
        let value = |more: usize| Bytes::from(format!("{CLEAR}{n}{}", "x".repeat(more)));
        let first = store.put(&key, value(n * 13 % 900), Expect::Absent).await.unwrap();
        let second = store.put(&key, value(n * 7 % 3000), Expect::Revision(first)).await.unwrap();
        if n % 3 == 0 {
            store.delete(&key, second).await.unwrap();
        }
    }
    store.compact(store.revision() / 3).await.unwrap();
}

async fn events(store: &SqliteStore) -> Vec<Event> {
    let mut watch = store.watch("", store.oldest()).unwrap();
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.revision() < store.revision()) {
        events.extend(watch.next().await.unwrap().unwrap().iter().cloned());
    }
    events
}

fn other(value: &StoredValue) -> StoredValue {
    let text = String::from_utf8(value.value.to_vec()).unwrap();
    StoredValue { value: text.replace(CLEAR, "unreadable").into(), ..value.clone() }
}

async fn rewritten(store: &SqliteStore) -> u64 {
    let (mut after, head, mut count) = (0, store.revision(), 0);
    while after < head {
        let stretch = store.stored_values(after, head).await.unwrap();
        let values: Vec<_> = stretch.values.iter().map(other).collect();
        assert!(stretch.through > after, "it goes on");
        count += store.rewrite(values).await.unwrap();
        after = stretch.through;
    }
    count
}

#[tokio::test]
async fn rewritten_values_are_the_same_writes_and_what_was_before_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let clear = SqliteOptions { overwrite_deleted: false, ..options(folder.path()) };
    let store = SqliteStore::open(&clear).unwrap();
    filled(&store).await;
    store.close().await;
    let mut options = options(folder.path());
    // Events are read from the file.
    options.ring_bytes = 0;
    let store = SqliteStore::open(&options).unwrap();
    let (before, told, revision) =
        (store.list("", None, 0).await.unwrap(), events(&store).await, store.revision());
    assert_eq!(store.cleaned().await.unwrap(), None);
    assert!(rewritten(&store).await > before.items.len() as u64, "history, too");
    store.clean(7).await.unwrap();
    assert_eq!(holding(folder.path(), CLEAR), Vec::<String>::new());
    assert_eq!(store.cleaned().await.unwrap(), Some(7));

    let after = store.list("", None, 0).await.unwrap();
    assert_eq!((after.revision, store.revision()), (revision, revision));
    assert_eq!(after.items.len(), before.items.len());
    for (one, other) in before.items.iter().zip(&after.items) {
        assert_eq!(
            (&one.key, one.create_revision, one.mod_revision),
            (&other.key, other.create_revision, other.mod_revision)
        );
        let text = String::from_utf8(one.value.to_vec()).unwrap();
        assert_eq!(other.value, Bytes::from(text.replace(CLEAR, "unreadable")));
    }
    let told: Vec<_> = told.iter().map(|event| (event.revision(), event.key().clone())).collect();
    let again: Vec<_> =
        events(&store).await.iter().map(|event| (event.revision(), event.key().clone())).collect();
    assert_eq!(told, again);
    // What is put and deleted later is overwritten as it goes, and the log starts over.
    let key = after.items[0].key.clone();
    let put = store.put(&key, "later".into(), Expect::Revision(after.items[0].mod_revision)).await.unwrap();
    assert_eq!(put, revision + 1);
    store.close().await;
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.cleaned().await.unwrap(), Some(7), "over a start");
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, Bytes::from("later"));
    store.close().await;
    // A hub that writes in clear.
    let store = SqliteStore::open(&clear).unwrap();
    assert_eq!(store.cleaned().await.unwrap(), None);
    store.close().await;
}

#[tokio::test]
async fn a_rewrite_is_of_its_own_write_alone_and_has_to_be_cleaned_after() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&options(folder.path())).unwrap();
    let one = store.put("/a", CLEAR.into(), Expect::Absent).await.unwrap();
    store.clean(3).await.unwrap();
    let value = |revision, key: &str| StoredValue { revision, key: key.into(), value: "other".into() };
    let count = store.rewrite(vec![value(one, "/b"), value(one + 1, "/a")]).await.unwrap();
    assert_eq!((count, store.cleaned().await.unwrap()), (0, Some(3)));
    assert_eq!(store.rewrite(vec![value(one, "/a")]).await.unwrap(), 1);
    assert_eq!(store.cleaned().await.unwrap(), None, "the bytes before may be anywhere");
    // A removal has no value to write anew.
    let gone = store.delete("/a", one).await.unwrap();
    assert_eq!(store.rewrite(vec![value(gone, "/a")]).await.unwrap(), 0);
    assert_eq!(store.stored_values(0, gone).await.unwrap().through, gone);
    store.close().await;
}

#[tokio::test]
async fn readers_and_writers_go_on_while_values_are_rewritten_and_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(SqliteStore::open(&options(folder.path())).unwrap());
    filled(&store).await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 0..500 {
                store.put(&format!("/new/{n}"), "value".into(), Expect::Absent).await.unwrap();
                store.list("/0", None, 50).await.unwrap();
            }
        }
    });
    while !writing.is_finished() {
        rewritten(&store).await;
        store.clean(1).await.unwrap();
    }
    writing.await.unwrap();
    assert_eq!(store.list("/new/", None, 0).await.unwrap().items.len(), 500);
    assert_eq!(holding(folder.path(), CLEAR), Vec::<String>::new());
    store.close().await;
}
