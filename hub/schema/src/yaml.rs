//! YAML that people wrote, read as kubectl reads it: as YAML 1.1 where that differs from 1.2, as `0644` is 420 there.
//!
//! In: a text. Out: the JSON that it stands for, or why it cannot be read; and the other way round, JSON as YAML that both versions
//! read alike. What is promised: of a text's aliases no more is made than `MOST` bytes, and every number without a fraction comes out as
//! one. Keys stay as they are written: `on: push` keeps its `on`.
//!
//! Known to differ from Go's reader: `yEs` and the like, of mixed cases, are booleans here, and an underscore counts in numbers only
//! between digits.

mod line_ends;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Options};

use self::line_ends::old_line_ends;
use crate::bounded::Bounded;

/// What a file may stand for that its owner reads on purpose: ten thousand large objects fit in.
pub const FILE: usize = 256 << 20;

/// A text that was read.
#[derive(Debug)]
pub struct Document {
    /// What it holds.
    pub value: Value,
    /// What is said of the first key that is given twice in one map, in kube-apiserver's words; the last one counts.
    pub twice: Option<String>,
}

/// Why a text cannot be read, or a value not be written.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    message: String,
    /// Where in the text, where that is known. The words quote what stands there, and that may be a secret.
    pub place: Option<Place>,
}

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl From<serde_saphyr::Error> for YamlError {
    fn from(error: serde_saphyr::Error) -> Self {
        let place = error.location().map(|at| Place { line: at.line(), column: at.column() });
        Self { message: error.to_string(), place }
    }
}

/// Reads a text of one document.
///
/// # Errors
/// It is no YAML, stands for too much, or gives a key twice.
pub fn read<const MOST: usize>(text: &str) -> Result<Value, YamlError> {
    let text = old_line_ends(text);
    Ok(one::<MOST>(&text, DuplicateKeyPolicy::Error)?)
}

/// Reads a text of one document in which keys may be given twice. That is looked for seldom: the text is read again only where there
/// are any.
///
/// # Errors
/// It is no YAML, or stands for too much.
pub fn read_twice_given<const MOST: usize>(text: &str) -> Result<Document, YamlError> {
    let text = old_line_ends(text);
    let error = match one::<MOST>(&text, DuplicateKeyPolicy::Error) {
        Ok(value) => return Ok(Document { value, twice: None }),
        Err(error) => error,
    };
    let Some(told) = duplicate(&error.to_string()) else { return Err(error.into()) };
    let value = one::<MOST>(&text, DuplicateKeyPolicy::LastWins)?;
    Ok(Document { value, twice: Some(told) })
}

/// Reads the documents of a text; empty ones are left out.
///
/// # Errors
/// One of them is no YAML, stands for too much, or gives a key twice.
pub fn read_all<const MOST: usize>(text: &str) -> Result<Vec<Value>, YamlError> {
    let text = old_line_ends(text);
    let options = options(text.len(), DuplicateKeyPolicy::Error);
    let documents: Vec<Bounded<MOST>> = serde_saphyr::from_multiple_with_options(&text, options)?;
    Ok(documents.into_iter().map(|Bounded(value)| whole(value)).collect())
}

/// Reads a text into what it is to be, without anything in between that would hold a secret of it any longer.
///
/// # Errors
/// It is no YAML, or something else.
pub fn read_as<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let text = old_line_ends(text);
    Ok(serde_saphyr::from_str_with_options(&text, options(text.len(), DuplicateKeyPolicy::Error))?)
}

/// Writes a value. A text that either version of YAML would take for anything else is written in quotes.
///
/// # Errors
/// It has no form in YAML; JSON always has.
pub fn write(value: &Value) -> Result<String, YamlError> {
    let unwritten = |error: serde_saphyr::ser::Error| YamlError { message: error.to_string(), place: None };
    serde_saphyr::to_string(value).map_err(unwritten)
}

fn one<const MOST: usize>(text: &str, twice: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
    let options = options(text.len(), twice);
    serde_saphyr::from_str_with_options(text, options).map(|Bounded::<MOST>(value)| whole(value))
}

fn options(bytes: usize, twice: DuplicateKeyPolicy) -> Options {
    let nodes = most_nodes(bytes);
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: twice,
        budget: serde_saphyr::budget! {
            max_nodes: nodes,
            max_events: 4 * nodes,
            max_documents: nodes,
            max_total_scalar_bytes: bytes.max(64 << 20),
        },
    }
}

/// Nodes that a text of so many bytes may stand for: an alias repeats what was written once, and aliases of aliases multiply.
fn most_nodes(bytes: usize) -> usize {
    10_000 + 2 * bytes
}

/// The reader's error in kube-apiserver's words, where it is of a key that is given twice.
fn duplicate(error: &str) -> Option<String> {
    let (before, rest) = error.split_once(": duplicate mapping key: ")?;
    let line = before.split_once("line ")?.1.split(' ').next()?;
    let key = rest.split(", set ").next()?;
    Some(format!("line {line}: key {key:?} already set in map"))
}

/// The value with numbers that have no fraction written without one, however they were given: `1e3` is 1000.
fn whole(mut value: Value) -> Value {
    whole_numbers(&mut value);
    value
}

fn whole_numbers(value: &mut Value) {
    // Beyond it, Go writes an exponent.
    const LARGEST: f64 = 1e21;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < LARGEST);
            let whole = whole.map(|number| number as i128);
            if let Some(whole) = whole.and_then(serde_json::Number::from_i128) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
