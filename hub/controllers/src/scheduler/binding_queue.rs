//! The scheduler's queue: `karmada-core` orders the bindings, this gives it the moment and wakes the workers.
//!
//! In: keys of bindings, what came of each look, their priorities as the index of bindings knows them. Out: one key at a time, that of the
//! highest priority first.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_core::scheduler::queue::{QueueTimes, SchedulingQueue};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::port::Key;
use crate::queue::{Outcome, WorkQueue, changed_by};
use crate::workqueues::{Counted, Counts};

/// A binding for which there is no room is looked at again after this long, also if nothing changed: the room that clusters report does not
/// wake it, as each report of each cluster would wake all of them. Karmada waits for five minutes.
const LIMITS: QueueTimes = QueueTimes { patience: Duration::from_secs(30), ..QueueTimes::KARMADA };

/// Which priority a binding has.
type Priority = Box<dyn Fn(&Key) -> i32 + Send + Sync>;

/// The queue.
pub struct BindingQueue {
    state: Mutex<State>,
    /// Told when a key became active, a wait began, or the queue closed.
    changed: Notify,
    priority: Priority,
    started: Instant,
}

struct State {
    queue: SchedulingQueue<Key>,
    /// Keys that a worker has: since when, and how often they were tried.
    running: BTreeMap<Key, (Instant, u32)>,
    counts: Counts,
    closed: bool,
}

impl BindingQueue {
    /// An empty queue.
    pub fn new(priority: impl Fn(&Key) -> i32 + Send + Sync + 'static) -> Self {
        let state = State {
            queue: SchedulingQueue::new(LIMITS),
            running: BTreeMap::new(),
            counts: Counts::default(),
            closed: false,
        };
        BindingQueue {
            state: Mutex::new(state),
            changed: Notify::new(),
            priority: Box::new(priority),
            started: Instant::now(),
        }
    }

    /// A key whose turn it is, or else when to look again.
    fn poll(&self) -> NextKey {
        let now = self.started.elapsed();
        let mut state = self.state.lock();
        if state.closed {
            return NextKey::Closed;
        }
        state.queue.flush_backoff(now);
        state.queue.flush_unschedulable(now);
        let Some(popped) = state.queue.pop() else {
            return NextKey::Wait(state.queue.next_flush().map(|at| self.started + at));
        };
        state.counts.waited.note(now.saturating_sub(popped.since));
        state.running.insert(popped.key.clone(), (Instant::now(), popped.attempts));
        // This worker may have been the one that waited for the next flush: another one is to look after that, and take what else is ready.
        if state.queue.active().len() > 0 || state.queue.next_flush().is_some() {
            self.changed.notify_one();
        }
        NextKey::Key(popped.key)
    }
}

enum NextKey {
    Key(Key),
    /// Nobody's, till then at least.
    Wait(Option<Instant>),
    Closed,
}

impl WorkQueue<Key> for BindingQueue {
    /// Nothing that wakes the scheduler asks for a delay; one that is asked for is not waited.
    fn add_after(&self, key: Key, _: Duration) {
        let priority = (self.priority)(&key);
        let mut state = self.state.lock();
        if !state.closed {
            state.queue.push(key, priority, self.started.elapsed());
            self.changed.notify_one();
        }
    }

    fn next(&self) -> BoxFuture<'_, Option<Key>> {
        Box::pin(async move {
            loop {
                // Made before the look at the state, so that no change in between is missed.
                let changed = self.changed.notified();
                match self.poll() {
                    NextKey::Key(key) => return Some(key),
                    NextKey::Closed => return None,
                    NextKey::Wait(at) => changed_by(changed, at).await,
                }
            }
        })
    }

    fn give_back(&self, key: &Key, outcome: Outcome) -> Option<Duration> {
        let now = self.started.elapsed();
        let priority = (self.priority)(key);
        let mut state = self.state.lock();
        let (since, attempts) = state.running.remove(key).unwrap_or((Instant::now(), 1));
        state.counts.worked.note(since.elapsed());
        let again = match outcome {
            Outcome::Done => None,
            // A second look mends it, and if it does not, it is a failure like others.
            Outcome::Changed if attempts <= 1 => {
                state.queue.push(key.clone(), priority, now);
                Some(Duration::ZERO)
            }
            Outcome::Changed | Outcome::Failed => {
                state.counts.retries += 1;
                state.queue.failed(key);
                Some(LIMITS.backoff(attempts))
            }
            Outcome::NoRoom | Outcome::After(_) => {
                state.queue.unschedulable(key);
                Some(LIMITS.patience)
            }
        };
        state.queue.done(key, now);
        self.changed.notify_one();
        again
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
}

impl Counted for BindingQueue {
    fn counts(&self) -> Counts {
        let state = self.state.lock();
        let (depth, adds) = (state.queue.active().len(), state.queue.arrivals());
        let running = state.running.values().map(|(since, _)| since.elapsed());
        Counts { depth, adds, ..state.counts.clone() }.with_running(running)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn queue() -> BindingQueue {
        BindingQueue::new(|key| if key.name.starts_with("urgent") { 9 } else { 0 })
    }

    fn next(queue: &BindingQueue) -> Option<String> {
        queue.next().now_or_never().flatten().map(|key| key.name.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn the_higher_priority_is_first_and_of_equals_who_came_first() {
        let queue = queue();
        for name in ["b", "a", "urgent"] {
            queue.add_after(key(name), Duration::ZERO);
            queue.add_after(key(name), Duration::ZERO);
        }
        let order: Vec<_> = (0..4).map(|_| next(&queue)).collect();
        assert_eq!(order, [Some("urgent".into()), Some("b".into()), Some("a".into()), None]);
        assert_eq!(queue.counts().adds, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn without_room_a_binding_waits_for_a_change_or_half_a_minute() {
        let queue = queue();
        let start = Instant::now();
        let waits = async |outcome| {
            queue.add_after(key("a"), Duration::ZERO);
            queue.next().await.unwrap();
            queue.give_back(&key("a"), outcome);
            let before = start.elapsed();
            let again = tokio::time::timeout(Duration::from_secs(600), queue.next()).await;
            if let Ok(Some(again)) = &again {
                queue.give_back(again, Outcome::Done);
            }
            again.is_ok().then(|| (start.elapsed() - before).as_millis())
        };
        assert_eq!(waits(Outcome::NoRoom).await, Some(30_001));
        assert_eq!(waits(Outcome::Failed).await, Some(1_000));
        assert_eq!(waits(Outcome::Changed).await, Some(0), "a second look at once");
        assert_eq!(waits(Outcome::Done).await, None);
        queue.add_after(key("a"), Duration::ZERO);
        queue.next().await.unwrap();
        queue.give_back(&key("a"), Outcome::NoRoom);
        queue.add_after(key("a"), Duration::ZERO);
        assert_eq!(next(&queue), Some("a".into()), "what changed is looked at");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_is_woken_by_an_addition_and_by_the_end() {
        let queue = Arc::new(queue());
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move { (queue.next().await, queue.next().await) }
        });
        tokio::task::yield_now().await;
        queue.add_after(key("a"), Duration::ZERO);
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(worker.await.unwrap(), (Some(key("a")), None));
    }
}
