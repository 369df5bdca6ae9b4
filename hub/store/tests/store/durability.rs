//! Acknowledged is durable: shown at the system calls, by `kill -9`, and with a disk that is full.
//!
//! Each test starts its own binary again, as the process that writes; it says what was acknowledged on its
//! standard output, one line per write, each a single `write(1, …)`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use bytes::Bytes;
use karmada_store::{Event, Expect, SqliteOptions, SqliteStore, Store, StoreError};

/// Names the role of a process started by a test, and its file.
const ROLE: &str = "STORE_TEST_ROLE";
const FILE: &str = "STORE_TEST_FILE";

/// The writer that this test binary becomes when a test starts it again.
fn play_role() -> bool {
    let (Ok(role), Ok(path)) = (std::env::var(ROLE), std::env::var(FILE)) else { return false };
    let mut options = SqliteOptions::new(path);
    options.synchronous_full = role != "unsynchronized";
    options.keep_events = if role == "changed-disk" { 1000 } else { 0 };
    options.reserve_bytes = match role.as_str() {
        "small-disk" => 8 << 20,
        "changed-disk" => 16 << 20,
        _ => 0,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&options).unwrap();
        match role.as_str() {
            "forever" => write_forever(store).await,
            "full-disk" => write_until_full(&store).await,
            "small-disk" => delete_when_full(&store).await,
            "changed-disk" => delete_after_changes_when_full(&store).await,
            _ => write_some(&store).await,
        }
    });
    true
}

fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

async fn write_some(store: &SqliteStore) {
    say("");
    for n in 0..20 {
        let revision =
            store.put(&format!("/{n}"), Bytes::from(vec![b'v'; 2048]), Expect::Absent).await.unwrap();
        say(&format!("ack {revision}"));
    }
    // Not closed: closing syncs, and the question is what an acknowledgement means.
    std::process::exit(0);
}

async fn write_forever(store: SqliteStore) {
    let store = std::sync::Arc::new(store);
    say("");
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("/{writer}");
            let mut current = store.get(&key).await.unwrap().map(|kv| kv.mod_revision);
            for n in 0.. {
                let expect = current.map_or(Expect::Absent, Expect::Revision);
                let revision =
                    store.put(&key, format!("{n} {}", "v".repeat(500)).into(), expect).await.unwrap();
                say(&format!("ack {revision} {key} {n}"));
                current = Some(revision);
            }
        })
    });
    futures::future::join_all(writers).await;
}

/// Writes until the disk is full, then waits for a word, and writes again.
async fn write_until_full(store: &SqliteStore) {
    say("");
    let mut n = 0;
    let error = loop {
        match store.put(&format!("/{n}"), Bytes::from(vec![b'v'; 20_000]), Expect::Absent).await {
            Ok(revision) => say(&format!("ack {revision}")),
            Err(error) => break error,
        }
        n += 1;
    };
    assert!(matches!(error, StoreError::Backend(_)), "{error}");
    // Larger, as what failed may have needed a page more than the next of its size.
    let refused = store.put("/still", Bytes::from(vec![0; 200_000]), Expect::Absent).await;
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    assert_eq!(store.list("", None, 0).await.unwrap().items.len(), n, "reads go on");
    say(&format!("failed {error}"));
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).unwrap();
    let revision = store.put("/room", Bytes::from(vec![0; 20_000]), Expect::Absent).await.unwrap();
    say(&format!("again {revision}"));
    store.close().await;
}

/// This binary, running `test` in `role`, behind `wrapper`.
fn start(wrapper: &[&str], test: &str, role: &str, file: &Path) -> Child {
    let this = std::env::current_exe().unwrap();
    let mut words: Vec<&std::ffi::OsStr> = wrapper.iter().map(std::ffi::OsStr::new).collect();
    words.push(this.as_os_str());
    Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lines of a kind that the process says.
fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok)
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{program} is needed: apt-get install {program}");
        println!("skipped: {program} is not installed");
    }
    found
}

/// One acknowledgement after another: was the write-ahead log synced between its last write and the answer?
/// Returns how many acknowledgements were, and how many there are.
fn synced_acknowledgements(trace: &str) -> (usize, usize) {
    let (mut synced, mut total) = (0, 0);
    // Written to the log and not yet synced; synced since the last acknowledgement.
    let (mut dirty, mut clean) = (false, false);
    // Syncs that have begun, by thread: what another thread does may come between.
    let mut begun: BTreeMap<&str, bool> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.trim_start().split_once(' ') else { continue };
        let call = call.trim_start();
        let of_log = call.contains("hub.db-wal>");
        let is_sync = call.starts_with("fdatasync(") || call.starts_with("fsync(");
        if call.starts_with("pwrite64(") && of_log {
            dirty = true;
        } else if is_sync && of_log && call.contains("<unfinished") {
            begun.insert(thread, true);
        } else if (is_sync && of_log && call.ends_with("= 0"))
            || (call.contains("sync resumed>") && call.ends_with("= 0") && begun.remove(thread).is_some())
        {
            clean |= dirty;
            dirty = false;
        } else if call.starts_with("write(1") && call.contains("\"ack ") {
            total += 1;
            synced += usize::from(clean && !dirty);
            clean = false;
        }
    }
    (synced, total)
}

