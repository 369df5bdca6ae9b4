//! Where the gateway has time and randomness from: whoever starts it. Nothing else here reads a clock or draws.
//!
//! In: two functions of the starter's: a wall clock, and what draws random numbers. Out: the time, on both clocks, and numbers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// What a clock on the wall shows.
    pub wall: Timestamp,
    /// Monotonic time since the sources were made.
    pub elapsed: Duration,
}

/// A wall clock, a monotonic clock and a source of random numbers. Monotonic time is the runtime's, in which its timers run: who owns the
/// runtime's clock owns this one.
#[derive(Clone)]
pub struct ClockAndRandom {
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
    started: Instant,
}

impl ClockAndRandom {
    /// Of this clock and these draws. Monotonic time begins now.
    pub fn new(
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall), random: Arc::new(random), started: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        Moment { wall: (self.wall)(), elapsed: self.elapsed() }
    }

    /// Monotonic time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// A number that nobody foresees.
    pub fn random(&self) -> u64 {
        (self.random)()
    }

    /// Where monotonic time begins.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The runtime's time at `elapsed`, for its timers.
    pub(crate) fn instant(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }
}
