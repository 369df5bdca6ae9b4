//! How the controllers' queues fare: what `/metrics` shows as `workqueue_*`.
//!
//! In: each queue as its controller starts, and what a queue counts of its keys. Out: text for Prometheus. One entry for each
//! controller there is, so the number of lines is fixed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::histogram::Histogram;

/// Upper ends of the histograms' buckets, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];

/// Durations, sorted into buckets.
#[derive(Clone, Debug, Default)]
pub struct Durations(Histogram<{ BUCKETS.len() }>);

impl Durations {
    /// One more.
    pub fn note(&mut self, took: Duration) {
        self.0.note(&BUCKETS, took);
    }
}

/// What a queue has counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Keys that are ready and wait for a worker.
    pub depth: usize,
    /// Keys that became ready.
    pub adds: u64,
    /// Failures that brought a key back.
    pub retries: u64,
    /// How long keys waited for a worker.
    pub waited: Durations,
    /// How long reconciles took.
    pub worked: Durations,
    /// For how long workers have had their keys by now, all together.
    pub unfinished: Duration,
    /// The longest of these.
    pub longest: Duration,
}

impl Counts {
    /// The same with keys that workers have had for so long.
    #[must_use]
    pub fn with_running(self, running: impl Iterator<Item = Duration>) -> Self {
        let zero = (Duration::ZERO, Duration::ZERO);
        let (unfinished, longest) =
            running.fold(zero, |(sum, longest), one| (sum.saturating_add(one), longest.max(one)));
        Counts { unfinished, longest, ..self }
    }
}

/// A queue that is counted.
pub trait Counted: Send + Sync {
    /// What it has counted so far.
    fn counts(&self) -> Counts;
}

/// The queues of one hub, by the names of their controllers.
#[derive(Default)]
pub struct Workqueues(Mutex<BTreeMap<&'static str, Arc<dyn Counted>>>);

impl std::fmt::Debug for Workqueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

impl Workqueues {
    /// The queue of `controller`.
    pub fn enter(&self, controller: &'static str, queue: Arc<dyn Counted>) {
        self.0.lock().insert(controller, queue);
    }

    /// What each queue has counted so far.
    pub fn counts(&self) -> BTreeMap<&'static str, Counts> {
        self.0.lock().iter().map(|(name, queue)| (*name, queue.counts())).collect()
    }

    /// The lines for `/metrics`.
    pub fn page(&self) -> String {
        let queues = self.counts();
        let mut out = String::new();
        let mut plain = |name: &str, kind: &str, help: &str, value: fn(&Counts) -> u64| {
            let _ = writeln!(out, "# HELP workqueue_{name} {help}\n# TYPE workqueue_{name} {kind}");
            for (queue, counts) in &queues {
                let _ = writeln!(out, "workqueue_{name}{{name=\"{queue}\"}} {}", value(counts));
            }
        };
        plain("depth", "gauge", "Keys that wait for a worker.", |counts| counts.depth as u64);
        plain("adds_total", "counter", "Keys that became ready.", |counts| counts.adds);
        plain("retries_total", "counter", "Failures that brought a key back.", |counts| counts.retries);
        let mut seconds = |name: &str, help: &str, value: fn(&Counts) -> Duration| {
            let _ = writeln!(out, "# HELP workqueue_{name} {help}\n# TYPE workqueue_{name} gauge");
            for (queue, counts) in &queues {
                let _ = writeln!(out, "workqueue_{name}{{name=\"{queue}\"}} {}", value(counts).as_secs_f64());
            }
        };
        let help = "For how long reconciles that are not done yet have run, all together.";
        seconds("unfinished_work_seconds", help, |counts| counts.unfinished);
        let help = "For how long the reconcile has run that has run longest.";
        seconds("longest_running_processor_seconds", help, |counts| counts.longest);
        let mut histogram = |name: &str, help: &str, value: fn(&Counts) -> &Durations| {
            let _ = writeln!(out, "# HELP workqueue_{name} {help}\n# TYPE workqueue_{name} histogram");
            for (queue, counts) in &queues {
                let (name, labels) = (format!("workqueue_{name}"), format!("name=\"{queue}\""));
                value(counts).0.write(&mut out, &BUCKETS, &name, &labels);
            }
        };
        histogram("queue_duration_seconds", "How long keys waited for a worker.", |counts| &counts.waited);
        histogram("work_duration_seconds", "How long reconciles took.", |counts| &counts.worked);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Counts);

    impl Counted for Fixed {
        fn counts(&self) -> Counts {
            self.0.clone()
        }
    }

    #[test]
    fn what_runs_is_told_as_it_stands() {
        let running = [250, 1000].map(Duration::from_millis);
        let queues = Workqueues::default();
        queues.enter("busy", Arc::new(Fixed(Counts::default().with_running(running.into_iter()))));
        queues.enter("idle", Arc::new(Fixed(Counts::default())));
        let page = queues.page();
        for line in [
            "workqueue_unfinished_work_seconds{name=\"busy\"} 1.25",
            "workqueue_longest_running_processor_seconds{name=\"busy\"} 1",
            "workqueue_unfinished_work_seconds{name=\"idle\"} 0",
            "workqueue_depth{name=\"busy\"} 0",
        ] {
            assert!(page.lines().any(|there| there == line), "{line}\n{page}");
        }
    }
}
