//! What one request may compile: its expressions and the patterns of its schemas share one budget.
//!
//! In: expressions and patterns, one after the other. Out: what is wrong with each; or that nothing is known of it, as the budget is
//! spent or too many others were computing. A pattern is judged and counted once, however often a request has it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::meter::{Budget, Limits, Meter};
use crate::patterns::{self, Pattern, PatternError};

/// Places that the patterns of one request may have together: a third of a second, and less than what the process keeps.
const MOST_PLACES: u64 = 250_000;

/// How long one request may compile, and search by what it compiled.
const LONGEST: Duration = Duration::from_secs(5);

/// How many patterns of one request keep what searches leave behind, which makes the next search quick and takes memory.
const MOST_HELD: usize = 16;

/// A pattern that was judged: held to be searched again, or left to be asked for again.
type Judged = Result<Option<Arc<Pattern>>, PatternError>;

/// What one request compiles. One that has computed for long has one of the process's few turns until it is dropped: it is not to be
/// kept across a wait.
pub struct Compiling {
    meter: Meter,
    /// The patterns so far.
    judged: Mutex<HashMap<Box<str>, Judged>>,
    places: AtomicU64,
}

impl Default for Compiling {
    fn default() -> Self {
        let limits = Limits { time: LONGEST, work: u64::MAX / 2, ..Limits::of_a_request() };
        Compiling::within(limits, &Budget::new(limits))
    }
}

impl std::fmt::Debug for Compiling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiling").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Compiling {
    pub(crate) fn within(limits: Limits, budget: &Budget) -> Compiling {
        let meter = Meter::new(limits, budget.clone());
        Compiling { meter, judged: Mutex::default(), places: AtomicU64::new(0) }
    }

    /// Whether too many others were computing: then what was asked is not known, and the request is to be refused for now.
    pub fn is_crowded(&self) -> bool {
        self.meter.is_crowded()
    }

    /// Whether the budget is spent, so that of some patterns nothing is known.
    pub fn is_spent(&self) -> bool {
        self.places.load(Relaxed) > MOST_PLACES || self.meter.is_over()
    }

    /// Whether it is a pattern.
    ///
    /// # Errors
    /// It is none, or the budget is spent ([`PatternError::Spent`]), so that nothing is known of it.
    pub fn pattern(&self, pattern: &str) -> Result<(), PatternError> {
        self.judge(pattern).map(|_| ())
    }

    /// Whether the text has what the pattern asks for.
    ///
    /// # Errors
    /// As of [`Compiling::pattern`].
    pub fn matches(&self, pattern: &str, text: &str) -> Result<bool, PatternError> {
        let held = self.judge(pattern)?;
        self.timed(|| {
            let own = match held {
                Some(held) => held,
                None => Arc::new(Pattern::clone(&*patterns::compiled(pattern, &self.meter)?)),
            };
            own.charge(text, &self.meter).map_err(|_| PatternError::Spent)?;
            Ok(own.regex.is_match(text))
        })
    }

    fn judge(&self, pattern: &str) -> Judged {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = judged.get(pattern) {
            return known.clone();
        }
        if self.is_spent() {
            return Err(PatternError::Spent);
        }
        let found = self.timed(|| patterns::compiled(pattern, &self.meter));
        let places = found.as_ref().map_or_else(PatternError::places, |compiled| compiled.places);
        self.places.fetch_add(places, Relaxed);
        // A copy of its own: what searches leave behind in memory goes with this request.
        let has_room = judged.len() < MOST_HELD;
        let found = found.map(|compiled| has_room.then(|| Arc::new(Pattern::clone(&compiled))));
        judged.insert(pattern.into(), found.clone());
        found
    }

    /// Does what counts as time of this request.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        self.meter.begin();
        let done = work();
        self.meter.end();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute_slots::Turns;

    fn costly(at: usize) -> String {
        format!(r"^\pL{{20}}z{at}$")
    }

    #[test]
    fn patterns_of_one_request_have_one_budget_and_equal_ones_count_once() {
        let compiling = Compiling::default();
        for _ in 0..10_000 {
            assert_eq!(compiling.pattern(&costly(0)), Ok(()));
        }
        let found: Vec<_> = (0..100).map(|at| compiling.pattern(&costly(at))).collect();
        let judged = found.iter().filter(|found| found.is_ok()).count();
        assert!((20..80).contains(&judged), "{judged} were judged");
        assert!(found[judged..].iter().all(|found| *found == Err(PatternError::Spent)));
        assert!(compiling.is_spent() && !compiling.is_crowded());
        assert_eq!(
            compiling.matches(&costly(0), "aaaaaaaaaaaaaaaaaaaaz0"),
            Ok(true),
            "what is known stays known"
        );
    }

    #[test]
    fn what_is_too_large_is_told_before_it_is_compiled() {
        let compiling = Compiling::default();
        let found = compiling.pattern("(((a{1,1000}){1,1000}){1,1000})");
        assert_eq!(found, Err(PatternError::TooLarge));
        assert!(matches!(compiling.pattern("a("), Err(PatternError::Malformed(_))));
    }

    #[test]
    fn a_long_pattern_waits_for_its_turn() {
        let turns = Turns::new(1, Duration::from_millis(10));
        let limits = Limits { time: Duration::from_secs(600), ..Limits::of_a_request() };
        let held = turns.take(Duration::ZERO).unwrap();
        let compiling = Compiling::within(limits, &Budget::among(limits, turns.clone()));
        assert_eq!(compiling.pattern("^[a-y]$"), Ok(()), "what is brief needs none");
        assert_eq!(compiling.pattern(&costly(1_000)), Err(PatternError::Spent));
        assert!(compiling.is_crowded());
        drop(held);
        let compiling = Compiling::within(limits, &Budget::among(limits, turns.clone()));
        assert_eq!(compiling.pattern(&costly(1_000)), Ok(()));
        assert!(turns.take(Duration::ZERO).is_none(), "it has the only turn");
        drop(compiling);
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
