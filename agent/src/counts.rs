//! What the reconciler, the summary and the link count for a monitor.
//!
//! Types alone: each part adds to its own fields, [`crate::metrics`] reads them all.

use std::sync::atomic::{AtomicI64, AtomicU64};

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
    /// Works that were removed.
    pub removed: AtomicU64,
    /// Times that an object was brought back to what the hub says.
    pub drifted: AtomicU64,
}
