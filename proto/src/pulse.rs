//! When a connection last brought a byte. A frame that takes long on a slow link is no silence: its bytes show that the peer is alive.
//!
//! Comes in: the time of each read, from whoever reads the transport. Goes out: the last of them, for the session's look at the
//! clock. Times are monotonic, since any fixed start that both use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Clones are of the same connection.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Bytes came at `now`.
    pub fn beat(&self, now: Duration) {
        self.0.fetch_max(now.as_micros() as u64, Ordering::Relaxed);
    }

    /// When the last came; zero where none has.
    #[must_use]
    pub fn last(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_beat_counts() {
        let pulse = Pulse::default();
        assert_eq!(pulse.last(), Duration::ZERO);
        let same = pulse.clone();
        same.beat(Duration::from_secs(7));
        pulse.beat(Duration::from_secs(3));
        assert_eq!(pulse.last(), Duration::from_secs(7));
    }
}
