//! What fails for many objects by one cause is told once in a while, and not once for each and each try.
//!
//! In: a cause in words, and time. Out: whether it is told now, and how often it was met untold. [`RateLimit`] decides; [`FailureLog`] is what the
//! engine and its watches share.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The same cause is told again after this.
const EVERY: Duration = Duration::from_secs(60);
/// Causes that are told within that time at most.
const MOST: usize = 64;

/// The causes that were told. Pure.
#[derive(Debug, Default)]
struct RateLimit {
    /// When each was told, and how often it was met since.
    told: BTreeMap<String, (Duration, u64)>,
}

impl RateLimit {
    /// `cause` was met: where it is to be told, how often it was met and not told since it was last.
    fn met(&mut self, cause: &str, now: Duration) -> Option<u64> {
        if let Some((at, untold)) = self.told.get_mut(cause) {
            if now < *at + EVERY {
                *untold += 1;
                return None;
            }
            *at = now;
            return Some(std::mem::take(untold));
        }
        if self.told.len() >= MOST {
            self.told.retain(|_, (at, _)| now < *at + EVERY);
        }
        (self.told.len() < MOST).then(|| {
            self.told.insert(cause.to_owned(), (now, 0));
            0
        })
    }
}

/// Shared by who tells of the member's failures.
#[derive(Debug)]
pub struct FailureLog {
    limit: Mutex<RateLimit>,
    started: Instant,
}

impl Default for FailureLog {
    fn default() -> Self {
        Self { limit: Mutex::default(), started: Instant::now() }
    }
}

impl FailureLog {
    /// `cause` was met: where it is to be told, how often it was met and not told since it was last.
    pub fn met(&self, cause: &str) -> Option<u64> {
        self.limit.lock().met(cause, self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_a_minute_with_what_was_left_out() {
        let at = Duration::from_secs;
        let mut limit = RateLimit::default();
        assert_eq!(limit.met("refused", at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(limit.met("refused", at(second)), None);
        }
        assert_eq!(limit.met("timed out", at(30)), Some(0), "another one is news");
        assert_eq!(limit.met("refused", at(60)), Some(59));
        assert_eq!(limit.met("refused", at(200)), Some(0));
        let told = (0..1000).filter(|n| limit.met(&format!("cause {n}"), at(200)).is_some()).count();
        assert!(told <= MOST && limit.told.len() <= MOST, "{told}");
        assert!(limit.met("after that minute", at(260)).is_some());
    }
}
