//! What a validation found wrong so far, and how much more it may do. Pure.
//!
//! In: problems, and steps as they are made. Out: a bounded list of problems. A schema and an object of a few megabytes each can be
//! made so that every element breaks thousands of rules: neither the time of a request nor its answer grows with the product of both.

use std::sync::Arc;

use karmada_cel::{Compiling, PatternError};

use crate::path::Path;
use karmada_field::{FieldError, Shown};

/// Problems that one answer tells.
pub(crate) const MOST_ERRORS: usize = 1_000;
/// Bytes of problems after which no more are told.
const MOST_BYTES: usize = 1 << 20;
/// Steps of one validation: half a second of a release build. An object of the largest size has at most 1.5 million values, and
/// a step is one value looked at by one schema, or one property that is looked for.
const MOST_STEPS: u64 = 20_000_000;

/// What was found, and what is left to be spent.
#[derive(Debug)]
pub(crate) struct Findings {
    errors: Vec<FieldError>,
    bytes: usize,
    steps: u64,
    left_out: bool,
    /// What the request compiles.
    compiling: Arc<Compiling>,
}

impl Findings {
    /// Nothing yet. `compiling`: what the request compiles, by which patterns are judged.
    pub fn new(compiling: &Arc<Compiling>) -> Findings {
        let compiling = compiling.clone();
        Findings { errors: Vec::new(), bytes: MOST_BYTES, steps: MOST_STEPS, left_out: false, compiling }
    }

    /// Whether the text has what the pattern asks for; nothing of the kind is so where the pattern is none. Where the patterns of the
    /// request are too large together there are no more steps.
    pub fn matches(&mut self, pattern: &str, text: &str) -> bool {
        let found = self.compiling.matches(pattern, text);
        if found == Err(PatternError::Spent) {
            self.steps = 0;
        }
        found.unwrap_or(false)
    }

    /// Takes so many steps. False where there are no more, or nothing more would be told: then the caller stops.
    pub fn step(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps as u64);
        self.steps > 0 && !self.is_full()
    }

    /// Takes note of a problem, where there is room for it.
    pub fn push(&mut self, error: FieldError) {
        if self.is_full() {
            self.left_out = true;
            return;
        }
        self.bytes = self.bytes.saturating_sub(size(&error));
        self.errors.push(error);
    }

    /// Takes note of several.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// What `look` finds, kept apart: it spends steps of this validation, and its problems may come to nothing.
    pub fn apart(&mut self, look: impl FnOnce(&mut Findings)) -> Vec<FieldError> {
        let mut apart = Findings { steps: self.steps, ..Findings::new(&self.compiling) };
        look(&mut apart);
        self.steps = apart.steps;
        apart.errors
    }

    fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS || self.bytes == 0
    }

    /// The problems; the last says where more may be wrong than is told.
    pub fn told(mut self) -> Vec<FieldError> {
        if self.steps == 0 {
            let why = "checking the object by its schema takes too many steps: it is too large for a schema of so many rules";
            self.errors.push(FieldError::forbidden(&Path::ROOT, why));
        } else if self.left_out || self.is_full() {
            self.errors.push(more());
        }
        self.errors
    }
}

/// No more than [`MOST_ERRORS`] problems; one that says so stands for the others.
pub fn bounded(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    if errors.len() > MOST_ERRORS + 1 {
        errors.truncate(MOST_ERRORS);
        errors.push(more());
    }
    errors
}

fn more() -> FieldError {
    FieldError::forbidden(
        &Path::ROOT,
        "more may be wrong than is told here: an answer names a limited number of problems",
    )
}

/// About what an error takes in an answer.
fn size(error: &FieldError) -> usize {
    let shown = match &error.value {
        Some(Shown::Raw(text)) => text.len(),
        Some(Shown::Json(value)) => value.as_str().map_or_else(|| value.to_string().len(), str::len),
        None => 0,
    };
    64 + error.field.len() + error.detail.len() + shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(detail: &str) -> FieldError {
        FieldError::invalid(&Path::ROOT, "", detail)
    }

    #[test]
    fn what_is_told_is_bounded_in_number_and_bytes() {
        let mut many = Findings::new(&Arc::default());
        many.extend((0..5_000).map(|at| problem(&at.to_string())));
        let told = many.told();
        assert_eq!(told.len(), MOST_ERRORS + 1);
        assert!(told.last().unwrap().detail.starts_with("more may be wrong"));
        let mut long = Findings::new(&Arc::default());
        long.extend((0..20).map(|_| problem(&"x".repeat(MOST_BYTES / 4))));
        assert_eq!(long.told().len(), 4 + 1);
        assert_eq!(bounded((0..5_000).map(|_| problem("")).collect()).len(), MOST_ERRORS + 1);
    }

    #[test]
    fn what_fits_is_told_as_it_is() {
        let mut few = Findings::new(&Arc::default());
        few.extend((0..10).map(|_| problem("x")));
        assert_eq!(few.told().len(), 10);
    }

    #[test]
    fn steps_of_what_is_looked_at_apart_count() {
        let mut found = Findings::new(&Arc::default());
        let apart = found.apart(|apart| {
            apart.push(problem("apart"));
            assert!(apart.step(10));
            assert!(!apart.step(MOST_STEPS as usize));
        });
        assert_eq!(apart.len(), 1);
        assert!(!found.step(1));
        assert!(found.told()[0].detail.contains("too many steps"));
    }
}
