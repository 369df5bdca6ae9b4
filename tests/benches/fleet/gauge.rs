//! What is measured: the CPU time of this process, and the keys that came into the control loops' queues.
//!
//! In: a hub's queues. Out: costs, between an event and the rest that follows it.

use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::workqueues::Workqueues;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// How long nothing must move, and what little a hub at rest takes of the CPU in that time.
const QUIET: Duration = Duration::from_millis(500);
/// How long [`Gauge::rest`] looks at a hub that is at rest already.
pub const QUIET_IN_ALL: Duration = Duration::from_millis(1000);
const IDLE: Duration = Duration::from_millis(25);

/// Prints a figure.
pub fn row(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": (value * 100.0).round() / 100.0, "unit": unit}));
}

/// The CPU time of this process so far.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The memory of this process at its highest so far, in MB.
pub fn highest_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok()).unwrap_or(0.0)
        / 1024.0
}

/// Looks at one hub.
pub struct Gauge {
    queues: Arc<Workqueues>,
}

impl Gauge {
    /// A gauge for a hub with these queues.
    pub fn new(queues: Arc<Workqueues>) -> Self {
        Gauge { queues }
    }

    /// Keys that became ready so far, by the loops' names.
    fn adds(&self) -> Vec<(String, u64)> {
        let page = self.queues.page();
        let lines = page.lines().filter_map(|line| line.strip_prefix("workqueue_adds_total{name=\""));
        let read = |line: &str| {
            let (name, count) = line.split_once("\"} ")?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        lines.filter_map(read).collect()
    }

    /// Keys that became ready so far.
    pub fn keys(&self) -> u64 {
        self.adds().iter().map(|(_, count)| count).sum()
    }

    /// Returns when the loops are at rest.
    pub async fn rest(&self) {
        let mut quiet = 0;
        while quiet < 2 {
            let (keys, before) = (self.keys(), cpu());
            tokio::time::sleep(QUIET).await;
            let moved = self.keys() != keys || cpu() - before > IDLE;
            quiet = if moved { 0 } else { quiet + 1 };
        }
    }

    /// Runs an event some times, each from rest to rest, and prints what one costs.
    pub async fn measure(&self, name: &str, times: usize, mut event: impl AsyncFnMut(usize)) {
        self.rest().await;
        let (keys, before) = (self.adds(), cpu());
        for time in 0..times {
            event(time).await;
            self.rest().await;
        }
        let each = times as f64;
        row(&format!("{name}: CPU"), (cpu() - before).as_secs_f64() * 1e3 / each, "ms");
        let woken: Vec<(String, u64)> = self
            .adds()
            .into_iter()
            .map(|(name, count)| {
                let earlier = keys.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
                (name, count - earlier)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        let all: u64 = woken.iter().map(|(_, count)| count).sum();
        row(&format!("{name}: keys"), all as f64 / each, "keys");
        if std::env::args().any(|argument| argument == "--by-loop") {
            for (queue, count) in woken {
                row(&format!("{name}: keys of {queue}"), count as f64 / each, "keys");
            }
        }
    }
}
