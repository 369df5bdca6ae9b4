//! What the reconciler, the summary and the link count for a monitor.
//!
//! In: what happened, and how long it took. Out: numbers; each part adds to its own fields, [`crate::metrics`] reads
//! them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::counted_member::WriteCounts;

/// Upper ends of the buckets of durations, in seconds: 1 ms, and twice as much eleven times, as upstream has them.
pub const BUCKETS: [f64; 12] =
    [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048];

/// What is counted. Gauges are set, counters only grow.
#[derive(Debug, Default)]
pub struct Counts {
    /// Works that wait or are worked on.
    pub pending: AtomicI64,
    /// Works that are left alone because they crashed the agent.
    pub quarantined: AtomicI64,
    /// Whether the member is ready; nothing is said before it is known.
    pub ready: AtomicI64,
    /// Nodes of the member.
    pub nodes: AtomicI64,
    /// Nodes that are ready.
    pub ready_nodes: AtomicI64,
    /// When the agent's certificate ends, in seconds since 1970.
    pub certificate_ends: AtomicI64,
    /// Applications that succeeded.
    pub applied: AtomicU64,
    /// Applications that failed.
    pub failed: AtomicU64,
    /// How long Works took to be brought to the member, where nothing of them failed.
    pub synced: Durations,
    /// How long they took where something did.
    pub sync_failed: Durations,
    /// Works that were removed.
    pub removed: AtomicU64,
    /// Times that an object was brought back to what the hub says.
    pub drifted: AtomicU64,
    /// How long it took to find out how the member is.
    pub status_synced: Durations,
    /// What was written to the member, by kind.
    pub writes: Arc<WriteCounts>,
}

/// How often something was done, and how long it took, by buckets.
#[derive(Debug, Default)]
pub struct Durations {
    /// Of each bucket alone.
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    /// One more.
    pub fn note(&self, took: Duration) {
        if let Some(at) = BUCKETS.iter().position(|end| took.as_secs_f64() <= *end) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many seconds all of them took.
    pub fn seconds(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// The upper end of each bucket with how many took no longer.
    pub fn up_to(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BUCKETS.into_iter().zip(&self.buckets).map(move |(end, own)| {
            sum += own.load(Ordering::Relaxed);
            (end, sum)
        })
    }
}
