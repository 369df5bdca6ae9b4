//! Volcano: Job, a set of tasks that run together.
//!
//! In: its objects, and what members report of them. Out: tasks as parts, sums by task and phase, one state.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use serde_json::{Map, Value, json};

use super::read::{count, elements, present, required, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{alone, clusters, put, since};
use super::{conditions, pods};
use crate::aggregate::{clear_status, reported, status_mut, sums};
use crate::reported_status::MOST;
use crate::row::{NONE, Row};
use crate::{Answer, InterpretError};

/// Job.
pub const JOB: Row = Row {
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &[
        "state",
        "minAvailable",
        "pending",
        "running",
        "succeeded",
        "failed",
        "terminating",
        "unknown",
        "version",
        "retryCount",
        "runningDuration",
        "taskStatusCount",
        "controlledResources",
        "conditions",
    ],
    counts: &[],
    generations: Generations::Untold,
};

/// Each task is a part, of as many pods as it needs to begin: one where nothing is said.
fn components(object: &Value) -> Answer<Vec<Component>> {
    if let Some(tasks) =
        present(object, &["spec", "tasks"]).filter(|tasks| !tasks.is_array() && !tasks.is_object())
    {
        return Err(InterpretError::Object(format!("spec.tasks must be a list, and is {tasks}")));
    }
    let tasks = elements(object, &["spec", "tasks"]).iter().enumerate();
    tasks
        .map(|(index, task)| {
            let name = Some(text(task, "name")).filter(|name| !name.is_empty());
            let name = name.map_or_else(|| format!("task-{index}"), str::to_owned);
            pods::part(&name, count(task.get("minAvailable"), 1)?, Some(required(task, &["template"])?))
        })
        .collect()
}

fn phase(status: &Value) -> &str {
    status.get("state").map_or("", |state| text(state, "phase"))
}

/// It is in a phase that is none of failure.
fn health(object: &Value) -> Answer<bool> {
    let known = [
        "Pending",
        "Aborting",
        "Aborted",
        "Running",
        "Restarting",
        "Completing",
        "Completed",
        "Terminating",
        "Terminated",
    ];
    Ok(present(object, &["status"]).is_some_and(|status| known.contains(&phase(status))))
}

/// Whether a member gave up.
fn failed(status: &Value) -> bool {
    matches!(phase(status), "Failed" | "Aborted" | "Terminated")
}

fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let counts =
        ["minAvailable", "pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount"];
    let mut out = sums(items, &counts)?;
    out.retain(|_, sum| sum.as_i64() != Some(0));
    let version = reported(items).filter_map(|status| status.get("version")?.as_i64()).max();
    put(&mut out, "version", version.map(Value::from));
    put(&mut out, "runningDuration", longest(items));
    put(&mut out, "taskStatusCount", unless_empty(tasks(items)));
    put(&mut out, "controlledResources", unless_empty(resources(items)));
    if let Some(state) = state(object, items, now) {
        put(&mut out, "state", Some(state));
    }
    let conditions = latest_conditions(items);
    put(&mut out, "conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
    if out.is_empty() {
        clear_status(object);
    } else {
        *status_mut(object) = out;
    }
    Ok(())
}

fn unless_empty(map: Map<String, Value>) -> Option<Value> {
    (!map.is_empty()).then_some(Value::Object(map))
}

/// Failed where some member gave up, completed once all are; nothing is said before.
fn state(object: &Value, items: &[AggregatedStatusItem], now: Timestamp) -> Option<Value> {
    let completed =
        items.iter().all(|item| item.status.as_ref().is_some_and(|status| phase(status) == "Completed"));
    let says = match clusters(items, failed) {
        Some(names) => {
            let message = format!("Job failed in clusters: {}", names.replace(", ", ","));
            json!({"phase": "Failed", "reason": "VolcanoJobFailed", "message": message})
        }
        None if completed => {
            json!({"phase": "Completed", "reason": "Completed", "message": "Job completed successfully"})
        }
        None => return None,
    };
    let earlier = present(object, &["status", "state"]);
    let earlier = earlier.filter(|state| text(state, "phase") == text(&says, "phase")).cloned();
    Some(since(earlier.as_slice(), &says, &["lastTransitionTime"], now))
}

/// The latest condition of each status; where some member gave up, of those that did.
fn latest_conditions(items: &[AggregatedStatusItem]) -> Vec<Value> {
    let gave_up: Vec<AggregatedStatusItem> =
        items.iter().filter(|item| item.status.as_ref().is_some_and(failed)).cloned().collect();
    let of = if gave_up.is_empty() { items } else { &gave_up };
    let time = |condition: &Value| text(condition, "lastTransitionTime").to_owned();
    conditions::by_type(of, "status", |known, met| time(met) > time(known))
}

/// How many pods of each task are in each phase.
fn tasks(items: &[AggregatedStatusItem]) -> Map<String, Value> {
    let mut out = Map::new();
    let tasks = reported(items).filter_map(|status| status.get("taskStatusCount")?.as_object()).flatten();
    for (task, counted) in tasks {
        for (phase, number) in counted.get("phase").and_then(Value::as_object).into_iter().flatten() {
            let entry = out.entry(task.clone()).or_insert_with(|| json!({"phase": {}}));
            let known = entry["phase"][phase].as_i64().unwrap_or(0);
            let sum = known.saturating_add(number.as_i64().unwrap_or(0)).min(MOST);
            entry["phase"][phase] = Value::from(sum);
        }
    }
    out
}

/// What was made for the job anywhere.
fn resources(items: &[AggregatedStatusItem]) -> Map<String, Value> {
    let maps = reported(items).filter_map(|status| status.get("controlledResources")?.as_object());
    maps.flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The longest time that it ran anywhere, as that member wrote it.
fn longest(items: &[AggregatedStatusItem]) -> Option<Value> {
    let mut longest: Option<(f64, &Value)> = None;
    for told in reported(items).filter_map(|status| status.get("runningDuration")) {
        let Some(seconds) = told.as_f64().or_else(|| seconds(told.as_str()?)) else { continue };
        if longest.is_none_or(|(known, _)| seconds > known) {
            longest = Some((seconds, told));
        }
    }
    longest.map(|(_, told)| told.clone())
}

/// The seconds of a duration such as `1h2m3.5s`; a plain number is seconds.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds);
    }
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(end);
        let length = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let scale = match &unit[..length] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * scale;
        rest = &unit[length..];
    }
    (!text.is_empty()).then_some(sum)
}
