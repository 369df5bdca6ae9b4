//! How often an idle link is tried, and when silence means death. Arithmetic only: `now` is monotonic time since
//! any fixed start, the same start for all calls.
//!
//! In: pongs and cuts, and the hub's bounds. Out: how long to wait until the next ping, and the silence after which a link counts as dead.
//!
//! The pinging end begins with a short interval and lengthens it while the path bears it, so that an idle agent
//! costs few packets; a cut at some length teaches it to stay below. The other end only needs to know by when it
//! should have heard something.

use std::time::Duration;

/// The interval before anything is known of the path.
pub const FIRST: Duration = Duration::from_secs(20);
/// The longest interval for a site that is meant to be connected always.
pub const LONGEST: Duration = Duration::from_secs(60);
/// The longest interval, whatever anybody says: who is silent for longer counts as gone with every hub.
const LONGEST_EVER: Duration = Duration::from_secs(240);
/// The shortest interval, whatever anybody says: less would be noise, and no answer could come in time.
const SHORTEST: Duration = Duration::from_secs(1);
/// Silence of less is never death: a slow path takes seconds for an answer.
const LEAST_SILENCE: Duration = Duration::from_secs(5);
/// No answer takes longer: bytes that come meanwhile count as life.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// Pongs in a row at one length before the next is tried.
const PROOFS: u32 = 3;
/// Of a length that was cut, this share is safe.
const SAFE_PERCENT: u32 = 80;
/// A ceiling that held for so long is tried a quarter higher: the path may be another one by now. One that is cut then has to hold for
/// twice as long.
const HOLD: Duration = Duration::from_secs(6 * 3600);
/// The longest that a ceiling has to hold.
const LONGEST_HOLD: Duration = Duration::from_secs(8 * 6 * 3600);

/// The learning side: how long to wait between pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// The interval in use.
    pub interval: Duration,
    /// No longer than this, as far as is known of the path: one of this length was cut.
    pub ceiling: Duration,
    /// No longer than this: the hub's word.
    longest: Duration,
    proofs: u32,
    /// How long the ceiling has been reached without a cut, and how long that must be before it is raised.
    held: Duration,
    hold: Duration,
}

impl Default for Cadence {
    fn default() -> Self {
        Self {
            interval: FIRST,
            ceiling: LONGEST,
            longest: LONGEST,
            proofs: 0,
            held: Duration::ZERO,
            hold: HOLD,
        }
    }
}

impl Cadence {
    /// Continues with what an earlier session learned.
    pub fn learned(interval: Duration, ceiling: Duration) -> Self {
        let ceiling = ceiling.clamp(SHORTEST, LONGEST_EVER);
        Self { interval: interval.clamp(SHORTEST, ceiling), ceiling, ..Self::default() }
    }

    /// The hub's bounds: never shorter than `min`, never longer than `max`. They hold until it gives others, and teach nothing of the path.
    /// What no link can keep to is taken for the nearest that it can.
    pub fn bound(&mut self, min: Duration, max: Duration) {
        let min = min.clamp(SHORTEST, LONGEST_EVER);
        self.longest = max.clamp(min, LONGEST_EVER);
        let most = self.most();
        self.interval = self.interval.clamp(min.min(most), most);
    }

    fn most(&self) -> Duration {
        self.ceiling.min(self.longest)
    }

    /// A pong came after a full quiet interval.
    pub fn proved(&mut self) {
        self.proofs += 1;
        if self.interval >= self.ceiling {
            self.held += self.interval;
        }
        if self.held >= self.hold && self.ceiling < self.longest {
            self.ceiling = (self.ceiling * 5 / 4).min(self.longest);
            self.held = Duration::ZERO;
        }
        if self.proofs >= PROOFS {
            self.proofs = 0;
            self.interval = (self.interval * 3 / 2).min(self.most());
        }
    }

