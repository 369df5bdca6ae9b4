//! The FlowSchemas and PriorityLevelConfigurations that are there from the first start, as kube-apiserver lays them down
//! (`data/flow_control.jsonl`).
//!
//! Facts, as JSON objects. Nothing here acts.

use serde_json::Value;

static TEXT: &str = include_str!("../data/flow_control.jsonl");

/// The annotation that says whether a spec follows its default.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Those without which there is nothing, or a request might match none.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

fn of_kind(kind: &str) -> Vec<Value> {
    let all =
        TEXT.lines().map(|line| serde_json::from_str::<Value>(line).expect("the embedded objects parse"));
    all.filter(|object| object["kind"] == kind).collect()
}

fn mandatory(mut all: Vec<Value>) -> Vec<Value> {
    all.retain(|object| MANDATORY.iter().any(|name| object["metadata"]["name"] == *name));
    all
}

/// The levels without which there is nothing.
pub fn mandatory_levels() -> Vec<Value> {
    mandatory(levels())
}

/// Every level.
pub fn levels() -> Vec<Value> {
    of_kind("PriorityLevelConfiguration")
}

/// The schemas without which a request might match none.
pub fn mandatory_schemas() -> Vec<Value> {
    mandatory(schemas())
}

/// Every schema.
pub fn schemas() -> Vec<Value> {
    of_kind("FlowSchema")
}
