//! How many replicas may still be moved now: so many in any stretch of time that is as long as an interval, whoever they are of.
//!
//! In: what was moved, and the moment since some beginning. Out: what is left. It lives in memory; who begins anew moves nothing for its first
//! interval, so that the bound holds over a restart as well.

use std::collections::VecDeque;
use std::time::Duration;

/// What may be moved, and what was moved within the last interval.
#[derive(Debug)]
pub struct Budget {
    most: i64,
    interval: Duration,
    /// When, and how many: each at least one, so that there are no more entries than `most`.
    spent: VecDeque<(Duration, i64)>,
}

impl Budget {
    /// So many replicas in an interval.
    pub fn new(most: u32, interval: Duration) -> Self {
        Budget { most: most.into(), interval, spent: VecDeque::new() }
    }

    /// How many replicas may be moved now.
    pub fn left(&mut self, now: Duration) -> i64 {
        while self.spent.front().is_some_and(|(then, _)| now.saturating_sub(*then) >= self.interval) {
            self.spent.pop_front();
        }
        self.most - self.spent.iter().map(|(_, replicas)| replicas).sum::<i64>()
    }

    /// How many replicas in an interval.
    pub fn most(&self) -> i64 {
        self.most
    }

    /// How long what is spent counts.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether what was spent then still counts.
    pub fn counts(&self, then: Duration, now: Duration) -> bool {
        now.saturating_sub(then) < self.interval
    }

    /// So many are moved now.
    pub fn spend(&mut self, replicas: i64, now: Duration) {
        if replicas > 0 {
            self.spent.push_back((now, replicas));
        }
    }

    /// What was spent then was not moved after all.
    pub fn give_back(&mut self, replicas: i64, then: Duration) {
        if let Some(at) = self.spent.iter().position(|entry| *entry == (then, replicas)) {
            self.spent.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_any_stretch_of_an_interval_no_more_is_spent() {
        let at = Duration::from_secs;
        let mut budget = Budget::new(5, at(60));
        assert_eq!(budget.left(at(0)), 5);
        budget.spend(3, at(0));
        budget.spend(2, at(30));
        assert_eq!((budget.left(at(59)), budget.left(at(60)), budget.left(at(89))), (0, 3, 3));
        budget.spend(3, at(89));
        assert_eq!((budget.left(at(90)), budget.left(at(149))), (2, 5));
    }

    #[test]
    fn what_was_not_moved_is_given_back_once() {
        let at = Duration::from_secs;
        let mut budget = Budget::new(5, at(60));
        budget.spend(2, at(1));
        budget.spend(2, at(2));
        budget.give_back(2, at(1));
        budget.give_back(2, at(1));
        assert_eq!(budget.left(at(3)), 3);
        budget.spend(0, at(3));
        assert_eq!(budget.left(at(3)), 3);
    }
}
