//! Conflicts: fields that an apply would change and someone else owns.
//!
//! In: the managers of the live object, the writer, and the paths that its apply would take. Out: a [`Conflict`] for each path that
//! somebody else owns, without those that client-side apply left behind; and [`ApplyError`], which has the answer's message.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::compare::compare;
use super::element::{Element, render};
use super::managers::{Manager, Managers, Operation};
use super::set::Set;
use super::typed::{Duplicates, MergePlace, field_set, validate};
use super::{LAST_APPLIED, Writer};
use crate::SchemaRef;

/// One field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages name it: `"kubectl-client-side-apply" using apps/v1`.
    pub manager: String,
    /// The field's path, such as `.spec.replicas`.
    pub field: String,
    path: Vec<Element>,
}

impl Conflict {
    /// The entry of the Status's `details.causes`.
    pub fn cause(&self) -> Value {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", self.manager),
            "field": self.field,
        })
    }
}

/// Why an apply fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// 409 Conflict, with a cause for each.
    Conflicts(Vec<Conflict>),
    /// 500: the configuration does not fit the schema.
    Typed(String),
    /// 400 BadRequest.
    BadRequest(String),
}

impl std::error::Error for ApplyError {}

/// The Status's message.
impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = match self {
            ApplyError::Typed(text) | ApplyError::BadRequest(text) => return f.write_str(text),
            ApplyError::Conflicts(conflicts) => conflicts,
        };
        if let [one] = conflicts.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.field);
        }
        let mut managers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for conflict in conflicts {
            managers.entry(&conflict.manager).or_default().push(&conflict.field);
        }
        let mut lines = Vec::new();
        for (manager, fields) in managers {
            lines.push(format!("conflicts with {manager}:"));
            lines.extend(fields.into_iter().map(|field| format!("- {field}")));
        }
        write!(f, "Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
    }
}

fn describe(manager: &Manager, api_version: &str) -> String {
    let mut out = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        out = format!("{out} with subresource {:?}", manager.subresource);
    }
    if manager.operation == Operation::Update {
        out = format!("{out} using {api_version}");
    }
    out
}

/// What of `taken` others own.
pub(super) fn conflicts(managers: &Managers, writer: Writer<'_>, taken: &Set) -> Vec<Conflict> {
    let mut out = Vec::new();
    for (manager, api_version, set) in
        managers.iter().filter(|(manager, _, _)| !Managers::is_applier(manager, writer))
    {
        for path in set.intersection(taken).paths() {
            out.push(Conflict { manager: describe(manager, api_version), field: render(&path), path });
        }
    }
    out
}

/// The conflicts that are not with what client-side apply wrote and nobody changed since: those the same user may take
/// over.
pub(super) fn not_from_client_side(
    found: Vec<Conflict>,
    live: &Value,
    writer: Writer<'_>,
    schema: SchemaRef<'_>,
) -> Vec<Conflict> {
    let annotations = live.pointer("/metadata/annotations");
    let last = annotations.and_then(|annotations| annotations.get(LAST_APPLIED)).and_then(Value::as_str);
    let last: Option<Value> = last.and_then(|last| serde_json::from_str(last).ok());
    let place = MergePlace::Known(schema);
    let Some(last) = last.filter(|last| {
        last["apiVersion"] == writer.api_version && validate(place, last, Duplicates::Refused).is_ok()
    }) else {
        return found;
    };
    let change = compare(place, &last, live);
    let ours = field_set(place, &last)
        .difference(&change.modified)
        .difference(&change.added)
        .difference(&change.removed);
    found.into_iter().filter(|conflict| !ours.has(&conflict.path)).collect()
}
