//! What is to be done next: one place per Work, by dependency class, failures later, drift at its own pace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pace::Bucket;

/// Why a Work is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its desired state is new, or it is to be removed.
    New,
    /// The member may have drifted.
    Drift,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Task {
    /// Lane (applies before removals) and class within it.
    class: u8,
    cause: Cause,
    due: Duration,
    /// It failed before: it holds nobody up.
    again: bool,
}

/// The tasks.
#[derive(Debug)]
pub struct Todo {
    tasks: BTreeMap<String, Task>,
    running: BTreeMap<String, u8>,
    drift: Bucket,
}

/// The class of a removal: after the applies, and the other way round.
pub fn removal_class(class: u8) -> u8 {
    20 - class.min(10)
}

impl Todo {
    /// Drift is looked at `rate` times a second.
    pub fn new(rate: f64) -> Self {
        Self { tasks: BTreeMap::new(), running: BTreeMap::new(), drift: Bucket::new(rate, rate * 2.0) }
    }

    /// `key` is to be looked at now. News outranks drift.
    pub fn push(&mut self, key: &str, class: u8, cause: Cause) {
        let task = self.tasks.get(key).filter(|task| task.cause < cause).copied();
        let task = task.unwrap_or(Task { class, cause, due: Duration::ZERO, again: false });
        self.tasks.insert(key.to_owned(), task);
    }

    /// `key` failed and is to be tried again at `due`, unless something newer asks for it earlier.
    pub fn again(&mut self, key: &str, class: u8, due: Duration) {
        self.tasks.entry(key.to_owned()).or_insert(Task { class, cause: Cause::New, due, again: true });
    }

    /// Nothing is to be done about `key`.
    pub fn drop_key(&mut self, key: &str) {
        self.tasks.remove(key);
    }

    /// Whether `key` is being worked on.
    pub fn is_running(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    /// Takes up to `limit - running` keys to work on, all of the lowest class that has any: what others need is
    /// done before they are begun. Call [`Todo::done`] for each.
    pub fn take(&mut self, now: Duration, limit: usize) -> Vec<(String, Cause)> {
        let room = limit.saturating_sub(self.running.len());
        let waiting = self.tasks.iter().filter(|(key, t)| t.due <= now && !self.running.contains_key(*key));
        let mut ready: Vec<(u8, Cause, bool, String)> =
            waiting.map(|(key, t)| (t.class, t.cause, t.again, key.clone())).collect();
        ready.sort_unstable();
        let first_tries = ready.iter().filter(|(_, cause, again, _)| *cause == Cause::New && !again);
        let gate = first_tries.map(|(class, ..)| *class).chain(self.running.values().copied()).min();
        let mut taken = Vec::new();
        for (class, cause, _, key) in ready {
            if taken.len() == room {
                break;
            }
            if gate.is_some_and(|gate| class > gate) {
                continue;
            }
            if cause == Cause::Drift && self.drift.take(now).is_err() {
                continue;
            }
            self.tasks.remove(&key);
            self.running.insert(key.clone(), class);
            taken.push((key, cause));
        }
        taken
    }

    /// `key` is no longer worked on.
    pub fn done(&mut self, key: &str) {
        self.running.remove(key);
    }

    /// When [`Todo::take`] is worth calling again without anything new; `None` where nothing waits.
    pub fn due(&mut self, now: Duration) -> Option<Duration> {
        let idle: BTreeSet<Duration> = self
            .tasks
            .iter()
            .filter(|(key, _)| !self.running.contains_key(*key))
            .map(|(_, t)| t.due)
            .collect();
        let first = idle.first().copied()?;
        if first > now {
            return Some(first);
        }
        // Something is due and was not taken: a slot or a token is missing. A finished task wakes for the first.
        Some(now + Duration::from_millis(100))
    }

    /// Keys waiting or being worked on.
    pub fn pending(&self) -> usize {
        self.tasks.len() + self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    fn keys(taken: Vec<(String, Cause)>) -> Vec<String> {
        taken.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_class_waits_for_the_one_before_it() {
        let mut todo = Todo::new(5.0);
        for (key, class) in [("deploy", 3), ("crd", 0), ("ns", 1), ("deploy2", 3)] {
            todo.push(key, class, Cause::New);
        }
        for expect in [vec!["crd"], vec!["ns"], vec!["deploy", "deploy2"]] {
            let taken = keys(todo.take(NOW, 8));
            assert_eq!(taken, expect);
            assert!(todo.take(NOW, 8).is_empty(), "{expect:?} is still being worked on");
            taken.iter().for_each(|key| todo.done(key));
        }
    }

    #[test]
    fn a_failing_one_holds_nobody_up() {
        let mut todo = Todo::new(5.0);
        todo.push("crd", 0, Cause::New);
        todo.push("deploy", 3, Cause::New);
        assert_eq!(keys(todo.take(NOW, 8)), ["crd"]);
        todo.done("crd");
        todo.again("crd", 0, NOW);
        assert_eq!(keys(todo.take(NOW, 8)), ["crd", "deploy"]);
        todo.done("crd");
        todo.again("crd", 0, NOW + NOW);
        todo.done("deploy");
        assert_eq!((keys(todo.take(NOW, 8)), todo.due(NOW)), (vec![], Some(NOW + NOW)));
        todo.push("crd", 0, Cause::New);
        assert_eq!(keys(todo.take(NOW, 8)), ["crd"], "news do not wait for the retry");
    }

    #[test]
    fn removals_go_the_other_way_and_after_applies() {
        assert!(removal_class(0) > removal_class(4) && removal_class(4) > 4);
    }

    #[test]
    fn one_key_is_worked_on_once_at_a_time_and_the_limit_holds() {
        let mut todo = Todo::new(5.0);
        for at in 0..10 {
            todo.push(&format!("k{at}"), 3, Cause::New);
        }
        let first = keys(todo.take(NOW, 4));
        assert_eq!(first.len(), 4);
        todo.push(&first[0], 3, Cause::New);
        assert!(todo.take(NOW, 4).is_empty());
        todo.done(&first[0]);
        assert_eq!(todo.take(NOW, 4).len(), 1);
        assert_eq!(todo.pending(), 10);
    }

    #[test]
    fn drift_is_paced() {
        let mut todo = Todo::new(5.0);
        for at in 0..100 {
            todo.push(&format!("k{at}"), 3, Cause::Drift);
        }
        assert_eq!(todo.take(NOW, 100).len(), 10);
        assert_eq!(todo.take(NOW + Duration::from_secs(1), 100).len(), 5);
        todo.push("k99", 3, Cause::New);
        assert_eq!(keys(todo.take(NOW + Duration::from_secs(1), 100)), ["k99"], "news are not");
    }
}
