//! Pruning: a structural schema's unknown fields are noted and dropped, except where it preserves them.
//!
//! In: a structural schema and a value. Out: the value changed in place, with a sentence for each field that was dropped, a hundred at
//! most.

use serde_json::Value;

use super::duplicate::REPORT_LIMIT;
use super::navigate::SchemaRef;
use super::path::Path;
use karmada_field::quote;

/// Drops what the schema does not know. Answers the dropped fields, each as `unknown field "spec.foo"`.
pub fn prune(schema: SchemaRef<'_>, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(Some(schema), value, &Path::ROOT, &mut unknown);
    unknown
}

/// As [`prune`] for a part of an object; `whole`: the value is an object of its own, with type and metadata.
pub fn below(schema: SchemaRef<'_>, value: &mut Value, whole: bool) {
    let part = Path::field("default");
    let path = if whole { &Path::ROOT } else { &part };
    walk(Some(schema), value, path, &mut Vec::new());
}

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn walk(schema: Option<SchemaRef<'_>>, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    let preserve = schema.is_some_and(SchemaRef::preserves_unknown);
    match value {
        Value::Object(fields) => {
            let embedded = schema.is_some_and(SchemaRef::embedded_resource);
            fields.retain(|name, item| {
                if (embedded || path.is_root()) && META.contains(&name.as_str()) {
                    return true;
                }
                match schema.and_then(|schema| schema.child(name)) {
                    Some(child) => walk(Some(child), item, &path.child(name), unknown),
                    None if preserve || schema.is_some_and(SchemaRef::open) => {}
                    None => {
                        if unknown.len() < REPORT_LIMIT {
                            unknown.push(format!("unknown field {}", quote(&path.child(name).to_string())));
                        }
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(items) => {
            let element = schema.and_then(SchemaRef::items);
            if element.is_none() && preserve {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                walk(element, item, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

/// Writes whole numbers without a fraction, as Go does: `1.0` is `1`.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
