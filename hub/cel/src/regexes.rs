//! Regular expressions of one request: each compiled once, and bounded by how long it could take over a text.
//!
//! In: a pattern, the text it is for. Out: the expression, once it is sure that it ends in time. A search takes at worst as long as
//! the text is, times the places in the compiled expression; of that product only a fraction is charged, as nearly every search
//! is a thousand times faster, but one that could take seconds is refused before it runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::cel::ExecutionError;
use regex::{Regex, RegexBuilder};

use crate::go_regexp::as_go_reads;
use crate::meter::Meter;
use crate::weigh::{letters, many};

/// Sizes that an expression may have compiled, in bytes, tried from the smallest: the first that suffices tells how large it is.
const SIZES: [usize; 6] = [8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 10 << 20];

/// Bytes of one place in a compiled expression.
const PLACE: u64 = 24;

/// The most places times letters of one search: a second or two at worst.
const LONGEST_SEARCH: u64 = 500_000_000;

/// The part of the worst case that is charged.
const USUAL: u64 = 1000;

/// The most expressions kept.
const MOST: usize = 64;

#[derive(Clone, Debug)]
struct Compiled {
    regex: Regex,
    places: u64,
}

/// The expressions compiled so far.
#[derive(Debug, Default)]
pub(crate) struct Regexes(Mutex<HashMap<String, Arc<Compiled>>>);

impl Regexes {
    /// The expression, to be searched once in `text`; charged.
    ///
    /// # Errors
    /// It is malformed, or a bound is passed.
    pub(crate) fn over(
        &self,
        function: &'static str,
        pattern: &str,
        text: &str,
        meter: &Meter,
    ) -> Result<Regex, ExecutionError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(pattern).cloned();
        let compiled = match known {
            Some(compiled) => compiled,
            None => self.keep(pattern, compile(function, pattern, meter)?),
        };
        let worst = many(text.len()).saturating_mul(compiled.places);
        if worst > LONGEST_SEARCH {
            return Err(meter.refuse());
        }
        meter.work(letters(text.len()) + worst / USUAL)?;
        Ok(compiled.regex.clone())
    }

    fn keep(&self, pattern: &str, compiled: Compiled) -> Arc<Compiled> {
        let compiled = Arc::new(compiled);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST {
            all.insert(pattern.to_owned(), compiled.clone());
        }
        compiled
    }
}

fn compile(function: &'static str, pattern: &str, meter: &Meter) -> Result<Compiled, ExecutionError> {
    meter.work(many(pattern.len()))?;
    let read = as_go_reads(pattern);
    for size in SIZES {
        // What compiling takes, also where it gives up.
        meter.work(many(size) / 16)?;
        match RegexBuilder::new(&read).size_limit(size).build() {
            Ok(regex) => return Ok(Compiled { regex, places: many(size) / PLACE }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => {
                let why = format!("'{pattern}' not a valid regex:\n{error}");
                return Err(ExecutionError::function_error(function, why));
            }
        }
    }
    Err(ExecutionError::function_error(function, "the regular expression is too large"))
}
