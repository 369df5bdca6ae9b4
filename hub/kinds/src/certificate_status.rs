//! The status of a request for a certificate.
//!
//! In: the request as it is to be stored and as it stands, and the time as text. Out: the same request, in whose status each condition has
//! both of its times; those that it brings stay.

use serde_json::{Value, json};

/// Dates conditions that do not say since when they are.
pub(crate) fn finish(new: &mut Value, old: &Value, now: &str) {
    let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let all = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in all.into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = json!(now);
        }
        if condition["lastTransitionTime"].is_null() {
            let same = before
                .iter()
                .find(|one| one["type"] == condition["type"] && one["status"] == condition["status"]);
            let since = same.map_or_else(|| json!(now), |one| one["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since;
        }
    }
}
