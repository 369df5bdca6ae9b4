//! The FlowSchemas and PriorityLevelConfigurations that are there from the first start, as kube-apiserver lays them down
//! (`data/flow_control.jsonl`).
//!
//! Facts, as JSON objects. Nothing here acts.
//!
//! In: the file, compiled in. Out: the objects as JSON, parsed anew at each call: all of a kind, or the mandatory ones alone.

use serde_json::Value;

static TEXT: &str = include_str!("../data/flow_control.jsonl");

/// The annotation that says whether a spec follows its default.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The names of the mandatory ones: `exempt` is never limited, `catch-all` takes what matches nothing else.
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

/// The mandatory levels, to which the mandatory schemas lead.
pub fn mandatory_levels() -> Vec<Value> {
    mandatory(levels())
}

/// Every level.
pub fn levels() -> Vec<Value> {
    of_kind("PriorityLevelConfiguration")
}

/// The mandatory schemas, without which a request might match none.
pub fn mandatory_schemas() -> Vec<Value> {
    mandatory(schemas())
}

/// Every schema.
pub fn schemas() -> Vec<Value> {
    of_kind("FlowSchema")
}
