//! A damaged disk: every file of the store with flipped bits, cut short, or gone. Each start serves exactly what was
//! acknowledged, or says what is damaged; never other data, and nothing missing in silence.
//!
//! `STORE_SWEEP=all` flips a bit of every byte and cuts at every 64th (hours); without it places are drawn from a
//! seed, which a failure prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use karmada_store::{Event, Expect, KeyValue, SqliteOptions, SqliteStore, Store, StoreError, WatchError};

/// Places drawn in each file.
const FLIPS: u64 = 110;
const CUTS: u64 = 25;

fn options(folder: &Path) -> SqliteOptions {
    let mut options = SqliteOptions::new(folder.join("hub.db"));
    // The sweep is about what is read, and syncing a copy proves nothing.
    options.synchronous_full = false;
    options.index_after = 60;
    options.keep_events = 0;
    options.reserve_bytes = 0;
    options
}

/// Numbers that look random and are the same at each run.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// What was acknowledged.
#[derive(Debug, PartialEq)]
struct Truth {
    items: Vec<KeyValue>,
    events: Vec<(u64, String)>,
    revision: u64,
    epoch: u64,
}

/// The files of a store, by name.
type Image = BTreeMap<String, Vec<u8>>;

fn image(folder: &Path) -> Image {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    files.map(named).filter(|(name, _)| !name.ends_with(".lock")).collect()
}

fn lay(image: &Image, folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, content) in image {
        std::fs::write(folder.join(name), content).unwrap();
    }
}

/// Objects of many sizes, changed, removed and partly forgotten. The first half is in the database file; with `is_killed` the
/// rest is in the write-ahead log alone.
async fn written(is_killed: bool) -> (Image, Truth) {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let store = SqliteStore::open(&options).unwrap();
    let value = |n: u64| Bytes::from(format!("{n:05}").repeat(20 + (n as usize * 37) % 400));
    for n in 0..90 {
        store.put(&format!("/registry/o/{n:04}"), value(n), Expect::Absent).await.unwrap();
    }
    for n in 0..20 {
        store.put(&format!("/registry/o/{n:04}"), value(n + 1000), Expect::Revision(n + 1)).await.unwrap();
        store.delete(&format!("/registry/o/{:04}", n + 20), n + 21).await.unwrap();
    }
    store.compact(100).await.unwrap();
    store.raise_epoch(3).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&options).unwrap();
    for n in 100..180 {
        store.put(&format!("/registry/o/{n:04}"), value(n), Expect::Absent).await.unwrap();
    }
    store.put("/registry/large", vec![7; 60_000].into(), Expect::Absent).await.unwrap();
    store.delete("/registry/o/0150", 181).await.unwrap();
    let truth = read(&store).await.unwrap();
    if !is_killed {
        store.close().await;
        return (image(folder.path()), truth);
    }
    let image = image(folder.path());
    store.close().await;
    (image, truth)
}

async fn events(store: &SqliteStore) -> Result<Vec<(u64, String)>, WatchError> {
    let mut watch = store.watch("/registry/o", store.oldest()).map_err(|_| WatchError::Lagged)?;
    let mut events: Vec<(u64, String)> = Vec::new();
    // The last write of all is one of these.
    while events.last().is_none_or(|(revision, _)| *revision < store.revision()) {
        let batch = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        let batch = batch.expect("no event is missing in silence").expect("not asked after the end")?;
        events.extend(batch.iter().map(|event| {
            let sum = match event {
                Event::Put { current, previous } => (current.value.len(), previous.as_ref().map(Bytes::len)),
                Event::Delete { previous, .. } => (0, Some(previous.len())),
            };
            (event.revision(), format!("{} {sum:?}", event.key()))
        }));
    }
    Ok(events)
}

async fn read(store: &SqliteStore) -> Result<Truth, StoreError> {
    let page = store.list("", None, 0).await?;
    let events = events(store).await.unwrap_or_default();
    Ok(Truth { items: page.items, events, revision: page.revision, epoch: store.epoch() })
}

