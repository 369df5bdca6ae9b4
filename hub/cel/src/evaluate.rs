//! Running programs, within bounds.
//!
//! In: named values, a compiled program, the bounds. Out: its value, or why there is none. Computes on the caller's thread; a deep
//! expression gets a thread of its own, which is waited for.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::{self, ExecutionError};

use crate::meter::{Budget, Limits, Meter};
use crate::operators::Outcome;
use crate::program::Program;
use crate::value::Value;
use crate::walk::Walk;
use crate::weigh::weight;

/// Trees up to this deep are walked on the caller's stack.
const SHALLOW: usize = 12;

/// The stack for deeper ones: room for the deepest that compiles. Pages that are not touched cost nothing.
const STACK: usize = 256 << 20;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The bounds were reached.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    Budget,
    /// The expression alone cost more than one may, or the time was over while it ran; those after it are not run either.
    #[error("operation cancelled: actual cost limit exceeded")]
    Call,
    /// Too many others were computing for it to go on: nothing is known of what was judged, and it may be tried again.
    #[error("{Crowded}")]
    Crowded,
    /// It names a key that is not there, which may have been made of what it looked at.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// The expression failed otherwise: an overflow.
    #[error("{0}")]
    Failed(String),
    /// The result is of another type than was asked for.
    #[error("the expression yields no {0}")]
    Type(&'static str),
}

/// Too many long expressions were computing at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many long expressions are being evaluated: try again later")]
pub struct Crowded;

/// Named values and what is left of the budget. For the expressions of one request; made anew for the next. One that
/// has computed for long has one of the process's few turns until it is dropped: it is not to be kept across a wait.
pub struct Evaluator {
    names: HashMap<String, cel::Value>,
    meter: Meter,
}

impl Evaluator {
    /// No names yet, a full budget of its own.
    pub fn new(limits: Limits) -> Self {
        Evaluator::within(limits, &Budget::new(limits))
    }

    /// No names yet, a full budget of its own, of what is left of one that is shared.
    pub fn within(limits: Limits, shared: &Budget) -> Self {
        let meter = Meter::new(limits, shared.clone());
        Evaluator { names: HashMap::new(), meter }
    }

    /// Gives a name a value; a name given twice has its last one.
    pub fn set(&mut self, name: &str, value: Value) {
        self.names.insert(name.to_owned(), value.0);
    }

    /// The same of a value that was made for this evaluator alone: making it counts.
    pub fn take(&mut self, name: &str, value: Value) {
        // What is refused here is refused by whatever is evaluated next.
        self.meter.begin();
        weight(&value.0, &self.meter).and_then(|bytes| self.meter.work(bytes / 4)).ok();
        self.meter.end();
        self.set(name, value);
    }

    /// The steps and the work so far.
    #[cfg(test)]
    pub(crate) fn cost(&self) -> (u64, u64) {
        (self.meter.stepped(), self.meter.worked())
    }

    /// Whether the budget is spent; then every further expression fails.
    pub fn spent(&self) -> bool {
        self.meter.is_over()
    }

    /// Whether too many others were computing: then what was judged is not known, and every further expression fails.
    pub fn is_crowded(&self) -> bool {
        self.meter.is_crowded()
    }

    /// The value of the expression.
    ///
    /// # Errors
    /// It failed, or the bounds were reached.
    pub fn value(&self, program: &Program) -> Result<Value, EvalError> {
        if self.meter.is_crowded() {
            return Err(EvalError::Crowded);
        }
        if self.spent() {
            return Err(EvalError::Budget);
        }
        self.meter.begin();
        let outcome = self.resolve(program);
        self.meter.end();
        match outcome {
            _ if self.meter.is_crowded() => Err(EvalError::Crowded),
            _ if self.meter.is_over() && self.meter.is_its_own() => Err(EvalError::Call),
            _ if self.meter.is_over() => Err(EvalError::Budget),
            Ok(Ok(value)) => Ok(Value(value)),
            Ok(Err(ExecutionError::NoSuchKey(key))) => Err(EvalError::NoSuchKey(key.to_string())),
            Ok(Err(error)) => Err(EvalError::Failed(words(&error))),
            Err(_) => Err(EvalError::Failed("internal error".to_owned())),
        }
    }

    /// Walks the tree. The library gives up on a few values by panicking. Deep trees get a stack of their own.
    fn resolve(&self, program: &Program) -> Result<Outcome, ()> {
        let walk = Walk { names: &self.names, meter: &self.meter };
        let walk = || catch_unwind(AssertUnwindSafe(|| walk.value(&program.expr, None)));
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
