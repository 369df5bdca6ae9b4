//! Running programs, within bounds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kube_cel::cel::{self, Context, ExecutionError};

use crate::functions;
use crate::program::Program;
use crate::value::Value;

/// Trees up to this deep are walked on the caller's stack.
const SHALLOW: usize = 12;

/// The stack for deeper ones: room for the deepest that compiles. Pages that are not touched cost nothing.
const STACK: usize = 256 << 20;

/// How much the expressions of one [`Evaluator`] may cost together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes evaluated inside loops. kube-apiserver's own limit for one object is ten million units.
    pub steps: u64,
    /// The same, of one expression: kube-apiserver's limit is one million units.
    pub call: u64,
    /// Bytes of values made on the way.
    pub bytes: u64,
    /// Wall clock.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 10_000_000, call: 1_000_000, bytes: 64 << 20, time: Duration::from_secs(1) }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The bounds were reached.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    Budget,
    /// The expression alone cost more than one may, or the time was over while it ran; those after it are not run either.
    #[error("operation cancelled: actual cost limit exceeded")]
    Call,
    /// The expression failed: a key that is not there, an overflow.
    #[error("{0}")]
    Failed(String),
    /// The result is of another type than was asked for.
    #[error("the expression yields no {0}")]
    Type(&'static str),
}

/// Counts what expressions cost.
pub(crate) struct Meter {
    limits: Limits,
    steps: AtomicU64,
    /// The steps before the expression that runs.
    before: AtomicU64,
    bytes: AtomicU64,
    deadline: Instant,
    spent: AtomicBool,
}

impl Meter {
    /// What the expression that just ended is told where the bounds were reached: they were its own, or everybody's.
    fn reached(&self) -> EvalError {
        let steps = self.steps.load(Ordering::Relaxed);
        let own = steps - self.before.load(Ordering::Relaxed) > self.limits.call;
        if steps <= self.limits.steps && (own || Instant::now() > self.deadline) {
            return EvalError::Call;
        }
        EvalError::Budget
    }

    fn exhausted(&self) -> ExecutionError {
        self.spent.store(true, Ordering::Relaxed);
        ExecutionError::function_error("budget", "exhausted")
    }

    pub(crate) fn tick(&self, steps: u64) -> Result<bool, ExecutionError> {
        let before = self.steps.fetch_add(steps, Ordering::Relaxed);
        let now = before.saturating_add(steps);
        let own = now.saturating_sub(self.before.load(Ordering::Relaxed));
        if now > self.limits.steps || own > self.limits.call || Instant::now() > self.deadline {
            return Err(self.exhausted());
        }
        Ok(true)
    }

    pub(crate) fn hold(&self, bytes: u64) -> Result<(), ExecutionError> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.limits.bytes { Err(self.exhausted()) } else { Ok(()) }
    }
}

/// Named values and what is left of the budget. For the expressions of one request; made anew for the next.
pub struct Evaluator {
    context: Context<'static>,
    meter: Arc<Meter>,
}

impl Evaluator {
    /// No names yet, a full budget; the clock runs from here.
    pub fn new(limits: Limits) -> Self {
        let meter = Arc::new(Meter {
            limits,
            steps: AtomicU64::new(0),
            before: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            deadline: Instant::now() + limits.time,
            spent: AtomicBool::new(false),
        });
        Evaluator { context: functions::context(&meter), meter }
    }

    /// Gives a name a value; a name given twice has its last one.
    pub fn set(&mut self, name: &str, value: Value) {
        self.context.add_variable_from_value(name, value.0);
    }

    /// Whether the budget is spent; then every further expression fails.
    pub fn spent(&self) -> bool {
        self.meter.spent.load(Ordering::Relaxed)
    }

    /// The value of the expression.
    ///
    /// # Errors
    /// It failed, or the bounds were reached.
    pub fn value(&self, program: &Program) -> Result<Value, EvalError> {
        if self.spent() {
            return Err(EvalError::Budget);
        }
        self.meter.before.store(self.meter.steps.load(Ordering::Relaxed), Ordering::Relaxed);
        let outcome = self.resolve(program);
        if self.spent() {
            return Err(self.meter.reached());
        }
        match outcome {
            Ok(Ok(value)) => Ok(Value(value)),
            Ok(Err(error)) => Err(EvalError::Failed(words(&error))),
            Err(_) => Err(EvalError::Failed("internal error".to_owned())),
        }
    }

    /// Walks the tree. The interpreter gives up on a few trees by panicking; those are refused when compiled, but users write
    /// them. Deep trees get a stack of their own.
    fn resolve(&self, program: &Program) -> Result<Result<cel::Value, ExecutionError>, ()> {
        let walk = || catch_unwind(AssertUnwindSafe(|| cel::Value::resolve(&program.expr, &self.context)));
        if program.depth <= SHALLOW {
            return walk().map_err(|_| ());
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cel-deep".into()).stack_size(STACK);
            let walking = thread.spawn_scoped(scope, walk).map_err(|_| ())?;
            walking.join().map_err(|_| ())?.map_err(|_| ())
        })
    }

    /// The truth of the expression.
    ///
    /// # Errors
    /// As [`Evaluator::value`], or it yields something else.
    pub fn bool(&self, program: &Program) -> Result<bool, EvalError> {
        self.value(program)?.as_bool().ok_or(EvalError::Type("bool"))
    }

    /// The text of the expression.
    ///
    /// # Errors
    /// As [`Evaluator::value`], or it yields something else.
    pub fn text(&self, program: &Program) -> Result<String, EvalError> {
        self.value(program)?.as_text().map(str::to_owned).ok_or(EvalError::Type("string"))
    }
}

/// A failure in the words of cel-go.
fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. } => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(index) => match index {
            cel::Value::Int(index) => format!("index out of bounds: {index}"),
            _ => "index out of bounds".to_owned(),
        },
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
