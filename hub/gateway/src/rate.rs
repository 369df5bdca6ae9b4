//! How often somebody may do something: so many at once, and so many a minute after that.
//!
//! In: who, and monotonic time. Out: yes, or how long to wait. No clock of its own and bounded memory: who has not been seen for
//! long enough to have the whole burst back is forgotten, and where too many are remembered at once, newcomers share one count.

use std::collections::BTreeMap;
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
pub struct Bucket {
    left: f64,
    at: Duration,
}

impl Bucket {
    /// With the whole burst.
    pub fn full(rate: Rate, now: Duration) -> Bucket {
        Bucket { left: rate.burst, at: now }
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

/// The buckets of many.
#[derive(Debug)]
pub struct Buckets<K> {
    most: usize,
    known: BTreeMap<K, (Rate, Bucket)>,
    others: Option<Bucket>,
}

impl<K: Ord> Buckets<K> {
    /// For at most so many at once.
    pub fn new(most: usize) -> Self {
        Buckets { most, known: BTreeMap::new(), others: None }
    }

    /// Takes one for `who`.
    ///
    /// # Errors
    /// After how long there is one, where there is none now.
    pub fn take(&mut self, who: K, rate: Rate, now: Duration) -> Result<(), Duration> {
        if let Some((held, bucket)) = self.known.get_mut(&who) {
            *held = rate;
            return bucket.take(rate, now);
        }
        if self.known.len() >= self.most {
            self.known.retain(|_, (rate, bucket)| {
                bucket.refill(*rate, now);
                bucket.left < rate.burst
            });
        }
        if self.known.len() >= self.most {
            return self.others.get_or_insert(Bucket::full(rate, now)).take(rate, now);
        }
        let mut bucket = Bucket::full(rate, now);
        let taken = bucket.take(rate, now);
        self.known.insert(who, (rate, bucket));
        taken
    }
}

/// How many lines of one kind are logged, and how many were left out.
#[derive(Debug)]
pub struct LineBudget {
    rate: Rate,
    bucket: Bucket,
    left_out: u64,
}

impl LineBudget {
    /// A budget.
    pub fn new(rate: Rate) -> Self {
        LineBudget { rate, bucket: Bucket::full(rate, Duration::ZERO), left_out: 0 }
    }

    /// Whether a line may be written, and how many before it were not.
    pub fn line(&mut self, now: Duration) -> Option<u64> {
        if self.bucket.take(self.rate, now).is_ok() {
            return Some(std::mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
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
        let mut bucket = Bucket::full(rate, at(0));
        assert_eq!((0..30).filter(|_| bucket.take(rate, at(0)).is_ok()).count(), 20);
        assert_eq!(bucket.take(rate, at(0)), Err(at(6)));
        assert!(bucket.take(rate, at(5)).is_err() && bucket.take(rate, at(6)).is_ok());
        assert!(bucket.take(rate, at(6)).is_err());
        assert_eq!(
            (0..99).filter(|_| bucket.take(rate, at(3600)).is_ok()).count(),
            20,
            "no more than the burst"
        );
        assert!(bucket.take(rate, at(10)).is_err(), "a clock that goes back gives nothing");
    }

    #[test]
    fn each_has_his_own_and_memory_is_bounded() {
        let rate = Rate::per_minute(60, 2);
        let mut all = Buckets::new(3);
        let mut take = |who: u32, now| all.take(who, rate, at(now)).is_ok();
        assert!(take(1, 0) && take(1, 0) && !take(1, 0));
        assert!(take(2, 0) && take(2, 0) && !take(2, 0));
        assert!(take(3, 0));
        assert!(take(4, 0) && take(5, 0) && !take(6, 0), "whoever finds no room shares one count");
        assert!(take(7, 10) && take(7, 10) && take(8, 10) && take(8, 10), "who was quiet is forgotten");
        assert!(all.known.len() <= 3);
    }

    #[test]
    fn lines_that_are_left_out_are_counted() {
        let mut lines = LineBudget::new(Rate::per_minute(60, 2));
        let told: Vec<Option<u64>> = [0, 0, 0, 0, 1, 1].map(|now| lines.line(at(now))).to_vec();
        assert_eq!(told, [Some(0), Some(0), None, None, Some(2), None]);
    }
}
