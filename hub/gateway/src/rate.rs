//! How often somebody may do something: so many at once, and so many a minute after that.
//!
//! In: who, and monotonic time. Out: yes, or how long to wait. No clock of its own and bounded memory: who has not been seen for
//! long enough to have the whole burst back is forgotten, and where too many are remembered at once, newcomers share one count.

use std::collections::BTreeMap;
use std::time::Duration;

pub use karmada_proto::token_bucket::Rate;
use karmada_proto::token_bucket::TokenBucket;

/// The buckets of many.
#[derive(Debug)]
pub struct Buckets<K> {
    most: usize,
    known: BTreeMap<K, (Rate, TokenBucket)>,
    others: Option<TokenBucket>,
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
            self.known.retain(|_, (rate, bucket)| !bucket.is_full(*rate, now));
        }
        if self.known.len() >= self.most {
            return self.others.get_or_insert(TokenBucket::full(rate, now)).take(rate, now);
        }
        let mut bucket = TokenBucket::full(rate, now);
        let taken = bucket.take(rate, now);
        self.known.insert(who, (rate, bucket));
        taken
    }
}

/// How many lines of one kind are logged, and how many were left out.
#[derive(Debug)]
pub struct LineBudget {
    rate: Rate,
    bucket: TokenBucket,
    left_out: u64,
}

impl LineBudget {
    /// A budget.
    pub fn new(rate: Rate) -> Self {
        LineBudget { rate, bucket: TokenBucket::full(rate, Duration::ZERO), left_out: 0 }
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
