//! A token bucket: so many at once, and so many a minute after that. Pure.
//!
//! In: a rate, and monotonic time since any fixed start. Out: yes, or how long to wait.

use std::time::Duration;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In the long run.
    pub per_minute: f64,
    /// At once.
    pub burst: f64,
}

impl Rate {
    /// So many a minute, and so many at once; at least one.
    pub fn per_minute(per_minute: u32, burst: u32) -> Rate {
        Rate { per_minute: f64::from(per_minute.max(1)), burst: f64::from(burst.max(1)) }
    }

    fn per_second(self) -> f64 {
        self.per_minute / 60.0
    }
}

/// What one has left.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    left: f64,
    at: Duration,
}

impl TokenBucket {
    /// With the whole burst.
    pub fn full(rate: Rate, now: Duration) -> TokenBucket {
        TokenBucket { left: rate.burst, at: now }
    }

    /// Whether it has the whole burst by now.
    pub fn is_full(&mut self, rate: Rate, now: Duration) -> bool {
        self.refill(rate, now);
        self.left >= rate.burst
    }

    fn refill(&mut self, rate: Rate, now: Duration) {
        let gone = now.saturating_sub(self.at).as_secs_f64();
        self.left = (self.left + gone * rate.per_second()).min(rate.burst);
        self.at = self.at.max(now);
    }

    /// Takes one.
    ///
    /// # Errors
    /// After how long there is one, where there is none now.
    pub fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        self.refill(rate, now);
        // Sums of parts of one fall short of it by a hair.
        if self.left >= 1.0 - 1e-6 {
            self.left = (self.left - 1.0).max(0.0);
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) / rate.per_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate::per_minute(10, 20);
        let mut bucket = TokenBucket::full(rate, at(0));
        assert_eq!((0..30).filter(|_| bucket.take(rate, at(0)).is_ok()).count(), 20);
        assert_eq!(bucket.take(rate, at(0)), Err(at(6)));
        assert!(bucket.take(rate, at(5)).is_err() && bucket.take(rate, at(6)).is_ok());
        assert!(bucket.take(rate, at(6)).is_err());
        assert!(!bucket.is_full(rate, at(100)) && bucket.is_full(rate, at(3600)));
        assert_eq!(
            (0..99).filter(|_| bucket.take(rate, at(3600)).is_ok()).count(),
            20,
            "no more than the burst"
        );
        assert!(bucket.take(rate, at(10)).is_err(), "a clock that goes back gives nothing");
    }

    #[test]
    fn who_waits_as_told_gets_the_rate() {
        let rate = Rate { per_minute: 300.0, burst: 10.0 };
        let mut now = at(1);
        let mut bucket = TokenBucket::full(rate, Duration::ZERO);
        assert!((0..10).all(|_| bucket.take(rate, now).is_ok()));
        let mut taken = 0;
        while now < at(3) {
            match bucket.take(rate, now) {
                Ok(()) => taken += 1,
                Err(wait) => now += wait + Duration::from_micros(1),
            }
        }
        assert!((9..=11).contains(&taken), "{taken} in two seconds");
    }
}