/// Opens what lies in the folder, and holds it against the truth. False: it was refused, or said what is damaged.
async fn serves(folder: &Path, truth: &Truth, what: &str) -> bool {
    let store = match SqliteStore::open(&options(folder)) {
        Ok(store) => store,
        Err(StoreError::Backend(why)) => {
            assert!(why.contains("hub.db"), "{what}: the refusal names no file: {why}");
            return false;
        }
        Err(other) => panic!("{what}: {other}"),
    };
    let found = read(&store).await;
    let is_whole = match &found {
        Ok(found) => {
            assert!(found.items == truth.items, "{what}: other data was served");
            assert_eq!((found.revision, found.epoch), (truth.revision, truth.epoch), "{what}");
            let told = found.events.is_empty() || found.events == truth.events;
            assert!(told, "{what}: other events were served");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("damaged"), "{what}: no damage is named: {error}");
            for kv in &truth.items {
                match store.get(&kv.key).await {
                    Ok(found) => assert!(found.as_ref() == Some(kv), "{what}: {} is another", kv.key),
                    Err(error) => assert!(error.to_string().contains("damaged"), "{what}: {error}"),
                }
            }
            false
        }
    };
    store.close().await;
    is_whole
}

/// What is done to one file of an image.
enum Damage {
    /// A bit of a byte.
    Flip(usize, u32),
    Cut(usize),
    Gone,
}

impl Damage {
    /// An image with the damage in it. A sweep makes each where it is tried: all of them at once are the square of the files' size.
    fn of(&self, name: &str, image: &Image) -> Image {
        let mut image = image.clone();
        match (self, image.get_mut(name).unwrap()) {
            (Damage::Flip(place, bit), content) => content[*place] ^= 1 << bit,
            (Damage::Cut(length), content) => content.truncate(*length),
            (Damage::Gone, _) => drop(image.remove(name)),
        }
        image
    }

    fn told(&self, name: &str, length: usize) -> String {
        match self {
            Damage::Flip(place, bit) => {
                format!("{name} of {length} bytes, bit {bit} of byte {place} flipped")
            }
            Damage::Cut(to) => format!("{name} of {length} bytes, cut to {to} bytes"),
            Damage::Gone => format!("{name} is gone"),
        }
    }
}

/// Flips and cuts of one file.
fn damages(length: usize, draw: &mut Draw, whole: bool) -> Vec<Damage> {
    let mut below = |length: usize| draw.next(length as u64) as usize;
    // Half of the places are in headers and the first pages, where few bits mean much.
    let places: Vec<usize> = if whole {
        (0..length).collect()
    } else {
        (0..FLIPS).map(|n| below(if n % 4 == 0 { length.min(512) } else { length })).collect()
    };
    let mut all: Vec<Damage> = places.into_iter().map(|place| Damage::Flip(place, below(8) as u32)).collect();
    let cuts: Vec<usize> = if whole {
        (0..length).step_by(64).collect()
    } else {
        [0, 1, length - 1].into_iter().chain((0..CUTS).map(|_| below(length))).collect()
    };
    all.extend(cuts.into_iter().map(Damage::Cut));
    all.push(Damage::Gone);
    all
}

