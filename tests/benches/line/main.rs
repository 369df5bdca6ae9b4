//! The first figures: how fast and how small the whole line is, beside the real thing done directly.
//!
//! In: a release hub, release agents, three real members (etcd, kube-apiserver, controllers, kwok). Out: one JSON line a row
//! (`{"row","ours","peer","unit","goal","met"}`) and a table. `cargo bench -p tests --bench line`; with `-- --quick` the quiet
//! times are short and the fleet is small, to see that it runs; with `-- --speed` only propagation is measured, with `-- --burst` hardly more than its bursts,
//! with `-- --stages` only where one object's time goes, with `-- --fleet` only the memory of many agents.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]

mod footprint;
mod idle;
mod processor;
mod propagation;
mod site;
mod stages;

use std::time::Duration;

use site::Site;
use tests::rows::Rows;

/// How much of everything.
struct Plan {
    serial: usize,
    burst: usize,
    rounds: usize,
    quiet: Duration,
    idle: Duration,
    fleet: usize,
}

fn main() {
    let asked = |name: &str| std::env::args().any(|argument| argument == name);
    let quick = asked("--quick");
    let plan = if quick {
        Plan {
            serial: 10,
            burst: 30,
            rounds: 1,
            quiet: Duration::from_secs(3),
            idle: Duration::from_secs(20),
            fleet: 50,
        }
    } else {
        Plan {
            serial: 100,
            burst: 300,
            rounds: 5,
            quiet: Duration::from_secs(60),
            idle: Duration::from_secs(300),
            fleet: 1000,
        }
    };
    let mut rows = Rows::default();
    if asked("--speed") {
        let mut site = Site::start(3);
        propagation::run(&mut rows, &mut site, plan.serial, plan.burst, plan.rounds);
        return;
    }
    if asked("--burst") {
        let mut site = Site::start(3);
        propagation::run(&mut rows, &mut site, 3, plan.burst, plan.rounds);
        return;
    }
    if asked("--stages") {
        let site = Site::start(3);
        propagation::place_everywhere(&site);
        stages::run(&site, plan.serial);
        return;
    }
    if asked("--fleet") {
        idle::fleet(&mut rows, plan.fleet, plan.quiet.min(Duration::from_secs(20)), plan.idle);
        return;
    }
    footprint::binaries(&mut rows);
    let mut site = Site::start(3);
    footprint::warm_up(&site);
    footprint::idle(&mut rows, &mut site, plan.quiet);
    propagation::run(&mut rows, &mut site, plan.serial, plan.burst, plan.rounds);
    stages::run(&site, plan.serial);
    idle::traffic(&mut rows, &mut site, plan.idle);
    site.stop();
    idle::fleet(&mut rows, plan.fleet, plan.quiet.min(Duration::from_secs(20)), plan.idle);
    rows.table();
}
