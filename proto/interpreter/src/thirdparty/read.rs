//! Reading what objects of other people's kinds say: strictly where the kind promises it, by default where it may be left out.
//!
//! In: objects as JSON. Out: what was asked for, or what is wrong with it.

use karmada_api::object;
use serde_json::Value;

use crate::{Answer, InterpretError};

/// What is at a path; null is nothing.
pub fn present<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    object::get(object, path).filter(|value| !value.is_null())
}

/// What the kind promises to be at a path.
pub fn required<'a>(object: &'a Value, path: &[&str]) -> Answer<&'a Value> {
    present(object, path).ok_or_else(|| InterpretError::Object(format!("{} is missing", path.join("."))))
}

/// A text; empty where there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

/// A whole number that the kind promises.
pub fn whole(value: &Value, field: &str) -> Answer<i64> {
    let number = value.get(field).and_then(Value::as_i64);
    number.ok_or_else(|| InterpretError::Object(format!("{field} is no whole number")))
}

/// The elements of a list; none where there is no list.
pub fn elements<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object::get(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// How many replicas: a number, or its digits as a text. Nothing, and a text that is no number, mean the default.
pub fn count(value: Option<&Value>, default: i32) -> Answer<i32> {
    let number = match value {
        None | Some(Value::Null) => return Ok(default),
        Some(Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => Some(number),
            Err(_) => return Ok(default),
        },
        Some(other) => other.as_i64(),
    };
    number.and_then(|number| i32::try_from(number).ok()).ok_or_else(|| {
        InterpretError::Object(format!("{} is no number of replicas", value.unwrap_or(&Value::Null)))
    })
}

/// How many replicas a field of the spec says, which must be a number.
pub fn replicas(object: &Value, path: &[&str]) -> Answer<i32> {
    let value = required(object, path)?;
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| {
        InterpretError::Object(format!("{} is no number of replicas: {value}", path.join(".")))
    })
}

/// The conditions of a status.
pub fn conditions(status: &Value) -> &[Value] {
    elements(status, &["conditions"])
}

/// Whether a condition of this type is True.
pub fn holds(status: &Value, kind: &str) -> bool {
    conditions(status)
        .iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}
