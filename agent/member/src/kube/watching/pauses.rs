//! How long a watch waits before it asks its member again. Pure.
//!
//! In: what failed, when, and a draw. Out: a pause, longer the more failed in a row, some of it at random so that the watches of all
//! kinds do not come at once.

use std::time::Duration;

use tokio::time::Instant;

/// A kind that was not listed anew for so long is listed at once.
const CALM: Duration = Duration::from_secs(90);

/// Before the next attempt, after so many that failed in a row; `draw` is 0 to 1.
pub(super) fn pause(failures: u32, draw: f64) -> Duration {
    let most = Duration::from_secs(1 << failures.min(5));
    if failures == 0 { most.mul_f64(draw) } else { most.mul_f64(0.5 + draw / 2.0) }
}

/// Lists anew of one kind: the first at once, the next ones after pauses, so that a member whose every watch ends in an error is not
/// asked for all its objects again and again.
#[derive(Debug, Default)]
pub(super) struct Anew {
    in_a_row: u32,
    last: Option<Instant>,
}

impl Anew {
    /// History is gone: how long to wait before the list.
    pub fn begins(&mut self, now: Instant, draw: f64) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) >= CALM) {
            self.in_a_row = 0;
        }
        let wait = if self.in_a_row == 0 { Duration::ZERO } else { pause(self.in_a_row, draw) };
        (self.in_a_row, self.last) = (self.in_a_row.saturating_add(1), Some(now + wait));
        wait
    }

    /// The member said what no member says: the list waits, also the first.
    pub fn begins_after_fault(&mut self, now: Instant, draw: f64) -> Duration {
        self.begins(now, draw).max(pause(1, draw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_spread() {
        assert_eq!((pause(0, 0.0), pause(0, 0.5)), (Duration::ZERO, Duration::from_millis(500)));
        assert_eq!((pause(3, 0.0), pause(3, 1.0)), (Duration::from_secs(4), Duration::from_secs(8)));
        assert_eq!(pause(40, 1.0), Duration::from_secs(32));
    }

    #[test]
    fn lists_anew_wait_longer_each_time_until_there_was_calm() {
        let mut anew = Anew::default();
        let mut now = Instant::now();
        let mut waits = || {
            let wait = anew.begins(now, 1.0);
            now += wait;
            wait.as_secs()
        };
        assert_eq!([waits(), waits(), waits(), waits(), waits(), waits(), waits()], [0, 2, 4, 8, 16, 32, 32]);
        let mut later = anew;
        assert_eq!(later.begins(now + CALM, 1.0), Duration::ZERO);
        assert_eq!(Anew::default().begins_after_fault(now, 0.0), Duration::from_secs(1));
    }
}
