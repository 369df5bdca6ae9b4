//! Apache Flink: FlinkDeployment, a job manager and its task managers.
//!
//! In: its objects, and what members report of them. Out: both as parts, or together as replicas; the status of the member that told last.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, NodeClaim, ReplicaRequirements, ResourceList};
use karmada_api::object;
use karmada_quantity::Quantity;
use serde_json::{Value, json};

use super::pods;
use super::read::{count, present, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::put;
use crate::aggregate::{reported, status_mut};
use crate::pod_request::resource_list;
use crate::replicas::node_claim;
use crate::row::{NONE, Row};
use crate::{Answer, InterpretError, Replicas};

/// FlinkDeployment.
pub const FLINK_DEPLOYMENT: Row = Row {
    replicas: Some(replicas),
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    ..NONE
};

const FIELDS: &[&str] = &[
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "lifecycleState",
    "observedGeneration",
    "reconciliationStatus",
    "taskManager",
];
const STATUS: Reflection = Reflection { fields: FIELDS, counts: &[], generations: Generations::Untold };

/// How many task managers: as said, else as many as the job's slots need; one where that cannot be told.
fn task_managers(object: &Value) -> Answer<i32> {
    if let Some(said) = present(object, &["spec", "taskManager", "replicas"]) {
        return count(Some(said), 1);
    }
    let slots = present(object, &["spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"]);
    let slots = count(slots, 0)?;
    let Some(parallelism) = present(object, &["spec", "job", "parallelism"]).filter(|_| slots > 0) else {
        return Ok(1);
    };
    let parallelism = i64::from(count(Some(parallelism), 1)?);
    let needed = -(-parallelism).div_euclid(i64::from(slots));
    Ok(i32::try_from(needed).unwrap_or(i32::MAX))
}

/// An amount of memory: Flink's own units are powers of 1024 and lower case, `2048m` and `2g`; else as Kubernetes writes it, `2Gi`.
fn memory(value: &Value) -> Answer<Quantity> {
    let wrong = |what: &str| InterpretError::Object(format!("{value} is no amount of memory: {what}"));
    let text = value.as_str().ok_or_else(|| wrong("it is no text"))?.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let power = match &text[digits.len()..] {
        "k" | "kb" => Some(1_u32),
        "m" | "mb" => Some(2),
        "g" | "gb" => Some(3),
        "t" | "tb" => Some(4),
        _ => None,
    };
    let amount = match (power, digits.parse::<i64>()) {
        (Some(power), Ok(units)) => Quantity::from_binary_units(units.saturating_mul(1024_i64.pow(power))),
        _ => text.parse().map_err(|error| wrong(&format!("{error}")))?,
    };
    if amount.is_negative() { Err(wrong("it is negative")) } else { Ok(amount) }
}

/// What a manager asks for.
fn resources(object: &Value, manager: &str) -> Answer<ResourceList> {
    let mut wanted = ResourceList::new();
    if let Some(cpu) = present(object, &["spec", manager, "resource", "cpu"]) {
        let cpu = match cpu {
            Value::Number(number) => json!(number.to_string()),
            other => other.clone(),
        };
        wanted = resource_list(Some(&json!({"cpu": cpu})))?;
    }
    if let Some(amount) = present(object, &["spec", manager, "resource", "memory"]) {
        wanted.insert("memory".to_owned(), memory(amount)?);
    }
    Ok(wanted)
}

/// What both ask of their nodes.
fn common(object: &Value) -> Answer<ReplicaRequirements> {
    let Some(spec) = present(object, &["spec", "podTemplate", "spec"]) else {
        return Ok(ReplicaRequirements::default());
    };
    if let Some(selector) =
        spec.get("nodeSelector").filter(|selector| !selector.is_object() && !selector.is_null())
    {
        return Err(InterpretError::Object(format!("nodeSelector must be a map, and is {selector}")));
    }
    let priority = match spec.get("priorityClassName") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(name)) => name.clone(),
        Some(other) => {
            return Err(InterpretError::Object(format!("priorityClassName must be a text, and is {other}")));
        }
    };
    let claim = node_claim(spec)?.filter(|claim| *claim != NodeClaim::default());
    Ok(ReplicaRequirements { node_claim: claim, priority_class_name: priority, ..Default::default() })
}

/// The job manager and the task managers.
fn components(object: &Value) -> Answer<Vec<Component>> {
    let common = common(object)?;
    let part = |name: &str, replicas: i32, manager: &str| {
        let wanted = ReplicaRequirements { resource_request: resources(object, manager)?, ..common.clone() };
        Ok(Component { name: name.to_owned(), replicas, replica_requirements: Some(pods::of_part(wanted)) })
    };
    let job_managers = count(present(object, &["spec", "jobManager", "replicas"]), 1)?;
    Ok(vec![
        part("jobmanager", job_managers, "jobManager")?,
        part("taskmanager", task_managers(object)?, "taskManager")?,
    ])
}

/// All managers, each asking for what the greater one does.
fn replicas(object: &Value) -> Answer<Replicas> {
    let job_managers = count(present(object, &["spec", "jobManager", "replicas"]), 1)?;
    let mut wanted = resources(object, "taskManager")?;
    for (name, amount) in resources(object, "jobManager")? {
        let entry = wanted.entry(name).or_insert(amount);
        *entry = (*entry).max(amount);
    }
    let requirements = ReplicaRequirements {
        resource_request: wanted,
        namespace: object::namespace(object).to_owned(),
        ..common(object)?
    };
    let count = job_managers.saturating_add(task_managers(object)?);
    Ok(Replicas { count, requirements: Some(requirements) })
}

/// The last member that tells something is taken for all.
fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let nothing =
        json!({"error": "", "jobManagerDeploymentStatus": "", "lifecycleState": "", "observedGeneration": 0});
    let told = reported(items).last().unwrap_or(&nothing);
    let status = status_mut(object);
    for field in FIELDS {
        put(status, field, told.get(*field).filter(|value| !value.is_null()).cloned());
    }
    Ok(())
}

/// The job got further than to be made; or it is stuck in a way that waiting does not mend, which is as far as it gets.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    if text(status, "jobManagerDeploymentStatus") == "READY" && text(status, "lifecycleState") == "STABLE" {
        return Ok(true);
    }
    let settled = match status.get("jobStatus").map_or("", |job| text(job, "state")) {
        "RUNNING" | "FINISHED" | "FAILED" | "CANCELED" | "SUSPENDED" | "CANCELLING" | "FAILING"
        | "RESTARTING" => true,
        "CREATED" | "RECONCILING" => {
            let error = text(status, "error");
            ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"].iter().any(|stuck| error.contains(stuck))
        }
        _ => false,
    };
    Ok(settled)
}
