//! How fast the scheduler decides, and how much memory a decision over a large fleet takes.
//!
//! In: fleets of 100, 1,000 and 10,000 clusters that say what a real cluster says (kinds served, nodes, room, grades), and bindings of the usual kinds of
//! placement. Out: one JSON line a row (`{"row","ours","peer","unit","goal","met"}`) and a table: decisions a second (one thread, the median of five rounds) and
//! the 99th of a hundred decisions. What is measured is the decision: from a binding and the clusters as they are held in memory to targets and reasons;
//! reading and writing the API is not in it (`--bench fleet` has that).
//!
//! `cargo bench -p tests --bench scheduler`; Karmada says of itself 22 bindings a second and 32 ms for the 99th of a hundred decisions at 100 clusters,
//! which has its writes in it.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]

mod fleets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::workload_affinity::AllowedClusters;
use karmada_core::scheduler::{Input, Outcome, schedule};
use tests::rows::{Goal, Rows};

use fleets::{Placement, Regions, binding, fleet, placements, spread};

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// How long a round takes at least.
const ROUND: Duration = Duration::from_millis(400);
/// Karmada's own figures at 100 clusters.
const PEER: &str = "Karmada 22/s at 100 clusters, writes included";
const PEER_LATENCY: &str = "Karmada 32 ms at 100 clusters, writes included";

fn targets(binding: &ResourceBinding, clusters: &[Arc<Cluster>]) -> Vec<TargetCluster> {
    let input = Input {
        binding,
        clusters,
        scheduler: karmada_api::strings::DEFAULT_SCHEDULER,
        keeps_empty: false,
        neighbours: AllowedClusters::default(),
        taken: Taken::new(),
        exact: Default::default(),
        residency: Default::default(),
        expressions: None,
    };
    match schedule(&input).outcome {
        Outcome::Scheduled(targets) => targets,
        other => panic!("{:?}: {other:?}", binding.metadata.name),
    }
}

/// Decisions a second, and the 99th of a hundred.
fn measure(binding: &ResourceBinding, clusters: &[Arc<Cluster>]) -> (f64, f64) {
    let mut rates = Vec::with_capacity(ROUNDS);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < ROUND || times.len() < 100 {
            let one = Instant::now();
            assert!(!targets(binding, clusters).is_empty());
            times.push(one.elapsed());
            count += 1;
        }
        rates.push(f64::from(count) / begun.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    times.sort();
    (rates[ROUNDS / 2], times[times.len() * 99 / 100].as_secs_f64() * 1e3)
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok()
    };
    field("VmHWM:").unwrap_or(0.0) / 1024.0
}

fn main() {
    let mut rows = Rows::default();
    for count in [100, 1_000, 10_000] {
        let clusters = fleet(count, Regions::Of(10));
        for Placement { name, spec } in placements() {
            let (rate, late) = measure(&binding(name, &spec), &clusters);
            // A hundred times what Karmada says of 100 clusters, and as much less as the fleet is larger.
            let goal = 2_200.0 * 100.0 / count as f64;
            rows.add(&format!("{name}, {count} clusters"), rate, "decisions/s", PEER, Goal::AtLeast(goal));
            let goal = Goal::AtMost(0.32 * count as f64 / 100.0);
            rows.add(&format!("{name}, {count} clusters, p99"), late, "ms", PEER_LATENCY, goal);
        }
    }
    let clusters = fleet(10_000, Regions::Of(10));
    let everywhere = placements().into_iter().next().expect("there is one");
    let mut placed = binding(everywhere.name, &everywhere.spec);
    placed.spec.clusters = targets(&placed, &clusters);
    placed.spec.replicas += 1;
    let (rate, late) = measure(&placed, &clusters);
    let row = "all 10,000 clusters that have it get a replica more";
    rows.add(row, rate, "decisions/s", PEER, Goal::AtLeast(22.0));
    rows.add("the same, p99", late, "ms", PEER_LATENCY, Goal::AtMost(32.0));
    let before = resident();
    let clusters = fleet(10_000, Regions::Each);
    let fleet_takes = resident() - before;
    let (rate, late) = measure(&binding("spread over two regions", &spread(2, 2)), &clusters);
    rows.add(
        "spread over two regions, one region a site, 10,000 clusters",
        rate,
        "decisions/s",
        PEER,
        Goal::AtLeast(22.0),
    );
    rows.add("the same, p99", late, "ms", PEER_LATENCY, Goal::AtMost(32.0));
    let more = resident() - before - fleet_takes;
    rows.add("the same: memory beside the fleet, at its highest", more, "MB", "-", Goal::AtMost(50.0));
    rows.table();
}
