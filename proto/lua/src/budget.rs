//! How long a script may still run, and what is told of one that failed.
//!
//! In: the time that a script has; errors of the machine. Out: whether the time is over, for whatever works on a script's behalf; texts.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The text of an error: what went wrong and on which line, without the machine's stack.
pub(crate) fn words(error: &mlua::Error) -> String {
    let cause = match error {
        mlua::Error::CallbackError { cause, .. } => return words(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => text.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        mlua::Error::ExternalError(cause) => cause.to_string(),
        other => other.to_string(),
    };
    cause.split("\nstack traceback:").next().unwrap_or_default().to_owned()
}

/// How long a script may still run.
pub(crate) struct Budget {
    end: Instant,
    over: Cell<bool>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a script holds this machine's processor; no answer depends on it"
)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

impl Budget {
    /// So much from now on.
    pub(crate) fn new(time: Duration) -> Self {
        Self { end: instant() + time, over: Cell::new(false) }
    }

    /// Whether the time is over. Once it is, it stays so.
    pub(crate) fn over(&self) -> bool {
        if !self.over.get() && instant() >= self.end {
            self.over.set(true);
        }
        self.over.get()
    }

    pub(crate) fn check(&self) -> mlua::Result<()> {
        if self.over() { Err(mlua::Error::runtime("context deadline exceeded")) } else { Ok(()) }
    }
}