fn trace(role: &str) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("trace");
    let output_text = output.to_str().unwrap();
    let strace = ["strace", "-f", "-y", "-e", "trace=fdatasync,fsync,write,pwrite64", "-o", output_text];
    let test = "durability::an_acknowledgement_comes_after_the_sync";
    let mut child = start(&strace, test, role, &folder.path().join("hub.db"));
    assert_eq!(lines_of(&mut child).filter(|line| line.starts_with("ack ")).count(), 20);
    assert!(child.wait().unwrap().success());
    synced_acknowledgements(&std::fs::read_to_string(output).unwrap())
}

#[test]
fn an_acknowledgement_comes_after_the_sync() {
    if play_role() || !is_installed("strace") {
        return;
    }
    assert_eq!(trace("synchronized"), (20, 20));
    // The same look at a store that does not sync must find it out, or the look is worth nothing.
    assert_eq!(trace("unsynchronized"), (0, 20));
}

/// A write that was acknowledged.
type Acknowledged = BTreeMap<u64, (String, String)>;

fn acknowledged_until_killed(file: &Path, acknowledgements: usize) -> Acknowledged {
    let mut child =
        start(&[], "durability::killed_at_any_time_it_keeps_what_it_acknowledged", "forever", file);
    let mut lines = lines_of(&mut child);
    let mut seen = Acknowledged::new();
    let mut note = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ack", revision, key, n] = words[..] {
            seen.insert(revision.parse().unwrap(), (key.to_owned(), n.to_owned()));
        }
    };
    lines.by_ref().filter(|line| line.starts_with("ack ")).take(acknowledgements).for_each(&mut note);
    // SIGKILL. What was said between our reading and its death is still in the pipe.
    child.kill().unwrap();
    let mut rest: Vec<String> = lines.collect();
    // The last line may be half of one.
    rest.pop();
    rest.into_iter().for_each(note);
    child.wait().unwrap();
    seen
}

async fn events(store: &SqliteStore) -> Acknowledged {
    let mut events = Acknowledged::new();
    let mut watch = store.watch("", 0).unwrap();
    while events.last_key_value().map_or(0, |(revision, _)| *revision) < store.revision() {
        for event in watch.next().await.unwrap().unwrap().iter() {
            let Event::Put { current, .. } = event else { panic!("nothing was deleted") };
            let n = String::from_utf8_lossy(&current.value).split(' ').next().unwrap().to_owned();
            events.insert(event.revision(), (event.key().to_string(), n));
        }
    }
    events
}

#[test]
fn killed_at_any_time_it_keeps_what_it_acknowledged() {
    if play_role() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut acknowledged = Acknowledged::new();
    for round in 0..12 {
        // From the first moment to the middle of checkpoints.
        let more =
            acknowledged_until_killed(&file, [1, 40, 7, 300, 2, 900, 64, 3, 150, 1500, 20, 500][round]);
        assert!(!more.is_empty());
        acknowledged.extend(more);
        // Every other time the next writer itself finds the log of the one that was killed.
        if round % 2 == 0 {
            continue;
        }
        let mut options = SqliteOptions::new(&file);
        options.keep_events = 0;
        runtime.block_on(async {
            let store = SqliteStore::open(&options).unwrap();
            let kept = events(&store).await;
            for (revision, write) in &acknowledged {
                assert_eq!(kept.get(revision), Some(write), "round {round}: revision {revision} is lost");
            }
            assert_eq!(kept.len() as u64, store.revision(), "every revision is one write");
            store.close().await;
        });
    }
}

fn wait_for_line(lines: &mut impl Iterator<Item = String>, start: &str, acks: &mut Vec<u64>) -> String {
    for line in lines {
        if let Some(revision) = line.strip_prefix("ack ") {
            acks.push(revision.parse().unwrap());
        }
        if line.starts_with(start) {
            return line;
        }
    }
    panic!("the process ended without a line that starts with {start:?}")
}

#[test]
fn a_full_disk_fails_writes_and_loses_none() {
    if play_role() || !is_installed("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub.db");
    // Files may not grow above 3 MB: to the process that is what a full disk is.
    let limited = ["sh", "-c", "trap '' XFSZ; exec prlimit --fsize=3000000:unlimited \"$0\" \"$@\""];
    let mut child =
        start(&limited, "durability::a_full_disk_fails_writes_and_loses_none", "full-disk", &file);
    let mut lines = lines_of(&mut child);
    let mut acks = Vec::new();
    wait_for_line(&mut lines, "failed ", &mut acks);
    assert!(acks.len() > 20, "{acks:?}");
    let lift =
        Command::new("prlimit").args(["--fsize=unlimited", "--pid"]).arg(child.id().to_string()).status();
    assert!(lift.unwrap().success());
    let mut stdin: ChildStdin = child.stdin.take().unwrap();
    stdin.write_all(b"go on\n").unwrap();
    let again = wait_for_line(&mut lines, "again ", &mut acks);
    let again: u64 = again.strip_prefix("again ").unwrap().parse().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(again, acks.len() as u64 + 1, "a failed write takes no revision");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&SqliteOptions::new(&file)).unwrap();
        let kept: Vec<u64> =
            store.list("", None, 0).await.unwrap().items.iter().map(|kv| kv.mod_revision).collect();
        for revision in acks.iter().chain([&again]) {
            assert!(kept.contains(revision), "revision {revision} is lost");
        }
        store.close().await;
    });
}

