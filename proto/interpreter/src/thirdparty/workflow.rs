//! Argo Workflows: Workflow.
//!
//! In: its objects. Out: how many pods may run at once, what they ask of nodes and refer to, whether it goes on.

use karmada_api::object;
use serde_json::Value;

use super::read::{self, elements, present, required};
use super::{pods, retain};
use crate::dependencies::References;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, Replicas};

/// Workflow.
pub const WORKFLOW: Row = Row {
    replicas: Some(replicas),
    revise: Some(revise),
    retain: Some(retain),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

/// As many as may run at once: one where nothing is said. Its spec says of nodes what a pod's does.
fn replicas(object: &Value) -> Answer<Replicas> {
    let count =
        present(object, &["spec", "parallelism"]).map(|_| read::replicas(object, &["spec", "parallelism"]));
    pods::replicas(count.unwrap_or(Ok(1))?, object)
}

fn revise(object: &mut Value, replicas: i64) {
    object::set(object, &["spec", "parallelism"], Value::from(replicas));
}

/// Whether it is suspended; and its status, which is the record of what ran.
fn retain(desired: &mut Value, observed: &Value) -> Answer<()> {
    retain::suspension(desired, observed)?;
    retain::keep(desired, observed, &[], &["status"]);
    Ok(())
}

/// It began, and did not fail.
fn health(object: &Value) -> Answer<bool> {
    let phase = object::get(object, &["status", "phase"]).and_then(Value::as_str).unwrap_or("");
    Ok(!matches!(phase, "" | "Failed" | "Error"))
}

/// Accounts, pull secrets, volumes and claims. Secrets of volumes by `secretName`, as in every pod; the account `default` is everywhere.
fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let spec = required(object, &["spec"])?;
    let mut references = References::of(object);
    references.add_pod(spec)?;
    let executor = present(spec, &["executor", "serviceAccountName"]);
    references.add("ServiceAccount", executor.filter(|name| name.as_str() != Some("default")));
    for claim in elements(spec, &["volumeClaimTemplates"]) {
        references.add("PersistentVolumeClaim", claim.pointer("/metadata/name"));
    }
    Ok(references.sorted())
}
