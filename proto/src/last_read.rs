//! When a connection last brought a byte. A frame that takes long on a slow link is no silence: its bytes show that the peer is alive.
//!
//! Comes in: the time of each read, from whoever reads the transport. Goes out: the last of them, for the session's look at the
//! clock. Times are monotonic, since any fixed start that both use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Clones are of the same connection.
#[derive(Debug, Clone, Default)]
pub struct LastRead(Arc<AtomicU64>);

impl LastRead {
    /// Bytes came at `now`.
    pub fn note(&self, now: Duration) {
        self.0.fetch_max(now.as_micros() as u64, Ordering::Relaxed);
    }

    /// When the last came; zero where none has.
    #[must_use]
    pub fn at(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_read_counts() {
        let last_read = LastRead::default();
        assert_eq!(last_read.at(), Duration::ZERO);
        let same = last_read.clone();
        same.note(Duration::from_secs(7));
        last_read.note(Duration::from_secs(3));
        assert_eq!(last_read.at(), Duration::from_secs(7));
    }
}
