//! Whose turn it is: one script runs at a time, so that all of them together take no more memory and time than one may; and one that took much of its
//! time rests for ten times as long, so that whoever it holds up goes on.
//!
//! In: who wants to run, and how long each ran. Out: its turn, or until when it rests.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use karmada_interpreter::Operation;
use parking_lot::{Mutex, MutexGuard};

use crate::budget::instant;

/// The part of its time from which on a script is slow.
const SLOW: u32 = 10;
/// How many times as long as it ran a slow script rests.
const REST: u32 = 10;

/// The turns of a fleet's scripts.
pub(crate) struct Turns {
    now: fn() -> Instant,
    alone: Mutex<()>,
    resting: Mutex<BTreeMap<(String, Operation), Instant>>,
}

/// A script that runs.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    name: (&'a str, Operation),
    begun: Instant,
    slow: Duration,
    _alone: MutexGuard<'a, ()>,
}

/// A script that rests, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rests(pub Duration);

impl fmt::Display for Rests {
    /// The same words however long it rests: who tells them tells them once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it took much of the time that it has, a moment ago, and is asked again in a while")
    }
}

impl Turns {
    /// Nobody's yet, by this machine's clock.
    pub fn new() -> Self {
        Self::by(instant)
    }

    fn by(now: fn() -> Instant) -> Self {
        Self { now, alone: Mutex::default(), resting: Mutex::default() }
    }

    /// The turn of a script that may run for `time`, once no other runs.
    pub fn take<'a>(&'a self, name: (&'a str, Operation), time: Duration) -> Result<Turn<'a>, Rests> {
        self.rests(name)?;
        let alone = self.alone.lock();
        // It may have run meanwhile, for another object.
        self.rests(name)?;
        Ok(Turn { turns: self, name, begun: (self.now)(), slow: time / SLOW, _alone: alone })
    }

    fn rests(&self, (customization, operation): (&str, Operation)) -> Result<(), Rests> {
        let mut resting = self.resting.lock();
        if resting.is_empty() {
            return Ok(());
        }
        let now = (self.now)();
        resting.retain(|_, until| *until > now);
        match resting.get(&(customization.to_owned(), operation)) {
            Some(until) => Err(Rests(*until - now)),
            None => Ok(()),
        }
    }
}

impl Turn<'_> {
    /// It has run.
    pub fn ends(self) {
        let now = (self.turns.now)();
        let took = now - self.begun;
        if took >= self.slow {
            let (customization, operation) = self.name;
            self.turns.resting.lock().insert((customization.to_owned(), operation), now + took * REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static BEGUN: Instant = instant();
    }

    fn pass(milliseconds: u64) {
        PASSED.set(PASSED.get() + Duration::from_millis(milliseconds));
    }

    #[test]
    fn a_slow_script_rests_and_no_other_does() {
        let turns = Turns::by(|| BEGUN.with(|begun| *begun) + PASSED.get());
        let (slow, quick) = (("a", Operation::Retain), ("a", Operation::InterpretHealth));
        let time = Duration::from_millis(40);
        let turn = turns.take(slow, time).unwrap();
        pass(3);
        turn.ends();
        let turn = turns.take(slow, time).unwrap();
        pass(30);
        turn.ends();
        let rests = turns.take(slow, time).map(drop).unwrap_err();
        assert_eq!(rests, Rests(Duration::from_millis(300)));
        assert_eq!(
            rests.to_string(),
            Rests(Duration::ZERO).to_string(),
            "the words do not change while it rests"
        );
        turns.take(quick, time).unwrap().ends();
        pass(299);
        turns.take(slow, time).map(drop).unwrap_err();
        pass(1);
        turns.take(slow, time).unwrap().ends();
    }
}
