//! What expressions cost, counted while they run, and the bounds that end them.
//!
//! In: charges, made before the work that they are for. Out: an error once a bound is passed; from then on everything fails.
//! There are two counts beside memory and time. Steps are kube-apiserver's units of cost, so that what passes there passes here.
//! Work is what this machine really does (parts visited, texts by the letter): kube-apiserver's units are blind to some of it.
//! What computes for longer needs one of the process's turns, and waits for it here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;

use crate::compute_slots::{BRIEF, LITTLE, Turn, Turns};

/// How much the expressions of one [`Evaluator`](crate::Evaluator) may cost together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Units of cost. kube-apiserver's own limit for one object, or one policy, is ten million.
    pub steps: u64,
    /// The same, of one expression: kube-apiserver's limit is one million.
    pub call: u64,
    /// Parts of values visited, texts counted by a few letters.
    pub work: u64,
    /// Bytes of values made on the way.
    pub bytes: u64,
    /// Time while expressions run.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 10_000_000,
            call: 1_000_000,
            work: 100_000_000,
            bytes: 64 << 20,
            time: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// What all policies and match conditions of one request may cost together.
    pub fn of_a_request() -> Self {
        let one = Limits::default();
        Limits {
            steps: one.steps * 4,
            call: one.call,
            work: one.work * 2,
            bytes: one.bytes * 4,
            time: one.time * 2,
        }
    }
}

/// What several evaluators may cost together. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    spent: Spent,
    turns: Turns,
    /// The turn that its evaluators have: one for all of them, so that one that waits for another cannot wait for its turn.
    turn: Mutex<Weak<Turn>>,
    /// Whether it needed a turn before: then it needs one at once.
    long: AtomicBool,
    /// Nanoseconds waited for turns.
    waited: AtomicU64,
    /// Whether there was no turn in time.
    crowded: AtomicBool,
}

#[derive(Debug)]
struct Spent {
    limits: Limits,
    steps: AtomicU64,
    work: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Spent {
    fn new(limits: Limits) -> Spent {
        let none = || AtomicU64::new(0);
        Spent { limits, steps: none(), work: none(), bytes: none(), nanoseconds: none() }
    }

    fn left(&self) -> Duration {
        self.limits.time.saturating_sub(Duration::from_nanos(self.nanoseconds.load(Relaxed)))
    }

    fn is_over(&self) -> bool {
        self.steps.load(Relaxed) > self.limits.steps
            || self.work.load(Relaxed) > self.limits.work
            || self.bytes.load(Relaxed) > self.limits.bytes
            || self.left().is_zero()
    }
}

impl Budget {
    /// All of it is there.
    pub fn new(limits: Limits) -> Budget {
        Budget::among(limits, Turns::of_this_process())
    }

    /// The same, where long evaluations take these turns.
    pub(crate) fn among(limits: Limits, turns: Turns) -> Budget {
        Budget(Arc::new(SharedBudget {
            spent: Spent::new(limits),
            turns,
            turn: Mutex::default(),
            long: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
        }))
    }

    /// Whether an evaluation was broken off because too many others were computing. It says nothing of what was judged, whatever the
    /// expressions after it did: the request is to be refused, and may be tried again.
    pub fn is_crowded(&self) -> bool {
        self.0.crowded.load(Relaxed)
    }
}

impl SharedBudget {
    /// Whether who has computed for so long, beside what is counted, needs a turn to go on.
    fn needs_turn(&self, running: Duration) -> bool {
        let before = Duration::from_nanos(self.spent.nanoseconds.load(Relaxed));
        let much = self.spent.work.load(Relaxed) > LITTLE;
        self.long.load(Relaxed) || (much && before.saturating_add(running) > BRIEF)
    }

