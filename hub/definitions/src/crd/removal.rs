//! The end of a definition: its instances go first, and while they do it says so.
//!
//! In: the definition as JSON, and the time as text. Out: the same, marked; one that is being deleted already stays as it is. Deleting the
//! instances is `registry`'s business.

use karmada_schema::condition::{self, Said};
use karmada_schema::object::meta;
use serde_json::{Value, json};

use super::FINALIZER;

/// What deleting a definition adds to it: the finalizer that waits for the instances, and the condition.
pub fn mark_deleted(object: &mut Value, now: &str) {
    if meta::deleting(object) {
        return;
    }
    let mut finalizers = meta::finalizers(object);
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        meta::of(object).insert("finalizers".into(), json!(finalizers));
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let said = Said { kind: "Terminating", status: "True", reason: "InstanceDeletionPending", message };
    condition::say(object, said, now);
    // No grace period is set and no generation counted: kube-apiserver deletes definitions by code of their own.
    meta::of(object).insert("deletionTimestamp".into(), json!(now));
}
