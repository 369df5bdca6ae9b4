//! The pause that a member asks for (429 with `Retry-After`, as of an overloaded API server), of applies or of removals. Pure.
//!
//! In: until when it was asked for, and when one is tried meanwhile. Out: when something may be begun.

use std::time::Duration;

/// A pause that the member asked for, of applies or of removals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pause {
    pub(super) until: Duration,
    /// When the next of others may be begun meanwhile.
    pub(super) probe: Duration,
}

impl Pause {
    /// When something may be begun at `now`.
    pub(super) fn opens(&self, now: Duration) -> Duration {
        if now < self.until { self.probe.min(self.until) } else { Duration::ZERO }
    }
}
