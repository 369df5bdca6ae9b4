//! Defaults must be what they would have to be if a user had sent them.

use karmada_schema::{SchemaRef, prune_below, validate as validate_value};
use serde_json::Value;

use super::report::{Errors, fields, invalid, required};
use super::structural::property;

/// Checks every default of `given`, whose compiled form is `compiled`.
pub(super) fn validate(given: &Value, compiled: SchemaRef<'_>, path: &str, errors: &mut Errors) {
    walk(given, compiled, path, true, errors);
}

fn walk(given: &Value, compiled: SchemaRef<'_>, path: &str, root: bool, errors: &mut Errors) {
    if let Some(default) = given.get("default").filter(|default| !default.is_null()) {
        check(given, default, compiled, &format!("{path}.default"), root, errors);
    }
    for (name, child) in fields(&given["properties"]) {
        if root && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
            continue;
        }
        if let Some(compiled) = compiled.property(name) {
            walk(child, compiled, &property(path, name), false, errors);
        }
    }
    if let (true, Some(compiled)) = (given["items"].is_object(), compiled.items()) {
        walk(&given["items"], compiled, &format!("{path}.items"), false, errors);
    }
    let more = &given["additionalProperties"];
    if let (true, Some(compiled)) = (more.is_object(), compiled.additional()) {
        walk(more, compiled, &format!("{path}.additionalProperties"), false, errors);
    }
}

fn check(
    given: &Value,
    default: &Value,
    compiled: SchemaRef<'_>,
    path: &str,
    root: bool,
    errors: &mut Errors,
) {
    let mut pruned = default.clone();
    // A whole object keeps its type and metadata, a part of one has none.
    let embedded = root || given["x-kubernetes-embedded-resource"] == true;
    prune_below(compiled, &mut pruned, embedded);
    if pruned != *default {
        errors.push(invalid(path, default.clone(), "must not have unknown fields"));
    }
    if embedded && default.is_object() {
        let missing = ["apiVersion", "kind"].into_iter().filter(|field| default.get(*field).is_none());
        let before = errors.len();
        errors.extend(missing.map(|field| required(&format!("{path}.{field}"), "")));
        if errors.len() > before {
            return;
        }
    }
    for mut error in validate_value(compiled, default) {
        error.field = match error.field.as_str() {
            "<nil>" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        errors.push(error);
    }
}