async fn until_healthy(store: &SqliteStore) {
    for _ in 0..200 {
        if store.health().is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the store is not well again: {:?}", store.health());
}

/// Fills the disk, deletes, and goes on.
async fn delete_when_full(store: &SqliteStore) {
    let mut revisions = Vec::new();
    let value = Bytes::from(vec![b'v'; 20_000]);
    store.health().unwrap();
    let error = loop {
        let n = revisions.len();
        match store.put(&format!("/{n:05}"), value.clone(), Expect::Absent).await {
            Ok(revision) => revisions.push(revision),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    assert!(revisions.len() > 300, "{}", revisions.len());
    assert!(matches!(store.health(), Err(StoreError::Full)));
    // Deletions that wait for finalizers are changes first.
    let marked =
        store.put("/00000", vec![b'v'; 20_100].into(), Expect::Revision(revisions[0])).await.unwrap();
    store.delete("/00000", marked).await.unwrap();
    for (n, revision) in revisions.iter().enumerate().skip(1) {
        store.delete(&format!("/{n:05}"), *revision).await.unwrap();
    }
    until_healthy(store).await;
    for n in 0..100 {
        store.put(&format!("/again/{n}"), value.clone(), Expect::Absent).await.unwrap();
    }
    assert_eq!(store.list("", None, 0).await.unwrap().items.len(), 100);
    say("done");
}

/// A read that lasts holds the log open, so that it cannot start over: deletions find no room then. Once it is over they do.
async fn hold_the_log(store: &SqliteStore, revisions: &mut [Option<u64>]) {
    let reader = rusqlite::Connection::open(std::env::var(FILE).unwrap()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let rows: i64 = reader.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert!(rows > 0);
    for (at, held) in revisions.iter_mut().enumerate().take(20) {
        let Some(revision) = *held else { continue };
        match store.delete(&format!("/{at:02}"), revision).await {
            Ok(_) => *held = None,
            Err(StoreError::Full) => break,
            Err(error) => panic!("{error}"),
        }
    }
    reader.execute_batch("COMMIT").unwrap();
}

/// Fills the disk with large values that are changed again and again, as an object of 400 KB may be, and then deletes them.
async fn delete_after_changes_when_full(store: &SqliteStore) {
    const KEYS: usize = 60;
    let value = |n: usize| Bytes::from(vec![b'a' + (n % 26) as u8; 400_000]);
    let mut revisions = vec![None; KEYS];
    for n in 0..400 {
        let at = n % KEYS;
        let expect = revisions[at].map_or(Expect::Absent, Expect::Revision);
        if let Ok(revision) = store.put(&format!("/{at:02}"), value(n), expect).await {
            revisions[at] = Some(revision);
        }
    }
    assert!(matches!(store.health(), Err(StoreError::Full)), "the disk is not full");
    let written = revisions.iter().flatten().count();
    assert!(written > 20, "{written}");
    hold_the_log(store, &mut revisions).await;
    for (at, revision) in revisions.iter().enumerate() {
        if let Some(revision) = revision {
            store
                .delete(&format!("/{at:02}"), *revision)
                .await
                .unwrap_or_else(|error| panic!("{at} of {written}: {error}"));
        }
    }
    until_healthy(store).await;
    for n in 0..20 {
        store.put(&format!("/again/{n}"), value(n), Expect::Absent).await.unwrap();
    }
    say("done");
}

#[test]
fn a_full_disk_takes_deletions_however_often_large_values_were_changed() {
    if play_role() || !is_installed("unshare") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=60m none {} && exec \"$0\" \"$@\"", folder.path().display());
    let own_disk = ["unshare", "-rm", "sh", "-c", &mount];
    let test = "durability::a_full_disk_takes_deletions_however_often_large_values_were_changed";
    let mut child = start(&own_disk, test, "changed-disk", &folder.path().join("hub.db"));
    let done = lines_of(&mut child).filter(|line| line.ends_with("done")).count() > 0;
    assert!(child.wait().unwrap().success() && done);
}

#[test]
fn a_full_disk_takes_deletions_and_is_usable_after_them() {
    if play_role() || !is_installed("unshare") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=80m none {} && exec \"$0\" \"$@\"", folder.path().display());
    let own_disk = ["unshare", "-rm", "sh", "-c", &mount];
    let test = "durability::a_full_disk_takes_deletions_and_is_usable_after_them";
    let mut child = start(&own_disk, test, "small-disk", &folder.path().join("hub.db"));
    let done = lines_of(&mut child).filter(|line| line.ends_with("done")).count() > 0;
    assert!(child.wait().unwrap().success() && done);
}
