//! The work queue of one controller: keys that wait to be reconciled, each at most once.
//!
//! In: keys, at once, after a delay, or after a failure. Out: one key at a time, never the same key to two workers at once; a
//! key that is added while it is worked on comes again afterwards.
//!
//! What is promised: the queue holds keys, not payloads, and each key once, so it is bounded by the number of objects that
//! there are; a key that fails comes back after a delay that doubles from `base` to `limit` until it is forgotten.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::workqueues::{Counted, Counts};

/// How long a failing key waits: `base`, doubled with every failure in a row, at most `limit`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// At most.
    pub limit: Duration,
}

impl Default for Backoff {
    /// From 5 ms, as client-go's controllers; at most a minute, so that what was repaired is noticed soon.
    fn default() -> Self {
        Backoff { base: Duration::from_millis(5), limit: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The delay after the `failures`-th failure in a row (1 is the first).
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.limit)
    }
}

/// What came of the work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    Done,
    /// To be looked at again after this long.
    After(Duration),
    /// Nothing can be done until something changes that makes room.
    NoRoom,
    /// Somebody else changed it meanwhile, and a second look mends that.
    Changed,
    /// It failed.
    Failed,
}

/// What the keys of a controller wait in.
pub trait WorkQueue<K>: Counted + 'static {
    /// Asks for the key to be reconciled in `delay`.
    fn add_after(&self, key: K, delay: Duration);

    /// The next key, held until it is given back; never the same to two at once. `None` once the queue is closed.
    fn next(&self) -> BoxFuture<'_, Option<K>>;

    /// Gives a key back. What was added meanwhile comes again, and so does what did not succeed: after how long is returned.
    fn give_back(&self, key: &K, outcome: Outcome) -> Option<Duration>;

    /// Ends the queue: workers get `None`, additions are ignored.
    fn close(&self);
}

/// Waits for a change, at most until `deadline`.
pub async fn changed_by(changed: Notified<'_>, deadline: Option<Instant>) {
    match deadline {
        None => changed.await,
        Some(at) => {
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(at) => {}
            }
        }
    }
}

/// No key waits longer, whatever is asked for: it is then looked at once more. The sum of a moment and any duration need not be a moment.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 86_400);

/// How long a key waits that has no room, where its queue knows nothing better.
const ROOM_RETRY: Duration = Duration::from_secs(30);

/// The queue of most controllers: in order of arrival.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    /// Told when a key became ready, the first deadline moved, or the queue closed.
    changed: Notify,
    backoff: Backoff,
}

struct State<K> {
    /// Keys, and since when they are ready.
    ready: VecDeque<(K, Instant)>,
    /// The keys in `ready`.
    waiting: BTreeSet<K>,
    /// Keys that a worker has, and since when.
    running: BTreeMap<K, Instant>,
    /// Keys added while they run.
    again: BTreeSet<K>,
    deadlines: BTreeSet<(Instant, K)>,
    delayed: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
    counts: Counts,
    closed: bool,
}

impl<K: Ord + Clone> Default for Queue<K> {
    fn default() -> Self {
        Queue::new(Backoff::default())
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            delayed: BTreeMap::new(),
            failures: BTreeMap::new(),
            counts: Counts::default(),
            closed: false,
        };
        Queue { state: Mutex::new(state), changed: Notify::new(), backoff }
    }

    /// Asks for the key to be reconciled as soon as a worker is free. A delay it waited for is over.
    pub fn add(&self, key: K) {
        let mut state = self.state.lock();
        state.undelay(&key);
        if state.make_ready(key) {
            self.changed.notify_one();
        }
    }

    /// Of two deadlines of one key the earlier holds.
    fn wait(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.state.lock();
        if state.closed || state.waiting.contains(&key) {
            return;
        }
        let deadline = Instant::now() + delay.min(LONGEST_WAIT);
        match state.delayed.get(&key) {
            Some(earlier) if *earlier <= deadline => return,
            Some(_) => state.undelay(&key),
            None => {}
        }
        state.delayed.insert(key.clone(), deadline);
        state.deadlines.insert((deadline, key));
        self.changed.notify_one();
    }

    /// Counts a failure of the key and asks for it again after its backoff. Returns the delay.
    fn retry(&self, key: K) -> Duration {
        let failures = {
            let mut state = self.state.lock();
            let count = state.failures.entry(key.clone()).or_insert(0);
            *count = count.saturating_add(1);
            let count = *count;
            state.counts.retries += 1;
            count
        };
        let delay = self.backoff.delay(failures);
        self.wait(key, delay);
        delay
    }

    /// Asks for the key again at once where it had not failed before, else after its backoff: for what somebody else changed
    /// meanwhile, and a second look mends. Returns the delay.
    fn look_again(&self, key: K) -> Duration {
        let known = match self.state.lock().failures.entry(key.clone()) {
            Entry::Occupied(_) => true,
            Entry::Vacant(slot) => {
                slot.insert(0);
                false
            }
        };
        if known {
            return self.retry(key);
        }
        self.add(key);
        Duration::ZERO
    }

    /// Forgets the key's failures: it succeeded.
    fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// Gives a key back. If it was added meanwhile, it is ready again.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(since) = state.running.remove(key) {
            state.counts.worked.note(since.elapsed());
        }
        if state.again.remove(key) && state.make_ready(key.clone()) {
            self.changed.notify_one();
        }
    }

    /// How many keys wait, delayed ones included.
    pub fn len(&self) -> usize {
        let state = self.state.lock();
        state.ready.len() + state.delayed.len() + state.again.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no key is ready or being worked on; delayed keys do not count. For tests that wait for quiet.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.ready.is_empty() && state.running.is_empty()
    }
}

