//! What operators make of values, and what functions say of them that cannot be.
//!
//! In: values, a meter. Out: a value, an order, a key, or why there is none. What grows is counted before it is made.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{ExecutionError, Value};

use crate::meter::Meter;
use crate::weigh::{letters, many, same, weight};

/// A value, or why there is none. Loops go on with either.
pub(crate) type Outcome = Result<Value, ExecutionError>;

/// Names of types, which are values as `type(x)` yields them.
pub(crate) const TYPES: [&str; 9] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

/// A function that cannot be called so, and why.
pub(crate) fn failed(function: &str, why: &str) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

/// Nothing is defined for values of these types.
pub(crate) fn no_overload() -> ExecutionError {
    ExecutionError::NoSuchOverload
}

/// As an optional.
pub(crate) fn maybe(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// As the key of a map.
pub(crate) fn key(value: &Value) -> Result<Key, ExecutionError> {
    Ok(match value {
        Value::String(text) => Key::String(text.clone()),
        Value::Int(number) => Key::Int(*number),
        Value::UInt(number) => Key::Uint(*number),
        Value::Bool(truth) => Key::Bool(*truth),
        _ => return Err(ExecutionError::function_error("map", "unsupported key type")),
    })
}

/// Weighs a value that was made on the way and is kept.
pub(crate) fn kept(value: Value, meter: &Meter) -> Outcome {
    meter.hold(weight(&value, meter)?)?;
    Ok(value)
}

/// The order of two values.
pub(crate) fn compare(a: &Value, b: &Value, meter: &Meter) -> Result<Ordering, ExecutionError> {
    meter.work(1)?;
    match (a, b) {
        (Value::String(x), Value::String(y)) => {
            meter.work(letters(x.len().min(y.len())))?;
            Ok(x.cmp(y))
        }
        (Value::Bytes(x), Value::Bytes(y)) => {
            meter.work(letters(x.len().min(y.len())))?;
            Ok(x.cmp(y))
        }
        _ => a.partial_cmp(b).ok_or_else(no_overload),
    }
}

/// `a + b`. What grows is counted before it is made.
pub(crate) fn sum(a: &Value, b: &Value, meter: &Meter) -> Outcome {
    let room = |a: usize, b: usize| {
        meter.work(letters(a) + letters(b))?;
        meter.hold(many(a) + many(b))
    };
    match (a, b) {
        (Value::String(x), Value::String(y)) => {
            room(x.len(), y.len())?;
            Ok(Value::String(Arc::new([x.as_str(), y.as_str()].concat())))
        }
        (Value::Bytes(x), Value::Bytes(y)) => {
            room(x.len(), y.len())?;
            Ok(Value::Bytes(Arc::new([x.as_slice(), y.as_slice()].concat())))
        }
        (Value::List(x), Value::List(y)) => {
            meter.work(many(x.len()) + many(y.len()))?;
            meter.hold(24 * (many(x.len()) + many(y.len())))?;
            Ok(Value::List(Arc::new(x.iter().chain(y.iter()).cloned().collect())))
        }
        _ => a.clone() + b.clone(),
    }
}

/// `-a`.
pub(crate) fn negative(value: &Value) -> Outcome {
    match value {
        Value::Int(number) => number
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| ExecutionError::Overflow("minus", value.clone(), Value::Null)),
        Value::Float(number) => Ok(Value::Float(-number)),
        _ => Err(no_overload()),
    }
}

/// `one in of`.
pub(crate) fn within(one: &Value, of: &Value, meter: &Meter) -> Result<bool, ExecutionError> {
    match of {
        Value::List(items) => {
            for item in items.iter() {
                if same(item, one, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => {
            let wanted = key(one)?;
            meter.work(if let Key::String(name) = &wanted { letters(name.len()) } else { 1 })?;
            Ok(map.get(&wanted).is_some())
        }
        _ => Err(no_overload()),
    }
}

/// The name that `type(value)` yields.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        _ => "dyn",
    }
}

/// One more entry; no key twice.
pub(crate) fn insert(map: &mut HashMap<Key, Value>, key: Key, value: Value) -> Result<(), ExecutionError> {
    match map.entry(key) {
        Entry::Occupied(_) => Err(failed("transformMap", "insert failed: key already exists")),
        Entry::Vacant(free) => {
            free.insert(value);
            Ok(())
        }
    }
}
