//! Ray: RayCluster, RayJob and RayService: a head and groups of workers, alone, for one job, or to serve.
//!
//! In: their objects, and what members report of them. Out: head and groups as parts, sums of what is wanted, one state of a job.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_quantity::Quantity;
use serde_json::{Map, Value, json};

use super::read::{count, elements, holds, present, text};
use super::rollup::{alone, first, last, put, times};
use super::{conditions, pods};
use crate::aggregate::{clear_status, reported, status_mut, sums};
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, InterpretError};

/// RayCluster.
pub const RAY_CLUSTER: Row = Row {
    components: Some(|object| components(object, &["spec"])),
    aggregate: Some(aggregate_cluster),
    health: Some(cluster_health),
    ..NONE
};

/// RayJob.
pub const RAY_JOB: Row = Row {
    components: Some(|object| components(object, &["spec", "rayClusterSpec"])),
    aggregate: Some(aggregate_job),
    health: Some(job_health),
    dependencies: Some(job_dependencies),
    ..NONE
};

/// The pod template of a cluster's head.
pub fn head<'a>(object: &'a Value, cluster: &[&str]) -> Option<&'a Value> {
    present(present(object, cluster)?, &["headGroupSpec", "template"])
}

/// The groups of workers of a cluster.
pub fn groups<'a>(object: &'a Value, cluster: &[&str]) -> &'a [Value] {
    present(object, cluster).map_or(&[], |cluster| elements(cluster, &["workerGroupSpecs"]))
}

/// The pod templates of a cluster.
pub fn templates<'a>(object: &'a Value, cluster: &[&str]) -> impl Iterator<Item = &'a Value> {
    let groups = groups(object, cluster).iter().filter_map(|group| present(group, &["template"]));
    head(object, cluster).into_iter().chain(groups)
}

/// The head and each group are parts: a group of which nothing is said has no worker.
fn components(object: &Value, cluster: &[&str]) -> Answer<Vec<Component>> {
    let head = head(object, cluster).map(|template| pods::part("ray-head", 1, Some(template)));
    let groups = groups(object, cluster).iter().enumerate().map(|(index, group)| {
        let name = Some(text(group, "groupName")).filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("worker-{}", index + 1), str::to_owned);
        pods::part(&name, count(group.get("replicas"), 0)?, present(group, &["template"]))
    });
    head.into_iter().chain(groups).collect()
}

/// Its head is ready, it was provisioned, and no worker failed to be made.
fn cluster_health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    let good = holds(status, "HeadPodReady") && holds(status, "RayClusterProvisioned");
    Ok(good && !holds(status, "RayClusterReplicaFailure"))
}

/// The sum of amounts, as an amount is written.
fn amount(items: &[AggregatedStatusItem], field: &str) -> Answer<Value> {
    let mut sum = Quantity::ZERO;
    for value in reported(items).filter_map(|status| status.get(field)) {
        let text = match value {
            Value::Null => continue,
            Value::String(text) if text.is_empty() => continue,
            Value::String(text) => text,
            other => return Err(InterpretError::Object(format!("{field} is no amount: {other}"))),
        };
        let parsed = text.parse::<Quantity>();
        sum = sum.plus(parsed.map_err(|error| InterpretError::Object(format!("{field}: {error}")))?);
    }
    Ok(json!(sum))
}

fn aggregate_cluster(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const COUNTS: [&str; 5] = [
        "availableWorkerReplicas",
        "desiredWorkerReplicas",
        "maxWorkerReplicas",
        "minWorkerReplicas",
        "readyWorkerReplicas",
    ];
    if alone(object, items) {
        return Ok(());
    }
    let sums = sums(items, &COUNTS)?;
    let mut amounts = Map::new();
    for field in ["desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU"] {
        amounts.insert(field.to_owned(), amount(items, field)?);
    }
    // The first member that tells its state also tells since when.
    let stated = reported(items).find(|status| !text(status, "state").is_empty());
    let transitions = stated.and_then(|status| status.get("stateTransitionTimes")).cloned();
    let status = status_mut(object);
    status.extend(sums);
    status.extend(amounts);
    for field in ["state", "endpoints", "head"] {
        put(status, field, first(items, field).cloned());
    }
    put(status, "stateTransitionTimes", transitions);
    put(status, "lastUpdateTime", times(items, "lastUpdateTime").last().map(|time| json!(time)));
    put(status, "conditions", conditions::all(items));
    Ok(())
}

/// It runs, or it succeeded.
fn job_health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    let stands = (text(status, "jobDeploymentStatus"), text(status, "jobStatus"));
    Ok(matches!(stands, ("Running", "RUNNING") | ("Complete", "SUCCEEDED")))
}

/// What its pods refer to, and the one that submits it.
fn job_dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let submitter = present(object, &["spec", "submitterPodTemplate"]);
    pods::references(object, templates(object, &["spec", "rayClusterSpec"]).chain(submitter))
}

/// How the deployment of a job stands, from what needs attention first to what needs none: it is over once it is in every member.
const DEPLOYMENT: [&str; 10] = [
    "Failed",
    "ValidationFailed",
    "Running",
    "Retrying",
    "Initializing",
    "Waiting",
    "Suspending",
    "Suspended",
    "",
    "Complete",
];

/// The same of the job.
const JOB: [&str; 6] = ["FAILED", "RUNNING", "PENDING", "", "STOPPED", "SUCCEEDED"];

/// The first of `ranking` that some member is in, and that member. What is not ranked counts as what says nothing.
fn first_ranked<'a>(items: &'a [AggregatedStatusItem], field: &str, ranking: &[&str]) -> Option<&'a Value> {
    let nothing = ranking.iter().position(|name| name.is_empty()).unwrap_or(ranking.len());
    let rank = |status: &&Value| {
        let named = text(status, field);
        ranking.iter().position(|name| *name == named).unwrap_or(nothing)
    };
    reported(items).filter(|status| status.get(field).is_some()).min_by_key(rank)
}

fn aggregate_job(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let deployed = first_ranked(items, "jobDeploymentStatus", &DEPLOYMENT);
    let job = first_ranked(items, "jobStatus", &JOB);
    let status = status_mut(object);
    put(status, "jobDeploymentStatus", deployed.map(|of| json!(text(of, "jobDeploymentStatus"))));
    let job = job.map(|of| text(of, "jobStatus")).filter(|job| !job.is_empty());
    put(status, "jobStatus", job.map(|job| json!(job)));
    for field in ["message", "reason"] {
        let told = deployed.map_or_else(|| last(items, field), |of| of.get(field));
        put(status, field, told.cloned());
    }
    if status.is_empty() {
        clear_status(object);
    }
    Ok(())
}