async fn sweep(is_killed: bool) {
    let (image, truth) = written(is_killed).await;
    assert!(truth.items.len() > 100 && truth.events.len() > 80);
    let folder = tempfile::tempdir().unwrap();
    lay(&image, folder.path());
    assert!(serves(folder.path(), &truth, "nothing is damaged").await);
    let whole = std::env::var("STORE_SWEEP").is_ok_and(|asked| asked == "all");
    let mut draw = Draw(std::env::var("STORE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(23));
    let (mut noticed, mut tried) = (0, 0);
    for (name, content) in &image {
        for damage in damages(content.len(), &mut draw, whole) {
            lay(&damage.of(name, &image), folder.path());
            tried += 1;
            noticed += usize::from(!serves(folder.path(), &truth, &damage.told(name, content.len())).await);
        }
    }
    println!("of {tried} damaged stores {noticed} were refused or named the damage, the rest served all");
    assert!(noticed > tried / 4, "damage that is in no use is rare: {noticed} of {tried}");
}

#[tokio::test]
async fn a_closed_store_that_is_damaged_serves_what_was_acknowledged_or_says_so() {
    sweep(false).await;
}

#[tokio::test]
async fn a_killed_store_that_is_damaged_serves_what_was_acknowledged_or_says_so() {
    sweep(true).await;
}

/// Cuts the write-ahead log of a killed store to a part of its length.
fn cut_log(image: &mut Image, part: usize) {
    let log = image.get_mut("hub.db-wal").unwrap();
    log.truncate(log.len() * part / 100);
}

fn refusal(options: &SqliteOptions) -> String {
    match SqliteStore::open(options) {
        Err(StoreError::Backend(why)) => why,
        _ => panic!("it is not refused"),
    }
}

#[tokio::test]
async fn a_start_behind_what_was_acknowledged_is_refused_until_the_loss_is_accepted() {
    let (mut image, truth) = written(true).await;
    cut_log(&mut image, 50);
    let folder = tempfile::tempdir().unwrap();
    lay(&image, folder.path());
    let mut options = options(folder.path());
    let why = refusal(&options);
    let acknowledged = format!("revision {} of epoch 4 was acknowledged", truth.revision);
    for words in
        [acknowledged.as_str(), "hub.db-wal", "the file ends at revision", "--accept-data-loss", "backup"]
    {
        assert!(why.contains(words), "{words}: {why}");
    }
    options.accept_data_loss = true;
    let store = SqliteStore::open(&options).unwrap();
    let (epoch, revision) = (store.epoch(), store.revision());
    assert_eq!((epoch, revision, store.oldest()), (5, truth.revision, truth.revision));
    let kept = store.list("", None, 0).await.unwrap().items;
    assert!(kept.len() > 60 && kept.len() < truth.items.len());
    assert!(kept.iter().all(|kv| truth.items.contains(kv)), "what is kept is as it was");
    let next = store.put("/new", Bytes::new(), Expect::Absent).await.unwrap();
    assert_eq!(next, truth.revision + 1, "no number is given out twice");
    store.close().await;
    // The flag may stay: where nothing is lost, it does nothing.
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!((store.epoch(), store.revision()), (5, next));
    store.close().await;
    options.accept_data_loss = false;
    SqliteStore::open(&options).unwrap().close().await;
    assert!(
        folder.path().join("hub.db.damaged").exists(),
        "what was there is kept for who can read more of it"
    );
}

#[tokio::test]
async fn a_copy_without_what_tells_its_age_is_brought_back_only_on_purpose() {
    let (mut image, truth) = written(false).await;
    image.remove("hub.db.acknowledged").unwrap();
    let folder = tempfile::tempdir().unwrap();
    lay(&image, folder.path());
    let mut options = options(folder.path());
    assert!(refusal(&options).contains("hub.db.acknowledged is missing"));
    options.accept_data_loss = true;
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.epoch(), truth.epoch + 1);
    assert_eq!(store.list("", None, 0).await.unwrap().items, truth.items);
    store.close().await;
}

#[tokio::test]
async fn one_damaged_row_is_named_and_the_others_are_served() {
    let (image, truth) = written(false).await;
    let folder = tempfile::tempdir().unwrap();
    lay(&image, folder.path());
    let mut options = options(folder.path());
    let hurt = &truth.items[30];
    let change = "UPDATE log SET value = CAST('other' AS BLOB) WHERE revision = ?1";
    let db = rusqlite::Connection::open(&options.path).unwrap();
    assert_eq!(db.execute(change, [hurt.mod_revision as i64]).unwrap(), 1);
    drop(db);
    let store = SqliteStore::open(&options).unwrap();
    for answer in [
        store.get(&hurt.key).await.map(drop),
        store.list("", None, 0).await.map(drop),
        store.put(&hurt.key, "new".into(), Expect::Revision(hurt.mod_revision)).await.map(drop),
    ] {
        let why = answer.unwrap_err().to_string();
        let named = format!("key {:?} at revision {}", hurt.key, hurt.mod_revision);
        assert!(why.contains(&named) && why.contains("damaged on disk"), "{why}");
    }
    assert_eq!(store.get(&truth.items[31].key).await.unwrap().as_ref(), Some(&truth.items[31]));
    store.put("/other", Bytes::new(), Expect::Absent).await.unwrap();
    store.close().await;
    options.accept_data_loss = true;
    let store = SqliteStore::open(&options).unwrap();
    assert_eq!(store.get(&hurt.key).await.unwrap(), None);
    assert_eq!(store.list("", None, 0).await.unwrap().items.len(), truth.items.len());
    assert_eq!(store.epoch(), truth.epoch + 1);
    store.close().await;
}
