//! Ray: RayService, a cluster that serves applications.
//!
//! In: its objects, and what members report of them. Out: the head and all workers as replicas, and the worst state of each application.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Map, Value, json};

use super::ray::{groups, head, templates};
use super::read::{count, holds, present, text};
use super::rollup::{alone, first, put, times};
use super::{conditions, pods};
use crate::aggregate::{reported, status_mut, sums};
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, InterpretError, Replicas};

/// RayService.
pub const RAY_SERVICE: Row = Row {
    replicas: Some(replicas),
    revise: Some(revise),
    aggregate: Some(aggregate),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

const CLUSTER: [&str; 2] = ["spec", "rayClusterConfig"];

/// The head and all workers. Each asks for what the head does, but for no less CPU and memory than any worker.
fn replicas(object: &Value) -> Answer<Replicas> {
    let Some(head) = head(object, &CLUSTER) else { return Ok(Replicas::default()) };
    let mut wanted = pods::requirements(head)?;
    let mut all = 1_i64;
    for group in groups(object, &CLUSTER) {
        all = all.saturating_add(i64::from(count(group.get("replicas"), 0)?));
        let worker = present(group, &["template"]).map_or(Ok(None), pods::requirements)?;
        if let (Some(wanted), Some(worker)) = (&mut wanted, worker) {
            for (name, amount) in worker.resource_request {
                if let ("cpu" | "memory", Some(known)) =
                    (name.as_str(), wanted.resource_request.get_mut(&name))
                {
                    *known = (*known).max(amount);
                }
            }
        }
    }
    let count = i32::try_from(all)
        .map_err(|_| InterpretError::Object(format!("{all} workers are more than there can be replicas")))?;
    Ok(Replicas { count, requirements: wanted })
}

/// Another number of replicas: one is the head, the others are shared among the groups as they were, and evenly where there were none. No
/// group gets less than nothing.
fn revise(object: &mut Value, replicas: i64) {
    let Some(groups) = object::get_mut(object, &["spec", "rayClusterConfig", "workerGroupSpecs"])
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let workers = i128::from(replicas.saturating_sub(1).max(0));
    let had = |group: &Value| i128::from(count(group.get("replicas"), 0).unwrap_or(0).max(0));
    let all: i128 = groups.iter().map(had).sum();
    let (mut left, number) = (workers, groups.len());
    for (index, group) in groups.iter_mut().enumerate() {
        let (share, of) = if all == 0 { (1, i128::try_from(number).unwrap_or(1)) } else { (had(group), all) };
        // Rounded half up; the last group takes what is left.
        let rounded = (2 * workers * share + of) / (2 * of);
        let given = if index + 1 == number { left } else { rounded.min(left) };
        left -= given;
        if group.is_object() {
            group["replicas"] = Value::from(i64::try_from(given).unwrap_or(i64::MAX));
        }
    }
}

fn health(object: &Value) -> Answer<bool> {
    Ok(present(object, &["status"]).is_some_and(|status| holds(status, "Ready")))
}

fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    pods::references(object, templates(object, &CLUSTER))
}

fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let sums = sums(items, &["numServeEndpoints"])?;
    let observed = reported(items).filter_map(|status| status.get("observedGeneration")?.as_i64()).max();
    let told = || reported(items).filter_map(|status| status.get("serviceStatus")).filter_map(Value::as_str);
    let running = told().all(|status| status == "Running");
    let active = active(items);
    let status = status_mut(object);
    status.extend(sums);
    put(status, "observedGeneration", Some(Value::from(observed.unwrap_or(0))));
    put(status, "serviceStatus", Some(json!(if running { "Running" } else { "" })));
    put(status, "activeServiceStatus", active);
    put(status, "pendingServiceStatus", first(items, "pendingServiceStatus").cloned());
    put(status, "lastUpdateTime", times(items, "lastUpdateTime").last().map(|time| json!(time)));
    put(status, "conditions", conditions::all(items));
    Ok(())
}

/// How an application stands, the worst first.
const WORST: [&str; 6] = ["DEPLOY_FAILED", "UNHEALTHY", "NOT_STARTED", "DEPLOYING", "DELETING", "RUNNING"];

/// The first member's active service, with each application as it stands where it stands worst.
fn active(items: &[AggregatedStatusItem]) -> Option<Value> {
    let mut out = first(items, "activeServiceStatus")?.as_object()?.clone();
    let rank = |application: &Value| {
        let status = text(application, "status");
        WORST.iter().position(|name| *name == status).unwrap_or(WORST.len())
    };
    let mut worst: Map<String, Value> = Map::new();
    let services = reported(items).filter_map(|status| status.get("activeServiceStatus"));
    for (name, application) in
        services.filter_map(|service| service.get("applicationStatuses")?.as_object()).flatten()
    {
        let known = worst.get(name).map_or(usize::MAX, rank);
        if rank(application) < known {
            worst.insert(name.clone(), application.clone());
        }
    }
    put(&mut out, "applicationStatuses", (!worst.is_empty()).then_some(Value::Object(worst)));
    Some(Value::Object(out))
}
