//! When to dial again: full jitter, one second doubling to five minutes, as a pure function of a seed.
//!
//! In: a seed, the count of attempts that was kept, when sessions began and how they ended. Out: how long to wait, and the count to keep.
//! Pure.
//!
//! A session takes back one attempt for every [`EARNED`] that it stood, so that half a minute makes up for any outage,
//! and one that breaks at once makes up for none. The count is persisted by the caller: an agent that is restarted in a
//! loop must not hammer the hub. Why by degrees: if a minute of session forgave everything and less forgave nothing, a second
//! outage within that minute would find the waits of the first, up to five minutes. What the hub asked for wins.
//!
//! On a bad line no session stands for long, and what there is to say gets through all the same, a little in each. So the wait after a session
//! that brought something for the ledger is short, however soon it broke: there is an end of that. It is short as well after a few others that
//! the hub welcomed, which may have taken something to it; only a few, as each costs some kilobytes on a line that may be paid for by them.

use std::time::Duration;

/// The first attempt waits up to this.
const BASE: Duration = Duration::from_secs(1);
/// No attempt waits longer.
const CAP: Duration = Duration::from_secs(300);
/// A session takes back one attempt for each of these.
const EARNED: Duration = Duration::from_secs(3);
/// The first attempt that waits up to [`CAP`]; more are not counted.
const MOST: u32 = 9;
/// After a session that was of use, no more attempts than these are counted: the wait is four seconds at most.
const AFTER_USE: u32 = 2;
/// So many sessions that only began may count as having been of use;
const BEGINNINGS: u32 = 20;
/// and one more after each of these.
const ANOTHER: Duration = Duration::from_secs(600);

/// What the end of a session said about the next dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: the link was lost, or never made. Spread over at least this, where the hub had given a hint.
    Lost(Duration),
    /// At once, within a second (the hub moves everybody on purpose).
    Now,
    /// Not before this; a tenth is added as jitter.
    After(Duration),
}

/// The reconnect schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    attempt: u32,
    draws: u64,
    up_since: Option<Duration>,
    /// The session brought something.
    has_brought: bool,
    /// How many sessions that only began may still count as having been of use, and since when one more is due.
    beginnings: (u32, Duration),
}

impl Schedule {
    /// Continues with the persisted count of attempts.
    pub fn new(seed: u64, attempt: u32) -> Self {
        let beginnings = (BEGINNINGS, Duration::ZERO);
        Self { seed, attempt: attempt.min(MOST), draws: 0, up_since: None, has_brought: false, beginnings }
    }

    /// Attempts that no session has taken back; to be persisted.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A session began.
    pub fn up(&mut self, now: Duration) {
        self.up_since = Some(now);
    }

    /// The session brought something that is kept now, perhaps together with its welcome.
    pub fn brought(&mut self) {
        self.has_brought = true;
    }

    /// Whether a session that only began may count as one of use.
    fn takes_beginning(&mut self, now: Duration) -> bool {
        let (left, since) = self.beginnings;
        let more =
            (now.saturating_sub(since).as_secs() / ANOTHER.as_secs()).min(u64::from(BEGINNINGS)) as u32;
        let left = (left + more).min(BEGINNINGS);
        let since = if left == BEGINNINGS { now } else { since + ANOTHER * more };
        self.beginnings = (left.saturating_sub(1), since);
        left > 0
    }

    /// A session ended, or a dial failed: how long to wait.
    pub fn down(&mut self, advice: Advice, now: Duration) -> Duration {
        let has_brought = std::mem::take(&mut self.has_brought);
        if let Some(since) = self.up_since.take() {
            let earned = now.saturating_sub(since).as_secs() / EARNED.as_secs();
            self.attempt = self.attempt.saturating_sub(earned.min(u64::from(MOST)) as u32);
            if self.attempt > AFTER_USE && (has_brought || self.takes_beginning(now)) {
                self.attempt = AFTER_USE;
            }
        }
        self.draws += 1;
        let fraction = fraction(self.seed, self.draws);
        match advice {
            Advice::Now => BASE.mul_f64(fraction),
            Advice::After(after) => after + (after / 10).mul_f64(fraction),
            Advice::Lost(hint) => {
                let ceiling = BASE.saturating_mul(1 << self.attempt.min(MOST)).min(CAP);
                self.attempt = self.attempt.saturating_add(1).min(MOST);
                ceiling.max(hint.min(CAP)).mul_f64(fraction)
            }
        }
    }
}

