//! Creates and gets: how many a second, by one client and by many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wire::Wire;

use crate::server::{Pair, Server, beside, collection, config_map};

const MANY: usize = 32;

/// Measures, and adds the rows.
pub fn run(rows: &mut Rows, pair: &Pair, turn: Duration, turns: usize) {
    for server in [&pair.ours, &pair.theirs] {
        server.namespace("load");
    }
    for clients in [1, MANY] {
        let rates = pair.measure(turns, |server, number| {
            rate(server, clients, turn, move |wire, client, n| {
                let name = format!("object-{clients}-{number}-{client}-{n}");
                let wire = wire.clone();
                async move { wire.call(Method::POST, &collection("load"), config_map(&name)).await }
            })
        });
        let row = format!("creates a second, {clients} client(s), each on disk");
        beside(rows, &row, rates, "1/s", Goal::AtLeast(1.0));
    }
    for clients in [1, MANY] {
        let rates = pair.measure(turns, |server, _| {
            rate(server, clients, turn, |wire, _, _| {
                let wire = wire.clone();
                let path = format!("{}/object-1-0-0-0", collection("load"));
                async move { wire.call(Method::GET, &path, Bytes::new()).await }
            })
        });
        beside(rows, &format!("gets a second, {clients} client(s)"), rates, "1/s", Goal::AtLeast(1.0));
    }
}

/// Requests a second of `clients`, each with one under way at a time.
fn rate<F>(
    server: &Server,
    clients: usize,
    turn: Duration,
    one: impl Fn(&Arc<Wire>, usize, usize) -> F + Send + Sync + Clone + 'static,
) -> f64
where
    F: Future<Output = anyhow::Result<Bytes>> + Send,
{
    let wires = server.wires(clients);
    let done = Arc::new(AtomicUsize::new(0));
    let from = Instant::now();
    runtime().block_on(async {
        let tasks = wires.into_iter().enumerate().map(|(client, wire)| {
            let (one, done) = (one.clone(), done.clone());
            runtime().spawn(async move {
                for n in 0.. {
                    one(&wire, client, n).await.expect("it is answered");
                    done.fetch_add(1, Ordering::Relaxed);
                    if from.elapsed() >= turn {
                        break;
                    }
                }
            })
        });
        for task in futures::future::join_all(tasks).await {
            task.expect("no client panics");
        }
    });
    done.load(Ordering::Relaxed) as f64 / from.elapsed().as_secs_f64()
}
