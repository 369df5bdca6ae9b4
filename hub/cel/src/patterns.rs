//! Regular expressions that users write, in expressions and in schemas: compiled within bounds, and kept for the next who has the same.
//!
//! In: a pattern as Go reads it, the text it is for, what the request may still cost. Out: the expression, once it is sure that it ends in
//! time. Compiling takes as long as the compiled form is large, so that size is told first, from the pattern's tree; it is charged, and
//! what is large waits for one of the process's turns. A search takes at worst as long as the text is, times the places in the compiled
//! form; of that product only a fraction is charged, as nearly every search is a thousand times faster, but one that could take seconds
//! is refused before it runs.
//!
//! All that is kept has one bound in bytes for the whole process. Kinds may be served that have any number of patterns: what does not
//! fit is compiled again when it is needed, which is charged to whoever needs it.

mod compiled_size;
mod lru;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kube_cel::cel::ExecutionError;
use regex::{Regex, RegexBuilder};

use crate::go_regexp::as_go_reads;
use crate::meter::Meter;
use crate::weigh::{letters, many};
use lru::Kept;

/// The largest compiled form of one pattern, in bytes.
const LARGEST: usize = 2 << 20;
/// Bytes of one place in a compiled form.
const PLACE: usize = 24;
/// Bytes of one place with all that searches keep beside it: the form that is read backwards, the states that were met.
const PLACE_KEPT: u64 = 160;
/// Bytes of the smallest pattern that is kept.
const LEAST_KEPT: usize = 4 << 10;
/// Bytes of all that is kept.
const MOST_KEPT: usize = 64 << 20;
/// The work of compiling one place.
const WORK: u64 = 16;
/// From so many places on compiling takes milliseconds: it needs a turn.
const LONG: u64 = 4_000;
/// The most places times letters of one search: a second or two at worst.
const LONGEST_SEARCH: u64 = 500_000_000;
/// The part of the worst case that is charged.
const USUAL: u64 = 1000;

/// A pattern, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    pub(crate) places: u64,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is no regular expression; in the library's words.
    #[error("{0}")]
    Malformed(String),
    /// It is larger than any may be.
    #[error("the regular expression is too large")]
    TooLarge,
    /// Nothing is known of it: what its request may cost is spent, or too many others were computing.
    #[error("the regular expressions are too large together")]
    Spent,
}

impl PatternError {
    /// The places that were charged for one that is not to be had.
    pub(crate) fn places(&self) -> u64 {
        if *self == PatternError::TooLarge { many(LARGEST / PLACE) } else { 1 }
    }
}

/// What all of the process keep.
static KEPT: LazyLock<Mutex<Kept<Arc<Pattern>>>> = LazyLock::new(|| Mutex::new(Kept::new(MOST_KEPT)));

/// The compiled pattern: one that is kept, or compiled now, which is charged.
///
/// # Errors
/// It is malformed, too large, or a bound is passed.
pub(crate) fn compiled(pattern: &str, meter: &Meter) -> Result<Arc<Pattern>, PatternError> {
    if let Some(known) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(known);
    }
    meter.work(many(pattern.len())).map_err(|_| PatternError::Spent)?;
    let read = as_go_reads(pattern);
    // Of what cannot be read compiling tells why, and takes no time.
    let places = compiled_size::places(&read).unwrap_or(1);
    if places > many(LARGEST / PLACE) {
        return Err(PatternError::TooLarge);
    }
    if places > LONG {
        meter.long().map_err(|_| PatternError::Spent)?;
    }
    meter.work(places * WORK).map_err(|_| PatternError::Spent)?;
    let regex = RegexBuilder::new(&read).size_limit(LARGEST).dfa_size_limit(LARGEST).build();
    let regex = regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
        error => PatternError::Malformed(error.to_string()),
    })?;
    let compiled = Arc::new(Pattern { regex, places });
    let bytes = usize::try_from(places * PLACE_KEPT).unwrap_or(usize::MAX).max(LEAST_KEPT);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.put(pattern, compiled.clone(), bytes + pattern.len());
    Ok(compiled)
}

impl Pattern {
    /// Charges one search in `text`.
    ///
    /// # Errors
    /// A bound is passed.
    pub(crate) fn charge(&self, text: &str, meter: &Meter) -> Result<(), ExecutionError> {
        let worst = many(text.len()).saturating_mul(self.places);
        if worst > LONGEST_SEARCH {
            return Err(meter.refuse());
        }
        meter.work(letters(text.len()) + worst / USUAL)
    }
}

/// For a function of an expression: the pattern, to be searched once in `text`.
///
/// # Errors
/// It is malformed, or a bound is passed.
pub(crate) fn over(
    function: &'static str,
    pattern: &str,
    text: &str,
    meter: &Meter,
) -> Result<Regex, ExecutionError> {
    match compiled(pattern, meter) {
        // A copy of its own: what a search leaves behind in memory goes with it.
        Ok(compiled) => compiled.charge(text, meter).map(|()| compiled.regex.clone()),
        Err(PatternError::Malformed(error)) => {
            let why = format!("'{pattern}' not a valid regex:\n{error}");
            Err(ExecutionError::function_error(function, why))
        }
        Err(error @ PatternError::TooLarge) => {
            Err(ExecutionError::function_error(function, error.to_string()))
        }
        Err(PatternError::Spent) => Err(ExecutionError::function_error(function, "exhausted")),
    }
}
