//! How fast the member may be worked on: a limit for new Works that grows while the member is quick and halves when
//! it is not; and how long a removal waits over which the agent ended.
//!
//! In: how calls to the member went, how often the agent ended. Out: how many may be under way at once, and for how long to wait. Pure.

use std::time::Duration;

/// A member slower than this is not helped by more at once.
const SLOW: Duration = Duration::from_secs(2);
const FEWEST: f64 = 1.0;
const MOST: f64 = 32.0;

/// How many applications may be under way at once.
#[derive(Debug, Clone)]
pub struct Adaptive {
    limit: f64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { limit: 8.0 }
    }
}

impl Adaptive {
    /// Under way at once.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// One ended after `latency`; `throttled` where the member asked for a pause or did not answer.
    pub fn ended(&mut self, latency: Duration, throttled: bool) {
        self.limit = if throttled || latency > SLOW {
            (self.limit / 2.0).max(FEWEST)
        } else {
            (self.limit + 1.0 / self.limit).min(MOST)
        };
    }
}

/// How long a removal is put off that the agent ended over so often: no time at all below `from`, where that may be chance, and ten
/// minutes at most.
pub fn after_crashes(crashes: u32, from: u32) -> Duration {
    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(600);
    let Some(more) = crashes.checked_sub(from) else { return Duration::ZERO };
    FIRST.saturating_mul(1 << more.min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_grows_while_quick_and_halves_when_not() {
        let mut limit = Adaptive::default();
        for _ in 0..2000 {
            limit.ended(Duration::from_millis(5), false);
        }
        assert_eq!(limit.limit(), 32);
        limit.ended(Duration::from_millis(5), true);
        assert_eq!(limit.limit(), 16);
        for _ in 0..20 {
            limit.ended(Duration::from_secs(10), false);
        }
        assert_eq!(limit.limit(), 1);
    }
}
