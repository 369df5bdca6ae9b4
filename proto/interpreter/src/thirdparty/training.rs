//! Kubeflow: PyTorchJob, TFJob and MPIJob, which train a model with several sorts of pods.
//!
//! In: their objects, and what members report of them. Out: the sorts as parts, counts by sort, and one state of the job.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use serde_json::{Map, Value, json};

use super::read::{conditions, count, holds, present, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{alone, clusters, put, since, times};
use super::{conditions, pods};
use crate::aggregate::{clear_status, reported, status_mut};
use crate::reported_status::MOST;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject};

/// PyTorchJob.
pub const PY_TORCH_JOB: Row = Row {
    components: Some(|object| components(object, &PY_TORCH)),
    aggregate: Some(aggregate_py_torch_job),
    health: Some(health),
    dependencies: Some(|object| dependencies(object, &PY_TORCH)),
    ..NONE
};

/// TFJob.
pub const TF_JOB: Row = Row {
    components: Some(|object| components(object, &TENSOR_FLOW)),
    aggregate: Some(aggregate_tf_job),
    health: Some(health),
    dependencies: Some(|object| dependencies(object, &TENSOR_FLOW)),
    ..NONE
};

/// MPIJob.
pub const MPI_JOB: Row = Row {
    components: Some(mpi_components),
    aggregate: Some(aggregate_mpi_job),
    reflect: Some(|object| reflect(object, &MPI_STATUS)),
    health: Some(mpi_health),
    ..NONE
};

const MPI_STATUS: Reflection = Reflection {
    fields: &["conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime"],
    counts: &[],
    generations: Generations::Untold,
};

/// Where a kind says its sorts of pods, and which they are, in the order in which they are told.
struct Sorts {
    field: &'static str,
    names: &'static [&'static str],
}

const PY_TORCH: Sorts = Sorts { field: "pytorchReplicaSpecs", names: &["Master", "Worker"] };
const TENSOR_FLOW: Sorts =
    Sorts { field: "tfReplicaSpecs", names: &["PS", "Worker", "Chief", "Master", "Evaluator"] };

/// The sorts of pods that a job has.
fn sorts<'a>(object: &'a Value, of: &'static Sorts) -> impl Iterator<Item = (&'static str, &'a Value)> {
    of.names.iter().filter_map(move |name| Some((*name, present(object, &["spec", of.field, name])?)))
}

/// Each sort of pods is a part: one pod where nothing is said.
fn components(object: &Value, of: &'static Sorts) -> Answer<Vec<Component>> {
    sorts(object, of)
        .map(|(name, sort)| {
            pods::part(&name.to_lowercase(), count(sort.get("replicas"), 1)?, present(sort, &["template"]))
        })
        .collect()
}

fn dependencies(object: &Value, of: &'static Sorts) -> Answer<Vec<DependentObject>> {
    pods::references(object, sorts(object, of).filter_map(|(_, sort)| present(sort, &["template"])))
}

/// Each sort that has a template is a part, under its own name: one pod where nothing is said, but no worker.
fn mpi_components(object: &Value) -> Answer<Vec<Component>> {
    let sorts =
        present(object, &["spec", "mpiReplicaSpecs"]).and_then(Value::as_object).into_iter().flatten();
    sorts
        .filter_map(|(name, sort)| Some((name, sort, present(sort, &["template"])?)))
        .map(|(name, sort, template)| {
            let default = i32::from(!name.eq_ignore_ascii_case("worker"));
            pods::part(name, count(sort.get("replicas"), default)?, Some(template))
        })
        .collect()
}

/// It says how it stands, and it has not failed.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    Ok(status.get("conditions").is_some_and(Value::is_array) && !holds(status, "Failed"))
}

/// As above, once there is a condition.
fn mpi_health(object: &Value) -> Answer<bool> {
    Ok(object.get("status").is_some_and(|status| !conditions(status).is_empty()) && health(object)?)
}

/// How many pods of each sort are active, failed and succeeded.
fn replica_statuses(items: &[AggregatedStatusItem]) -> Answer<Map<String, Value>> {
    let mut out = Map::new();
    let sorts = reported(items).filter_map(|status| status.get("replicaStatuses")?.as_object()).flatten();
    for (sort, counted) in sorts {
        let entry =
            out.entry(sort.clone()).or_insert_with(|| json!({"active": 0, "failed": 0, "succeeded": 0}));
        for field in ["active", "failed", "succeeded"] {
            let more = crate::reflect::number(counted, field)?;
            let sum = entry[field].as_i64().unwrap_or(0).saturating_add(more).min(MOST);
            entry[field] = Value::from(sum);
        }
    }
    Ok(out)
}

/// The latest condition of each type, the first start and the last of other times.
fn aggregate_mpi_job(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let mut out = Map::new();
    let time = |condition: &Value| text(condition, "lastUpdateTime").to_owned();
    let conditions = conditions::by_type(items, "type", |known, met| time(met) > time(known));
    put(&mut out, "conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
    let statuses = replica_statuses(items)?;
    put(&mut out, "replicaStatuses", (!statuses.is_empty()).then_some(Value::Object(statuses)));
    put(&mut out, "startTime", times(items, "startTime").first().map(|time| json!(time)));
    for field in ["completionTime", "lastReconcileTime"] {
        put(&mut out, field, times(items, field).last().map(|time| json!(time)));
    }
    if out.is_empty() {
        clear_status(object);
    } else {
        *status_mut(object) = out;
    }
    Ok(())
}

/// How a job stands over all members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobState {
    Failed,
    Succeeded,
    Going,
}

