//! The Kubernetes API alone, beside kube-apiserver and etcd: how fast, how large, how soon it is up, how fair.
//!
//! In: a release hub without its control loops, and a kube-apiserver with an etcd that writes to disk before it acknowledges, both
//! on this machine. Out: one JSON line a row, and a table, as the line bench. Each figure is taken turn by turn, so that both meet
//! the same machine. `cargo bench -p tests --bench apiserver`; with `-- --quick` everything is small, to see that it runs; with
//! `-- --speed`, `-- --memory` or `-- --fairness` only that part.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]

mod fairness;
mod lists;
mod load;
mod memory;
mod server;
mod watchers;

use std::time::Duration;

use server::Pair;
use tests::rows::Rows;

/// How much of everything.
struct Plan {
    /// How long one turn of writing or reading lasts, and how many turns there are.
    turn: Duration,
    turns: usize,
    listed: usize,
    watchers: usize,
    definitions: usize,
    stored: usize,
    quiet: Duration,
}

const WHOLE: Plan = Plan {
    turn: Duration::from_secs(4),
    turns: 5,
    listed: 10_000,
    watchers: 1000,
    definitions: 200,
    stored: 100_000,
    quiet: Duration::from_secs(30),
};

const QUICK: Plan = Plan {
    turn: Duration::from_millis(500),
    turns: 1,
    listed: 300,
    watchers: 20,
    definitions: 10,
    stored: 1000,
    quiet: Duration::from_secs(2),
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_some_and(|first| first == "--flood") {
        return fairness::flood(std::path::Path::new(&arguments.next().unwrap_or_default()));
    }
    let asked = |name: &str| std::env::args().any(|argument| argument == name);
    let plan = if asked("--quick") { QUICK } else { WHOLE };
    let parts = ["--speed", "--memory", "--fairness"];
    let wanted = |part: &str| asked(part) || !parts.iter().any(|one| asked(one));
    let mut rows = Rows::default();
    if wanted("--memory") {
        memory::run(&mut rows, &plan);
    }
    if wanted("--speed") {
        let pair = Pair::start();
        load::run(&mut rows, &pair, plan.turn, plan.turns);
        lists::run(&mut rows, &pair, plan.listed, plan.turns);
        watchers::run(&mut rows, &pair, plan.watchers, plan.turns);
        pair.stop();
    }
    if wanted("--fairness") {
        let pair = Pair::start();
        fairness::run(&mut rows, &pair, plan.listed, plan.turn * 2);
        pair.stop();
    }
    rows.table();
}
