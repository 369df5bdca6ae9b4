//! What large requests cost. A request that fits is answered in time that grows about as its size does, whatever list in it is long:
//! who may write one object cannot hold a thread of the hub for minutes with it.
//!
//! Each row of the table is a request with a long list of one kind. It is sent to the API server in this process at two sizes, of
//! which the second is four times the first, and at the largest that is taken.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, missing_docs)]

mod cluster_kinds;
mod custom_kinds;
mod expressions;
mod far_numbers;
mod patches;
mod patterns;
mod rows;
mod selectors;
mod server;
mod workloads;

use std::time::Duration;

use rows::Row;
use server::Server;

/// The smaller size, in entries.
const SMALL: usize = 1_000;
/// What is never too long, however much longer than the smaller size took.
const FLOOR: Duration = Duration::from_millis(100);
/// Bytes of the largest request: what is taken, but for a margin.
const LARGEST: usize = 2_900_000;
/// What the largest may take, in a debug build.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same on a machine that is slow just then, which the smaller sizes show: there the largest may take this, and twice its share of what
/// they took.
const SLOW: Duration = Duration::from_secs(30);

/// Held by each test: long evaluations of one process take turns, so that one test would take another's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How long this thread has run so far: what a busy machine takes from it is not counted.
fn ran() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// One run: only the last request of it is measured.
async fn once(server: &Server, row: &Row, entries: usize) -> Duration {
    let mut asks = (row.asks)(entries);
    let last = asks.pop().unwrap();
    for ask in asks {
        let (code, text) = server.ask(ask).await;
        assert!(code < 300, "{}: what comes before it is refused: {code} {}", row.name, start(&text, 600));
    }
    let begun = ran();
    let (code, text) = server.ask(last).await;
    let took = ran() - begun;
    if std::env::var_os("LARGE_REQUESTS_SHOWN").is_some() {
        eprintln!("{:40} {entries:>8} {took:>10.2?} {code} {}", row.name, start(&text, 160));
    }
    let known = matches!(code, 200 | 201 | 400 | 403 | 404 | 409 | 413 | 422 | 500);
    assert!(known && !text.contains("panic"), "{} with {entries}: {code} {}", row.name, start(&text, 600));
    took
}

/// The median of three runs.
async fn median(server: &Server, row: &Row, entries: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(once(server, row, entries).await);
    }
    all.sort();
    all[1]
}

fn start(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// How many entries fit.
fn most(row: &Row) -> usize {
    let size = |entries: usize| (row.asks)(entries).iter().map(|ask| ask.body.len()).max().unwrap_or(1);
    let (few, many) = (size(SMALL), size(4 * SMALL));
    let each = (many - few).max(1) as f64 / (3 * SMALL) as f64;
    let mut most = ((LARGEST - few) as f64 / each) as usize + SMALL;
    while size(most) > LARGEST {
        most = most * 9 / 10;
    }
    most.min(row.most)
}

/// The larger size at once; where that takes long, the smaller size beside it.
async fn judge(server: &Server, row: &Row) -> Option<String> {
    let few = SMALL.min(row.most / 4);
    let grows = |small: Duration, large: Duration| large > 5 * small + FLOOR;
    let mut large = once(server, row, 4 * few).await;
    if large > FLOOR {
        let mut small = once(server, row, few).await;
        if grows(small, large) {
            // The first of its kind pays for what is made once, and the clock has steps of milliseconds: what counts are the medians.
            large = median(server, row, 4 * few).await;
            small = median(server, row, few).await;
        }
        if grows(small, large) {
            return Some(format!(
                "{}: {small:?} for {few} entries, {large:?} for four times as many",
                row.name
            ));
        }
    }
    if !row.whole {
        return None;
    }
    let most = most(row);
    let took = once(server, row, most).await;
    let share = large.mul_f64(most as f64 / (4 * few) as f64);
    let is_slow = took > PATIENCE && (took > 2 * share || took > SLOW);
    is_slow.then(|| format!("{}: {took:?} for {most} entries", row.name))
}

#[test]
fn the_time_that_a_request_takes_grows_as_its_size_does() {
    let _alone = ALONE.blocking_lock();
    let only = std::env::var("LARGE_REQUESTS_ONLY").unwrap_or_default();
    let rows: Vec<Row> = rows::all().into_iter().filter(|row| row.name.contains(&only)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let slow = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let server = Server::start().await;
                    while let Some(row) = rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                        let judged = judge(&server, row).await;
                        slow.lock().unwrap().extend(judged);
                    }
                });
            });
        }
    });
    let slow = slow.into_inner().unwrap();
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
