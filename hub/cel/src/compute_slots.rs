//! Turns of long evaluations: how many may compute at once in this process, whoever asked for them.
//!
//! In: an evaluation that has computed for a while and wants to go on. Out: a turn, at once or after a wait in line, or that there was
//! none in time. A turn is given back when it is dropped, and goes to whoever has waited longest.
//!
//! One expression may compute for a second, and hundreds of requests may be under way: without turns they would take the processors
//! from everything else. Who waits for a turn holds up only itself.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What an evaluation may compute before it needs a turn, in time.
pub(crate) const BRIEF: Duration = Duration::from_millis(20);

/// The same in work: on a busy machine time passes for a thread that is not running, too, and an evaluation that did little needs no turn.
pub(crate) const LITTLE: u64 = 1 << 16;

/// How long one request waits for turns, all its waits together.
const WAIT_FOR_TURNS: Duration = Duration::from_secs(2);

/// The most that wait; each takes a thread.
const MOST_WAITING: usize = 512;

/// Who may begin, and who waits. Pure: `W` is how the one who waits is called.
#[derive(Debug)]
struct WaitQueue<W> {
    free: usize,
    next: u64,
    waiting: VecDeque<(u64, W)>,
}

impl<W> WaitQueue<W> {
    fn new(turns: usize) -> WaitQueue<W> {
        WaitQueue { free: turns, next: 0, waiting: VecDeque::new() }
    }

    /// Takes a turn, where one is free. Turns are free only while nobody waits.
    fn begin(&mut self) -> bool {
        let free = self.free > 0;
        self.free -= usize::from(free);
        free
    }

    /// Lines up; answers the place's number, or nothing where the line is full.
    fn wait(&mut self, caller: W) -> Option<u64> {
        if self.waiting.len() >= MOST_WAITING {
            return None;
        }
        self.next += 1;
        self.waiting.push_back((self.next, caller));
        Some(self.next)
    }

    /// Leaves the line; false where the turn was handed over already.
    fn leave(&mut self, place: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != place);
        self.waiting.len() < before
    }

    /// A turn ends. It is handed over to the one that is answered, or is free.
    fn give_back(&mut self) -> Option<W> {
        let next = self.waiting.pop_front();
        self.free += usize::from(next.is_none());
        next.map(|(_, caller)| caller)
    }
}

/// A number of turns. Clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    line: Arc<Mutex<WaitQueue<SyncSender<()>>>>,
    /// How long one request waits for them in all.
    pub(crate) patience: Duration,
}

impl Turns {
    /// So many, at least one.
    pub(crate) fn new(turns: usize, patience: Duration) -> Turns {
        Turns { line: Arc::new(Mutex::new(WaitQueue::new(turns.max(1)))), patience }
    }

    /// Those of this process: half of its processors, so that the other half is there for everybody else.
    pub(crate) fn of_this_process() -> Turns {
        static ALL: LazyLock<Turns> = LazyLock::new(|| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            // This crate's own tests evaluate side by side what is long on purpose.
            Turns::new(if cfg!(test) { MOST_WAITING } else { processors / 2 }, WAIT_FOR_TURNS)
        });
        ALL.clone()
    }

    fn line(&self) -> MutexGuard<'_, WaitQueue<SyncSender<()>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, for which the calling thread waits no longer than that.
    pub(crate) fn take(&self, patience: Duration) -> Option<Turn> {
        let (place, called) = {
            let mut line = self.line();
            if line.begin() {
                return Some(Turn(self.clone()));
            }
            let (call, called) = sync_channel(1);
            (line.wait(call)?, called)
        };
        // Who was called after the wait was over has the turn all the same: nobody else has it.
        let is_called = called.recv_timeout(patience).is_ok() || !self.line().leave(place);
        is_called.then(|| Turn(self.clone()))
    }
}

/// One turn, until dropped.
#[derive(Debug)]
pub(crate) struct Turn(Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.0.line().give_back();
        if let Some(call) = next {
            // The channel has room for the one call; a waiter that gave up finds itself removed from the queue.
            call.try_send(()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_to_whoever_waited_longest_and_never_multiply() {
        let mut line = WaitQueue::new(2);
        assert!(line.begin() && line.begin() && !line.begin());
        let places: Vec<u64> = ["a", "b", "c"].into_iter().map(|who| line.wait(who).unwrap()).collect();
        assert!(line.leave(places[1]), "b waits no longer");
        assert_eq!(line.give_back(), Some("a"));
        assert!(!line.leave(places[0]), "a has the turn");
        assert!(!line.begin(), "c is before whoever comes now");
        assert_eq!(line.give_back(), Some("c"));
        assert_eq!((line.give_back(), line.give_back()), (None, None));
        assert!(line.begin() && line.begin() && !line.begin(), "there are as many as before");
    }

    #[test]
    fn the_line_is_bounded() {
        let mut line = WaitQueue::new(1);
        assert!(line.begin());
        let places = (0..MOST_WAITING).map(|who| line.wait(who).unwrap()).collect::<Vec<_>>();
        assert_eq!(line.wait(0), None);
        assert!(line.leave(places[7]));
        assert!(line.wait(0).is_some());
    }

    #[test]
    fn a_turn_that_ends_is_handed_to_a_thread_that_waits() {
        let turns = Turns::new(1, WAIT_FOR_TURNS);
        let first = turns.take(Duration::ZERO).unwrap();
        assert!(turns.take(Duration::from_millis(1)).is_none(), "there is one only");
        let other = turns.clone();
        let waiting = std::thread::spawn(move || other.take(Duration::from_secs(60)).is_some());
        while turns.line().waiting.is_empty() {
            std::thread::yield_now();
        }
        drop(first);
        assert!(waiting.join().unwrap());
        assert!(turns.take(Duration::ZERO).is_some(), "it was given back");
    }
}
