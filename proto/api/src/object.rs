//! Reading and writing any Kubernetes object as JSON: apiVersion, kind and metadata.
//!
//! In: a `serde_json::Value` of an object. Reads never fail: what is absent or of a wrong type reads as empty,
//! because schemas were checked when the object was stored. Writes create the maps they need.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// `apiVersion`, empty where absent.
pub fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or("")
}

/// `kind`, empty where absent.
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("")
}

/// Group and version of an apiVersion; the core group is empty.
pub fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn metadata_text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// Which object it is: apiVersion, kind, namespace and name, each empty where it says none.
pub fn identity(object: &Value) -> [&str; 4] {
    [api_version(object), kind(object), namespace(object), name(object)]
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    metadata_text(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    metadata_text(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    metadata_text(object, "uid")
}

/// `metadata.resourceVersion`.
pub fn resource_version(object: &Value) -> &str {
    metadata_text(object, "resourceVersion")
}

/// `metadata.generation`, 0 where absent.
pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Whether `metadata.deletionTimestamp` is set.
pub fn deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null())
}

fn text_map(object: &Value, key: &str) -> BTreeMap<String, String> {
    let Some(map) = object.get("metadata").and_then(|m| m.get(key)).and_then(Value::as_object) else {
        return BTreeMap::new();
    };
    map.iter().filter_map(|(k, v)| v.as_str().map(|v| (k.clone(), v.to_owned()))).collect()
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    text_map(object, "labels")
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> BTreeMap<String, String> {
    text_map(object, "annotations")
}

fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "labels", key)
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "annotations", key)
}

/// The map at `key` of `parent`, made where it is absent or no map.
pub fn child<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}

/// The object itself as a map, made one where it is not.
pub fn root(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("made an object just above")
}

/// `metadata` of an object, made where absent.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    child(root(object), "metadata")
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    child(metadata(object), "labels").insert(key.to_owned(), Value::from(value));
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    child(metadata(object), "annotations").insert(key.to_owned(), Value::from(value));
}

fn remove_entry(object: &mut Value, map: &str, key: &str) -> bool {
    object
        .get_mut("metadata")
        .and_then(|m| m.get_mut(map))
        .and_then(Value::as_object_mut)
        .is_some_and(|entries| entries.remove(key).is_some())
}

/// Removes one label; whether it was there.
pub fn remove_label(object: &mut Value, key: &str) -> bool {
    remove_entry(object, "labels", key)
}

/// Removes one annotation; whether it was there.
pub fn remove_annotation(object: &mut Value, key: &str) -> bool {
    remove_entry(object, "annotations", key)
}

/// Whether `metadata.finalizers` has `finalizer`.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| list.iter().any(|f| f.as_str() == Some(finalizer)))
}

/// Adds a finalizer; whether the object changed.
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    let list = metadata(object).entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().expect("made an array just above").push(Value::from(finalizer));
    true
}

/// Removes a finalizer; whether the object changed.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if !has_finalizer(object, finalizer) {
        return false;
    }
    let metadata = metadata(object);
    if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        list.retain(|f| f.as_str() != Some(finalizer));
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
    true
}

/// The value at a path of field names.
pub fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The value at a path of field names, to change.
pub fn get_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, key| value.get_mut(key))
}

/// Sets the value at a path of field names, making the maps on the way.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        *object = value;
        return;
    };
    let parent = parents.iter().fold(root(object), |map, key| child(map, key));
    parent.insert((*last).to_owned(), value);
}
