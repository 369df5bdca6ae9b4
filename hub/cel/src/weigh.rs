//! How large values are, and whether they are equal: walks over whole values, which charge while they go.
//!
//! In: values, and the meter that each step is charged to. Out: a size, a weight in bytes or a cost; or the meter's error, once there is no
//! budget left.

use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{ExecutionError, Value};

use crate::meter::Meter;

/// The deepest value: what compares, drops or converts it recurses as deep.
const DEEPEST: usize = 300;

/// Letters of a text that count as one piece of work.
const LETTERS: usize = 16;

pub(crate) fn many(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The work of going over a text.
pub(crate) fn letters(length: usize) -> u64 {
    many(length / LETTERS)
}

/// What kube-apiserver takes for a value's size: characters, bytes, elements, entries, and one for all else.
pub(crate) fn size(value: &Value, meter: &Meter) -> Result<u64, ExecutionError> {
    Ok(many(match value {
        Value::String(text) => {
            meter.work(letters(text.len()))?;
            text.chars().count()
        }
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => 1,
    }))
}

/// What an optional holds; `None` where the value is no optional.
pub(crate) fn optional(value: &Value) -> Option<Option<&Value>> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>().map(OptionalValue::value),
        _ => None,
    }
}

/// Bytes that a value takes, roughly, wherever else it is held too.
pub(crate) fn weight(value: &Value, meter: &Meter) -> Result<u64, ExecutionError> {
    weight_at(value, meter, 0)
}

fn weight_at(value: &Value, meter: &Meter, depth: usize) -> Result<u64, ExecutionError> {
    if depth > DEEPEST {
        return Err(ExecutionError::function_error("value", "the value is nested too deeply"));
    }
    meter.work(1)?;
    let mut weight = 24;
    match value {
        Value::String(text) => weight += 40 + many(text.len()),
        Value::Bytes(bytes) => weight += 40 + many(bytes.len()),
        Value::List(items) => {
            for item in items.iter() {
                weight += weight_at(item, meter, depth + 1)?;
            }
        }
        Value::Map(map) => {
            for (key, value) in map.map.iter() {
                let name = if let Key::String(name) = key { many(name.len()) } else { 0 };
                weight += 48 + name + weight_at(value, meter, depth + 1)?;
            }
        }
        other => {
            if let Some(Some(held)) = optional(other) {
                weight += weight_at(held, meter, depth + 1)?;
            }
        }
    }
    Ok(weight)
}

/// A tenth of each text's length, and one for all else that a value is made of: kube-apiserver's cost of going over a value.
pub(crate) fn traversal(value: &Value, meter: &Meter) -> Result<u64, ExecutionError> {
    meter.work(1)?;
    let mut cost = 0;
    match value {
        Value::String(_) | Value::Bytes(_) => cost = size(value, meter)?.div_ceil(10),
        Value::List(items) => {
            for item in items.iter() {
                cost += traversal(item, meter)?;
            }
        }
        Value::Map(map) => {
            for (key, value) in map.map.iter() {
                let name = if let Key::String(name) = key { many(name.len()).div_ceil(10) } else { 1 };
                cost += name + traversal(value, meter)?;
            }
        }
        _ => cost = 1,
    }
    Ok(cost)
}

/// Whether two values are equal.
pub(crate) fn same(a: &Value, b: &Value, meter: &Meter) -> Result<bool, ExecutionError> {
    meter.work(1)?;
    match (a, b) {
        (Value::List(x), Value::List(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            for (one, other) in x.iter().zip(y.iter()) {
                if !same(one, other, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(x), Value::Map(y)) => {
            if x.map.len() != y.map.len() {
                return Ok(false);
            }
            for (key, one) in x.map.iter() {
                if let Key::String(name) = key {
                    meter.work(letters(name.len()))?;
                }
                let Some(other) = y.get(key) else { return Ok(false) };
                if !same(one, other, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::String(x), Value::String(y)) => {
            meter.work(letters(x.len().min(y.len())))?;
            Ok(x == y)
        }
        (Value::Bytes(x), Value::Bytes(y)) => {
            meter.work(letters(x.len().min(y.len())))?;
            Ok(x == y)
        }
        _ => match (optional(a), optional(b)) {
            (Some(Some(x)), Some(Some(y))) => same(x, y, meter),
            _ => Ok(a == b),
        },
    }
}