impl<K: Ord + Clone + Send + Sync + 'static> WorkQueue<K> for Queue<K> {
    fn add_after(&self, key: K, delay: Duration) {
        self.wait(key, delay);
    }

    fn next(&self) -> BoxFuture<'_, Option<K>> {
        Box::pin(async move {
            loop {
                // Made before the look at the state, so that no change in between is missed.
                let changed = self.changed.notified();
                let deadline = {
                    let mut state = self.state.lock();
                    if state.closed {
                        return None;
                    }
                    state.promote(Instant::now());
                    if let Some(key) = state.take() {
                        // This worker may have been the one that waited for the next deadline: another one is to look after that, and take
                        // what else is ready.
                        if !state.ready.is_empty() || !state.deadlines.is_empty() {
                            self.changed.notify_one();
                        }
                        return Some(key);
                    }
                    state.deadlines.first().map(|(at, _)| *at)
                };
                changed_by(changed, deadline).await;
            }
        })
    }

    fn give_back(&self, key: &K, outcome: Outcome) -> Option<Duration> {
        let again = match outcome {
            Outcome::Done => None,
            Outcome::After(delay) => Some(delay),
            Outcome::NoRoom => Some(ROOM_RETRY),
            Outcome::Changed => Some(self.look_again(key.clone())),
            Outcome::Failed => Some(self.retry(key.clone())),
        };
        if matches!(outcome, Outcome::Done | Outcome::After(_) | Outcome::NoRoom) {
            self.forget(key);
            again.into_iter().for_each(|delay| self.wait(key.clone(), delay));
        }
        self.done(key);
        again
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
}

impl<K: Ord + Clone> State<K> {
    /// Whether the key is new among the ready ones.
    fn make_ready(&mut self, key: K) -> bool {
        if self.closed {
            return false;
        }
        if self.running.contains_key(&key) {
            self.again.insert(key);
            return false;
        }
        if !self.waiting.insert(key.clone()) {
            return false;
        }
        self.ready.push_back((key, Instant::now()));
        self.counts.adds += 1;
        true
    }

    fn undelay(&mut self, key: &K) {
        if let Some(at) = self.delayed.remove(key) {
            self.deadlines.remove(&(at, key.clone()));
        }
    }

    /// Makes keys ready whose deadline has come.
    fn promote(&mut self, now: Instant) {
        while self.deadlines.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.deadlines.pop_first() else { return };
            self.delayed.remove(&key);
            self.make_ready(key);
        }
    }

    fn take(&mut self) -> Option<K> {
        let (key, since) = self.ready.pop_front()?;
        let now = Instant::now();
        self.counts.waited.note(now.duration_since(since));
        self.waiting.remove(&key);
        self.running.insert(key.clone(), now);
        Some(key)
    }
}

