//! A ResourceInterpreterCustomization: for which kind it answers which operations, and by which scripts.
//!
//! In: the JSON of the object. Out: name, kind and scripts as text, and the JSON back. Nothing is compiled or checked. Pure.

use std::collections::BTreeMap;

use karmada_api::object;
use karmada_interpreter::Operation;
use serde::Deserialize;
use serde_json::{Value, json};

/// Operations in the order in which they are looked at, each with the member that has its script, and the script's function.
pub const OPERATIONS: [(Operation, &str, &str); 8] = [
    (Operation::Retain, "retention", "Retain"),
    (Operation::InterpretReplica, "replicaResource", "GetReplicas"),
    (Operation::InterpretComponent, "componentResource", "GetComponents"),
    (Operation::ReviseReplica, "replicaRevision", "ReviseReplica"),
    (Operation::InterpretStatus, "statusReflection", "ReflectStatus"),
    (Operation::AggregateStatus, "statusAggregation", "AggregateStatus"),
    (Operation::InterpretHealth, "healthInterpretation", "InterpretHealth"),
    (Operation::InterpretDependency, "dependencyInterpretation", "GetDependencies"),
];

/// The function that a script for an operation has.
pub fn function(operation: Operation) -> &'static str {
    OPERATIONS.iter().find(|(known, ..)| *known == operation).map_or("", |(.., function)| function)
}

/// The beginning of a name by which a hub tells its sites that an interpreter webhook decides what is retained of a kind: they ask the hub. What
/// follows is another text for another webhook. No object has such a name, as names hold no space; there are no scripts in it, so that who
/// does not know this name goes on as without it.
pub const RETAINED_BY_WEBHOOK: &str = "retained by webhook ";

/// One customization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub struct Customization {
    /// Its name.
    pub name: String,
    /// Group and version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// The scripts that are not empty.
    pub scripts: BTreeMap<Operation, String>,
}

impl Customization {
    /// Reads an object of the API.
    pub fn of(object: &Value) -> Self {
        let text =
            |path: &[&str]| object::get(object, path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let script = |member: &str| text(&["spec", "customizations", member, "luaScript"]);
        let scripts = OPERATIONS.iter().map(|(operation, member, _)| (*operation, script(member)));
        Self {
            name: object::name(object).to_owned(),
            api_version: text(&["spec", "target", "apiVersion"]),
            kind: text(&["spec", "target", "kind"]),
            scripts: scripts.filter(|(_, script)| !script.is_empty()).collect(),
        }
    }

    /// The same as an object of the API, of which [`Customization::of`] reads it again.
    pub fn object(&self) -> Value {
        let member = |operation: &Operation| OPERATIONS.iter().find(|(known, ..)| known == operation);
        let scripts = self.scripts.iter().filter_map(|(operation, script)| {
            let (_, member, _) = member(operation)?;
            Some(((*member).to_owned(), json!({"luaScript": script})))
        });
        let customizations: serde_json::Map<String, Value> = scripts.collect();
        json!({"metadata": {"name": self.name}, "spec": {
            "target": {"apiVersion": self.api_version, "kind": self.kind}, "customizations": customizations}})
    }
}

impl From<Value> for Customization {
    fn from(object: Value) -> Self {
        Self::of(&object)
    }
}
