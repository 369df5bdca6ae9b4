//! Pod, PersistentVolumeClaim, PersistentVolume: the worst phase of all clusters stands for the whole.
//!
//! In: the template, and what each cluster reports. Out: the template's status, in the place of the one before.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Map, Value, json};

use super::reported;
use crate::Answer;

fn phase(status: Option<&Value>) -> &str {
    status.and_then(|s| s.get("phase")).and_then(Value::as_str).unwrap_or("Pending")
}

/// The first of `ranking` that some cluster is in. A cluster that reports nothing is pending.
fn worst(items: &[AggregatedStatusItem], ranking: &[&str]) -> Option<String> {
    let phases: Vec<&str> = items.iter().map(|item| phase(item.status.as_ref())).collect();
    ranking.iter().find(|candidate| phases.contains(*candidate)).map(|found| (*found).to_owned())
}

fn set_status(object: &mut Value, status: Value) {
    object::root(object).insert("status".to_owned(), status);
}

/// Pod: the worst phase, and the containers of all clusters one after the other.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn pod(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let mut status = Map::new();
    if let Some(phase) = worst(items, &["Failed", "Pending", "Running", "Succeeded"]) {
        status.insert("phase".to_owned(), Value::from(phase));
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        let all: Vec<Value> = reported(items)
            .filter_map(|s| s.get(field).and_then(Value::as_array))
            .flatten()
            .cloned()
            .collect();
        if !all.is_empty() {
            status.insert(field.to_owned(), Value::Array(all));
        }
    }
    set_status(object, Value::Object(status));
    Ok(())
}

/// PersistentVolumeClaim: lost if one is, else what the last one that is not bound says, else bound. Nothing is known
/// before a cluster reports.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn claim(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let phases: Vec<&str> = reported(items).map(|status| phase(Some(status))).collect();
    let phase = match phases.iter().rfind(|phase| **phase != "Bound") {
        _ if phases.contains(&"Lost") => "Lost",
        Some(phase) => phase,
        None if phases.is_empty() => "Pending",
        None => "Bound",
    };
    set_status(object, json!({"phase": phase}));
    Ok(())
}

/// PersistentVolume: the worst phase.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn volume(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if let Some(phase) = worst(items, &["Failed", "Pending", "Available", "Bound", "Released"]) {
        set_status(object, json!({"phase": phase}));
    }
    Ok(())
}
