//! What is to be done next: one place per Work, by dependency class, failures later, drift at its own pace, removals in a lane of their
//! own; what the agent may have crashed over, one at a time; little where the member asks for a pause. Pure.
//!
//! In: keys with the reason to look at them, what ended, time. Out: the keys to work on now, and when to ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karmada_proto::token_bucket::{Rate, TokenBucket};

use super::retry_after::Pause;

/// A first try that takes longer no longer blocks Works of later classes, nor counts towards the limit: on a member that hangs over one object the
/// rest goes on.
const HANGS_AFTER: Duration = Duration::from_secs(2);
/// A suspect runs alone for so long at most.
const ALONE: Duration = Duration::from_secs(10);
/// Slow ones under way at once, in each lane.
const SLOW_ONES: usize = 32;
/// A lane of which the member asked a pause begins one in so long, to see whether it takes others. That may have been asked of one object
/// alone, as by a webhook.
const PROBES: Duration = Duration::from_secs(1);
/// Classes from here on are removals.
const REMOVALS: u8 = 10;

/// What is done to a member: each has its own room, and its own pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Objects are written.
    Applies,
    /// Objects are removed.
    Removals,
}

/// Why a Work is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkReason {
    /// Its desired state is new, or it is to be removed.
    New,
    /// The member may have drifted.
    Drift,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Task {
    /// Lane (applies or removals) and class within it.
    class: u8,
    cause: WorkReason,
    due: Duration,
    /// It failed before: it holds nobody up.
    again: bool,
}

impl Task {
    fn lane(&self) -> Lane {
        if self.class >= REMOVALS { Lane::Removals } else { Lane::Applies }
    }

    fn is_first_try(&self) -> bool {
        self.cause == WorkReason::New && !self.again
    }
}

#[derive(Debug, Clone, Copy)]
struct Running {
    task: Task,
    since: Duration,
}

impl Running {
    fn is_slow(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= HANGS_AFTER
    }
}

/// What was to be done of a key that was set aside.
#[derive(Debug, Clone, Copy)]
pub struct SetAside(Task);

/// The tasks.
#[derive(Debug)]
pub struct Workqueue {
    tasks: BTreeMap<String, Task>,
    running: BTreeMap<String, Running>,
    suspects: BTreeSet<String>,
    /// How often drift is looked at.
    rate: Rate,
    drift: TokenBucket,
    applies_pause: Pause,
    removals_pause: Pause,
}

/// The class of a removal: in its own lane, and the other way round.
pub fn removal_class(class: u8) -> u8 {
    REMOVALS + 10 - class.min(10)
}

impl Workqueue {
    /// Drift is looked at `rate` times a second.
    pub fn new(rate: f64) -> Self {
        let rate = Rate { per_minute: rate.max(0.01) * 60.0, burst: (rate * 2.0).max(1.0) };
        Self {
            tasks: BTreeMap::new(),
            running: BTreeMap::new(),
            suspects: BTreeSet::new(),
            rate,
            drift: TokenBucket::full(rate, Duration::ZERO),
            applies_pause: Pause::default(),
            removals_pause: Pause::default(),
        }
    }

    /// `key` is to be looked at now. News outranks drift.
    pub fn push(&mut self, key: &str, class: u8, cause: WorkReason) {
        let task = self.tasks.get(key).filter(|task| task.cause < cause).copied();
        let task = task.unwrap_or(Task { class, cause, due: Duration::ZERO, again: false });
        self.tasks.insert(key.to_owned(), task);
    }

    /// `key` failed and is to be tried again at `due`, unless something newer asks for it earlier.
    pub fn again(&mut self, key: &str, class: u8, due: Duration) {
        self.tasks.entry(key.to_owned()).or_insert(Task { class, cause: WorkReason::New, due, again: true });
    }

    /// What failed of `key` is tried again at `due`, where it was to be later.
    pub fn sooner(&mut self, key: &str, due: Duration) {
        if let Some(task) = self.tasks.get_mut(key).filter(|task| task.again) {
            task.due = task.due.min(due);
        }
    }

    /// The agent may have crashed over `key`: it is tried before the others, and alone, until it ended once.
    pub fn suspect(&mut self, key: &str) {
        self.suspects.insert(key.to_owned());
    }

