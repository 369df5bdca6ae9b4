//! How many replicas a workload wants, what one of them asks for, and the same workload with another number.
//!
//! In: workloads and pod specs as JSON. Out: numbers and requirements, amounts in the units that clusters report.

use karmada_api::binding::{NodeClaim, ReplicaRequirements};
use karmada_api::object;
use serde_json::Value;

use crate::pod_request::{pod_request, schedulable};
use crate::{Answer, InterpretError, Replicas};

fn number(object: &Value, path: &[&str]) -> Answer<i32> {
    match object::get(object, path) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_i64()
            .and_then(|n| i32::try_from(n).ok())
            .ok_or_else(|| InterpretError::Object(format!("{} is no number: {value}", path.join(".")))),
    }
}

/// Deployment, ReplicaSet, StatefulSet: `spec.replicas` of the pod template.
///
/// # Errors
/// `spec.replicas` is no number of 32 bits, or as of [`pod_requirements`].
pub fn of_workload(object: &Value) -> Answer<Replicas> {
    let count = number(object, &["spec", "replicas"])?;
    Ok(Replicas { count, requirements: requirements(object::get(object, &["spec", "template", "spec"]))? })
}

/// Job: as many as run at once, but no more than shall complete.
///
/// # Errors
/// `spec.parallelism` or `spec.completions` is no number of 32 bits, or as of [`pod_requirements`].
pub fn of_job(object: &Value) -> Answer<Replicas> {
    let mut count = number(object, &["spec", "parallelism"])?;
    if object::get(object, &["spec", "completions"]).is_some_and(|c| !c.is_null()) {
        count = count.min(number(object, &["spec", "completions"])?);
    }
    Ok(Replicas { count, requirements: requirements(object::get(object, &["spec", "template", "spec"]))? })
}

/// Pod: itself.
///
/// # Errors
/// As of [`pod_requirements`].
pub fn of_pod(object: &Value) -> Answer<Replicas> {
    Ok(Replicas { count: 1, requirements: requirements(object.get("spec"))? })
}

/// Whether quotas are asked when a cluster's room is estimated: only then is the priority class part of what a replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaEstimate {
    /// They are not.
    Off,
    /// They are.
    On,
}

/// What one replica asks for, quotas aside; none where it asks for nothing.
fn requirements(pod_spec: Option<&Value>) -> Answer<Option<ReplicaRequirements>> {
    pod_spec.map_or(Ok(None), |spec| pod_requirements(spec, QuotaEstimate::Off))
}

/// What a pod of this spec asks for: amounts of what clusters report, and of nodes; none where it asks for nothing.
///
/// # Errors
/// An amount is no quantity, or what is asked of nodes is not written as the API has it.
pub fn pod_requirements(spec: &Value, quotas: QuotaEstimate) -> Answer<Option<ReplicaRequirements>> {
    let mut resource_request = pod_request(spec)?;
    resource_request.retain(|name, amount| schedulable(name) && !amount.is_negative());
    let node_claim = node_claim(spec)?;
    if resource_request.is_empty() && node_claim.is_none() {
        return Ok(None);
    }
    let class = spec.get("priorityClassName").and_then(Value::as_str).filter(|_| quotas == QuotaEstimate::On);
    let priority_class_name = class.unwrap_or_default().to_owned();
    Ok(Some(ReplicaRequirements { node_claim, resource_request, priority_class_name, ..Default::default() }))
}

/// What a pod of this spec asks of its node; none where it asks for nothing.
///
/// # Errors
/// It is not written as the API has it.
pub fn node_claim(spec: &Value) -> Answer<Option<NodeClaim>> {
    let affinity = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let affinity = object::get(spec, &affinity).filter(|a| !a.is_null());
    let selector = spec.get("nodeSelector").filter(|s| s.is_object());
    let tolerations = spec.get("tolerations").filter(|t| t.as_array().is_some_and(|list| !list.is_empty()));
    if affinity.is_none() && selector.is_none() && tolerations.is_none() {
        return Ok(None);
    }
    let read = || -> Result<NodeClaim, serde_json::Error> {
        Ok(NodeClaim {
            hard_node_affinity: affinity.map(|a| serde_json::from_value(a.clone())).transpose()?,
            node_selector: selector
                .map(|s| serde_json::from_value(s.clone()))
                .transpose()?
                .unwrap_or_default(),
            tolerations: tolerations
                .map(|t| serde_json::from_value(t.clone()))
                .transpose()?
                .unwrap_or_default(),
        })
    };
    read().map(Some).map_err(|error| InterpretError::Object(format!("pod spec: {error}")))
}

/// Sets `spec.FIELD` where it is set already: an absent number means the default, and stays the member's.
fn revise(object: &mut Value, field: &str, replicas: i64) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && spec.contains_key(field)
    {
        spec.insert(field.to_owned(), Value::from(replicas));
    }
}

/// Deployment, ReplicaSet, StatefulSet: another `spec.replicas`.
pub fn revise_workload(object: &mut Value, replicas: i64) {
    revise(object, "replicas", replicas);
}

/// Job: another `spec.parallelism`.
pub fn revise_job(object: &mut Value, replicas: i64) {
    revise(object, "parallelism", replicas);
}
