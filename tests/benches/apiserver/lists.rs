//! Lists of many objects, whole and in pages.

use std::time::Instant;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wire::Wire;

use crate::server::{Pair, Server, beside, collection};

const PAGE: usize = 500;

/// What a pager reads of a page.
#[derive(Deserialize)]
struct Page {
    metadata: Metadata,
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "continue", default)]
    next: String,
}

/// Measures, and adds the rows.
pub fn run(rows: &mut Rows, pair: &Pair, count: usize, turns: usize) {
    for server in [&pair.ours, &pair.theirs] {
        server.namespace("list");
        server.fill("list", count);
    }
    let whole = pair.measure(turns, |server, _| timed(server, count, None));
    beside(rows, &format!("list of {count} objects of 2 KB, whole"), whole, "ms", Goal::AtMost(1.0));
    let paged = pair.measure(turns, |server, _| timed(server, count, Some(PAGE)));
    let row = format!("list of {count} objects of 2 KB, in pages of {PAGE}");
    beside(rows, &row, paged, "ms", Goal::AtMost(1.0));
}

/// Milliseconds of one list. Checks that it holds what it should.
fn timed(server: &Server, count: usize, page: Option<usize>) -> f64 {
    let wire = server.wires(1).remove(0);
    runtime().block_on(async {
        // The connection is made before the clock runs.
        wire.call(Method::GET, "/readyz", Bytes::new()).await.expect("it is ready");
        let from = Instant::now();
        let bodies = pages(&wire, page).await;
        let took = from.elapsed();
        let listed: usize = bodies.iter().map(|body| read(body).items.len()).sum();
        assert_eq!(listed, count, "every object is listed once");
        took.as_secs_f64() * 1e3
    })
}

async fn pages(wire: &Wire, page: Option<usize>) -> Vec<Bytes> {
    let (mut bodies, mut next) = (Vec::new(), String::new());
    loop {
        let mut path = collection("list");
        if let Some(limit) = page {
            path.push_str(&format!("?limit={limit}&continue={next}"));
        }
        let body = wire.call(Method::GET, &path, Bytes::new()).await.expect("it is listed");
        next = if page.is_some() { read(&body).metadata.next } else { String::new() };
        bodies.push(body);
        if next.is_empty() {
            return bodies;
        }
    }
}

fn read(body: &Bytes) -> Page {
    serde_json::from_slice(body).expect("a list is JSON")
}