    /// The turn that others of this budget have, or one of its own, waited for within what is left of the request's patience.
    fn turn(&self) -> Option<Arc<Turn>> {
        self.long.store(true, Relaxed);
        let mut held = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = held.upgrade() {
            return Some(turn);
        }
        let began = present();
        let waited = Duration::from_nanos(self.waited.load(Relaxed));
        let patience = self.turns.patience.saturating_sub(waited);
        let turn = self.turns.take(patience).map(Arc::new);
        add(&self.waited, nanoseconds(began.elapsed()));
        match &turn {
            Some(turn) => *held = Arc::downgrade(turn),
            None => self.crowded.store(true, Relaxed),
        }
        turn
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(Limits::of_a_request())
    }
}

/// How often the clock is looked at: after so much work.
const LOOK: u64 = 4096;

/// Counts what expressions cost.
pub(crate) struct Meter {
    own: Spent,
    shared: Budget,
    /// The steps before the expression that runs.
    before: AtomicU64,
    born: Instant,
    /// Since when the time of the expression that runs is counted, in nanoseconds since `born`.
    since: AtomicU64,
    /// When it must end, likewise.
    deadline: AtomicU64,
    /// The turn of long evaluations, kept until the evaluator is dropped.
    turn: OnceLock<Arc<Turn>>,
    /// The work done when the clock is looked at next.
    look: AtomicU64,
    late: AtomicBool,
    over: AtomicBool,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn add(count: &AtomicU64, more: u64) -> u64 {
    let before = count.load(Relaxed);
    let now = before.saturating_add(more);
    count.store(now, Relaxed);
    now
}

/// Real time: what is bounded is how long this process works.
#[expect(clippy::disallowed_methods, reason = "a bound on work is of real time, whatever a clock shows")]
fn present() -> Instant {
    Instant::now()
}

impl Meter {
    pub(crate) fn new(limits: Limits, shared: Budget) -> Meter {
        Meter {
            own: Spent::new(limits),
            shared,
            before: AtomicU64::new(0),
            born: present(),
            since: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            turn: OnceLock::new(),
            look: AtomicU64::new(0),
            late: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// An expression begins.
    pub(crate) fn begin(&self) {
        self.count_from_now();
        self.before.store(self.own.steps.load(Relaxed), Relaxed);
    }

    fn count_from_now(&self) {
        let now = nanoseconds(self.born.elapsed());
        let left = self.own.left().min(self.shared.0.spent.left());
        self.since.store(now, Relaxed);
        self.deadline.store(now.saturating_add(nanoseconds(left)), Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        let took = nanoseconds(self.born.elapsed()).saturating_sub(self.since.load(Relaxed));
        add(&self.own.nanoseconds, took);
        add(&self.shared.0.spent.nanoseconds, took);
    }

    /// Whether a bound was passed, here or by others of the same request.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed) || self.is_crowded() || self.shared.0.spent.is_over()
    }

    /// Whether there was no turn in time, here or for others of the same request.
    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.is_crowded()
    }

    /// Whether the bound was that of the one expression which just ended.
    pub(crate) fn is_its_own(&self) -> bool {
        let steps = self.own.steps.load(Relaxed);
        let alone = steps.saturating_sub(self.before.load(Relaxed)) > self.own.limits.call;
        let late = self.late.load(Relaxed) || self.own.work.load(Relaxed) > self.own.limits.work;
        steps <= self.own.limits.steps && (alone || late)
    }

    /// The work done so far.
    #[cfg(test)]
    pub(crate) fn worked(&self) -> u64 {
        self.own.work.load(Relaxed)
    }

    /// The steps so far.
    #[cfg(test)]
    pub(crate) fn stepped(&self) -> u64 {
        self.own.steps.load(Relaxed)
    }

    fn ended(&self) -> ExecutionError {
        self.over.store(true, Relaxed);
        ExecutionError::function_error("budget", "exhausted")
    }

    /// Charges steps, and the work of as many.
    ///
    /// # Errors
    /// A bound is passed.
    pub(crate) fn step(&self, steps: u64) -> Result<(), ExecutionError> {
        let now = add(&self.own.steps, steps);
        let shared = add(&self.shared.0.spent.steps, steps);
        let alone = now.saturating_sub(self.before.load(Relaxed));
        if now > self.own.limits.steps
            || alone > self.own.limits.call
            || shared > self.shared.0.spent.limits.steps
        {
            return Err(self.ended());
        }
        Ok(())
    }

    /// Charges work.
    ///
    /// # Errors
    /// A bound is passed, or the time is over.
    pub(crate) fn work(&self, work: u64) -> Result<(), ExecutionError> {
        let now = add(&self.own.work, work);
        let shared = add(&self.shared.0.spent.work, work);
        if now > self.own.limits.work || shared > self.shared.0.spent.limits.work || self.over.load(Relaxed) {
            return Err(self.ended());
        }
        if now >= self.look.load(Relaxed) {
            self.look.store(now.saturating_add(LOOK), Relaxed);
            return self.look();
        }
        Ok(())
    }

    /// What comes next is known to be long: it needs a turn before it begins.
    ///
    /// # Errors
    /// There was none in time, or the time is over.
    pub(crate) fn long(&self) -> Result<(), ExecutionError> {
        self.shared.0.long.store(true, Relaxed);
        self.look()
    }

    /// Looks at the clock. Time counts anew from when there is a turn: neither the wait for it nor what a busy machine took before it
    /// makes an expression late.
    fn look(&self) -> Result<(), ExecutionError> {
        let now = nanoseconds(self.born.elapsed());
        let running = Duration::from_nanos(now.saturating_sub(self.since.load(Relaxed)));
        if self.turn.get().is_none() && self.shared.0.needs_turn(running) {
            let Some(turn) = self.shared.0.turn() else { return Err(self.ended()) };
            self.turn.set(turn).ok();
            self.count_from_now();
            return Ok(());
        }
        if now > self.deadline.load(Relaxed) {
            self.late.store(true, Relaxed);
            return Err(self.ended());
        }
        Ok(())
    }

    /// Refuses work that would not end in time, before it runs.
    pub(crate) fn refuse(&self) -> ExecutionError {
        self.late.store(true, Relaxed);
        self.ended()
    }

    /// Charges memory.
    ///
    /// # Errors
    /// A bound is passed.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), ExecutionError> {
        let now = add(&self.own.bytes, bytes);
        let shared = add(&self.shared.0.spent.bytes, bytes);
        if now > self.own.limits.bytes || shared > self.shared.0.spent.limits.bytes {
            return Err(self.ended());
        }
        Ok(())
    }
}
