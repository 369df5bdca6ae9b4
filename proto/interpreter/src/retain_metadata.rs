//! What the hub wants of an object's metadata, merged with what the member has, whatever the kind.
//!
//! In: the object that is to be applied, and the one that the member has. Out: the first, changed in place. Pure.

use karmada_api::object;
use karmada_api::strings::annotations::{MANAGED_ANNOTATIONS, MANAGED_LABELS};
use serde_json::{Map, Value};

/// Keeps the member's resourceVersion, finalizers and owners, and its labels and annotations, save those that the
/// hub once set and no longer wants.
pub fn retain_common(desired: &mut Value, observed: &Value) {
    let none = Map::new();
    let has = observed.get("metadata").and_then(Value::as_object).unwrap_or(&none);
    let wants = object::metadata(desired);
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        match has.get(field) {
            Some(value) => wants.insert(field.to_owned(), value.clone()),
            None => wants.remove(field),
        };
    }
    merge(wants, has, "labels", MANAGED_LABELS);
    merge(wants, has, "annotations", MANAGED_ANNOTATIONS);
}

/// Takes out of a member's object what changes all the time and decides nothing of what is kept: its status, and what the API server counts in it.
pub fn drop_counted(observed: &mut Value) {
    object::root(observed).remove("status");
    let metadata = object::metadata(observed);
    for counted in ["managedFields", "resourceVersion"] {
        metadata.remove(counted);
    }
}

/// Adds to a map of `wants` what `has` has and the hub never set: what is not on the list at annotation `record`.
fn merge(wants: &mut Map<String, Value>, has: &Map<String, Value>, map: &str, record: &str) {
    let Some(entries) = has.get(map).and_then(Value::as_object) else { return };
    let record = has.get("annotations").and_then(|a| a.get(record)).and_then(Value::as_str).unwrap_or("");
    let managed: Vec<&str> = record.split(',').collect();
    let foreign: Vec<_> = entries.iter().filter(|(key, _)| !managed.contains(&key.as_str())).collect();
    if foreign.is_empty() {
        return;
    }
    let wanted = object::child(wants, map);
    for (key, value) in foreign {
        wanted.entry(key.clone()).or_insert_with(|| value.clone());
    }
}