fn standing(items: &[AggregatedStatusItem]) -> JobState {
    if reported(items).any(|status| holds(status, "Failed")) {
        return JobState::Failed;
    }
    let done = items.iter().all(|item| item.status.as_ref().is_some_and(|status| holds(status, "Succeeded")));
    if done { JobState::Succeeded } else { JobState::Going }
}

/// What PyTorchJob and TFJob have in common: counts, and times. An earlier time of completion stays. Counts of 0 are left out.
fn common(object: &Value, items: &[AggregatedStatusItem]) -> Answer<Map<String, Value>> {
    let mut out = Map::new();
    let mut statuses = replica_statuses(items)?;
    for counted in statuses.values_mut().filter_map(Value::as_object_mut) {
        counted.retain(|_, count| count.as_i64() != Some(0));
    }
    statuses.retain(|_, counted| counted.as_object().is_some_and(|counted| !counted.is_empty()));
    put(&mut out, "replicaStatuses", (!statuses.is_empty()).then_some(Value::Object(statuses)));
    put(&mut out, "startTime", times(items, "startTime").first().map(|time| json!(time)));
    put(&mut out, "lastReconcileTime", times(items, "lastReconcileTime").last().map(|time| json!(time)));
    let completion = match standing(items) {
        JobState::Succeeded => times(items, "completionTime").last().map(|time| json!(time)),
        _ => present(object, &["status", "completionTime"]).cloned(),
    };
    put(&mut out, "completionTime", completion);
    Ok(out)
}

fn set(object: &mut Value, status: Map<String, Value>) -> Answer<()> {
    if status.is_empty() {
        clear_status(object);
    } else {
        *status_mut(object) = status;
    }
    Ok(())
}

/// The members' last condition of a type, as the source of times.
fn last_of<'a>(items: &'a [AggregatedStatusItem], kind: &str) -> Option<&'a Value> {
    reported(items).flat_map(conditions).filter(|condition| text(condition, "type") == kind).last()
}

/// One condition of the template, with the times of a member's.
fn condition(kind: &str, holds: bool, message: &str, times: Option<&Value>) -> Value {
    let mut condition = Map::from_iter([
        ("type".to_owned(), json!(kind)),
        ("status".to_owned(), json!(if holds { "True" } else { "False" })),
        ("reason".to_owned(), json!(format!("PyTorchJob{kind}"))),
        ("message".to_owned(), json!(message)),
    ]);
    for field in ["lastTransitionTime", "lastUpdateTime"] {
        let time = times.map_or("", |times| text(times, field));
        put(&mut condition, field, (!time.is_empty()).then(|| json!(time)));
    }
    Value::Object(condition)
}

/// Created, running until it failed somewhere or succeeded everywhere, and how it ended.
fn aggregate_py_torch_job(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let mut out = common(object, items)?;
    let standing = standing(items);
    let mut all = Vec::new();
    if last_of(items, "Created").is_some() {
        let start = out.get("startTime").cloned().unwrap_or_else(|| json!(""));
        let times = json!({"lastTransitionTime": start, "lastUpdateTime": start});
        all.push(condition("Created", true, "PyTorchJob is created.", Some(&times)));
    }
    if let Some(times) = last_of(items, "Running") {
        let going = standing == JobState::Going;
        all.push(condition("Running", going, "PyTorchJob is running.", Some(times)));
    }
    if let Some(names) = clusters(items, |status| holds(status, "Failed")) {
        let message = format!("PyTorchJob executed failed in member clusters: {names}");
        all.push(condition("Failed", true, &message, last_of(items, "Failed")));
    } else if standing == JobState::Succeeded {
        let message = "PyTorchJob is successfully completed.";
        all.push(condition("Succeeded", true, message, last_of(items, "Succeeded")));
    }
    put(&mut out, "conditions", (!all.is_empty()).then_some(Value::Array(all)));
    set(object, out)
}

/// How it ended, once it did.
fn aggregate_tf_job(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let mut out = common(object, items)?;
    let says = match (clusters(items, |status| holds(status, "Failed")), standing(items)) {
        (Some(names), _) => Some(json!({"type": "Failed", "status": "True", "reason": "TFJobFailed",
                                        "message": format!("TFJob executed failed in member clusters: {names}")})),
        (None, JobState::Succeeded) => {
            Some(json!({"type": "Succeeded", "status": "True", "reason": "Completed",
                                                   "message": "TFJob completed successfully"}))
        }
        _ => None,
    };
    let earlier = object.get("status").map(conditions).unwrap_or_default();
    let told = says.map(|says| since(earlier, &says, &["lastProbeTime", "lastTransitionTime"], now));
    put(&mut out, "conditions", told.map(|condition| json!([condition])));
    set(object, out)
}
