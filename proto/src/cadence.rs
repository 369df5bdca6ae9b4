//! How often an idle link is tried, and when silence means death. Arithmetic only: `now` is monotonic time since
//! any fixed start, the same start for all calls.
//!
//! The pinging end begins with a short interval and lengthens it while the path bears it, so that an idle agent
//! costs few packets; a cut at some length teaches it to stay below. The other end only needs to know by when it
//! should have heard something.

use std::time::Duration;

/// The interval before anything is known of the path.
pub const FIRST: Duration = Duration::from_secs(20);
/// The longest interval for a site that is meant to be connected always.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Pongs in a row at one length before the next is tried.
const PROOFS: u32 = 3;
/// A length that was cut is not tried again; this share of it is safe.
const SAFE_PERCENT: u32 = 80;

/// The learning side: how long to wait between pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// The interval in use.
    pub interval: Duration,
    /// No longer than this: the path cut one of this length, or the hub said so.
    pub ceiling: Duration,
    proofs: u32,
}

impl Default for Cadence {
    fn default() -> Self {
        Self { interval: FIRST, ceiling: LONGEST, proofs: 0 }
    }
}

impl Cadence {
    /// Continues with what an earlier session learned.
    pub fn learned(interval: Duration, ceiling: Duration) -> Self {
        let ceiling = ceiling.clamp(Duration::from_secs(1), LONGEST * 4);
        Self { interval: interval.clamp(Duration::from_secs(1), ceiling), ceiling, proofs: 0 }
    }

    /// The hub's bounds: never shorter than `min`, never longer than `max`.
    pub fn bound(&mut self, min: Duration, max: Duration) {
        self.ceiling = self.ceiling.min(max.max(min));
        self.interval = self.interval.clamp(min.min(self.ceiling), self.ceiling);
    }

    /// A pong came after a full quiet interval.
    pub fn proved(&mut self) {
        self.proofs += 1;
        if self.proofs >= PROOFS {
            self.proofs = 0;
            self.interval = (self.interval * 3 / 2).min(self.ceiling);
        }
    }

    /// The link died quietly at the current interval: below it from now on.
    pub fn cut(&mut self) {
        self.proofs = 0;
        if self.interval > FIRST {
            self.ceiling = (self.interval * SAFE_PERCENT / 100).max(FIRST);
        }
        self.interval = FIRST.min(self.ceiling);
    }
}

/// Silence of two and a half intervals is death (rule R6).
pub fn dead_after(interval: Duration) -> Duration {
    interval * 5 / 2
}

/// Silence of one and a half intervals is being late.
pub fn late_after(interval: Duration) -> Duration {
    interval * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unhindered_path_reaches_the_longest_interval_and_stays() {
        let mut cadence = Cadence::default();
        let mut steps = vec![cadence.interval.as_secs()];
        for _ in 0..30 {
            cadence.proved();
            if steps.last() != Some(&cadence.interval.as_secs()) {
                steps.push(cadence.interval.as_secs());
            }
        }
        assert_eq!(steps, [20, 30, 45, 60]);
    }

    #[test]
    fn a_path_that_cuts_at_40_seconds_settles_below() {
        let mut cadence = Cadence::default();
        let mut cuts = 0;
        for _ in 0..200 {
            if cadence.interval > Duration::from_secs(40) {
                cadence.cut();
                cuts += 1;
            } else {
                cadence.proved();
            }
        }
        assert_eq!(cuts, 1);
        assert!(cadence.interval <= Duration::from_secs(40) && cadence.interval >= Duration::from_secs(30));
    }

    #[test]
    fn the_hubs_bounds_win() {
        let mut cadence = Cadence::default();
        cadence.bound(Duration::from_secs(30), Duration::from_secs(240));
        assert_eq!((cadence.interval.as_secs(), cadence.ceiling.as_secs()), (30, 60));
        cadence.bound(Duration::from_secs(5), Duration::from_secs(25));
        assert_eq!(cadence.interval.as_secs(), 25);
        assert_eq!(dead_after(Duration::from_secs(20)).as_secs(), 50);
        assert_eq!(late_after(Duration::from_secs(20)).as_secs(), 30);
    }
}
