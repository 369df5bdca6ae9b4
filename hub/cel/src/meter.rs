//! What expressions cost, counted while they run, and the bounds that end them.
//!
//! In: charges, made before the work that they are for. Out: an error once a bound is passed; from then on everything fails.
//! There are two counts beside memory and time. Steps are kube-apiserver's units of cost, so that what passes there passes here.
//! Work is what this machine really does (parts visited, texts by the letter): kube-apiserver's units are blind to some of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kube_cel::cel::ExecutionError;

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
pub struct Budget(Arc<Spent>);

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
        Budget(Arc::new(Spent::new(limits)))
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
    /// When the expression that runs must end, in nanoseconds since `born`.
    deadline: AtomicU64,
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
            deadline: AtomicU64::new(0),
            look: AtomicU64::new(0),
            late: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// An expression begins; answers when.
    pub(crate) fn begin(&self) -> Instant {
        let now = present();
        let left = self.own.left().min(self.shared.0.left());
        self.deadline.store(nanoseconds((now - self.born).saturating_add(left)), Relaxed);
        self.before.store(self.own.steps.load(Relaxed), Relaxed);
        now
    }

    /// The expression that began then has ended.
    pub(crate) fn end(&self, began: Instant) {
        let took = nanoseconds(began.elapsed());
        add(&self.own.nanoseconds, took);
        add(&self.shared.0.nanoseconds, took);
    }

    /// Whether a bound was passed, here or by others of the same request.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed) || self.shared.0.is_over()
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
        let shared = add(&self.shared.0.steps, steps);
        let alone = now.saturating_sub(self.before.load(Relaxed));
        if now > self.own.limits.steps || alone > self.own.limits.call || shared > self.shared.0.limits.steps
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
        let shared = add(&self.shared.0.work, work);
        if now > self.own.limits.work || shared > self.shared.0.limits.work || self.over.load(Relaxed) {
            return Err(self.ended());
        }
        if now >= self.look.load(Relaxed) {
            self.look.store(now.saturating_add(LOOK), Relaxed);
            if nanoseconds(self.born.elapsed()) > self.deadline.load(Relaxed) {
                self.late.store(true, Relaxed);
                return Err(self.ended());
            }
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
        let shared = add(&self.shared.0.bytes, bytes);
        if now > self.own.limits.bytes || shared > self.shared.0.limits.bytes {
            return Err(self.ended());
        }
        Ok(())
    }
}
