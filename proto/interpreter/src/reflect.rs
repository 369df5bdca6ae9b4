//! What of a member object's status is reported to the hub.
//!
//! In: the object as the member has it. Out: a small status, or nothing. Zeros are left out where the API leaves
//! them out, so that an unchanged status is the same bytes. Beyond upstream: a Deployment reports the conditions that
//! say something is wrong, a StatefulSet its observedGeneration and revisions, so that the aggregated status tells
//! `kubectl wait` and `rollout status` the truth.

use karmada_api::object;
use karmada_api::strings::annotations::TEMPLATE_GENERATION;
use serde_json::{Map, Value};

use crate::{Answer, InterpretError};

/// Reads a whole number; absent is 0.
pub(crate) fn number(status: &Value, field: &str) -> Answer<i64> {
    match status.get(field) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_i64()
            .ok_or_else(|| InterpretError::Object(format!("status.{field} is no number: {value}"))),
    }
}

fn status(object: &Value) -> Answer<Option<&Value>> {
    match object.get("status") {
        None | Some(Value::Null) => Ok(None),
        Some(status) if status.is_object() => Ok(Some(status)),
        Some(other) => Err(InterpretError::Object(format!("status is no object: {other}"))),
    }
}

/// Any kind: the whole `.status`.
///
/// # Errors
/// The status is no object.
pub fn whole(object: &Value) -> Answer<Option<Value>> {
    Ok(status(object)?.cloned())
}

/// Takes numbers over: those of `always` even when 0.
fn numbers(status: &Value, always: &[&str], unless_zero: &[&str]) -> Answer<Map<String, Value>> {
    let mut out = Map::new();
    for (fields, keep_zero) in [(always, true), (unless_zero, false)] {
        for field in fields {
            let value = number(status, field)?;
            if keep_zero || value != 0 {
                out.insert((*field).to_owned(), Value::from(value));
            }
        }
    }
    Ok(out)
}

/// Which generation of the member object, and of the template on the hub, the status belongs to.
fn add_generations(out: &mut Map<String, Value>, object: &Value) -> Answer<()> {
    let generation = object::generation(object);
    if generation != 0 {
        out.insert("generation".to_owned(), Value::from(generation));
    }
    // Absent on an object that was adopted and not yet applied: nothing is known then, which blocks nothing but the
    // advance of the hub's observedGeneration.
    let Some(text) = object::annotation(object, TEMPLATE_GENERATION).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let template: i64 = text.parse().map_err(|_| {
        InterpretError::Object(format!("annotation {TEMPLATE_GENERATION} is no number: {text}"))
    })?;
    if template != 0 {
        out.insert("resourceTemplateGeneration".to_owned(), Value::from(template));
    }
    Ok(())
}

fn workload(object: &Value, always: &[&str], unless_zero: &[&str]) -> Answer<Option<Map<String, Value>>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let mut out = numbers(status, always, unless_zero)?;
    add_generations(&mut out, object)?;
    Ok(Some(out))
}

fn unless_empty(out: Option<Map<String, Value>>) -> Option<Value> {
    out.filter(|map| !map.is_empty()).map(Value::Object)
}

/// Deployment: numbers, generations, and the conditions that say something is wrong.
///
/// # Errors
/// The status is no object, or a number in it or the annotation of the template's generation is none.
pub fn deployment(object: &Value) -> Answer<Option<Value>> {
    let fields = [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "observedGeneration",
    ];
    let mut out = workload(object, &[], &fields)?;
    if let Some(out) = &mut out {
        let complaints = complaints(object);
        if !complaints.is_empty() {
            out.insert("conditions".to_owned(), Value::Array(complaints));
        }
    }
    Ok(unless_empty(out))
}

/// Conditions that say something is wrong, without their times: these change with every pod.
fn complaints(object: &Value) -> Vec<Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions
        .filter(|condition| {
            let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("");
            match text("type") {
                "Available" | "Progressing" => text("status") != "True",
                "ReplicaFailure" => text("status") == "True",
                _ => false,
            }
        })
        .map(|condition| {
            let kept = ["type", "status", "reason", "message"];
            let fields =
                kept.iter().filter_map(|key| Some(((*key).to_owned(), condition.get(*key)?.clone())));
            Value::Object(fields.collect())
        })
        .collect()
}

