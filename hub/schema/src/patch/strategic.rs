//! Strategic merge patch: merging by the schema's merge keys, with the directives `$patch`, `$retainKeys`,
//! `$setElementOrder/FIELD` and `$deleteFromPrimitiveList/FIELD`.
//!
//! In: a schema, the live object, the patch. Out: a new object, or a [`PatchError`] with kube-apiserver's status. Where the schema says
//! nothing, lists are replaced and objects merged.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{Places, arrange, identity};
use crate::SchemaRef;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

/// Elements of lists that one patch may go through. A list is gone through once for each time that the patch names it: a patch that names one
/// container thousands of times goes through its list of variables as often.
const MOST_ELEMENTS: usize = 2_000_000;

/// Elements that may still be gone through.
struct Left(usize);

impl Left {
    fn take(&mut self, elements: usize) -> Result<(), PatchError> {
        let left = self.0.checked_sub(elements).ok_or_else(|| {
            let words = "The patch names the same lists too often: it goes through more than";
            PatchError::TooLarge(format!("{words} {MOST_ELEMENTS} elements"))
        })?;
        self.0 = left;
        Ok(())
    }
}

/// Merges `patch` into a copy of `live`.
///
/// # Errors
/// As [`super::strategic_patch`].
pub fn strategic(schema: SchemaRef<'_>, live: &Value, patch: Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::BadRequest("invalid JSON document".into()));
    };
    let live = live.as_object().cloned().unwrap_or_default();
    merge_map(Some(schema), live, patch, &mut Left(MOST_ELEMENTS)).map(Value::Object)
}

fn merge_map(
    schema: Option<SchemaRef<'_>>,
    original: Fields,
    mut patch: Fields,
    left: &mut Left,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(drop_from_map(patch)),
            Some("delete") => Ok(Fields::new()),
            Some("merge") => merge_map(schema, original, patch, left),
            _ => Err(PatchError::Internal(format!("unknown patch type found in a map: {directive}"))),
        };
    }
    let mut original = original;
    retain_keys(&mut original, &mut patch)?;
    ordered_lists(schema, &mut original, &mut patch, left)?;
    for (key, value) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(field) => (field.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let child = schema.and_then(|schema| schema.child(&key));
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(_)), Value::Object(theirs)) if child.is_some_and(SchemaRef::replaces) => {
                drop_directives(Value::Object(theirs))
            }
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                Some(Value::Object(merge_map(child, ours, theirs, left)?))
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) if deletes => {
                Some(Value::Array(without(ours, &theirs)?))
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) => {
                Some(Value::Array(merge_list(child, ours, theirs, left)?))
            }
            (ours, _) if deletes => ours,
            (_, theirs) => drop_directives(theirs),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// `$retainKeys`: only the keys named stay.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN) else { return Ok(()) };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys = keys.as_array().ok_or_else(bad)?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let named = |key: &str| keys.contains(key);
    if patch.iter().any(|(key, value)| !key.starts_with('$') && !value.is_null() && !named(key)) {
        return Err(bad());
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// `$setElementOrder/FIELD`: merges that list now and puts it in order.
fn ordered_lists(
    schema: Option<SchemaRef<'_>>,
    original: &mut Fields,
    patch: &mut Fields,
    left: &mut Left,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let field = directive[ORDER.len()..].to_owned();
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned()));
        };
        let child = schema.and_then(|schema| schema.child(&field));
        let key = child.and_then(SchemaRef::merge_key);
        // Deletions by value come before the order is set.
        if let Some(Value::Array(gone)) = patch.remove(&format!("{DELETE_FROM}{field}"))
            && let Some(Value::Array(ours)) = original.remove(&field)
        {
            original.insert(field.clone(), Value::Array(without(ours, &gone)?));
        }
        if patch.get(&field).is_some_and(Value::is_null) {
            continue;
        }
        let server: Vec<Value> = original.get(&field).and_then(Value::as_array).cloned().unwrap_or_default();
        let known = original.contains_key(&field);
        let merged = match patch.remove(&field) {
            Some(Value::Array(theirs)) if known => {
                listed(&theirs, &order, key)?;
                merge_list(child, server.clone(), theirs, left)?
            }
            Some(Value::Array(theirs)) => {
                listed(&theirs, &order, key)?;
                theirs.into_iter().filter_map(drop_directives).collect()
            }
            _ if known => server.clone(),
            _ => continue,
        };
        original.insert(field, Value::Array(arrange(merged, &order, &server, key)));
    }
    Ok(())
}

/// Every element that the patch sets must be in its order.
fn listed(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    let places = Places::of(order, key);
    for item in patch {
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        let Some(id) = identity(item, key) else { continue };
        if places.find(id).is_none() {
            return Err(PatchError::Internal(format!(
                "The items in $setElementOrder do not include all items in the list: {id} is missing"
            )));
        }
    }
    Ok(())
}

