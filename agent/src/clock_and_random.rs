//! The wall clock and the randomness of the agent, given by whoever starts it. Monotonic time is tokio's, in which its timers run.
//!
//! In: two functions. Out: the time of day and numbers; tests hand in functions of their own.

use std::sync::Arc;

use jiff::Timestamp;

/// A wall clock and a random source.
#[derive(Clone)]
pub struct ClockAndRandom {
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl std::fmt::Debug for ClockAndRandom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClockAndRandom").finish_non_exhaustive()
    }
}

impl ClockAndRandom {
    /// Of this clock and these draws.
    pub fn new(
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall), random: Arc::new(random) }
    }

    /// Those of this machine.
    #[expect(clippy::disallowed_methods, reason = "here the clock and the die are made")]
    pub fn system() -> Self {
        Self::new(Timestamp::now, rand::random)
    }

    /// What a clock on the wall shows.
    pub fn now(&self) -> Timestamp {
        (self.wall)()
    }

    /// A number that nobody foresees.
    pub fn random(&self) -> u64 {
        (self.random)()
    }

    /// A name that no other process has.
    pub fn process_name(&self) -> String {
        format!("{:016x}{:016x}", self.random(), self.random())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn time_and_names_are_the_owners() {
        let draws = AtomicU64::new(1);
        let at = Timestamp::from_second(7).unwrap();
        let sources = ClockAndRandom::new(move || at, move || draws.fetch_add(1, Ordering::Relaxed));
        assert_eq!((sources.now(), sources.random()), (at, 1));
        assert_eq!(sources.process_name(), "00000000000000020000000000000003");
    }
}
