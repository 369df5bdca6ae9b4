//! Whether an object in a member does what it shall.
//!
//! In: an object as the member has it. Out: whether it is healthy; an error where a count in its status is no whole number. One function
//! for each kind, all pure.

use karmada_api::object;
use serde_json::Value;

use crate::Answer;
use crate::reflect::number;

/// The number of replicas wanted: 1 where nothing is said, as the API defaults it.
fn wanted(object: &Value) -> i64 {
    object::get(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

/// The status, an empty one where there is none.
fn status(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

fn observed(object: &Value) -> Answer<bool> {
    Ok(number(status(object), "observedGeneration")? == object::generation(object))
}

/// Deployment: this generation was seen, all replicas are updated, all updated ones available.
///
/// # Errors
/// A count of the status is no whole number.
pub fn deployment(object: &Value) -> Answer<bool> {
    let updated = number(status(object), "updatedReplicas")?;
    let available = number(status(object), "availableReplicas")?;
    Ok(observed(object)? && updated >= wanted(object) && available >= updated)
}

/// ReplicaSet: this generation was seen, all replicas are available.
///
/// # Errors
/// A count of the status is no whole number.
pub fn replica_set(object: &Value) -> Answer<bool> {
    Ok(observed(object)? && number(status(object), "availableReplicas")? >= wanted(object))
}

/// StatefulSet: this generation was seen, all replicas are updated and available.
///
/// # Errors
/// A count of the status is no whole number.
pub fn stateful_set(object: &Value) -> Answer<bool> {
    deployment(object)
}

/// DaemonSet: this generation was seen, every node has an updated pod, all of them available.
///
/// # Errors
/// A count of the status is no whole number.
pub fn daemon_set(object: &Value) -> Answer<bool> {
    let updated = number(status(object), "updatedNumberScheduled")?;
    let desired = number(status(object), "desiredNumberScheduled")?;
    let available = number(status(object), "numberAvailable")?;
    Ok(observed(object)? && updated >= desired && available >= updated)
}

/// Pod: it succeeded, or it runs and is ready.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn pod(object: &Value) -> Answer<bool> {
    let phase = status(object).get("phase").and_then(Value::as_str).unwrap_or("");
    let ready = status(object).get("conditions").and_then(Value::as_array).is_some_and(|conditions| {
        let is = |c: &Value, key: &str, wanted: &str| c.get(key).and_then(Value::as_str) == Some(wanted);
        conditions.iter().any(|c| is(c, "type", "Ready") && is(c, "status", "True"))
    });
    Ok(phase == "Succeeded" || (phase == "Running" && ready))
}

/// Service: its load balancer has an address, if it has one.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn service(object: &Value) -> Answer<bool> {
    let balanced = object::get(object, &["spec", "type"]).and_then(Value::as_str) == Some("LoadBalancer");
    if balanced { load_balancer(object) } else { Ok(true) }
}

/// Ingress, and Service of type LoadBalancer: there is an address.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn load_balancer(object: &Value) -> Answer<bool> {
    let entries = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    let named =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).is_some_and(|v| !v.is_empty());
    Ok(entries.is_some_and(|entries| entries.iter().any(|e| named(e, "ip") || named(e, "hostname"))))
}

/// PersistentVolumeClaim: it is bound.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn claim(object: &Value) -> Answer<bool> {
    Ok(status(object).get("phase").and_then(Value::as_str) == Some("Bound"))
}

/// PodDisruptionBudget: as many pods are healthy as shall be.
///
/// # Errors
/// A count of the status is no whole number.
pub fn disruption_budget(object: &Value) -> Answer<bool> {
    Ok(number(status(object), "currentHealthy")? >= number(status(object), "desiredHealthy")?)
}