    /// The member asked for a pause, of an apply or a removal: of that lane little is begun before `until`.
    pub fn pause(&mut self, lane: Lane, now: Duration, until: Duration) {
        let pause = self.pause_of(lane);
        *pause = Pause { until: pause.until.max(until), probe: now + PROBES };
    }

    /// The member took an apply or a removal, or refused it for another reason: it asks others for no pause.
    pub fn pause_is_over(&mut self, lane: Lane) {
        *self.pause_of(lane) = Pause::default();
    }

    fn pause_of(&mut self, lane: Lane) -> &mut Pause {
        match lane {
            Lane::Applies => &mut self.applies_pause,
            Lane::Removals => &mut self.removals_pause,
        }
    }

    /// Nothing is to be done about `key`.
    pub fn drop_key(&mut self, key: &str) {
        self.tasks.remove(key);
    }

    /// Whether `key` is being worked on.
    pub fn is_running(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    /// Takes keys to work on: up to `limit` that apply, and a quarter of that which remove. All of a lane are of the lowest class that
    /// has first tries: what others need is done before they are begun. Call [`Workqueue::done`] for each.
    pub fn take(&mut self, now: Duration, limit: usize) -> Vec<(String, WorkReason)> {
        let alone = |(key, running): (&String, &Running)| {
            self.suspects.contains(key) && now.saturating_sub(running.since) < ALONE
        };
        if self.running.iter().any(alone) {
            return Vec::new();
        }
        let waiting = |(key, task): &(&String, &Task)| {
            task.due <= now && self.suspects.contains(*key) && !self.running.contains_key(*key)
        };
        let suspect = self.tasks.iter().find(waiting).map(|(key, task)| (key.clone(), *task));
        if let Some((key, task)) = suspect {
            if self.running.values().any(|running| !running.is_slow(now)) {
                return Vec::new();
            }
            return vec![self.begin(key, task, now)];
        }
        let mut taken = self.take_lane(now, Lane::Applies, limit);
        taken.extend(self.take_lane(now, Lane::Removals, (limit / 4).max(1)));
        taken
    }

    fn take_lane(&mut self, now: Duration, lane: Lane, limit: usize) -> Vec<(String, WorkReason)> {
        let pause = *self.pause_of(lane);
        if now < pause.opens(now) {
            return Vec::new();
        }
        let limit = if now < pause.until { 1 } else { limit };
        let here = |task: &Task| task.lane() == lane;
        let running = self.running.values().filter(|running| here(&running.task));
        let (slow, quick): (Vec<&Running>, Vec<&Running>) = running.partition(|running| running.is_slow(now));
        let room = if slow.len() < SLOW_ONES { limit.saturating_sub(quick.len()) } else { 0 };
        let under_way = quick.iter().map(|running| running.task).filter(Task::is_first_try);
        let under_way: Vec<u8> = under_way.map(|task| task.class).collect();
        let waiting = self
            .tasks
            .iter()
            .filter(|(key, task)| here(task) && task.due <= now && !self.running.contains_key(*key));
        let mut ready: Vec<(String, Task)> = waiting.map(|(key, task)| (key.clone(), *task)).collect();
        ready.sort_unstable_by(|(one, a), (other, b)| {
            // What failed before holds nobody up, whatever its class.
            (a.again, a.class, a.cause, one).cmp(&(b.again, b.class, b.cause, other))
        });
        let first_tries = ready.iter().filter(|(_, task)| task.is_first_try()).map(|(_, task)| task.class);
        let gate = first_tries.chain(under_way).min();
        let mut taken = Vec::new();
        for (key, task) in ready {
            if taken.len() == room {
                break;
            }
            if gate.is_some_and(|gate| task.class > gate) {
                continue;
            }
            if task.cause == WorkReason::Drift && self.drift.take(self.rate, now).is_err() {
                continue;
            }
            taken.push(self.begin(key, task, now));
        }
        if !taken.is_empty() {
            self.pause_of(lane).probe = now + PROBES;
        }
        taken
    }

    fn begin(&mut self, key: String, task: Task, now: Duration) -> (String, WorkReason) {
        self.tasks.remove(&key);
        self.running.insert(key.clone(), Running { task, since: now });
        (key, task.cause)
    }

    /// `key` was taken and cannot begin yet: it is out of the queue, and holds nobody up, until [`Workqueue::bring_back`].
    pub fn set_aside(&mut self, key: &str) -> Option<SetAside> {
        self.running.remove(key).map(|running| SetAside(running.task))
    }

    /// `key` may begin by now, unless something newer was asked of it meanwhile.
    pub fn bring_back(&mut self, key: &str, SetAside(task): SetAside) {
        self.tasks.entry(key.to_owned()).or_insert(Task { again: true, ..task });
    }

    /// `key` is no longer worked on.
    pub fn done(&mut self, key: &str) {
        self.running.remove(key);
        self.suspects.remove(key);
    }

    /// When [`Workqueue::take`] is worth calling again without anything new; `None` where nothing waits.
    pub fn due(&mut self, now: Duration) -> Option<Duration> {
        let idle = self.tasks.iter().filter(|(key, _)| !self.running.contains_key(*key));
        let opens = |task: &Task| {
            let pause = match task.lane() {
                Lane::Applies => self.applies_pause,
                Lane::Removals => self.removals_pause,
            };
            task.due.max(pause.opens(now))
        };
        let first = idle.map(|(_, task)| opens(task)).min()?;
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

    fn keys(taken: Vec<(String, WorkReason)>) -> Vec<String> {
        taken.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_class_waits_for_the_one_before_it() {
        let mut queue = Workqueue::new(5.0);
        for (key, class) in [("deploy", 3), ("crd", 0), ("ns", 1), ("deploy2", 3)] {
            queue.push(key, class, WorkReason::New);
        }
        for expect in [vec!["crd"], vec!["ns"], vec!["deploy", "deploy2"]] {
            let taken = keys(queue.take(NOW, 8));
            assert_eq!(taken, expect);
            assert!(queue.take(NOW, 8).is_empty(), "{expect:?} is still being worked on");
            taken.iter().for_each(|key| queue.done(key));
        }
    }

    #[test]
    fn a_failing_one_holds_nobody_up() {
        let mut queue = Workqueue::new(5.0);
        queue.push("crd", 0, WorkReason::New);
        queue.push("deploy", 3, WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 8)), ["crd"]);
        queue.done("crd");
        queue.again("crd", 0, NOW);
        assert_eq!(keys(queue.take(NOW, 8)), ["deploy", "crd"]);
        queue.done("crd");
        queue.again("crd", 0, NOW + NOW);
        queue.done("deploy");
        assert_eq!((keys(queue.take(NOW, 8)), queue.due(NOW)), (vec![], Some(NOW + NOW)));
        queue.sooner("crd", NOW + Duration::from_secs(1));
        queue.sooner("crd", NOW + Duration::from_secs(2));
        assert_eq!(queue.due(NOW), Some(NOW + Duration::from_secs(1)));
        queue.push("crd", 0, WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 8)), ["crd"], "news do not wait for the retry");
    }

    /// A definition whose webhook hangs, a namespace on a slow member: what waits for it is tried all the same.
    #[test]
    fn a_slow_first_try_gates_and_fills_its_place_for_a_moment_only() {
        let mut queue = Workqueue::new(5.0);
        queue.push("crd", 0, WorkReason::New);
        queue.push("deploy", 3, WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 1)), ["crd"]);
        assert!(queue.take(NOW, 1).is_empty());
        assert_eq!(keys(queue.take(NOW + NOW, 1)), ["deploy"], "in the only place that a slow member leaves");
        queue.push("late", 3, WorkReason::New);
        assert!(queue.take(NOW + NOW, 1).is_empty(), "one that is quick takes a place");
    }

    #[test]
    fn what_is_tried_again_gates_nothing_while_it_runs() {
        let mut queue = Workqueue::new(5.0);
        queue.again("crd", 0, NOW);
        assert_eq!(keys(queue.take(NOW, 8)), ["crd"]);
        queue.push("deploy", 3, WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 8)), ["deploy"]);
    }

    #[test]
    fn removals_wait_for_no_first_try_and_have_places_of_their_own() {
        let mut queue = Workqueue::new(5.0);
        for at in 0..100 {
            queue.push(&format!("k{at}"), 3, WorkReason::New);
        }
        queue.push("gone", removal_class(3), WorkReason::New);
        queue.push("gone-namespace", removal_class(1), WorkReason::New);
        let taken = keys(queue.take(NOW, 8));
        assert!(taken.contains(&"gone".to_owned()) && taken.len() == 9, "{taken:?}");
        assert!(!taken.contains(&"gone-namespace".to_owned()), "what depends on it goes first");
    }

    #[test]
    fn a_lane_that_was_asked_for_a_pause_begins_one_a_second_until_it_is_over() {
        let mut queue = Workqueue::new(5.0);
        for key in ["a", "b", "c", "d"] {
            queue.push(key, 3, WorkReason::New);
        }
        let second = Duration::from_secs(1);
        queue.pause(Lane::Applies, NOW, NOW + NOW);
        queue.pause(Lane::Applies, NOW, NOW);
        assert_eq!((keys(queue.take(NOW, 8)), queue.due(NOW)), (vec![], Some(NOW + second)));
        queue.push("gone", removal_class(3), WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 8)), ["gone"], "the other lane was not asked");
        assert_eq!(keys(queue.take(NOW + second, 8)), ["a"]);
        queue.done("a");
        assert!(queue.take(NOW + second, 8).is_empty());
        assert_eq!(keys(queue.take(NOW + 2 * second, 8)), ["b"]);
        let mut eased = Workqueue::new(5.0);
        eased.push("a", 3, WorkReason::New);
        eased.pause(Lane::Applies, NOW, NOW + NOW);
        eased.pause_is_over(Lane::Applies);
        assert_eq!(keys(eased.take(NOW, 8)), ["a"], "the member takes others");
        queue.done("b");
        assert_eq!(keys(queue.take(NOW + NOW, 8)), ["c", "d"]);
    }

    #[test]
    fn suspects_are_tried_one_at_a_time_and_before_the_others() {
        let mut queue = Workqueue::new(5.0);
        for (key, class) in [("a", 3), ("b", 3), ("innocent", 0)] {
            queue.push(key, class, WorkReason::New);
        }
        queue.suspect("a");
        queue.suspect("b");
        for expect in ["a", "b"] {
            assert_eq!(keys(queue.take(NOW, 8)), [expect]);
            assert!(queue.take(NOW, 8).is_empty(), "it runs alone");
            queue.done(expect);
        }
        assert_eq!(keys(queue.take(NOW, 8)), ["innocent"]);
        queue.done("innocent");
        queue.push("a", 3, WorkReason::New);
        queue.push("c", 3, WorkReason::New);
        assert_eq!(keys(queue.take(NOW, 8)), ["a", "c"], "it ended: it is no suspect any more");
    }

    #[test]
    fn a_suspect_that_does_not_end_holds_nobody_up_for_long() {
        let mut queue = Workqueue::new(5.0);
        queue.push("a", 3, WorkReason::New);
        queue.push("b", 3, WorkReason::New);
        queue.suspect("a");
        assert_eq!(keys(queue.take(NOW, 8)), ["a"]);
        assert!(queue.take(NOW + ALONE / 2, 8).is_empty());
        assert_eq!(keys(queue.take(NOW + ALONE, 8)), ["b"]);
    }

    #[test]
    fn removals_go_the_other_way_and_after_applies() {
        assert!(removal_class(0) > removal_class(4) && removal_class(4) > 4);
    }

    #[test]
    fn one_key_is_worked_on_once_at_a_time_and_the_limit_holds() {
        let mut queue = Workqueue::new(5.0);
        for at in 0..10 {
            queue.push(&format!("k{at}"), 3, WorkReason::New);
        }
        let first = keys(queue.take(NOW, 4));
        assert_eq!(first.len(), 4);
        queue.push(&first[0], 3, WorkReason::New);
        assert!(queue.take(NOW, 4).is_empty());
        queue.done(&first[0]);
        assert_eq!(queue.take(NOW, 4).len(), 1);
        assert_eq!(queue.pending(), 10);
    }

    #[test]
    fn drift_is_paced() {
        let mut queue = Workqueue::new(5.0);
        for at in 0..100 {
            queue.push(&format!("k{at}"), 3, WorkReason::Drift);
        }
        assert_eq!(queue.take(NOW, 100).len(), 10);
        assert_eq!(queue.take(NOW + Duration::from_secs(1), 100).len(), 5);
        queue.push("k99", 3, WorkReason::New);
        assert_eq!(keys(queue.take(NOW + Duration::from_secs(1), 100)), ["k99"], "news are not");
    }
}
