//! How fast a cluster is emptied: one binding after the other, at a pace, so that what takes them in keeps up.
//!
//! In: who wants to leave, and the moment since some beginning. Out: go, or wait so long. Each that waits has its turn from the first time
//! that it asks, so that a thousand that wait ask twice each, not a thousand times.

use std::collections::BTreeMap;
use std::time::Duration;

/// Between two, where the pace is none: half an hour, so that it is never a standstill.
const SLOWEST: Duration = Duration::from_secs(1800);

/// How long one waits for the next at so many a second.
pub fn interval(per_second: f32) -> Duration {
    // Of none, of less than none and of no number there is no such time.
    Duration::try_from_secs_f32(1.0 / per_second).unwrap_or(SLOWEST).min(SLOWEST)
}

/// The turns of those who leave one cluster.
#[derive(Debug)]
pub struct Lane<K> {
    interval: Duration,
    /// When the last one left.
    left: Option<Duration>,
    /// When the next turn is that nobody has.
    free: Duration,
    turns: BTreeMap<K, Duration>,
}

impl<K: Ord + Clone> Lane<K> {
    /// Nobody waits.
    pub fn new(interval: Duration) -> Self {
        Lane { interval, left: None, free: Duration::ZERO, turns: BTreeMap::new() }
    }

    /// How long `who` is to wait; none where it leaves now. Who comes late to its turn does not make two leave together: it has another one
    /// where somebody left just now.
    pub fn ask(&mut self, who: &K, now: Duration) -> Option<Duration> {
        let turn = self.turns.get(who).copied();
        let soonest = self.left.map_or(now, |left| left + self.interval);
        let turn = match turn.filter(|turn| *turn > now || soonest <= now) {
            Some(turn) => turn,
            None => {
                let turn = self.free.max(now).max(soonest);
                self.free = turn + self.interval;
                self.turns.insert(who.clone(), turn);
                turn
            }
        };
        if turn > now {
            return Some(turn - now);
        }
        self.turns.remove(who);
        self.left = Some(now);
        self.free = self.free.max(now + self.interval);
        None
    }

    /// Takes `who` out of the queue. Once the queue is empty, the next turn is one interval after the last eviction.
    pub fn forget(&mut self, who: &K) {
        if self.turns.remove(who).is_some() && self.turns.is_empty() {
            self.free = self.left.map_or(Duration::ZERO, |left| left + self.interval);
        }
    }

    /// Whether it holds nothing that a new one would not.
    pub fn is_idle(&self, now: Duration) -> bool {
        self.turns.is_empty() && self.free <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_and_who_stays_gives_it_back() {
        let second = Duration::from_secs;
        let mut lane = Lane::new(second(2));
        assert_eq!(lane.ask(&"a", second(10)), None);
        assert_eq!(lane.ask(&"b", second(10)), Some(second(2)));
        assert_eq!(lane.ask(&"c", second(10)), Some(second(4)));
        assert_eq!(lane.ask(&"b", second(11)), Some(second(1)), "its turn is the one that it had");
        assert_eq!(lane.ask(&"b", second(12)), None);
        lane.forget(&"c");
        assert!(!lane.is_idle(second(13)) && lane.is_idle(second(14)));
        assert_eq!(lane.ask(&"d", second(13)), Some(second(1)), "nobody waits for those who stay");
        assert_eq!(lane.ask(&"d", second(20)), None);
        assert_eq!(lane.ask(&"e", second(20)), Some(second(2)), "nor leaves at once because one was late");
        assert_eq!(lane.ask(&"f", second(20)), Some(second(4)));
        assert_eq!(lane.ask(&"f", second(30)), None);
        assert_eq!(lane.ask(&"e", second(30)), Some(second(2)), "two that are late do not leave together");
        assert_eq!(lane.ask(&"e", second(32)), None);
    }
    #[test]
    fn who_was_late_moves_those_behind_and_who_stays_moves_nobody() {
        let second = Duration::from_secs;
        let mut lane = Lane::new(second(2));
        assert_eq!(lane.ask(&"a", second(10)), None);
        assert_eq!(lane.ask(&"b", second(10)), Some(second(2)));
        assert_eq!(lane.ask(&"c", second(10)), Some(second(4)));
        assert_eq!(lane.ask(&"b", second(13)), None);
        assert_eq!(lane.ask(&"c", second(14)), Some(second(2)), "one second after another is too soon");
        assert_eq!(lane.ask(&"d", second(14)), Some(second(4)));
        lane.forget(&"d");
        assert_eq!(lane.ask(&"e", second(14)), Some(second(6)), "the others keep their turns");
        lane.forget(&"nobody");
        lane.forget(&"e");
        assert_eq!(lane.ask(&"c", second(30)), None);
        assert!(!lane.is_idle(second(31)) && lane.is_idle(second(32)), "it left late, and counts from then");
    }
}
