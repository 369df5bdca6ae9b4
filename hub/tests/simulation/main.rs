//! The stream between hub and agents as a whole, against everything that happens to it: the hub's store, registry and gateway, and agents
//! with their sessions, ledgers, engines and members in memory, in one process on one thread, in simulated time. What happens is drawn from
//! a seed; when the trouble is over and everything is mended, the members must hold what the hub says, no more and no less.
//!
//! `SIMULATION_SEEDS=10000` runs so many seeds, `SIMULATION_SEED=7` one alone, and `SIMULATION_TRACE=1` shows what happens (with `RUST_LOG`, also
//! what the product says of it).

#![allow(clippy::disallowed_methods, reason = "certificates are looked at by this machine's time")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(missing_docs)]

mod agent;
mod crash;
mod cursors;
mod dice;
mod disk;
mod hub;
mod identities;
mod in_sync;
mod invariants;
mod judge;
mod ledgers;
mod log;
mod member;
mod network;
mod pipe;
mod script;
mod skew;
mod users;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::dice::Dice;
use crate::world::World;

/// Seeds of a run of the tests: some three minutes of a dev build on two cores.
const SEEDS: u64 = 200;

/// What came of a seed.
struct Came {
    wrong: Vec<String>,
    lines: Vec<String>,
}

fn run(seed: u64) -> Came {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut dice = Dice::new(seed, "size");
        let sites = if dice.chance(60) { 1 } else { dice.between(2, 3) } as usize;
        let mut world = World::begin(seed, sites).await;
        for at in 0..sites {
            let registry = world.registry().unwrap();
            for _ in 0..dice.between(0, 12) {
                world.users.create(&registry, &format!("s{at}"), None).await.unwrap();
            }
        }
        world.trouble(dice.between(5, 60)).await;
        world.mend().await;
        world.converge().await;
        // What was held after a restore is over with the listing of the next session.
        if world.wrong.is_empty() && world.hub_returns > 0 {
            world.restart().await;
        }
        if world.wrong.is_empty() {
            world.restart_in_sync().await;
        }
        world.pass(Duration::ZERO).await;
        Came { wrong: world.wrong, lines: world.log.lines() }
    })
}

fn judge(seed: u64) -> Result<(), String> {
    let came = std::panic::catch_unwind(|| run(seed));
    match came {
        Ok(came) if came.wrong.is_empty() => Ok(()),
        Ok(came) => Err(format!("SIMULATION_SEED={seed}\n  {}", came.wrong.join("\n  "))),
        Err(_) => Err(format!("SIMULATION_SEED={seed}\n  it panicked")),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn whatever_happens_members_come_to_hold_what_the_hub_says() {
    if let Some(seed) = number("SIMULATION_SEED") {
        if std::env::var_os("SIMULATION_TRACE").is_some() {
            let filter = tracing_subscriber::EnvFilter::from_default_env();
            let _ =
                tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).without_time().try_init();
        }
        if let Err(wrong) = judge(seed) {
            panic!("{wrong}");
        }
        return;
    }
    let (first, seeds) =
        (number("SIMULATION_FIRST").unwrap_or(0), number("SIMULATION_SEEDS").unwrap_or(SEEDS));
    let next = AtomicU64::new(first);
    let failed = parking_lot::Mutex::new(Vec::new());
    let most = number("SIMULATION_FAILURES").unwrap_or(5) as usize;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || failed.lock().len() >= most {
                        return;
                    }
                    if let Err(wrong) = judge(seed) {
                        eprintln!("{wrong}");
                        failed.lock().push((seed, wrong));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner();
    failed.sort();
    let all: Vec<String> = failed.into_iter().map(|(_, wrong)| wrong).collect();
    assert!(all.is_empty(), "{} seeds failed:\n{}", all.len(), all.join("\n"));
}

/// A line's time in seconds, and what happened then.
fn timed(line: &str) -> (f64, &str) {
    let (time, what) = line.trim_start().split_once(' ').unwrap();
    (time.parse().unwrap(), what)
}

/// Keys are drawn by the system, and a signature has 70 to 72 bytes: on a slow line, where each byte takes its time, that is some microseconds more or
/// less.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 1001] {
        let (first, second) = (run(seed).lines, run(seed).lines);
        for (at, (one, other)) in first.iter().zip(&second).enumerate() {
            let ((then, what), (now, other)) = (timed(one), timed(other));
            assert_eq!(what, other, "line {at} of seed {seed}");
            assert!((then - now).abs() < 0.01, "line {at} of seed {seed}: {then} and {now}");
        }
        assert_eq!(first.len(), second.len());
        assert!(first.len() > 20, "something happened");
    }
}