fn merge_list(
    schema: Option<SchemaRef<'_>>,
    ours: Vec<Value>,
    theirs: Vec<Value>,
    left: &mut Left,
) -> Result<Vec<Value>, PatchError> {
    left.take(ours.len() + theirs.len())?;
    if !schema.is_some_and(SchemaRef::merges) {
        return Ok(theirs);
    }
    if ours.is_empty() && theirs.is_empty() {
        return Ok(ours);
    }
    let server = ours.clone();
    let (merged, order, key) = if ours.iter().chain(&theirs).any(Value::is_object) {
        let key = schema.and_then(SchemaRef::merge_key);
        let Some(key) = key else {
            return Err(PatchError::unprocessable(&"cannot merge lists without merge key"));
        };
        let (ours, theirs) = special_elements(ours, theirs, key)?;
        let order = theirs.clone();
        (merge_elements(schema, ours, theirs, key, left)?, order, Some(key))
    } else {
        let mut merged: Vec<Value> = Vec::with_capacity(ours.len() + theirs.len());
        let mut seen = HashSet::new();
        for item in ours.into_iter().chain(theirs.iter().cloned()) {
            if seen.insert(item.to_string()) {
                merged.push(item);
            }
        }
        (merged, theirs, None)
    };
    Ok(arrange(merged, &order, &server, key))
}

/// Elements with `$patch`: `delete` takes the element of that key out, `replace` all the others.
fn special_elements(
    mut ours: Vec<Value>,
    theirs: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (mut rest, mut replace) = (Vec::with_capacity(theirs.len()), false);
    let mut gone = HashSet::new();
    for item in theirs {
        match item.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => rest.push(item),
            Some("delete") => {
                let Some(id) = item.get(key) else { return Err(no_merge_key(&item, key)) };
                gone.insert(id.to_string());
            }
            Some("replace") => {
                replace = true;
            }
            Some("merge") => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(other) => {
                return Err(PatchError::Internal(format!("unknown patch type found in a list: {other}")));
            }
        }
    }
    if !gone.is_empty() {
        ours.retain(|one| one.get(key).is_none_or(|id| !gone.contains(&id.to_string())));
    }
    if replace { Ok((rest, Vec::new())) } else { Ok((ours, rest)) }
}

fn merge_elements(
    schema: Option<SchemaRef<'_>>,
    mut ours: Vec<Value>,
    theirs: Vec<Value>,
    key: &str,
    left: &mut Left,
) -> Result<Vec<Value>, PatchError> {
    let element = schema.and_then(SchemaRef::items);
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, one) in ours.iter().enumerate() {
        places.entry(one.get(key).map(Value::to_string).unwrap_or_default()).or_insert(at);
    }
    for item in theirs {
        let id = item.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(&item, key))?;
        match (places.get(&id).copied(), item) {
            (Some(at), Value::Object(patch)) => {
                let original = match ours[at].take() {
                    Value::Object(original) => original,
                    _ => Fields::new(),
                };
                ours[at] = Value::Object(merge_map(element, original, patch, left)?);
            }
            (Some(at), item) => ours[at] = item,
            (None, item) => {
                if let Some(item) = drop_directives(item) {
                    places.insert(id, ours.len());
                    ours.push(item);
                }
            }
        }
    }
    Ok(ours)
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {key}", go_print(item)))
}

/// A value as Go's `%v` prints it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// `$deleteFromPrimitiveList`: `ours` without `gone`.
fn without(mut ours: Vec<Value>, gone: &[Value]) -> Result<Vec<Value>, PatchError> {
    if gone.iter().any(|item| item.is_object() || item.is_array()) {
        return Err(PatchError::BadRequest("invalid patch format of primitive list".to_owned()));
    }
    let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
    ours.retain(|item| !gone.contains(&item.to_string()));
    Ok(ours)
}

/// A patch's value that meets nothing on the server: taken as it is, without directives and nulls. `None` where the
/// directive says to delete.
fn drop_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => match fields.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => None,
            Some("replace") if fields.len() == 1 => None,
            _ => Some(Value::Object(drop_from_map(fields))),
        },
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(drop_directives).collect())),
        other => Some(other),
    }
}

fn drop_from_map(fields: Fields) -> Fields {
    fields
        .into_iter()
        .filter(|(key, value)| {
            !value.is_null()
                && key != DIRECTIVE
                && key != RETAIN
                && !key.starts_with(ORDER)
                && !key.starts_with(DELETE_FROM)
        })
        .filter_map(|(key, value)| drop_directives(value).map(|value| (key, value)))
        .collect()
}
