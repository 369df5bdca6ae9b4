//! ReplicaSet, StatefulSet, DaemonSet: numbers are summed, and the generation follows the slowest cluster.
//!
//! In: the template, and what each cluster reports. Out: the template's status; it is left alone where it says the same numbers already.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Map, Value};

use super::{observed_generation, put, reported, status_mut, sum};
use crate::Answer;

/// Sums `always` and `unless_zero` fields into the template's status, and sets its observedGeneration.
pub(super) fn sums(
    object: &mut Value,
    items: &[AggregatedStatusItem],
    always: &[&str],
    unless_zero: &[&str],
) -> Answer<()> {
    let generation = observed_generation(object, items)?;
    let mut values = Vec::new();
    for (fields, keep_zero) in [(always, true), (unless_zero, false)] {
        for field in fields {
            values.push((*field, sum(items, field)?, keep_zero));
        }
    }
    values.push(("observedGeneration", generation, false));
    if says_already(object, &values) {
        return Ok(());
    }
    let status = status_mut(object);
    for (field, value, keep_zero) in values {
        put(status, field, value, keep_zero);
    }
    Ok(())
}

/// Whether the status says these numbers already: an absent one says 0.
fn says_already(object: &Value, values: &[(&str, i64, bool)]) -> bool {
    let says = |field: &str| object::get(object, &["status", field]).and_then(Value::as_i64).unwrap_or(0);
    values.iter().all(|(field, value, _)| says(field) == *value)
}

/// ReplicaSet.
///
/// # Errors
/// A count or generation that a member reports is no whole number.
pub fn replica_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    sums(object, items, &["replicas"], &["readyReplicas", "availableReplicas"])
}

/// DaemonSet.
///
/// # Errors
/// A count or generation that a member reports is no whole number.
pub fn daemon_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let always = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    let unless_zero = ["updatedNumberScheduled", "numberAvailable", "numberUnavailable"];
    sums(object, items, &always, &unless_zero)
}

/// StatefulSet: also its revisions, which `rollout status` compares.
///
/// # Errors
/// A count or generation that a member reports is no whole number.
pub fn stateful_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let unless_zero = ["readyReplicas", "currentReplicas", "updatedReplicas"];
    sums(object, items, &["replicas", "availableReplicas"], &unless_zero)?;
    let (current, update) = revisions(items);
    if current.is_empty() && update.is_empty() && object.get("status").is_none() {
        return Ok(());
    }
    let status = status_mut(object);
    put_text(status, "currentRevision", &current);
    put_text(status, "updateRevision", &update);
    Ok(())
}

/// The revisions to show. A cluster that is still rolling out shows its two; when none is, those that all agree on,
/// or none: the names differ from cluster to cluster, and equal names mean that the rollout is over.
fn revisions(items: &[AggregatedStatusItem]) -> (String, String) {
    let text = |status: &Value, key: &str| status.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let mut pairs: Vec<(String, String)> =
        reported(items).map(|s| (text(s, "currentRevision"), text(s, "updateRevision"))).collect();
    if let Some(index) = pairs.iter().position(|(current, update)| current != update) {
        return pairs.swap_remove(index);
    }
    pairs.dedup();
    if pairs.len() == 1 { pairs.swap_remove(0) } else { (String::new(), String::new()) }
}

fn put_text(status: &mut Map<String, Value>, field: &str, value: &str) {
    if value.is_empty() {
        status.remove(field);
    } else {
        status.insert(field.to_owned(), Value::from(value));
    }
}
