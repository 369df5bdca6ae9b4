//! Apache Spark: SparkApplication, a driver and its executors.
//!
//! In: its objects, and what members report of them. Out: both as parts, and the state that is worst.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, ComponentReplicaRequirements, NodeClaim};
use karmada_quantity::Quantity;
use serde_json::{Map, Value, json};

use super::read::{count, present, required, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{alone, put, times};
use crate::aggregate::{reported, status_mut, sums};
use crate::pod_request::resource_list;
use crate::replicas::node_claim;
use crate::row::{NONE, Row};
use crate::{Answer, InterpretError};

/// SparkApplication.
pub const SPARK_APPLICATION: Row = Row {
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &[
        "applicationState",
        "driverInfo",
        "executorState",
        "sparkApplicationId",
        "lastSubmissionAttemptTime",
        "terminationTime",
        "submissionAttempts",
        "executionAttempts",
        "submissionID",
    ],
    counts: &[],
    generations: Generations::Untold,
};

const MEBI: f64 = 1024.0 * 1024.0;
/// The least that is added to a pod's memory for what is not the heap.
const LEAST_OVERHEAD: f64 = 384.0 * MEBI;

/// The bytes of an amount of memory as Spark writes it: `512m`, `1.5g`, `512mb`.
fn bytes(memory: &str) -> Answer<f64> {
    let lower = memory.trim().to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &lower[number.len()..] {
        "k" | "kb" => 1024.0,
        "m" | "mb" => MEBI,
        "g" | "gb" => 1024.0 * MEBI,
        "t" | "tb" => 1024.0 * 1024.0 * MEBI,
        "p" | "pb" => 1024.0 * 1024.0 * 1024.0 * MEBI,
        _ => 0.0,
    };
    match number.parse::<f64>() {
        Ok(number) if scale > 0.0 && number >= 0.0 && number.is_finite() => Ok(number * scale),
        _ => Err(InterpretError::Object(format!("{memory:?} is no amount of memory as 512m and 4g are"))),
    }
}

/// How much of the memory is added for what is not the heap: a tenth, or four tenths where no Java virtual machine runs the code.
fn overhead_factor(spec: &Value) -> Answer<f64> {
    let kind = required(spec, &["type"])?;
    let kind = kind
        .as_str()
        .ok_or_else(|| InterpretError::Object(format!("spec.type must be a text, and is {kind}")))?;
    let said = match spec.get("memoryOverheadFactor") {
        Some(Value::String(text)) => text.parse::<f64>().ok(),
        Some(other) => other.as_f64(),
        None => None,
    };
    let default = if matches!(kind.to_ascii_lowercase().as_str(), "java" | "scala") { 0.1 } else { 0.4 };
    Ok(said.filter(|said| said.is_finite() && *said >= 0.0).unwrap_or(default))
}

/// The memory of a pod: what its part says, one gibibyte where it says nothing; and the overhead, as said or by the factor.
fn memory(part: &Value, factor: f64) -> Answer<Quantity> {
    let heap = bytes(present(part, &["memory"]).map_or(Ok("1g"), as_text)?)?;
    let overhead = match present(part, &["memoryOverhead"]) {
        Some(said) => bytes(as_text(said)?)?,
        None => (heap * factor).max(LEAST_OVERHEAD),
    };
    let sum = heap + overhead;
    #[allow(clippy::cast_possible_truncation, reason = "a cast of a float ends at the least and the most")]
    Ok(if sum.fract() == 0.0 {
        Quantity::from_binary_units(sum as i64)
    } else {
        Quantity::from_milli((sum * 1000.0).round() as i64)
    })
}

fn as_text(value: &Value) -> Answer<&str> {
    value
        .as_str()
        .ok_or_else(|| InterpretError::Object(format!("an amount of memory must be a text, and is {value}")))
}

/// What one pod of a part asks for.
fn requirements(part: &Value, factor: f64) -> Answer<ComponentReplicaRequirements> {
    let cores = match present(part, &["cores"]) {
        Some(Value::Number(number)) => json!(number.to_string()),
        Some(other) => other.clone(),
        None => json!("1"),
    };
    let mut wanted = resource_list(Some(&json!({"cpu": cores})))?;
    wanted.insert("memory".to_owned(), memory(part, factor)?);
    if let Some(gpu) = present(part, &["gpu"]) {
        let (name, number) = (text(gpu, "name"), count(gpu.get("quantity"), 0)?);
        if !name.is_empty() && number > 0 {
            wanted.insert(name.to_owned(), Quantity::from_units(i64::from(number)));
        }
    }
    Ok(ComponentReplicaRequirements {
        node_claim: node_claim(part)?.filter(|claim| *claim != NodeClaim::default()),
        resource_request: wanted,
        priority_class_name: text(part, "priorityClassName").to_owned(),
    })
}

/// How many executors: where they are allocated as needed, as many as it begins with, else as many as it keeps.
fn executors(spec: &Value) -> Answer<i32> {
    let dynamic = present(spec, &["dynamicAllocation", "enabled"]) == Some(&Value::Bool(true));
    let first = ["initialExecutors", "minExecutors"]
        .iter()
        .find_map(|field| present(spec, &["dynamicAllocation", field]))
        .filter(|_| dynamic);
    count(first.or_else(|| present(spec, &["executor", "instances"])), 1)
}

fn components(object: &Value) -> Answer<Vec<Component>> {
    let spec = required(object, &["spec"])?;
    let factor = overhead_factor(spec)?;
    let part = |name: &str, replicas: i32| {
        let wanted = requirements(spec.get(name).unwrap_or(&Value::Null), factor)?;
        Ok(Component { name: name.to_owned(), replicas, replica_requirements: Some(wanted) })
    };
    Ok(vec![part("driver", 1)?, part("executor", executors(spec)?)?])
}

fn state(status: &Value) -> Option<&str> {
    present(status, &["applicationState", "state"])?.as_str()
}

/// It has a state, and has not failed.
fn health(object: &Value) -> Answer<bool> {
    Ok(object.get("status").and_then(state).is_some_and(|state| state != "FAILED"))
}

/// States, the worst first; what is not among them is as good as unknown.
const WORST: [&str; 14] = [
    "FAILED",
    "SUBMISSION_FAILED",
    "FAILING",
    "INVALIDATING",
    "SUCCEEDING",
    "RESUMING",
    "RUNNING",
    "SUBMITTED",
    "PENDING_RERUN",
    "SUSPENDING",
    "SUSPENDED",
    "COMPLETED",
    "UNKNOWN",
    "",
];

fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let sums = sums(items, &["executionAttempts", "submissionAttempts"])?;
    let rank = |status: &&Value| {
        let state = state(status).unwrap_or("");
        WORST.iter().position(|name| *name == state).unwrap_or(WORST.len())
    };
    let worst = reported(items).filter(|status| status.get("applicationState").is_some()).min_by_key(rank);
    let worst = worst.and_then(|status| status.get("applicationState")).cloned();
    let states = reported(items).filter_map(|status| status.get("executorState")?.as_object());
    let executors: Map<String, Value> =
        states.flatten().map(|(name, state)| (name.clone(), state.clone())).collect();
    let status = status_mut(object);
    status.extend(sums);
    put(status, "applicationState", worst);
    put(status, "executorState", (!executors.is_empty()).then_some(Value::Object(executors)));
    for field in ["lastSubmissionAttemptTime", "terminationTime"] {
        put(status, field, Some(json!(times(items, field).last().copied().unwrap_or(""))));
    }
    Ok(())
}
