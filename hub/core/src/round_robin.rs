//! Turns that owners take one after the other, so that none waits for all that another one has. Pure.
//!
//! In: who wants a turn, whose it is, and the moment since some beginning. Out: go, or wait so long. Of one owner the first that asked goes first. One
//! turn comes every interval; who does not come to its own holds up nobody for longer than another interval.

use std::collections::BTreeMap;
use std::time::Duration;

/// The turns of all owners.
#[derive(Debug)]
pub struct RoundRobin<O, K> {
    interval: Duration,
    /// When the last one went.
    left: Option<Duration>,
    queues: BTreeMap<O, Queue<K>>,
    /// What is numbered next, an arrival or a round: both only grow.
    next: u64,
}

/// Those of one owner that wait.
#[derive(Debug)]
struct Queue<K> {
    /// Since when it waits, or went last: the owner of the lowest number is next.
    round: u64,
    waiting: BTreeMap<u64, K>,
    arrivals: BTreeMap<K, Waiting>,
}

/// Of one that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: u64,
    /// When it was told to ask again.
    again: Duration,
}

impl<K: Ord + Clone> Queue<K> {
    /// How many are before an arrival.
    fn before(&self, arrival: u64) -> usize {
        self.waiting.range(..arrival).count()
    }

    /// The first that is expected to ask now. One that is later than `patience` may never come.
    fn first_due(&self, now: Duration, patience: Duration) -> Option<u64> {
        let is_due = |waiting: &&Waiting| waiting.again <= now && now < waiting.again + patience;
        self.arrivals.values().filter(is_due).map(|waiting| waiting.arrival).min()
    }
}

impl<O: Ord + Clone, K: Ord + Clone> RoundRobin<O, K> {
    /// Nobody waits.
    pub fn new(interval: Duration) -> Self {
        RoundRobin { interval, left: None, queues: BTreeMap::new(), next: 0 }
    }

    /// How long `who` is to wait; none where it goes now. Whoever waits asks again then.
    pub fn ask(&mut self, owner: &O, who: &K, now: Duration) -> Option<Duration> {
        let arrival = self.arrival(owner, who, now);
        let soonest = self.left.map_or(now, |left| left + self.interval).max(now);
        if soonest == now && !self.is_another_first(owner, arrival, now) {
            self.go(owner, who, now);
            return None;
        }
        let turns = u32::try_from(self.turns_before(owner, arrival)).unwrap_or(u32::MAX);
        // Whoever is first now, and is waited for, goes within an interval or loses its turn.
        let turns = if soonest == now { turns.max(1) } else { turns };
        let again = soonest + self.interval.saturating_mul(turns);
        if let Some(waiting) = self.queues.get_mut(owner).and_then(|queue| queue.arrivals.get_mut(who)) {
            waiting.again = again;
        }
        Some(again - now)
    }

    /// Takes `who` out of the queue.
    pub fn forget(&mut self, owner: &O, who: &K) {
        let Some(queue) = self.queues.get_mut(owner) else { return };
        if let Some(waiting) = queue.arrivals.remove(who) {
            queue.waiting.remove(&waiting.arrival);
        }
        if queue.waiting.is_empty() {
            self.queues.remove(owner);
        }
    }

    /// Its number: the one that it has, or the last of its owner's, who waits behind the other owners where this is the first.
    fn arrival(&mut self, owner: &O, who: &K, now: Duration) -> u64 {
        self.next += 1;
        let number = self.next;
        let queue = self.queues.entry(owner.clone()).or_insert_with(|| Queue {
            round: number,
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
        });
        let waiting = queue.arrivals.entry(who.clone()).or_insert(Waiting { arrival: number, again: now });
        queue.waiting.entry(waiting.arrival).or_insert_with(|| who.clone());
        waiting.arrival
    }

    /// Whether one that is before this one is expected at this moment.
    fn is_another_first(&self, owner: &O, arrival: u64, now: Duration) -> bool {
        let Some(own) = self.queues.get(owner) else { return false };
        // A turn that nobody took for so long is anybody's: of many that never come one could be expected at any moment.
        if self.left.is_none_or(|left| left + self.interval * 2 <= now) {
            return false;
        }
        self.queues.iter().any(|(other, queue)| {
            let due = queue.first_due(now, self.interval);
            due.is_some_and(|due| if other == owner { due < arrival } else { queue.round < own.round })
        })
    }

    /// How many turns are others' before this one's.
    fn turns_before(&self, owner: &O, arrival: u64) -> usize {
        let Some(own) = self.queues.get(owner) else { return 0 };
        let before = own.before(arrival);
        let others = self.queues.iter().filter(|(other, _)| *other != owner).map(|(_, queue)| {
            let rounds = before + usize::from(queue.round < own.round);
            queue.waiting.len().min(rounds)
        });
        before + others.sum::<usize>()
    }

