//! What an event costs a hub's control loops in a large fleet.
//!
//! In: a hub within this process (its registry, store and control loops; no network, no agents), with so many Clusters that are Ready, and
//! so many Deployments, each placed in a few of them. Out: one JSON line for each figure: `name`, `value`, `unit`. An event's cost is the CPU time of the
//! process from the write until the loops are at rest again (what an idle hub takes in that time is in it), and how many keys it brought into
//! the loops' queues.
//!
//! `cargo bench -p tests --bench fleet`; `-- --clusters N`, `-- --bindings N` for another size, and `-- --times N` for how often each event comes.
//! With `-- --storms` it is what comes down on a whole fleet at once ([`storms`]), with `-- --agents N` the stream, with so many agents ([`agents`]).

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]

mod agents;
mod counted_connection;
mod events;
mod fleet;
mod gauge;
mod simulated_agent;
mod simulator;
mod storms;

use std::sync::Arc;

use jiff::Timestamp;
use karmada_hub::{AccessSettings, Hub, LifecycleSettings, RegistryApi, Serves, Settings, StoreKind};

use events::Bench;
use fleet::Size;
use gauge::{Gauge, row};
use storms::Storm;

fn number(name: &str, otherwise: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn settings(directory: &std::path::Path) -> Settings {
    Settings {
        serves: Serves::Fleet,
        data_dir: directory.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: Vec::new(),
        store: StoreKind::Sqlite,
        accept_data_loss: false,
        encryption: None,
        controllers: true,
        lifecycle: LifecycleSettings::default(),
        access: AccessSettings::default(),
    }
}

/// A hub whose clock stands still: no agent is there, and none is missed.
async fn start(directory: &std::path::Path, now: Timestamp) -> (Hub, RegistryApi) {
    let hub = Hub::start(&settings(directory), Arc::new(move || now)).await.expect("a hub");
    let api = RegistryApi::new(hub.registry.clone(), "bench", Arc::default());
    (hub, api)
}

fn main() {
    let asked = |name: &str| std::env::args().any(|argument| argument == name);
    if asked("--simulator") {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("a runtime").block_on(simulator::run());
    }
    if asked("--agents") {
        return agents::run(number("--agents", 1000), asked("--grpc"), asked("--quick"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if asked("--storms") {
        let storm = Storm {
            clusters: number("--clusters", 1000),
            namespaces: number("--namespaces", 100),
            workloads: number("--bindings", 10_000),
            flaps: number("--flaps", 1000),
        };
        let directory = tempfile::tempdir().expect("a directory");
        return runtime.block_on(storms::run(storm, directory.path()));
    }
    let size = Size { clusters: number("--clusters", 1000), bindings: number("--bindings", 2000) };
    runtime.block_on(run(size, number("--times", 5)));
}

async fn run(size: Size, times: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let now = Timestamp::now();
    let (hub, api) = start(directory.path(), now).await;
    let begun = std::time::Instant::now();
    let gauge = Gauge::new(hub.workqueues.clone());
    fleet::lay_out(&api, &gauge, size).await;
    row("laying the fleet out", begun.elapsed().as_secs_f64(), "s");
    row("objects Work", fleet::works(&api).await as f64, "objects");
    Bench { api: &api, gauge: &gauge, size, times }.run().await;
    hub.stop().await;

    let before = gauge::cpu();
    let (hub, _) = start(directory.path(), now).await;
    let gauge = Gauge::new(hub.workqueues.clone());
    gauge.rest().await;
    row("start-up: CPU", (gauge::cpu() - before).as_secs_f64(), "s");
    row("start-up: keys", gauge.keys() as f64, "keys");
    hub.stop().await;
}
