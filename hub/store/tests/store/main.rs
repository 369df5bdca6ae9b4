//! The suite over both backends, and what only a file can promise: that it survives reopening, a power cut,
//! `kill -9` and a full disk, and lets nobody else in.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod damage;
mod durability;
mod file;
mod rewrite;

use std::sync::Arc;

use karmada_store::{SqliteOptions, SqliteStore, Store};
use parking_lot::Mutex;

mod memory {
    use std::sync::Arc;

    use karmada_store::{Event, Expect, MemoryStore, Store, WatchError, store_suite};

    store_suite!(|| Arc::new(MemoryStore::new()) as Arc<dyn Store>);

    #[tokio::test]
    async fn a_watcher_slower_than_the_ring_is_told_and_costs_no_memory() {
        let store = MemoryStore::with_ring(10_000);
        let mut slow = store.watch("", 0).unwrap();
        for n in 0..1000 {
            store.put(&format!("/{n}"), vec![0; 100].into(), Expect::Absent).await.unwrap();
        }
        assert_eq!(slow.next().await, Some(Err(WatchError::Lagged)));
        let oldest = store.oldest();
        assert!((1..1000).contains(&oldest), "{oldest}");
        let mut again = store.watch("", oldest).unwrap();
        let first = again.next().await.unwrap().unwrap().first().map(Event::revision);
        assert_eq!(first, Some(oldest + 1));
    }
}

/// A file per store, as `adjust` makes it out of the defaults.
fn files(adjust: fn(&mut SqliteOptions)) -> impl Fn() -> Arc<dyn Store> {
    let folders = Mutex::new(Vec::new());
    move || {
        let folder = tempfile::tempdir().unwrap();
        let mut options = SqliteOptions::new(folder.path().join("hub.db"));
        adjust(&mut options);
        folders.lock().push(folder);
        Arc::new(SqliteStore::open(&options).unwrap()) as Arc<dyn Store>
    }
}

mod sqlite {
    use karmada_store::store_suite;

    // So small that watchers are served from the file again and again.
    store_suite!(crate::files(|options| options.ring_bytes = 2000));
}

/// The index of keys is brought up to date all the time, and old events forgotten.
mod sqlite_in_motion {
    use karmada_store::store_suite;

    store_suite!(crate::files(|options| {
        options.ring_bytes = 2000;
        options.index_after = 3;
    }));
}