impl<K: Ord + Clone + Send> Counted for Queue<K> {
    fn counts(&self) -> Counts {
        let state = self.state.lock();
        let counts = Counts { depth: state.ready.len(), ..state.counts.clone() };
        counts.with_running(state.running.values().map(Instant::elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn ready(queue: &Queue<u32>) -> Option<u32> {
        queue.next().now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_comes_again_when_added_while_it_runs() {
        let queue = Queue::default();
        for key in [1, 2, 1] {
            queue.add(key);
        }
        assert_eq!((ready(&queue), ready(&queue), ready(&queue)), (Some(1), Some(2), None));
        queue.add(1);
        assert_eq!(ready(&queue), None, "no two workers hold one key");
        queue.done(&1);
        assert_eq!(ready(&queue), Some(1));
        queue.done(&1);
        queue.done(&2);
        assert!(queue.is_empty() && queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_counts_its_keys_and_their_times() {
        let queue = std::sync::Arc::new(Queue::default());
        let queues = crate::workqueues::Workqueues::default();
        queues.enter("shop", queue.clone());
        queue.add(1);
        queue.add(2);
        queue.add(1);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(ready(&queue), Some(1));
        tokio::time::advance(Duration::from_millis(50)).await;
        queue.retry(1);
        queue.done(&1);
        let page = queues.page();
        for line in [
            "workqueue_depth{name=\"shop\"} 1",
            "workqueue_adds_total{name=\"shop\"} 2",
            "workqueue_retries_total{name=\"shop\"} 1",
            "workqueue_queue_duration_seconds_bucket{name=\"shop\",le=\"1\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"shop\",le=\"5\"} 1",
            "workqueue_work_duration_seconds_bucket{name=\"shop\",le=\"0.1\"} 1",
            "workqueue_work_duration_seconds_count{name=\"shop\"} 1",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}: {page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_delays_holds() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after(1, Duration::from_secs(9));
        queue.add_after(1, Duration::from_secs(3));
        queue.add_after(1, Duration::from_secs(5));
        assert_eq!(queue.next().await, Some(1));
        assert_eq!(start.elapsed().as_secs(), 3);
        queue.done(&1);
        assert!(queue.is_empty());
    }

    /// One worker waits for a deadline and is given another key meanwhile, on which it works for long.
    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_kept_by_an_idle_worker_where_the_one_that_waited_is_busy() {
        let queue = std::sync::Arc::new(Queue::default());
        let taken = std::sync::Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, taken) = (queue.clone(), taken.clone());
                tokio::spawn(async move {
                    while let Some(key) = queue.next().await {
                        taken.lock().push((key, start.elapsed().as_secs()));
                        tokio::time::sleep(Duration::from_secs(100)).await;
                        queue.done(&key);
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        for delayed in 0..2 {
            queue.add_after(delayed, Duration::from_secs(5));
            tokio::time::sleep(Duration::from_secs(1)).await;
            queue.add(10 + delayed);
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        assert_eq!(*taken.lock(), [(10, 2), (0, 6), (11, 303), (1, 307)]);
        queue.close();
        drop(workers);
    }

    /// The sum of a moment and a duration need not be a moment.
    #[tokio::test(start_paused = true)]
    async fn a_wait_of_ages_waits() {
        let queue = Queue::default();
        for wait in [Duration::MAX, Duration::from_secs(i64::MAX as u64)] {
            queue.add_after(1, wait);
            assert!(queue.next().now_or_never().is_none());
        }
        queue.add(2);
        assert_eq!(queue.next().await, Some(2));
        queue.give_back(&2, Outcome::After(Duration::MAX));
        queue.add(2);
        assert_eq!(queue.next().await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_delay_up_to_the_limit_until_forgotten() {
        let queue = Queue::new(Backoff { base: Duration::from_millis(10), limit: Duration::from_millis(50) });
        let delays: Vec<u128> = (0..5).map(|_| queue.retry(7).as_millis()).collect();
        assert_eq!(delays, [10, 20, 40, 50, 50]);
        queue.forget(&7);
        assert_eq!(queue.retry(7).as_millis(), 10);
        assert_eq!(Backoff::default().delay(200), Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_look_again_is_at_once_and_the_next_wait() {
        let queue = Queue::new(Backoff { base: Duration::from_millis(10), limit: Duration::from_millis(50) });
        let delays: Vec<u128> = (0..3).map(|_| queue.look_again(7).as_millis()).collect();
        assert_eq!(delays, [0, 10, 20]);
        queue.forget(&7);
        assert_eq!(queue.look_again(7).as_millis(), 0);
        assert_eq!(queue.retry(7).as_millis(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_is_woken_by_an_addition_and_by_the_end() {
        let queue = std::sync::Arc::new(Queue::default());
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move { (queue.next().await, queue.next().await) }
        });
        tokio::task::yield_now().await;
        queue.add(4);
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(worker.await.unwrap(), (Some(4), None));
    }
}
