//! The conditions of members, made those of the template.
//!
//! In: what the members report. Out: one list, in the order in which the conditions were met first.

use karmada_api::binding::AggregatedStatusItem;
use serde_json::{Value, json};

use super::read::{conditions, text};
use crate::aggregate::reported;
use crate::{Answer, InterpretError};

/// Conditions of one type, status and reason become one, and its message tells what each cluster says: `m1=fine, m2=fine`.
///
/// # Errors
/// A condition without a message.
pub fn merged(items: &[AggregatedStatusItem]) -> Answer<Vec<Value>> {
    let mut out: Vec<Value> = Vec::new();
    for item in items {
        let Some(status) = &item.status else { continue };
        for condition in conditions(status) {
            let message = match condition.get("message") {
                Some(Value::String(message)) => message.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => {
                    return Err(InterpretError::Object(format!(
                        "a condition without a message: {condition}"
                    )));
                }
            };
            let told = format!("{}={message}", item.cluster_name);
            let same = |other: &&mut Value| {
                ["type", "status", "reason"].iter().all(|field| other.get(field) == condition.get(field))
            };
            if let Some(known) = out.iter_mut().find(same) {
                let both = format!("{}, {told}", text(known, "message"));
                known["message"] = json!(both);
            } else {
                let mut condition = condition.clone();
                condition["message"] = json!(told);
                out.push(condition);
            }
        }
    }
    Ok(out)
}

/// One condition of each type: the one that `newer` prefers, given the one known and the one met.
pub fn by_type(
    items: &[AggregatedStatusItem],
    kind: &str,
    newer: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for condition in reported(items).flat_map(conditions) {
        match out.iter_mut().find(|known| text(known, kind) == text(condition, kind)) {
            Some(known) if newer(known, condition) => *known = condition.clone(),
            Some(_) => {}
            None => out.push(condition.clone()),
        }
    }
    out
}

/// All of them, one member after the other.
pub fn all(items: &[AggregatedStatusItem]) -> Option<Value> {
    let all: Vec<Value> = reported(items).flat_map(conditions).cloned().collect();
    (!all.is_empty()).then_some(Value::Array(all))
}
