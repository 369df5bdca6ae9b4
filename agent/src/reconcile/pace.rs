//! How fast the member may be worked on: a token bucket for drift and resync, and a limit for new Works that grows while the member is
//! quick and halves when it is not; and how long a removal waits over which the agent ended.
//!
//! In: time, how calls to the member went, how often the agent ended. Out: whether one more may begin, or when. Pure.

use std::time::Duration;

/// A token bucket. `now` is monotonic time since any fixed start.
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// `rate` per second, `burst` at once.
    pub fn new(rate: f64, burst: f64) -> Self {
        Self { rate: rate.max(0.01), burst, tokens: burst, at: Duration::ZERO }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// When there is one, where there is none now.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        (self.tokens, self.at) = ((self.tokens + passed * self.rate).min(self.burst), now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(now + Duration::from_secs_f64((1.0 - self.tokens) / self.rate))
    }
}

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
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(5.0, 10.0);
        let mut now = Duration::from_secs(1);
        assert!((0..10).all(|_| bucket.take(now).is_ok()));
        let mut taken = 0;
        while now < Duration::from_secs(3) {
            match bucket.take(now) {
                Ok(()) => taken += 1,
                Err(at) => now = at + Duration::from_micros(1),
            }
        }
        assert!((9..=11).contains(&taken), "{taken} in two seconds");
    }

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
