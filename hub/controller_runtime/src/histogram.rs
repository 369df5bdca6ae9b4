//! Durations sorted into buckets, as Prometheus has them.
//!
//! In: how long things took. Out: the lines of one histogram. Whoever keeps one says the upper ends of its buckets, in seconds and in order.

use std::fmt::Write as _;
use std::time::Duration;

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<const N: usize> {
    /// Of each bucket alone.
    buckets: [u64; N],
    count: u64,
    seconds: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Histogram { buckets: [0; N], count: 0, seconds: 0.0 }
    }
}

impl<const N: usize> Histogram<N> {
    /// One more.
    pub fn note(&mut self, ends: &[f64; N], took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(at) = ends.iter().position(|end| seconds <= *end) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes its lines; `labels` as they are written, without braces.
    pub fn write(&self, out: &mut String, ends: &[f64; N], name: &str, labels: &str) {
        let mut sum = 0;
        for (end, count) in ends.iter().zip(self.buckets) {
            sum += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {sum}");
        }
        let Histogram { count, seconds, .. } = self;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
    }
}
