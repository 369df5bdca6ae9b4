//! Defaults that a structural schema carries (`default:`), laid in as kube-apiserver does for CRDs: parents first, so
//! that a default object gets its own fields' defaults; a null where null is no value counts as absent. A small object can
//! have many places for a large default: what all of them add is bounded, and an object that gets so far is too large to be stored.
//!
//! In: the schema and an object. Out: the object changed in place; no error, even where the bound is reached. Built-in Go kinds have their
//! defaults from elsewhere.

use serde_json::Value;

use super::navigate::SchemaRef;
use crate::object::extent::{Extent, MOST_BYTES};

/// Lays the schema's defaults into `value`, until they come to 3 MiB.
pub fn apply_defaults(schema: SchemaRef<'_>, value: &mut Value) {
    let mut room = MOST_BYTES;
    lay(schema, value, &mut room);
}

/// A copy of a default, where there is room for it.
fn taken(default: &Value, room: &mut usize) -> Option<Value> {
    // What it weighs in memory is more than its text: an empty object is not nothing.
    *room = room.checked_sub(Extent::of(default).bytes + 16).or_else(|| {
        *room = 0;
        None
    })?;
    Some(default.clone())
}

fn lay(schema: SchemaRef<'_>, value: &mut Value, room: &mut usize) {
    match value {
        Value::Object(fields) => {
            for (name, property, _) in schema.properties() {
                let Some(default) = property.default() else { continue };
                if fields.get(name).is_none_or(|item| item.is_null() && !property.nullable()) {
                    let Some(default) = taken(default, room) else { return };
                    fields.insert(name.to_owned(), default);
                }
            }
            for (name, item) in fields.iter_mut() {
                let Some(child) = schema.child(name) else { continue };
                element_default(child, item, room);
                lay(child, item, room);
            }
        }
        Value::Array(items) => {
            let Some(element) = schema.items() else { return };
            for item in items {
                element_default(element, item, room);
                lay(element, item, room);
            }
        }
        _ => {}
    }
}

/// Drops nulls where null is no value and there is no default, as kube-apiserver does after defaulting.
pub fn drop_nulls(schema: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, item| {
                let Some(child) = schema.child(name) else { return true };
                drop_nulls(child, item);
                !(item.is_null() && !child.nullable() && child.default().is_none())
            });
        }
        Value::Array(items) => {
            if let Some(element) = schema.items() {
                items.iter_mut().for_each(|item| drop_nulls(element, item));
            }
        }
        _ => {}
    }
}

fn element_default(schema: SchemaRef<'_>, item: &mut Value, room: &mut usize) {
    if item.is_null()
        && !schema.nullable()
        && let Some(default) = schema.default()
        && let Some(default) = taken(default, room)
    {
        *item = default;
    }
}
