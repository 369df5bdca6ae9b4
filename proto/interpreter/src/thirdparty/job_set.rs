//! JobSet (jobset.x-k8s.io): groups of Jobs that run and end together.
//!
//! In: its objects, and what members report of them. Out: the groups as parts, Jobs counted by group, and how the set ended.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use serde_json::{Map, Value, json};

use super::pods;
use super::read::{conditions, count, elements, holds, present, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{clusters, put, since};
use crate::aggregate::{reported, status_mut, sums};
use crate::reflect::number;
use crate::reported_status::MOST;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject};

/// JobSet.
pub const JOB_SET: Row = Row {
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &["conditions", "restarts", "restartsCountTowardsMax", "terminalState", "replicatedJobsStatus"],
    counts: &[],
    generations: Generations::Untold,
};

fn groups(object: &Value) -> &[Value] {
    elements(object, &["spec", "replicatedJobs"])
}

/// How many pods of one Job run at once: no more than shall complete.
fn pods_of_job(job: &Value) -> Answer<i32> {
    let at_once = count(job.get("parallelism"), 1)?;
    Ok(present(job, &["completions"]).map_or(Ok(at_once), |most| count(Some(most), at_once))?.min(at_once))
}

/// Each group of Jobs is a part: the pods of all its Jobs.
fn components(object: &Value) -> Answer<Vec<Component>> {
    groups(object)
        .iter()
        .map(|group| {
            let jobs = count(group.get("replicas"), 1)?;
            let job = present(group, &["template", "spec"]).unwrap_or(&Value::Null);
            let pods = jobs.saturating_mul(pods_of_job(job)?);
            pods::part(text(group, "name"), pods, present(job, &["template"]))
        })
        .collect()
}

fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let templates =
        groups(object).iter().filter_map(|group| present(group, &["template", "spec", "template"]));
    pods::references(object, templates)
}

/// It has not failed.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    Ok(!failed(status))
}

fn failed(status: &Value) -> bool {
    holds(status, "Failed") || text(status, "terminalState") == "Failed"
}

/// Jobs by group and how they stand; failed where it failed in some member, completed once it is in all, suspended while it is in all.
fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let mut out = sums(items, &["restarts"])?;
    let jobs = jobs(items)?;
    put(&mut out, "replicatedJobsStatus", (!jobs.is_empty()).then_some(Value::Array(jobs)));
    let earlier = object.get("status").map(conditions).unwrap_or_default();
    let verdict = verdict(items);
    let ended = verdict.as_ref().map(|says| text(says, "type")).filter(|kind| *kind != "Suspended");
    put(&mut out, "terminalState", ended.map(|kind| json!(kind)));
    let told = verdict.map(|says| json!([since(earlier, &says, &["lastTransitionTime"], now)]));
    put(&mut out, "conditions", told);
    *status_mut(object) = out;
    Ok(())
}

fn verdict(items: &[AggregatedStatusItem]) -> Option<Value> {
    let all =
        |kind: &str| items.iter().all(|item| item.status.as_ref().is_some_and(|status| holds(status, kind)));
    let (kind, reason, message) = match clusters(items, failed) {
        Some(names) => ("Failed", "FailedJobs", format!("the jobset failed in member clusters: {names}")),
        None if all("Completed") => {
            ("Completed", "AllJobsCompleted", "the jobset completed in all member clusters".to_owned())
        }
        None if all("Suspended") => {
            ("Suspended", "SuspendedJobs", "the jobset is suspended in all member clusters".to_owned())
        }
        None => return None,
    };
    Some(json!({"type": kind, "status": "True", "reason": reason, "message": message}))
}

/// Sums by group, in the order in which the groups were met first.
fn jobs(items: &[AggregatedStatusItem]) -> Answer<Vec<Value>> {
    const COUNTS: [&str; 5] = ["ready", "succeeded", "failed", "active", "suspended"];
    let mut out: Vec<Map<String, Value>> = Vec::new();
    for group in reported(items).flat_map(|status| elements(status, &["replicatedJobsStatus"])) {
        let name = text(group, "name");
        let at = out.iter().position(|known| known.get("name").and_then(Value::as_str) == Some(name));
        let at = at.unwrap_or_else(|| {
            out.push(Map::from_iter([("name".to_owned(), json!(name))]));
            out.len() - 1
        });
        for field in COUNTS {
            let known = out[at].get(field).and_then(Value::as_i64).unwrap_or(0);
            let sum = known.saturating_add(number(group, field)?).min(MOST);
            out[at].insert(field.to_owned(), Value::from(sum));
        }
    }
    Ok(out.into_iter().map(Value::Object).collect())
}
