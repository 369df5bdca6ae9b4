//! What was moved a while ago: the budget, what is under way, which clusters were left.
//!
//! In: steps, how it goes with them, and the moment since a start. Out: what is left of the budget, whether a cluster may be left, whether a step
//! back may be taken. It lives in memory; of steps before a start it is told by the notes that bindings bear.
//!
//! A replica counts for an interval from when it was moved, and for as long as it is under way after that: until it is known that all are ready
//! where they went, for an hour at most. So where members are slow no more replicas are under way at once than the budget has; and a member
//! that is silent does not hold it up for good.

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_controllers::group_turns::Turn;
use karmada_controllers::port::Key;
use karmada_controllers::reservations::Mark;

use crate::better_plan::Step;
use crate::budget::Budget;
use crate::movability::Stays;
use crate::move_note::{Change, MoveNote};

/// Between two workloads that leave one cluster: far below the removals that wait for a person, which are ten in a minute unless a policy says
/// otherwise.
const TURN: Duration = Duration::from_secs(60);

/// What is under way counts for so long, at most.
const LONGEST_WAY: Duration = Duration::from_secs(60 * 60);

/// What was moved.
pub(crate) struct Ledger {
    budget: Budget,
    /// Of each binding its last step, until it is known that it is over.
    under_way: BTreeMap<Key, UnderWay>,
    /// When each cluster was left last by a workload; a start counts as one.
    left: BTreeMap<String, Duration>,
}

/// A step of which it is not known that it is over.
struct UnderWay {
    at: Duration,
    moved: i64,
    /// What it changed, where it was made since the start; what a note says may be anybody's.
    made: Option<BTreeMap<String, Change>>,
}

/// A step, and when it was entered into the ledger.
pub(crate) struct Entered {
    pub(crate) step: Step,
    at: Duration,
    /// What it takes of clusters' room, as it is reserved.
    pub(crate) mark: Mark,
    /// Its binding's in its groups, until it is written.
    _turn: Turn,
}

impl Entered {
    /// It is written in this turn of its binding.
    pub(crate) fn during(self, turn: Turn) -> Self {
        Entered { _turn: turn, ..self }
    }

    /// Its room is reserved.
    pub(crate) fn reserved(self, mark: Mark) -> Self {
        Entered { mark, ..self }
    }
}

impl Ledger {
    /// Nothing was moved.
    pub(crate) fn new(budget: Budget) -> Self {
        Ledger { budget, under_way: BTreeMap::new(), left: BTreeMap::new() }
    }

    /// How many replicas may be moved now.
    pub(crate) fn free(&mut self, now: Duration) -> i64 {
        let Ledger { budget, under_way, .. } = self;
        // What counts as spent is not counted twice.
        let held = under_way.values().filter(|step| {
            !budget.counts(step.at, now) && now.saturating_sub(step.at) < budget.interval() + LONGEST_WAY
        });
        let (own, told): (Vec<&UnderWay>, Vec<&UnderWay>) = held.partition(|step| step.made.is_some());
        let sum = |steps: Vec<&UnderWay>| steps.iter().map(|step| step.moved).sum::<i64>();
        // The annotation can be written by anyone who may edit the binding, so notes without a step of this process count for at most half
        // of the budget.
        budget.left(now) - sum(own) - sum(told).min((budget.most() + 1) / 2)
    }

    pub(crate) fn enter(&mut self, key: &Key, step: Step, at: Duration) -> Entered {
        self.budget.spend(step.moved(), at);
        let made = Some(step.note.changed.clone());
        self.under_way.insert(key.clone(), UnderWay { at, moved: step.moved(), made });
        self.left.retain(|_, then| at.saturating_sub(*then) < TURN);
        self.left.extend(step.leaves().map(|cluster| (cluster.to_owned(), at)));
        Entered { step, at, mark: Mark::default(), _turn: Turn::default() }
    }

    /// The last step of a binding is over, or there is none.
    pub(crate) fn is_over(&mut self, key: &Key) {
        self.under_way.remove(key);
    }

    /// The last step of a binding is under way. One that was made before the start is told by its note, and counts from now on.
    pub(crate) fn goes_on(&mut self, key: &Key, note: &MoveNote, now: Duration) {
        let begun = now.saturating_sub(self.budget.interval());
        let told = || UnderWay { at: begun, moved: note.moved(), made: None };
        self.under_way.entry(key.clone()).or_insert_with(told);
    }

    /// Whether so many replicas of a binding may be taken back. What was moved since the start was counted when it was moved, and waits for nobody.
    /// Of anything else a note alone tells, which may be anybody's: that is moved as the budget has it.
    pub(crate) fn takes_back(&mut self, key: &Key, note: &MoveNote, moved: i64, now: Duration) -> bool {
        let is_own = |step: &UnderWay| step.made.as_ref() == Some(&note.changed);
        if self.under_way.get(key).is_some_and(is_own) {
            return true;
        }
        // It is what holds back its own share.
        let held = self.under_way.remove(key);
        let is_room = self.free(now) >= moved;
        if let Some(held) = held.filter(|_| !is_room) {
            self.under_way.insert(key.clone(), held);
        }
        is_room
    }

