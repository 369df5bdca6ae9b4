//! A cluster's status as its agent tells it: read, or refused for what it cannot be.
//!
//! In: JSON that one site's agent sent, of whatever shape and length it liked. Out: fields for the Cluster's status whose shape and number are known.
//! Nothing here is believed for its form: what one site sends may cost the hub what one status costs, and no more.

use std::collections::BTreeSet;

use karmada_api::cluster::{ApiEnablement, NodeSummary, ResourceSummary};
use karmada_proto::one_line_of;
use serde::Deserialize;
use serde_json::Value;

/// Conditions that a site may tell of itself, and that a Cluster may have for that.
pub(super) const CONDITIONS: usize = 64;
/// Groups with their versions, and resources in all of them: ten times what a cluster full of operators serves.
const GROUP_VERSIONS: usize = 5_000;
const RESOURCES: usize = 50_000;
/// Bytes of one name, and of one message; Kubernetes has the same for conditions.
const NAME: usize = 316;
const MESSAGE: usize = 32_768;

/// What a report may hold, and of which shape.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Report {
    #[allow(dead_code, reason = "read for its shape")]
    kubernetes_version: String,
    api_enablements: Vec<ApiEnablement>,
    conditions: Vec<Condition>,
    #[allow(dead_code, reason = "read for its shape")]
    node_summary: Option<NodeSummary>,
    #[allow(dead_code, reason = "read for its shape")]
    resource_summary: Option<ResourceSummary>,
    remedy_actions: Vec<String>,
}

/// A condition as a site tells it: since when it is so, the hub says.
#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// Reads a report.
///
/// # Errors
/// What is wrong with it, for the log.
pub(super) fn read(json: &[u8]) -> Result<Value, String> {
    let mut reported: Value =
        serde_json::from_slice(json).map_err(|error| format!("it is no JSON: {error}"))?;
    let typed = Report::deserialize(&reported)
        .map_err(|error| format!("it has not the shape of a cluster's status: {error}"))?;
    if !has_objects(&reported) {
        return Err("a list stands where an object should".to_owned());
    }
    check(&typed)?;
    say_plainly(&mut reported);
    Ok(reported)
}

/// What a site says in its conditions is shown in terminals: on one line, without what such would obey.
fn say_plainly(reported: &mut Value) {
    let conditions = reported.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        for field in ["reason", "message"] {
            if let Some(Value::String(text)) = condition.get_mut(field) {
                *text = one_line_of(text, MESSAGE);
            }
        }
    }
}

/// Whether what is read by the names of its fields has names: a list of values in their order is taken for a struct too.
fn has_objects(reported: &Value) -> bool {
    let lists = ["conditions", "apiEnablements"].into_iter().filter_map(|field| reported[field].as_array());
    let single = ["nodeSummary", "resourceSummary"].into_iter().filter_map(|field| reported.get(field));
    reported.is_object()
        && lists.flatten().all(Value::is_object)
        && single.into_iter().all(|value| value.is_object() || value.is_null())
}

fn check(status: &Report) -> Result<(), String> {
    at_most("conditions", status.conditions.len(), CONDITIONS)?;
    at_most("groups and versions", status.api_enablements.len(), GROUP_VERSIONS)?;
    let resources = status.api_enablements.iter().map(|one| one.resources.len()).sum();
    at_most("resources", resources, RESOURCES)?;
    at_most("remedy actions", status.remedy_actions.len(), CONDITIONS)?;
    let mut types = BTreeSet::new();
    for condition in &status.conditions {
        at_most("bytes of a condition's type", condition.kind.len(), NAME)?;
        at_most("bytes of a condition's reason", condition.reason.len(), NAME)?;
        at_most("bytes of a condition's message", condition.message.len(), MESSAGE)?;
        if !types.insert(&condition.kind) {
            return Err("a condition is there twice".to_owned());
        }
    }
    Ok(())
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("it has {count} {what}, and may have {most}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(kind: &str) -> Value {
        json!({"type": kind, "status": "True", "reason": "R", "message": ""})
    }

    #[test]
    fn a_report_is_read_and_what_no_agent_would_send_is_refused() {
        let good = json!({"kubernetesVersion": "v1.34.1", "conditions": [condition("Ready")],
            "apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]});
        assert_eq!(read(good.to_string().as_bytes()), Ok(good));
        let many: Vec<Value> = (0..60_000).map(|n| condition(&format!("T{n}"))).collect();
        let wide: Vec<Value> = (0..6_000).map(|n| json!({"groupVersion": format!("g{n}/v1")})).collect();
        for bad in [
            json!({"conditions": [7]}),
            json!({"conditions": {"a": "b"}}),
            json!({"conditions": many}),
            json!({"conditions": [condition("A"), condition("A")]}),
            json!({"conditions": [condition(&"A".repeat(1000))]}),
            json!({"apiEnablements": wide}),
            json!({"nodeSummary": []}),
            json!({"conditions": [["A", "R", ""]]}),
            json!([]),
        ] {
            assert!(read(bad.to_string().as_bytes()).is_err(), "{bad:.80}");
        }
        assert!(read(b"{").is_err());
        let hostile = json!({"conditions": [{"type": "Ready", "reason": "R", "message": "a\u{1b}[2J\n2026-01-01 INFO all is well"}]});
        let told = read(hostile.to_string().as_bytes()).unwrap();
        assert_eq!(told["conditions"][0]["message"], "a [2J 2026-01-01 INFO all is well");
    }
}
