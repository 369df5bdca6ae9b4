//! How often a binding's status is written for what its sites report.
//!
//! In: how many clusters it tells of; a clock that nobody sets. Out: that it may be written now, or after how long. Pure. Writing it takes time in
//! proportion to the clusters that it tells of, and of a thousand some report all the time: a few writes come at once, as when a workload was just
//! placed, and after that the hub spends no more than a certain share of its time on each binding.

use std::time::Duration;

use tokio::time::Instant;

/// Between two writes in the long run, for each cluster.
const EACH: Duration = Duration::from_millis(5);
/// Nobody waits for longer.
const LONGEST: Duration = Duration::from_secs(10);
/// So many at once.
const BURST: u32 = 4;

/// What one binding has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    /// Of a binding that was not written for long.
    pub(super) fn new(now: Instant) -> Self {
        Pace { left: BURST, since: now }
    }

    /// Takes one write of a status of so many clusters.
    ///
    /// # Errors
    /// After how long there is one, where there is none now.
    pub(super) fn take(&mut self, clusters: usize, now: Instant) -> Result<(), Duration> {
        let each = EACH.saturating_mul(u32::try_from(clusters).unwrap_or(u32::MAX)).clamp(EACH, LONGEST);
        let gone = now.saturating_duration_since(self.since);
        let more = (gone.as_nanos() / each.as_nanos()).min(BURST.into()) as u32;
        self.left = (self.left + more).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + each * more };
        if self.left == 0 {
            return Err(each.saturating_sub(now.saturating_duration_since(self.since)));
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One report more each 50 ms for a minute.
    fn writes(clusters: usize) -> usize {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let at = |tick: u32| start + Duration::from_millis(50) * tick;
        (0..1200).filter(|tick| pace.take(clusters, at(*tick)).is_ok()).count()
    }

    #[test]
    fn few_clusters_are_told_as_they_report_and_many_ever_more_seldom() {
        assert_eq!(writes(3), 1200);
        for (clusters, most) in [(100, 124), (1_000, 16), (10_000, 10), (usize::MAX, 10)] {
            assert!((most - 3..=most).contains(&writes(clusters)), "{clusters}: {}", writes(clusters));
        }
    }

    #[test]
    fn who_waits_as_long_as_was_said_may_and_a_rest_gives_the_burst_back() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        (0..BURST).for_each(|_| pace.take(1_000, now).unwrap());
        let wait = pace.take(1_000, now).unwrap_err();
        assert_eq!(wait, EACH * 1_000);
        assert!(pace.take(1_000, now + wait - Duration::from_millis(1)).is_err());
        now += wait;
        pace.take(1_000, now).unwrap();
        now += LONGEST * BURST;
        assert_eq!((0..10).filter(|_| pace.take(1_000, now).is_ok()).count(), BURST as usize);
    }
}
