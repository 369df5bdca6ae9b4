//! Many watchers of one collection: how long until the last has heard of a change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wire::Wire;
use tokio::sync::mpsc;

use crate::server::{Pair, Server, beside, collection, config_map};

/// Changes that are waited for in each turn; the median counts.
const CHANGES: usize = 10;

/// Measures, and adds the row.
pub fn run(rows: &mut Rows, pair: &Pair, watchers: usize, turns: usize) {
    for server in [&pair.ours, &pair.theirs] {
        server.namespace("watch");
    }
    let times = pair.measure(turns, |server, turn| last_heard(server, watchers, turn));
    let row = format!("{watchers} watchers of one collection, from the create until the last has its event");
    beside(rows, &row, times, "ms", Goal::AtMost(1.0));
}

/// Milliseconds.
fn last_heard(server: &Server, watchers: usize, turn: usize) -> f64 {
    let (heard, mut hears) = mpsc::channel(watchers);
    let writer = server.wires(1).remove(0);
    let wires = server.wires(watchers);
    runtime().block_on(async {
        let tasks: Vec<_> =
            wires.into_iter().map(|wire| runtime().spawn(watch(wire, heard.clone()))).collect();
        // Each says once that its watch is open.
        for _ in 0..watchers {
            hears.recv().await.expect("the watches are open");
        }
        let mut times = Vec::new();
        for n in 0..CHANGES {
            let from = Instant::now();
            let body = config_map(&format!("object-{turn}-{n}"));
            writer.call(Method::POST, &collection("watch"), body).await.expect("it is taken");
            let mut last = Duration::ZERO;
            for _ in 0..watchers {
                let at: Instant = hears.recv().await.expect("the watches are open");
                last = last.max(at.saturating_duration_since(from));
            }
            times.push(last.as_secs_f64() * 1e3);
        }
        for task in tasks {
            task.abort();
        }
        crate::server::median(times)
    })
}

/// Says when it is open, and when each event came.
async fn watch(wire: Arc<Wire>, heard: mpsc::Sender<Instant>) {
    let path = format!("{}?watch=1", collection("watch"));
    let list = wire.call(Method::GET, &format!("{}?limit=1", collection("watch")), Bytes::new()).await;
    let version = version_of(&list.expect("it is listed"));
    let path = format!("{path}&resourceVersion={version}");
    let response = wire.open(Method::GET, &path, Bytes::new()).await.expect("it is watched");
    let mut body = response.into_body();
    let _ = heard.send(Instant::now()).await;
    while let Some(Ok(frame)) = body.frame().await {
        // Every event ends its line; a frame may hold a part of one.
        for _ in frame.data_ref().iter().flat_map(|data| data.iter()).filter(|byte| **byte == b'\n') {
            let _ = heard.send(Instant::now()).await;
        }
    }
}

fn version_of(list: &Bytes) -> String {
    let list: serde_json::Value = serde_json::from_slice(list).expect("a list is JSON");
    list["metadata"]["resourceVersion"].as_str().expect("a list has a version").to_owned()
}
