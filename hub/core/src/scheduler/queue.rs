//! The scheduling queue: bindings that wait for a place, in three stages.
//!
//! In: keys with their priorities, the moment, and what came of each look. Out: the key to look at next.
//!
//! | stage | who waits there | until |
//! | --- | --- | --- |
//! | active | whoever is to be looked at | it is their turn: the higher priority first, of equals the one that came first |
//! | backoff | those whose look failed | 1 s after they became active, doubled with each failure, at most 10 s |
//! | unschedulable | those for whom there is no room | something that concerns them changes, or [`QueueTimes::patience`] ends |
//!
//! What is promised: a key is in one stage at most, and never given to two at once; a key that is pushed while it is looked at comes
//! again afterwards; a push from any stage makes it active at once. The rules are those of Karmada's `PriorityBasedScheduling`, surprises included: waiting is
//! counted from when a key became active, so that one which waited long for its turn is tried again at once; a priority that changes while
//! a key is active or looked at counts from its next push.
//!
//! No clock: moments are durations since whatever the caller counts from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long keys wait.
#[derive(Clone, Copy, Debug)]
pub struct QueueTimes {
    /// After the first failure.
    pub base: Duration,
    /// After any number of failures.
    pub longest: Duration,
    /// For whom there is no room, if nothing changes.
    pub patience: Duration,
}

impl QueueTimes {
    /// Karmada's numbers.
    pub const KARMADA: QueueTimes = QueueTimes {
        base: Duration::from_secs(1),
        longest: Duration::from_secs(10),
        patience: Duration::from_secs(300),
    };

    /// How long a key waits that was tried so often; nothing before the first try.
    pub fn backoff(&self, attempts: u32) -> Duration {
        let Some(doublings) = attempts.checked_sub(1) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.longest)
    }
}

/// A key whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped<K> {
    /// Which.
    pub key: K,
    /// How often it was tried, this time included.
    pub attempts: u32,
    /// When it became active.
    pub since: Duration,
}

/// What the queue knows of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    priority: i32,
    /// How often it was given out since it last succeeded or was pushed anew.
    attempts: u32,
    /// When it became active.
    since: Duration,
}

/// The order of the active stage: the highest priority, then the order of arrival there.
type ActiveOrder = (Reverse<i32>, u64);

/// Where a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Active(ActiveOrder),
    /// Due then.
    Backoff(Duration),
    Unschedulable,
}

/// The queue.
#[derive(Debug)]
pub struct SchedulingQueue<K> {
    limits: QueueTimes,
    waiting: BTreeMap<K, (Stage, Entry)>,
    active: BTreeMap<ActiveOrder, K>,
    backoff: BTreeSet<(Duration, K)>,
    /// By when they became active.
    unschedulable: BTreeSet<(Duration, K)>,
    running: BTreeMap<K, Entry>,
    /// Pushed while they ran.
    again: BTreeSet<K>,
    arrivals: u64,
}

impl<K: Ord + Clone> SchedulingQueue<K> {
    /// An empty queue.
    pub fn new(limits: QueueTimes) -> Self {
        SchedulingQueue {
            limits,
            waiting: BTreeMap::new(),
            active: BTreeMap::new(),
            backoff: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            arrivals: 0,
        }
    }

    /// Asks for a look as soon as possible. Whoever waited after a failure, or for room, begins anew.
    pub fn push(&mut self, key: K, priority: i32, now: Duration) {
        if matches!(self.waiting.get(&key), Some((Stage::Active(_), _))) {
            return;
        }
        self.take_out(&key);
        self.activate(key, Entry { priority, attempts: 0, since: now });
    }

    /// The next key; it is held until [`SchedulingQueue::done`].
    pub fn pop(&mut self) -> Option<Popped<K>> {
        let (_, key) = self.active.pop_first()?;
        let (_, mut entry) = self.waiting.remove(&key)?;
        entry.attempts = entry.attempts.saturating_add(1);
        let popped = Popped { key: key.clone(), attempts: entry.attempts, since: entry.since };
        self.running.insert(key, entry);
        Some(popped)
    }

