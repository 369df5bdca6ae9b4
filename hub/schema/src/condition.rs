//! Conditions in an object's status.
//!
//! In: objects as trees, a condition with all its fields. Out: the object with that condition in the place of the one of its type;
//! what is wrong with conditions.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::fields::{Errors, invalid_each, list, one_of, text};
use crate::path::Path;
use crate::{FieldError, names};

/// Puts a condition into `status.conditions`, where it takes the place of the one of its type. Its `lastTransitionTime`, which the caller
/// gives as the present, is that of the one before where its `status` is.
pub fn put(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut() {
        put_among(conditions, condition);
    }
}

/// What a condition says.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Its type.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Why, in a word.
    pub reason: &'a str,
    /// Why, in words.
    pub message: &'a str,
}

/// Puts what is said now into `status.conditions`.
pub fn say(object: &mut Value, said: Said<'_>, now: &str) {
    let Said { kind, status, reason, message } = said;
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    put(object, condition);
}

/// The same for conditions that stand somewhere else.
pub fn put_among(conditions: &mut Vec<Value>, mut condition: Value) {
    let Some(held) = conditions.iter_mut().find(|held| held["type"] == condition["type"]) else {
        return conditions.push(condition);
    };
    if held["status"] == condition["status"] {
        condition["lastTransitionTime"] = held["lastTransitionTime"].take();
    }
    *held = condition;
}

/// The condition of a type.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of a type is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// What is wrong with conditions of the common form.
pub fn validate(status: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = list(status, "conditions");
    let mut seen_types = HashSet::new();
    for (index, one) in all.iter().enumerate() {
        let at = path.index(index);
        let (kind, reason) = (text(one, "type"), text(one, "reason"));
        if kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        } else {
            invalid_each(errors, &at.child("type"), kind, names::qualified_name(kind));
        }
        if !seen_types.insert(&one["type"]) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        if text(one, "status").is_empty() {
            let known = ["False", "True", "Unknown"];
            errors.push(FieldError::not_supported(&at.child("status"), "", &known));
        } else {
            one_of(one, "status", &["False", "True", "Unknown"], &at, errors);
        }
        if let Some(seen) = one["observedGeneration"].as_i64().filter(|seen| *seen < 0) {
            let detail = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(&at.child("observedGeneration"), seen, detail));
        }
        if !one["lastTransitionTime"].is_string() {
            errors.push(FieldError::required(&at.child("lastTransitionTime"), ""));
        }
        if reason.is_empty() {
            errors.push(FieldError::required(&at.child("reason"), ""));
        } else if !is_reason(reason) {
            let detail = "a condition reason must start with alphabetic character, optionally followed by a string \
                          of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' \
                          (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
                          'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
            errors.push(FieldError::invalid(&at.child("reason"), reason, detail));
        }
    }
}

fn is_reason(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|b| word(*b) || matches!(b, b',' | b':'))
        && bytes.last().is_some_and(|b| word(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_moves_with_its_status_alone() {
        let mut object = json!({"metadata": {"name": "a"}});
        let mut told = |status: &str, reason: &str, now: &str| {
            put(
                &mut object,
                json!({"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": now}),
            );
            put(&mut object, json!({"type": "Other", "status": "True", "lastTransitionTime": "t0"}));
            let ready = find(&object, "Ready").unwrap();
            assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 2);
            (ready["reason"].clone(), ready["lastTransitionTime"].clone(), is_true(&object, "Ready"))
        };
        assert_eq!(told("True", "a", "t1"), (json!("a"), json!("t1"), true));
        assert_eq!(told("True", "b", "t2"), (json!("b"), json!("t1"), true));
        assert_eq!(told("False", "b", "t3"), (json!("b"), json!("t3"), false));
    }
}
