//! A cluster's status as its agent tells it: read, or refused for what it cannot be.
//!
//! In: JSON that one site's agent sent, of whatever shape and length it liked. Out: fields for the Cluster's status whose shape and number are known.
//! Nothing here is believed for its form: what one site sends may cost the hub what one status costs, and no more.

use std::collections::BTreeSet;

use karmada_api::cluster::{ApiEnablement, NodeSummary, ResourceSummary};
use karmada_proto::{one_line_of, quoted};
use karmada_schema::condition;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Conditions that a site may tell of itself, and that a Cluster may have for that.
const CONDITIONS: usize = 64;
/// Groups with their versions, and resources in all of them: ten times what a cluster full of operators serves.
const GROUP_VERSIONS: usize = 5_000;
const RESOURCES: usize = 50_000;
/// Resources of a kind of nodes, and grades by which they are counted.
const AMOUNTS: usize = 256;
/// Bytes of a version, which is a column of a table and as wide as its longest.
const VERSION: usize = 64;
/// Bytes of one name: a prefix, a slash and a name.
const NAME: usize = 317;
/// Bytes of a condition's reason and message, as of a Work's.
const REASON: usize = 256;
const MESSAGE: usize = 16 << 10;

/// What a report may hold, and of which shape.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Report {
    kubernetes_version: String,
    api_enablements: Vec<ApiEnablement>,
    conditions: Vec<Condition>,
    node_summary: Option<NodeSummary>,
    resource_summary: Option<ResourceSummary>,
    remedy_actions: Vec<String>,
}

/// A condition as a site tells it: since when it is so, the hub says.
#[derive(Serialize, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: Status,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// What a condition may be.
#[derive(Serialize, Deserialize)]
enum Status {
    True,
    False,
    Unknown,
}

/// Reads a report: of what it holds, the fields that a status has, each written as the hub writes it.
///
/// # Errors
/// What is wrong with it, for the log.
pub fn read(json: &[u8]) -> Result<Value, String> {
    let reported: Value = serde_json::from_slice(json).map_err(|error| format!("it is no JSON: {error}"))?;
    let mut typed = Report::deserialize(&reported)
        .map_err(|error| format!("it has not the shape of a cluster's status: {error}"))?;
    if !has_objects(&reported) {
        return Err("a list stands where an object should".to_owned());
    }
    check(&typed)?;
    // What a site says in its conditions is shown in terminals: on one line, without what such would obey.
    for condition in &mut typed.conditions {
        condition.message = one_line_of(&condition.message, MESSAGE);
    }
    let mut told = serde_json::to_value(&typed).map_err(|error| format!("it cannot be kept: {error}"))?;
    // What is not reported is not told: on the Cluster it stays as it is.
    if let Some(told) = told.as_object_mut() {
        told.retain(|field, _| reported.get(field).is_some());
    }
    Ok(told)
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
    at_most("bytes of a version", status.kubernetes_version.len(), VERSION)?;
    if !status.kubernetes_version.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its version is none".to_owned());
    }
    at_most("remedy actions", status.remedy_actions.len(), CONDITIONS)?;
    status.remedy_actions.iter().try_for_each(|action| named("remedy action", action))?;
    check_conditions(&status.conditions)?;
    check_enablements(&status.api_enablements)?;
    if status.node_summary.is_some_and(|nodes| nodes.total_num < 0 || nodes.ready_num < 0) {
        return Err("it has less than no nodes".to_owned());
    }
    status.resource_summary.as_ref().map_or(Ok(()), check_resources)
}

fn check_conditions(conditions: &[Condition]) -> Result<(), String> {
    at_most("conditions", conditions.len(), CONDITIONS)?;
    let mut types = BTreeSet::new();
    for condition in conditions {
        named("condition", &condition.kind)?;
        at_most("bytes of a condition's reason", condition.reason.len(), REASON)?;
        at_most("bytes of a condition's message", condition.message.len(), MESSAGE)?;
        if !condition.reason.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte)) {
            return Err("a condition's reason is none".to_owned());
        }
        if !types.insert(&condition.kind) {
            return Err("a condition is there twice".to_owned());
        }
    }
    Ok(())
}

fn check_enablements(enablements: &[ApiEnablement]) -> Result<(), String> {
    at_most("groups and versions", enablements.len(), GROUP_VERSIONS)?;
    at_most("resources", enablements.iter().map(|one| one.resources.len()).sum(), RESOURCES)?;
    for enablement in enablements {
        named("group and version", &enablement.group_version)?;
        for resource in &enablement.resources {
            named("resource", &resource.name)?;
            named("kind", &resource.kind)?;
        }
    }
    Ok(())
}

