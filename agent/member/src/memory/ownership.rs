//! Which fields of an object the agent owns on the member in memory, as `managedFields` tell of them. Pure.
//!
//! In: the object as it was, and what the agent creates or applies. Out: the object with the agent's entries, and without what the
//! apply before held and this one does not. Lists are owned whole, and what others write is owned by nobody.

use karmada_api::object;
use serde_json::{Map, Value, json};

use crate::FIELD_MANAGER;

/// What says which object it is, or is the server's: nobody owns it.
const UNOWNED: [&str; 8] = [
    "name",
    "namespace",
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
];

/// The agent made `made`.
pub(super) fn created(made: &mut Value, time: &str) {
    let entry = entry("Update", made, time);
    object::metadata(made).insert("managedFields".into(), json!([entry]));
}

/// The agent applied `body`, which is merged into `merged` already: what it applied before and does not any more goes.
pub(super) fn applied(merged: &mut Value, body: &Value) {
    let mut entries = entries(merged);
    let before = entries.iter().position(|entry| is_ours(entry, "Apply"));
    let before = before.map_or(Value::Null, |at| entries.remove(at));
    let now = entry("Apply", body, before["time"].as_str().unwrap_or_default());
    if let Some(had) = before.get("fieldsV1") {
        without(merged, had, &now["fieldsV1"]);
    }
    entries.push(now);
    object::metadata(merged).insert("managedFields".into(), entries.into());
}

/// The agent's write with this operation changed something.
pub(super) fn changed(object: &mut Value, operation: &str, time: &str) {
    let mut entries = entries(object);
    entries
        .iter_mut()
        .filter(|entry| is_ours(entry, operation))
        .for_each(|entry| entry["time"] = time.into());
    object::metadata(object).insert("managedFields".into(), entries.into());
}

fn entries(object: &Value) -> Vec<Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn is_ours(entry: &Value, operation: &str) -> bool {
    entry["manager"] == FIELD_MANAGER && entry["operation"] == operation
}

fn entry(operation: &str, body: &Value, time: &str) -> Value {
    let mut fields = body.clone();
    let root = object::root(&mut fields);
    ["apiVersion", "kind", "status"].iter().for_each(|key| drop(root.remove(*key)));
    let metadata = object::metadata(&mut fields);
    UNOWNED.iter().for_each(|key| drop(metadata.remove(*key)));
    json!({"manager": FIELD_MANAGER, "operation": operation, "apiVersion": object::api_version(body), "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": named(&fields)})
}

/// The tree of field names of a value.
fn named(value: &Value) -> Value {
    let Value::Object(fields) = value else { return Value::Object(Map::new()) };
    fields.iter().map(|(key, value)| (format!("f:{key}"), named(value))).collect::<Map<_, _>>().into()
}

/// Takes out of `object` what is in the tree `had` and not in `has`.
fn without(object: &mut Value, had: &Value, has: &Value) {
    let (Value::Object(fields), Value::Object(had)) = (object, had) else { return };
    for (name, below) in had {
        let Some(key) = name.strip_prefix("f:") else { continue };
        let Some(value) = fields.get_mut(key) else { continue };
        let still = has.get(name);
        without(value, below, still.unwrap_or(&Value::Null));
        let empty = value.as_object().is_none_or(Map::is_empty);
        if still.is_none() && empty {
            fields.remove(key);
        }
    }
}