/// ReplicaSet: numbers and generations.
///
/// # Errors
/// The status is no object, or a number in it or the annotation of the template's generation is none.
pub fn replica_set(object: &Value) -> Answer<Option<Value>> {
    let fields = ["readyReplicas", "availableReplicas", "observedGeneration"];
    Ok(unless_empty(workload(object, &["replicas"], &fields)?))
}

/// StatefulSet: numbers, generations and revisions.
///
/// # Errors
/// The status is no object, or a number in it or the annotation of the template's generation is none.
pub fn stateful_set(object: &Value) -> Answer<Option<Value>> {
    let fields = ["readyReplicas", "currentReplicas", "updatedReplicas", "observedGeneration"];
    let mut out = workload(object, &["replicas", "availableReplicas"], &fields)?;
    if let (Some(out), Some(status)) = (&mut out, object.get("status")) {
        for field in ["currentRevision", "updateRevision"] {
            if let Some(revision) = status.get(field).filter(|r| r.as_str().is_some_and(|r| !r.is_empty())) {
                out.insert(field.to_owned(), revision.clone());
            }
        }
    }
    Ok(unless_empty(out))
}

/// DaemonSet: numbers and generations.
///
/// # Errors
/// The status is no object, or a number in it or the annotation of the template's generation is none.
pub fn daemon_set(object: &Value) -> Answer<Option<Value>> {
    let always = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    let fields = ["updatedNumberScheduled", "numberAvailable", "numberUnavailable", "observedGeneration"];
    Ok(unless_empty(workload(object, &always, &fields)?))
}

/// Takes fields over as they are.
fn fields(object: &Value, names: &[&str]) -> Answer<Option<Map<String, Value>>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let set = |value: &&Value| !value.is_null() && value.as_i64() != Some(0);
    let kept = names.iter().filter_map(|n| Some(((*n).to_owned(), status.get(*n).filter(set)?.clone())));
    Ok(Some(kept.collect()))
}

/// Job: numbers, conditions and times.
///
/// # Errors
/// The status is no object.
pub fn job(object: &Value) -> Answer<Option<Value>> {
    let names = ["active", "succeeded", "failed", "conditions", "startTime", "completionTime"];
    Ok(fields(object, &names)?.map(Value::Object))
}

/// Service: its load balancer, if it has one.
///
/// # Errors
/// It has a load balancer, and its status is no object.
pub fn service(object: &Value) -> Answer<Option<Value>> {
    let balanced = object::get(object, &["spec", "type"]).and_then(Value::as_str) == Some("LoadBalancer");
    if !balanced {
        return Ok(None);
    }
    let Some(status) = status(object)? else { return Ok(None) };
    let balancer = status.get("loadBalancer").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    Ok(Some(Value::Object(Map::from_iter([("loadBalancer".to_owned(), balancer)]))))
}

/// PodDisruptionBudget: numbers, and who is being disrupted.
///
/// # Errors
/// The status is no object, or a number in it is none.
pub fn disruption_budget(object: &Value) -> Answer<Option<Value>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let always = ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"];
    let mut out = numbers(status, &always, &[])?;
    if let Some(pods) = status.get("disruptedPods").filter(|p| p.as_object().is_some_and(|p| !p.is_empty())) {
        out.insert("disruptedPods".to_owned(), pods.clone());
    }
    Ok(Some(Value::Object(out)))
}

/// HorizontalPodAutoscaler: how many it has and wants.
///
/// # Errors
/// The status is no object, or a number in it is none.
pub fn autoscaler(object: &Value) -> Answer<Option<Value>> {
    let Some(status) = status(object)? else { return Ok(None) };
    Ok(Some(Value::Object(numbers(status, &["currentReplicas", "desiredReplicas"], &[])?)))
}