    /// The link died quietly at the current interval. One longer than [`FIRST`] is never reached again while the ceiling holds; in any case
    /// it begins with [`FIRST`] anew.
    pub fn cut(&mut self) {
        (self.proofs, self.held) = (0, Duration::ZERO);
        if self.interval > FIRST {
            self.ceiling = (self.interval * SAFE_PERCENT / 100).max(FIRST);
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
        }
        self.interval = FIRST.min(self.most());
    }
}

/// Silence of two and a half intervals is death, unless that is too short for any answer.
pub fn dead_after(interval: Duration) -> Duration {
    (interval * 5 / 2).max(LEAST_SILENCE)
}

/// The same for the end that pings: it asked when the interval was over, and an answer has half a minute, however long the interval is. Who
/// waits for pings does not know how long they took.
pub fn unanswered_after(interval: Duration) -> Duration {
    dead_after(interval).min(interval + LONGEST_ANSWER)
}

/// Silence of one and a half intervals is being late.
pub fn late_after(interval: Duration) -> Duration {
    (interval * 3 / 2).max(SHORTEST)
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
        assert_eq!(cuts, 1, "within hours");
        assert!(cadence.interval <= Duration::from_secs(40) && cadence.interval >= Duration::from_secs(30));
    }

    /// One outage of the link at 60 s is no trait of the path: a day later it is at 60 s again.
    #[test]
    fn a_ceiling_that_held_for_long_is_tried_higher() {
        let mut cadence = Cadence::default();
        (0..30).for_each(|_| cadence.proved());
        cadence.cut();
        assert_eq!(cadence.ceiling.as_secs(), 48);
        let mut passed = Duration::ZERO;
        while cadence.interval < LONGEST {
            cadence.proved();
            passed += cadence.interval;
            assert!(passed < Duration::from_secs(24 * 3600), "stays at {:?}", cadence.interval);
        }
        assert!(passed > HOLD, "after {passed:?}");
    }

    /// A path that cuts at 40 s costs a lost link now and then, and ever more seldom.
    #[test]
    fn a_ceiling_that_is_right_is_tried_ever_more_seldom() {
        let mut cadence = Cadence::default();
        let (mut passed, mut cuts) = (Duration::ZERO, 0);
        while passed < Duration::from_secs(30 * 24 * 3600) {
            passed += cadence.interval;
            if cadence.interval > Duration::from_secs(40) {
                cadence.cut();
                cuts += 1;
            } else {
                cadence.proved();
            }
        }
        assert!((5..20).contains(&cuts), "{cuts} in a month");
    }

    #[test]
    fn a_bound_that_the_hub_takes_back_leaves_no_trace() {
        let mut cadence = Cadence::default();
        cadence.bound(FIRST, Duration::from_secs(25));
        cadence.bound(FIRST, LONGEST);
        (0..30).for_each(|_| cadence.proved());
        assert_eq!(cadence.interval, LONGEST);
    }

    /// No bound makes silence death at once, at either end.
    #[test]
    fn bounds_of_nothing_leave_time_to_answer() {
        for (min, max) in [(0, 0), (0, 1), (1, 0), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
            let mut cadence = Cadence::default();
            cadence.bound(Duration::from_millis(min), Duration::from_millis(max));
            for _ in 0..10 {
                assert!(
                    (SHORTEST..=LONGEST).contains(&cadence.interval),
                    "{min} {max}: {:?}",
                    cadence.interval
                );
                assert!(dead_after(cadence.interval) >= LEAST_SILENCE);
                cadence.proved();
            }
            cadence.cut();
            assert!(cadence.interval >= SHORTEST, "{min} {max}");
        }
        for interval in [0, 1, 1000] {
            let interval = Duration::from_millis(interval);
            assert!(late_after(interval) >= SHORTEST && dead_after(interval) >= LEAST_SILENCE);
            assert!(late_after(interval) < dead_after(interval));
        }
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
        let waits =
            [1, 20, 60, 240].map(|interval| unanswered_after(Duration::from_secs(interval)).as_secs());
        assert_eq!(waits, [5, 50, 90, 270]);
    }
}
