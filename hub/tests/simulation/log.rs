//! What happened in a run, line by line, in simulated time: the same seed gives the same lines.
//!
//! In: lines of whoever does something. Out: all of them, for a comparison or for a person who reads a failing run.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The log of one run. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    began: Instant,
    lines: Arc<Mutex<Vec<String>>>,
    shown: bool,
}

impl Log {
    /// An empty one. `SIMULATION_TRACE` shows each line as it comes.
    pub fn new() -> Self {
        let shown = std::env::var_os("SIMULATION_TRACE").is_some();
        Self { began: Instant::now(), lines: Arc::default(), shown }
    }

    /// Something happened.
    pub fn line(&self, what: impl std::fmt::Display) {
        let line = format!("{:>10.3} {what}", self.began.elapsed().as_secs_f64());
        if self.shown {
            println!("{line}");
        }
        self.lines.lock().push(line);
    }

    /// All lines.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}