fn check_resources(summary: &ResourceSummary) -> Result<(), String> {
    for amounts in [&summary.allocatable, &summary.allocating, &summary.allocated] {
        at_most("amounts", amounts.len(), AMOUNTS)?;
        amounts.keys().try_for_each(|name| named("amount", name))?;
    }
    at_most("grades of nodes", summary.allocatable_modelings.len(), AMOUNTS)
}

/// Whether it is of a length and of characters that names are of.
fn named(what: &str, name: &str) -> Result<(), String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    if (1..=NAME).contains(&name.len()) && name.bytes().all(is_part) {
        return Ok(());
    }
    Err(format!("the name of a {what} is none: {}", quoted(name)))
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("it has {count} {what}, and may have {most}")) }
}

/// Writes what a site reported into its Cluster. What is not reported stays: of a member that does not answer, only its condition is known.
pub fn put(cluster: &mut Value, reported: &Value, now: &str) {
    for told in reported["conditions"].as_array().into_iter().flatten() {
        let held = cluster["status"]["conditions"].as_array().map_or(0, Vec::len);
        let is_known = told["type"].as_str().is_some_and(|kind| condition::find(cluster, kind).is_some());
        // Those of types that are told no more stay: another each time must not add up.
        if is_known || held < CONDITIONS {
            let mut told = told.clone();
            told["lastTransitionTime"] = now.into();
            condition::put(cluster, told);
        }
    }
    for (field, value) in reported.as_object().into_iter().flatten() {
        if field != "conditions" {
            cluster["status"][field] = value.clone();
        }
    }
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
            json!({"kubernetesVersion": "v".repeat(100_000)}),
            json!({"kubernetesVersion": "v1.34.1\nv9"}),
            json!({"conditions": [{"type": "Ready", "status": "Perhaps", "reason": "R"}]}),
            json!({"conditions": [{"type": "Ready", "reason": "R"}]}),
            json!({"conditions": [{"type": "Ready", "status": "True", "reason": "R".repeat(257)}]}),
            json!({"conditions": [{"type": "Ready", "status": "True", "reason": "two words"}]}),
            json!({"conditions": [{"type": "Ready", "status": "True", "message": "m".repeat(20_000)}]}),
            json!({"conditions": [condition("")]}),
            json!({"conditions": [condition("Ready\u{1b}[2J")]}),
            json!({"apiEnablements": [{"groupVersion": "g".repeat(1000)}]}),
            json!({"apiEnablements": [{"groupVersion": "a b/v1"}]}),
            json!({"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "p".repeat(1000), "kind": "Pod"}]}]}),
            json!({"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "P\n"}]}]}),
            json!({"resourceSummary": {"allocatable": {"x".repeat(1000): "1"}}}),
            json!({"resourceSummary": {"allocated": (0..5_000).map(|n| (format!("r{n}"), json!("1"))).collect::<serde_json::Map<_, _>>()}}),
            json!({"resourceSummary": {"allocatableModelings": vec![json!({"grade": 1, "count": 1}); 5_000]}}),
            json!({"nodeSummary": {"totalNum": -1}}),
            json!({"remedyActions": ["a".repeat(1000)]}),
            json!({"nodeSummary": []}),
            json!({"conditions": [["A", "R", ""]]}),
            json!([]),
        ] {
            assert!(read(bad.to_string().as_bytes()).is_err(), "{bad:.80}");
        }
        assert!(read(b"{").is_err());
    }

    #[test]
    fn a_conditions_message_is_one_plain_line() {
        let hostile = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "a\u{1b}[2J\n2026-01-01 INFO all is well"}]});
        let told = read(hostile.to_string().as_bytes()).unwrap();
        assert_eq!(told["conditions"][0]["message"], "a [2J 2026-01-01 INFO all is well");
    }

    #[test]
    fn of_a_report_is_kept_what_a_status_has_and_as_the_hub_writes_it() {
        let long = "a".repeat(1000);
        let zeros = format!("{}1", "0".repeat(1000));
        let told = json!({"another": long, "resourceSummary": {"allocatable": {"cpu": zeros}, "another": long},
            "conditions": [{"type": "Ready", "status": "True", "another": long}]});
        let kept = json!({"resourceSummary": {"allocatable": {"cpu": "1"}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": ""}]});
        assert_eq!(read(told.to_string().as_bytes()), Ok(kept));
    }
}
