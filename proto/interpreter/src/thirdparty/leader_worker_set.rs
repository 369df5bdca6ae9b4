//! LeaderWorkerSet (leaderworkerset.x-k8s.io): groups of pods, each a leader and its workers.
//!
//! In: its objects, and what members report of them. Out: groups as replicas, leaders and workers as parts, sums of groups.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use serde_json::{Value, json};

use super::pods;
use super::read::{count, holds, present, required};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{clusters, last, observed_generation, put, since};
use crate::aggregate::{status_mut, sums};
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, Replicas};

/// LeaderWorkerSet.
pub const LEADER_WORKER_SET: Row = Row {
    replicas: Some(replicas),
    components: Some(components),
    revise: Some(revise),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &[
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "hpaPodSelector",
        "conditions",
        "observedGeneration",
    ],
    counts: &[],
    generations: Generations::Told,
};

fn worker(object: &Value) -> Answer<&Value> {
    required(object, &["spec", "leaderWorkerTemplate", "workerTemplate"])
}

/// The leader's template; where it has none, it is as the workers are.
fn leader(object: &Value) -> Answer<&Value> {
    present(object, &["spec", "leaderWorkerTemplate", "leaderTemplate"]).map_or_else(|| worker(object), Ok)
}

/// One group where nothing is said.
fn groups(object: &Value) -> Answer<i32> {
    count(present(object, &["spec", "replicas"]), 1)
}

/// How many workers a group has beside its leader.
fn workers(object: &Value) -> Answer<i32> {
    let size = count(present(object, &["spec", "leaderWorkerTemplate", "size"]), 1)?;
    Ok(size.saturating_sub(1).max(0))
}

/// A replica is a group. It asks for what its greater pod does, not for the sum of its pods: no single node need hold a whole group.
fn replicas(object: &Value) -> Answer<Replicas> {
    let mut wanted = pods::requirements(leader(object)?)?;
    if workers(object)? > 0 {
        let worker = pods::requirements(worker(object)?)?;
        match (&mut wanted, worker) {
            (Some(wanted), Some(worker)) => {
                for (name, amount) in worker.resource_request {
                    let entry = wanted.resource_request.entry(name).or_insert(amount);
                    *entry = (*entry).max(amount);
                }
            }
            (None, worker) => wanted = worker,
            (Some(_), None) => {}
        }
    }
    Ok(Replicas { count: groups(object)?, requirements: wanted })
}

fn revise(object: &mut Value, replicas: i64) {
    object::set(object, &["spec", "replicas"], Value::from(replicas));
}

/// The leaders of all groups, and the workers of all groups.
fn components(object: &Value) -> Answer<Vec<Component>> {
    let (groups, workers) = (groups(object)?, workers(object)?);
    let mut parts = vec![pods::part("leader", groups, Some(leader(object)?))?];
    if workers > 0 {
        parts.push(pods::part("worker", groups.saturating_mul(workers), Some(worker(object)?))?);
    }
    Ok(parts)
}

fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    pods::references(object, [leader(object)?, worker(object)?])
}

/// It is Available, of this generation where it tells which it saw.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    let seen = status.get("observedGeneration").and_then(Value::as_i64);
    let current = seen.is_none_or(|seen| seen == object::generation(object));
    Ok(current && holds(status, "Available"))
}

/// Groups are summed; available once it is in all members.
fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    let sums = sums(items, &["replicas", "readyReplicas", "updatedReplicas"])?;
    let generation = observed_generation(object, items);
    let available = !items.is_empty()
        && items.iter().all(|item| item.status.as_ref().is_some_and(|status| holds(status, "Available")));
    let says = if available {
        json!({"type": "Available", "status": "True", "reason": "AllGroupsReady",
               "message": "All replicas are ready in all member clusters"})
    } else {
        let waits = clusters(items, |status| !holds(status, "Available")).unwrap_or_default();
        json!({"type": "Available", "status": "False", "reason": "GroupsProgressing",
               "message": format!("Replicas are progressing in member clusters: {waits}")})
    };
    let earlier = object.get("status").map(super::read::conditions).unwrap_or_default();
    let condition = since(earlier, &says, &["lastTransitionTime"], now);
    let status = status_mut(object);
    status.extend(sums);
    put(status, "observedGeneration", (generation != 0).then(|| json!(generation)));
    put(status, "hpaPodSelector", last(items, "hpaPodSelector").cloned());
    put(status, "conditions", Some(json!([condition])));
    Ok(())
}