/// The `n`th number in [0, 1) of `seed` (SplitMix64).
fn fraction(seed: u64, n: u64) -> f64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Advice = Advice::Lost(Duration::ZERO);

    #[test]
    fn the_ceiling_doubles_to_its_cap_and_the_same_seed_gives_the_same_waits() {
        let run = |seed| {
            let mut schedule = Schedule::new(seed, 0);
            (0..20).map(|_| schedule.down(LOST, Duration::ZERO)).collect::<Vec<_>>()
        };
        for (at, wait) in run(7).iter().enumerate() {
            assert!(*wait <= Duration::from_secs(1 << at.min(16)).min(CAP));
        }
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_fleet_spreads_over_the_whole_ceiling() {
        let waits: Vec<_> =
            (0..1000).map(|seed| Schedule::new(seed, 6).down(LOST, Duration::ZERO).as_secs()).collect();
        for quarter in 0..4 {
            let inside = waits.iter().filter(|w| **w / 16 == quarter).count();
            assert!((150..350).contains(&inside), "{inside} of 1000 in quarter {quarter} of 64 s");
        }
    }

    #[test]
    fn a_session_takes_back_what_it_stood_for() {
        for (stood, left) in [(0, 9), (2, 9), (3, 8), (12, 5), (26, 1), (27, 0), (600, 0)] {
            let mut schedule = Schedule { beginnings: (0, Duration::ZERO), ..Schedule::new(1, 30) };
            schedule.up(Duration::from_secs(10));
            schedule.down(Advice::Now, Duration::from_secs(10 + stood));
            assert_eq!(schedule.attempt(), left, "after {stood} s");
        }
    }

    /// Two outages close together: the second does not begin with the waits that the first had come to.
    #[test]
    fn a_second_outage_begins_anew() {
        for seed in 0..200 {
            let mut schedule = Schedule::new(seed, 0);
            let mut now = Duration::ZERO;
            while now < Duration::from_secs(1800) {
                now += schedule.down(LOST, now) + Duration::from_secs(1);
            }
            assert_eq!(schedule.attempt(), MOST, "half an hour brings it to its longest waits");
            schedule.up(now);
            now += Duration::from_secs(30);
            let waits: Duration = (0..3).map(|_| schedule.down(LOST, now)).sum();
            assert!(waits <= Duration::from_secs(1 + 2 + 4), "{waits:?} for three attempts");
        }
    }

    /// A line on which each session breaks at once, as soon as the hub has welcomed it.
    #[test]
    fn sessions_that_bring_something_are_followed_soon_and_others_only_a_few_times() {
        let broken = |sessions: u32, brings: bool| {
            let mut schedule = Schedule::new(3, 0);
            let mut now = Duration::ZERO;
            let mut waits = Vec::new();
            for session in 0..sessions {
                // What comes with the welcome is kept before that is told around.
                if brings && session % 2 == 0 {
                    schedule.brought();
                }
                schedule.up(now);
                if brings && session % 2 == 1 {
                    schedule.brought();
                }
                waits.push(schedule.down(LOST, now));
                now += waits[waits.len() - 1];
            }
            (waits, now)
        };
        let soon = Duration::from_secs(4);
        assert!(broken(500, true).0.iter().all(|wait| *wait <= soon));
        let (waits, _) = broken(20, false);
        assert!(waits.iter().all(|wait| *wait <= soon), "{waits:?}");
        let (_, day) = broken(2_000, false);
        assert!(day > Duration::from_secs(86_400), "no more than 2,000 a day: {day:?}");
    }

    #[test]
    fn a_dial_that_fails_is_none_that_was_welcomed() {
        let mut schedule = Schedule::new(1, 9);
        schedule.down(LOST, Duration::ZERO);
        assert_eq!(schedule.attempt(), MOST);
        schedule.up(Duration::ZERO);
        schedule.brought();
        schedule.down(LOST, Duration::ZERO);
        schedule.down(LOST, Duration::ZERO);
        assert_eq!(
            schedule.attempt(),
            AFTER_USE + 2,
            "what one session brought is not said of the next dial"
        );
    }

    #[test]
    fn the_hub_wins() {
        let mut schedule = Schedule::new(1, 9);
        assert!(schedule.down(Advice::Now, Duration::ZERO) < BASE, "but not all in one moment");
        let wait = schedule.down(Advice::After(Duration::from_secs(100)), Duration::ZERO);
        assert!((100..=110).contains(&wait.as_secs()));
        assert_eq!(schedule.attempt(), 9);
        let hinted: Duration = (0..50)
            .map(|s| Schedule::new(s, 0).down(Advice::Lost(Duration::from_secs(60)), Duration::ZERO))
            .max()
            .unwrap();
        assert!(hinted > Duration::from_secs(30));
    }
}