    /// The look at a running key failed.
    pub fn failed(&mut self, key: &K) {
        let Some(entry) = self.running.get(key).filter(|_| !self.is_wanted(key)).cloned() else { return };
        let due = entry.since + self.limits.backoff(entry.attempts);
        self.backoff.insert((due, key.clone()));
        self.waiting.insert(key.clone(), (Stage::Backoff(due), entry));
    }

    /// There is no room for a running key.
    pub fn unschedulable(&mut self, key: &K) {
        let Some(entry) = self.running.get(key).filter(|_| !self.is_wanted(key)).cloned() else { return };
        self.unschedulable.insert((entry.since, key.clone()));
        self.waiting.insert(key.clone(), (Stage::Unschedulable, entry));
    }

    /// A key that waits after a failure waits no longer, nor for anything else: nobody wants it placed any more.
    pub fn forget(&mut self, key: &K) {
        if matches!(self.waiting.get(key), Some((Stage::Backoff(_), _))) {
            self.take_out(key);
        }
    }

    /// Nobody looks at the key any more: where it was pushed meanwhile, it is active, with the priority and the tries that it had.
    pub fn done(&mut self, key: &K, now: Duration) {
        let Some(mut entry) = self.running.remove(key) else { return };
        if self.again.remove(key) {
            entry.since = now;
            self.activate(key.clone(), entry);
        }
    }

    /// Makes those active whose backoff is over.
    pub fn flush_backoff(&mut self, now: Duration) {
        while let Some((due, key)) = self.backoff.first().cloned()
            && due <= now
        {
            self.bring_back(&key, now);
        }
    }

    /// Makes those active who waited for room for too long.
    pub fn flush_unschedulable(&mut self, now: Duration) {
        while let Some((since, key)) = self.unschedulable.first().cloned()
            && now.saturating_sub(since) > self.limits.patience
        {
            self.bring_back(&key, now);
        }
    }

    /// When the next key becomes active by itself.
    pub fn next_flush(&self) -> Option<Duration> {
        let failed = self.backoff.first().map(|(due, _)| *due);
        // Strictly longer than the limit.
        let patience = self.limits.patience + Duration::from_millis(1);
        let without_room = self.unschedulable.first().map(|(since, _)| *since + patience);
        failed.into_iter().chain(without_room).min()
    }

    /// Keys in the active stage, in the order of their turns.
    pub fn active(&self) -> impl ExactSizeIterator<Item = &K> {
        self.active.values()
    }

    /// Keys that wait after a failure, and until when.
    pub fn backing_off(&self) -> impl ExactSizeIterator<Item = (&K, Duration)> {
        self.backoff.iter().map(|(due, key)| (key, *due))
    }

    /// Keys that wait for room.
    pub fn waiting_for_room(&self) -> impl ExactSizeIterator<Item = &K> {
        self.unschedulable.iter().map(|(_, key)| key)
    }

    /// How many keys became active so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Whether a running key is to be looked at again anyway.
    fn is_wanted(&self, key: &K) -> bool {
        self.again.contains(key) || self.waiting.contains_key(key)
    }

    fn bring_back(&mut self, key: &K, now: Duration) {
        if let Some(mut entry) = self.take_out(key) {
            entry.since = now;
            self.activate(key.clone(), entry);
        }
    }

    fn activate(&mut self, key: K, entry: Entry) {
        if self.running.contains_key(&key) {
            self.again.insert(key);
            return;
        }
        self.arrivals += 1;
        let turn = (Reverse(entry.priority), self.arrivals);
        self.active.insert(turn, key.clone());
        self.waiting.insert(key, (Stage::Active(turn), entry));
    }

    fn take_out(&mut self, key: &K) -> Option<Entry> {
        let (stage, entry) = self.waiting.remove(key)?;
        match stage {
            Stage::Active(turn) => drop(self.active.remove(&turn)),
            Stage::Backoff(due) => drop(self.backoff.remove(&(due, key.clone()))),
            Stage::Unschedulable => drop(self.unschedulable.remove(&(entry.since, key.clone()))),
        }
        Some(entry)
    }
}
