//! Deployment: numbers are summed, and the conditions Available and Progressing are told, so that `kubectl wait`,
//! `rollout status`, Helm and Flux finish on the hub as they do in a cluster.
//!
//! In: the template, what each cluster reports, the time. Out: the template's status, written into it.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use karmada_api::time;
use serde_json::{Map, Value, json};

use super::{all_observed, reported, status_mut, sum, workload};
use crate::Answer;
use crate::reflect::number;

/// What a condition shall say.
struct Saying {
    kind: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

/// Sums the members and tells the conditions.
///
/// # Errors
/// A count or generation that a member reports is no whole number; what was summed before stands in `object` then.
pub fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    let unless_zero =
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
    workload::sums(object, items, &[], &unless_zero)?;
    let sayings = [available(object, items)?, progressing(object, items)?];
    let now = time::seconds(now);
    let conditions = status_mut(object).entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut() {
        for saying in sayings {
            say(conditions, &saying, &now);
        }
    }
    Ok(())
}

fn wanted(object: &Value) -> i64 {
    object::get(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

/// A condition that a member reports because it is not well.
fn complaint<'a>(items: &'a [AggregatedStatusItem], kind: &str) -> Option<(&'a str, &'a Value)> {
    items.iter().find_map(|item| {
        let conditions = item.status.as_ref()?.get("conditions")?.as_array()?;
        let found = conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))?;
        (found.get("status").and_then(Value::as_str) != Some("True"))
            .then_some((item.cluster_name.as_str(), found))
    })
}

/// Available: every cluster has it running as far as its own Deployment demands.
fn available(object: &Value, items: &[AggregatedStatusItem]) -> Answer<Saying> {
    let mut seen = items.len() == reported(items).count() && complaint(items, "Available").is_none();
    for status in reported(items) {
        seen &= number(status, "observedGeneration")? >= number(status, "generation")?;
    }
    // Without a single cluster nothing runs; that is enough only where nothing is wanted.
    let enough = sum(items, "availableReplicas")? > 0 || wanted(object) == 0;
    let (status, reason, message) = if seen && enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    Ok(Saying { kind: "Available", status, reason: reason.to_owned(), message: message.to_owned() })
}

/// Progressing: done once every cluster runs the present template, failed where a cluster gave up.
fn progressing(object: &Value, items: &[AggregatedStatusItem]) -> Answer<Saying> {
    let kind = "Progressing";
    let text =
        |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    if let Some((cluster, condition)) = complaint(items, kind) {
        let message = format!("cluster {cluster}: {}", text(condition, "message"));
        return Ok(Saying { kind, status: "False", reason: text(condition, "reason"), message });
    }
    let updated = sum(items, "updatedReplicas")?;
    let done = all_observed(items, object::generation(object))?
        && updated >= wanted(object)
        && sum(items, "replicas")? <= updated
        && sum(items, "availableReplicas")? >= updated;
    let (reason, message) = if done {
        ("NewReplicaSetAvailable", "Deployment has successfully progressed in all clusters.")
    } else {
        ("ReplicaSetUpdated", "Deployment is progressing.")
    };
    Ok(Saying { kind, status: "True", reason: reason.to_owned(), message: message.to_owned() })
}

/// Writes a condition; its times move only when what it says changes.
fn say(conditions: &mut Vec<Value>, saying: &Saying, now: &str) {
    let old = conditions.iter_mut().find(|c| c.get("type").and_then(Value::as_str) == Some(saying.kind));
    let text =
        |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let same_status = old.as_ref().is_some_and(|c| text(c, "status") == saying.status);
    let same = same_status
        && old
            .as_ref()
            .is_some_and(|c| text(c, "reason") == saying.reason && text(c, "message") == saying.message);
    if same {
        return;
    }
    let since = match &old {
        Some(condition) if same_status => text(condition, "lastTransitionTime"),
        _ => now.to_owned(),
    };
    let condition: Map<String, Value> = [
        ("type", saying.kind),
        ("status", saying.status),
        ("reason", &saying.reason),
        ("message", &saying.message),
        ("lastUpdateTime", now),
        ("lastTransitionTime", if since.is_empty() { now } else { &since }),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), Value::from(value)))
    .collect();
    match old {
        Some(old) => *old = Value::Object(condition),
        None => conditions.push(Value::Object(condition)),
    }
}