    fn go(&mut self, owner: &O, who: &K, now: Duration) {
        self.left = Some(now);
        self.next += 1;
        if let Some(queue) = self.queues.get_mut(owner) {
            queue.round = self.next;
        }
        self.forget(owner, who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Everybody asks again when it was told to; who went when, until `end`.
    fn run(
        turns: &mut RoundRobin<&'static str, u32>,
        all: &[(&'static str, u32)],
        begin: u32,
        end: u32,
    ) -> (Vec<(&'static str, u32)>, usize) {
        let mut asking: BTreeMap<(Duration, usize), (&'static str, u32)> =
            all.iter().enumerate().map(|(at, one)| ((SECOND * begin, at), *one)).collect();
        let (mut gone, mut asked, mut next) = (Vec::new(), 0, asking.len());
        while let Some(((now, _), (owner, who))) = asking.pop_first() {
            if now > SECOND * end {
                break;
            }
            asked += 1;
            next += 1;
            match turns.ask(&owner, &who, now) {
                None => gone.push((owner, who)),
                Some(wait) => drop(asking.insert((now + wait, next), (owner, who))),
            }
        }
        (gone, asked)
    }

    #[test]
    fn an_owner_of_many_has_every_other_turn_where_another_waits() {
        let mut turns = RoundRobin::new(SECOND * 15);
        let many: Vec<(&str, u32)> = (0..2000).map(|who| ("many", who)).collect();
        for (owner, who) in &many {
            turns.ask(owner, who, Duration::ZERO);
        }
        let rest: Vec<(&str, u32)> = many[1..].iter().copied().chain([("few", 1), ("few", 2)]).collect();
        let (gone, asked) = run(&mut turns, &rest, 1, 120);
        assert_eq!(gone[..5], [("many", 1), ("few", 1), ("many", 2), ("few", 2), ("many", 3)]);
        assert_eq!(gone.len(), 8, "one every 15 s");
        assert!(asked < 2 * rest.len(), "{asked}: each asks about as often as it must");
    }

    #[test]
    fn every_owner_has_its_turn_and_none_gains_by_coming_one_by_one() {
        let mut turns = RoundRobin::new(SECOND * 2);
        assert_eq!(turns.ask(&"a", &1, SECOND), None);
        let all = [("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2)];
        let (gone, _) = run(&mut turns, &all, 2, 60);
        assert_eq!(gone, [("a", 2), ("b", 1), ("c", 1), ("a", 3), ("c", 2)]);
        // Whoever comes anew is behind those that wait.
        assert_eq!(turns.ask(&"b", &2, SECOND * 60), None);
        assert_eq!(turns.ask(&"a", &4, SECOND * 60), Some(SECOND * 2));
        assert_eq!(turns.ask(&"b", &3, SECOND * 60), Some(SECOND * 4));
        assert_eq!(turns.ask(&"b", &3, SECOND * 62), Some(SECOND * 2), "it is a's turn");
        assert_eq!(turns.ask(&"a", &4, SECOND * 62), None);
        assert_eq!(turns.ask(&"b", &3, SECOND * 64), None);
    }

    #[test]
    fn who_does_not_come_or_stays_holds_up_nobody_and_two_never_go_together() {
        let mut turns = RoundRobin::new(SECOND * 2);
        assert_eq!(turns.ask(&"a", &1, SECOND * 10), None);
        assert_eq!(turns.ask(&"a", &2, SECOND * 10), Some(SECOND * 2));
        assert_eq!(turns.ask(&"b", &1, SECOND * 10), Some(SECOND * 4));
        assert_eq!(turns.ask(&"b", &1, SECOND * 14), None, "the other was waited for and did not come");
        assert_eq!(turns.ask(&"a", &2, SECOND * 15), Some(SECOND), "late, and one went just now");
        turns.forget(&"a", &2);
        turns.forget(&"nobody", &2);
        assert_eq!(turns.ask(&"b", &2, SECOND * 15), Some(SECOND), "its turn is free");
        assert_eq!(turns.ask(&"b", &3, SECOND * 15), Some(SECOND * 3));
        assert_eq!(turns.ask(&"b", &3, SECOND * 30), None);
        assert_eq!(turns.ask(&"b", &2, SECOND * 30), Some(SECOND * 2));
        turns.forget(&"b", &2);
        for who in 0..100 {
            turns.ask(&"many", &who, SECOND * 30);
        }
        let mut now = 30;
        for who in 0..10 {
            let wait = turns.ask(&"b", &who, SECOND * now).unwrap();
            assert!(wait <= SECOND * 4, "{wait:?}: of many none comes");
            now += 4;
            assert_eq!(turns.ask(&"b", &who, SECOND * now), None);
        }
        (0..100).for_each(|who| turns.forget(&"many", &who));
        assert!(turns.queues.is_empty(), "it keeps nothing of who is gone");
    }
}