    /// The step, unless a cluster would be left that another workload left a moment ago.
    pub(crate) fn paced(&self, step: Step, now: Duration) -> Result<Step, Stays> {
        let last = |cluster: &str| self.left.get(cluster).copied().unwrap_or_default();
        let lately = step.leaves().find(|cluster| now.saturating_sub(last(cluster)) < TURN);
        let lately = lately.map(str::to_owned);
        lately.map_or(Ok(step), |cluster| Err(Stays::LeftLately(cluster)))
    }

    /// It was not done.
    pub(crate) fn strike(&mut self, key: &Key, entered: &Entered) {
        self.budget.give_back(entered.step.moved(), entered.at);
        self.under_way.remove(key);
        for cluster in entered.step.leaves() {
            self.left.remove(cluster);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    fn key(name: &str) -> Key {
        Key { namespace: "shop".into(), name: name.into() }
    }

    /// So many from `a` to `b`.
    fn step(replicas: i64) -> Step {
        let changed = [
            ("a".to_owned(), Change { before: 9, after: 9 - replicas }),
            ("b".to_owned(), Change { before: 0, after: replicas }),
        ];
        Step {
            clusters: Vec::new(),
            gives: [("a".to_owned(), replicas)].into(),
            gets: [("b".to_owned(), replicas)].into(),
            note: MoveNote { changed: changed.into(), ..MoveNote::default() },
            is_back: false,
        }
    }

    #[test]
    fn what_is_under_way_counts_beyond_its_interval_and_not_for_good() {
        let mut ledger = Ledger::new(Budget::new(5, at(2)));
        ledger.enter(&key("web"), step(3), at(0));
        assert_eq!(ledger.free(at(1)), 2, "it counts once");
        assert_eq!(ledger.free(at(30)), 2, "it is still under way");
        ledger.is_over(&key("web"));
        assert_eq!(ledger.free(at(30)), 5);
        ledger.enter(&key("web"), step(3), at(30));
        assert_eq!((ledger.free(at(91)), ledger.free(at(92))), (2, 5), "an hour and an interval later");
    }

    #[test]
    fn a_step_of_before_the_start_that_waits_to_be_taken_back_holds_its_share() {
        let mut ledger = Ledger::new(Budget::new(4, at(2)));
        let note = step(2).note;
        ledger.goes_on(&key("web"), &note, at(2));
        ledger.enter(&key("db"), step(3), at(3));
        assert!(!ledger.takes_back(&key("web"), &note, 2, at(4)));
        assert_eq!(ledger.free(at(30)), -1, "both are under way");
        ledger.is_over(&key("db"));
        assert!(ledger.takes_back(&key("web"), &note, 2, at(30)));
    }

    #[test]
    fn notes_that_anybody_may_have_written_hold_back_half_of_the_budget() {
        let mut ledger = Ledger::new(Budget::new(10, at(2)));
        for name in ["a", "b", "c"] {
            ledger.goes_on(&key(name), &step(9).note, at(4));
        }
        assert_eq!(ledger.free(at(4)), 5);
    }

    #[test]
    fn what_a_note_tells_of_before_a_start_counts_as_under_way() {
        let mut ledger = Ledger::new(Budget::new(5, at(2)));
        ledger.goes_on(&key("web"), &step(3).note, at(2));
        ledger.goes_on(&key("web"), &step(3).note, at(4));
        assert_eq!(ledger.free(at(4)), 2);
        let entered = ledger.enter(&key("db"), step(2), at(5));
        assert_eq!(ledger.free(at(5)), 0);
        ledger.strike(&key("db"), &entered);
        assert_eq!(ledger.free(at(5)), 2, "it was not done");
    }

    /// Anybody may write a note: what nobody here moved goes back as the budget has it.
    #[test]
    fn a_step_back_of_what_was_not_moved_here_waits_for_the_budget() {
        let mut ledger = Ledger::new(Budget::new(5, at(2)));
        ledger.enter(&key("web"), step(4), at(0));
        assert!(ledger.takes_back(&key("web"), &step(4).note, 4, at(1)), "its own waits for nobody");
        let other = MoveNote { changed: step(2).note.changed, ..MoveNote::default() };
        assert!(!ledger.takes_back(&key("db"), &other, 2, at(1)));
        assert!(ledger.takes_back(&key("db"), &other, 1, at(1)));
        assert!(!ledger.takes_back(&key("web"), &other, 2, at(1)), "that is another one than was made");
    }
}
