//! OpenKruise: BroadcastJob and AdvancedCronJob.
//!
//! In: their objects, and what members report of them. Out: replicas, sums, the verdict on a job, the last run.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Value, json};

use super::read::{self, holds, present, required};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{clusters, last, put};
use super::{pods, retain};
use crate::aggregate::{reported, status_mut, sums};
use crate::reflect::number;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, Replicas};

/// BroadcastJob.
pub const BROADCAST_JOB: Row = Row {
    replicas: Some(replicas),
    revise: Some(revise),
    retain: Some(retain),
    aggregate: Some(aggregate_broadcast_job),
    reflect: Some(|object| reflect(object, &BROADCAST_JOB_STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

/// AdvancedCronJob.
pub const ADVANCED_CRON_JOB: Row =
    Row { aggregate: Some(aggregate_cron_job), dependencies: Some(cron_job_dependencies), ..NONE };

const BROADCAST_JOB_STATUS: Reflection = Reflection {
    fields: &[
        "active",
        "succeeded",
        "failed",
        "desired",
        "phase",
        "startTime",
        "completionTime",
        "conditions",
    ],
    counts: &[],
    generations: Generations::Untold,
};

/// As many as run at once: one where nothing is said.
fn replicas(object: &Value) -> Answer<Replicas> {
    let template = required(object, &["spec", "template"])?;
    let count =
        present(object, &["spec", "parallelism"]).map(|_| read::replicas(object, &["spec", "parallelism"]));
    pods::replicas(count.unwrap_or(Ok(1))?, template)
}

fn revise(object: &mut Value, replicas: i64) {
    object::set(object, &["spec", "parallelism"], Value::from(replicas));
}

fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    pods::references(object, [required(object, &["spec", "template"])?])
}

/// The labels of the pod template, to which the member's controller adds its own.
fn retain(desired: &mut Value, observed: &Value) -> Answer<()> {
    const LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];
    retain::keep(desired, observed, &LABELS[..2], &LABELS);
    Ok(())
}

/// It does something: something runs, or some of it succeeded and nothing failed; and nothing failed.
fn health(object: &Value) -> Answer<bool> {
    let status = required(object, &["status"])?;
    let some = |field: &str| number(status, field).map(|count| count > 0);
    let unharmed = status.get("failed").and_then(Value::as_i64) == Some(0);
    Ok(unharmed && (some("active")? || some("succeeded")?))
}

/// Sums, and a verdict: failed where it failed in some member, complete once it is in all.
fn aggregate_broadcast_job(
    object: &mut Value,
    items: &[AggregatedStatusItem],
    _now: Timestamp,
) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let sums = sums(items, &["active", "succeeded", "failed", "desired"])?;
    let failed = clusters(items, |status| holds(status, "Failed"));
    // Each member is judged by what it says itself.
    let complete =
        items.iter().all(|item| item.status.as_ref().is_some_and(|status| holds(status, "Complete")));
    let condition = match failed {
        Some(names) => {
            Some(("Failed", "JobFailed", format!("Job executed failed in member clusters: {names}")))
        }
        None if complete => Some(("Completed", "Completed", "Job completed".to_owned())),
        None => None,
    };
    let conditions = condition
        .map(|(kind, reason, message)| json!([{"type": kind, "status": "True", "reason": reason, "message": message}]));
    let phase = last(items, "phase").cloned().unwrap_or_else(|| json!(""));
    let status = status_mut(object);
    status.extend(sums);
    put(status, "phase", Some(phase));
    put(status, "conditions", conditions);
    Ok(())
}

/// All active jobs, and the kind and the time of the last run.
fn aggregate_cron_job(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let active: Vec<Value> =
        reported(items).flat_map(|status| read::elements(status, &["active"])).cloned().collect();
    let kind = reported(items).filter_map(|status| status.get("type")).last().cloned();
    let time = last(items, "lastScheduleTime").cloned();
    let status = status_mut(object);
    put(status, "active", (!active.is_empty()).then_some(Value::Array(active)));
    put(status, "type", Some(kind.unwrap_or_else(|| json!(""))));
    put(status, "lastScheduleTime", time);
    Ok(())
}

/// What the pods of its jobs refer to.
fn cron_job_dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let jobs = required(object, &["spec", "template"])?;
    let kind = ["broadcastJobTemplate", "jobTemplate"].iter().find_map(|kind| present(jobs, &[kind]));
    let template = kind.map(|job| required(job, &["spec", "template"])).transpose()?;
    pods::references(object, template)
}
