//! Kubeflow: Notebook, one pod that somebody works in.
//!
//! In: its objects, and what members report of them. Out: one replica; the state of the pod that needs attention first.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use serde_json::{Map, Value, json};

use super::pods;
use super::read::{conditions, present, required, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{alone, clusters, put, since};
use crate::aggregate::{reported, status_mut, sums};
use crate::row::{NONE, Row};
use crate::{Answer, Replicas};

/// Notebook.
pub const NOTEBOOK: Row = Row {
    replicas: Some(replicas),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &["containerState", "conditions"],
    counts: &["readyReplicas"],
    generations: Generations::Untold,
};

fn replicas(object: &Value) -> Answer<Replicas> {
    pods::replicas(1, required(object, &["spec", "template"])?)
}

fn running(status: &Value) -> Option<&Value> {
    present(status, &["containerState", "running"])
}

/// It runs, is about to, or ended well.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    if running(status).is_some() {
        return Ok(true);
    }
    if let Some(waiting) = present(status, &["containerState", "waiting"]) {
        return Ok(text(waiting, "reason") == "ContainerCreating");
    }
    let Some(ended) = present(status, &["containerState", "terminated"]) else { return Ok(false) };
    let well = ended.get("exitCode").is_none_or(|code| code.as_i64() == Some(0));
    Ok(well && matches!(text(ended, "reason"), "" | "Completed"))
}

/// Ready pods are summed; shown is the last pod that does not run, or the one that began last.
fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    if alone(object, items) {
        return Ok(());
    }
    let mut out = sums(items, &["readyReplicas"])?;
    put(&mut out, "containerState", state(items));
    let earlier = object.get("status").map(conditions).unwrap_or_default();
    let condition =
        verdict(items).map(|says| since(earlier, &says, &["lastProbeTime", "lastTransitionTime"], now));
    put(&mut out, "conditions", condition.map(|condition| json!([condition])));
    *status_mut(object) = out;
    Ok(())
}

fn state(items: &[AggregatedStatusItem]) -> Option<Value> {
    if let Some(stopped) = reported(items).filter(|status| running(status).is_none()).last() {
        let state = ["waiting", "terminated"].iter().find_map(|state| {
            let told = present(stopped, &["containerState", state])?;
            Some(Map::from_iter([((*state).to_owned(), told.clone())]))
        });
        return Some(state.map_or_else(|| json!({"waiting": {"reason": "Unschedulable"}}), Value::Object));
    }
    let youngest = reported(items).filter_map(running).max_by_key(|running| text(running, "startedAt"));
    youngest.map(|running| json!({"running": running}))
}

/// Failed where some pod does not run; ready once all do.
fn verdict(items: &[AggregatedStatusItem]) -> Option<Value> {
    if let Some(names) = clusters(items, |status| running(status).is_none()) {
        return Some(json!({"type": "Failed", "status": "True", "reason": "NotebookFailed",
                           "message": format!("Notebook executed failed in member clusters: {names}")}));
    }
    (reported(items).count() == items.len()).then(|| {
        json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "All notebooks are ready"})
    })
}
