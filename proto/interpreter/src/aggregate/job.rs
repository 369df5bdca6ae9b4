//! Job and CronJob: counts are summed, times are the first start and the last end. A Job is complete once it is in every cluster, and
//! failed as soon as it is in one.
//!
//! In: the template, what each cluster reports, the time. Out: the template's status, written into it.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::time;
use serde_json::{Value, json};

use super::{put, reported, status_mut, sum};
use crate::Answer;

fn has_condition(status: &Value, kind: &str) -> bool {
    let is = |c: &Value, key: &str, wanted: &str| c.get(key).and_then(Value::as_str) == Some(wanted);
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.is_some_and(|list| list.iter().any(|c| is(c, "type", kind) && is(c, "status", "True")))
}

fn finished(object: &Value) -> bool {
    object.get("status").is_some_and(|s| has_condition(s, "Complete") || has_condition(s, "Failed"))
}

/// The times of a field, in order. RFC 3339 in UTC sorts as text.
fn times(items: &[AggregatedStatusItem], field: &str) -> Vec<String> {
    let mut times: Vec<String> =
        reported(items).filter_map(|s| s.get(field).and_then(Value::as_str)).map(str::to_owned).collect();
    times.sort();
    times
}

/// Job. A finished one is never changed again.
///
/// # Errors
/// A count that a member reports is no whole number.
pub fn job(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    if items.is_empty() || finished(object) {
        return Ok(());
    }
    let counts = [
        ("active", sum(items, "active")?),
        ("succeeded", sum(items, "succeeded")?),
        ("failed", sum(items, "failed")?),
    ];
    let status = status_mut(object);
    for (field, value) in counts {
        put(status, field, value, false);
    }
    let starts = times(items, "startTime");
    if starts.len() == items.len() && !status.contains_key("startTime") {
        status.insert("startTime".to_owned(), json!(starts[0]));
    }
    let ends = times(items, "completionTime");
    if ends.len() == items.len() {
        status.insert("completionTime".to_owned(), json!(ends[ends.len() - 1]));
    }
    let conditions = conditions(items, &time::seconds(now));
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    // What is left is nothing at all: then there is no status, as before.
    if status.is_empty() {
        super::clear_status(object);
    }
    Ok(())
}

fn conditions(items: &[AggregatedStatusItem], now: &str) -> Vec<Value> {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now,
               "reason": reason, "message": message})
    };
    let holds = |item: &AggregatedStatusItem, kind: &str| {
        item.status.as_ref().is_some_and(|s| has_condition(s, kind))
    };
    let failed: Vec<&str> =
        items.iter().filter(|i| holds(i, "Failed")).map(|i| i.cluster_name.as_str()).collect();
    let all = |kind: &str| items.iter().all(|item| holds(item, kind));
    let mut out = Vec::new();
    if !failed.is_empty() {
        let message = format!("Job executed failed in member clusters {}", failed.join(","));
        out.push(condition("Failed", "JobFailed", &message));
    }
    if all("Complete") {
        out.push(condition("Complete", "Completed", "Job completed"));
        if all("SuccessCriteriaMet") {
            let message = "All member clusters have met success criteria";
            out.push(condition("SuccessCriteriaMet", "CompletionsReached", message));
        }
    }
    out
}

/// CronJob: all active jobs, the last times.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn cron_job(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let active: Vec<Value> = reported(items)
        .filter_map(|s| s.get("active").and_then(Value::as_array))
        .flatten()
        .cloned()
        .collect();
    let last = |field: &str| times(items, field).pop();
    let times =
        [("lastScheduleTime", last("lastScheduleTime")), ("lastSuccessfulTime", last("lastSuccessfulTime"))];
    let status = status_mut(object);
    status.clear();
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for (field, time) in times {
        if let Some(time) = time {
            status.insert(field.to_owned(), Value::from(time));
        }
    }
    if status.is_empty() {
        super::clear_status(object);
    }
    Ok(())
}
