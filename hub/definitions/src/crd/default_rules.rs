//! Defaults must be what they would have to be if a user had sent them.
//!
//! In: a schema as JSON and compiled, and what the request compiles. Out: field errors, each at the path of the default that it is about.

use std::sync::Arc;

use karmada_cel::Compiling;
use karmada_schema::{SchemaRef, prune_below, validate as validate_value};
use serde_json::Value;

use super::report::{Errors, fields, invalid, required};
use super::structural::property;

/// Checks every default of `given`, whose compiled form is `compiled`.
pub(super) fn validate(
    given: &Value,
    compiled: SchemaRef<'_>,
    path: &str,
    compiling: &Arc<Compiling>,
    errors: &mut Errors,
) {
    let defaults = Defaults { compiling };
    defaults.walk(given, compiled, path, Whole::Object, errors);
}

/// What a schema is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    /// An object with its type and metadata.
    Object,
    /// A part of one.
    Part,
}

/// By what defaults are judged.
struct Defaults<'c> {
    compiling: &'c Arc<Compiling>,
}

impl Defaults<'_> {
    fn walk(&self, given: &Value, compiled: SchemaRef<'_>, path: &str, whole: Whole, errors: &mut Errors) {
        let root = whole == Whole::Object;
        if let Some(default) = given.get("default").filter(|default| !default.is_null()) {
            // A whole object keeps its type and metadata, a part of one has none.
            let embedded = root || given["x-kubernetes-embedded-resource"] == true;
            self.check(default, compiled, &format!("{path}.default"), embedded, errors);
        }
        for (name, child) in fields(&given["properties"]) {
            if root && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                continue;
            }
            if let Some(compiled) = compiled.property(name) {
                self.walk(child, compiled, &property(path, name), Whole::Part, errors);
            }
        }
        if let (true, Some(compiled)) = (given["items"].is_object(), compiled.items()) {
            self.walk(&given["items"], compiled, &format!("{path}.items"), Whole::Part, errors);
        }
        let more = &given["additionalProperties"];
        if let (true, Some(compiled)) = (more.is_object(), compiled.additional()) {
            self.walk(more, compiled, &format!("{path}.additionalProperties"), Whole::Part, errors);
        }
    }

    fn check(
        &self,
        default: &Value,
        compiled: SchemaRef<'_>,
        path: &str,
        embedded: bool,
        errors: &mut Errors,
    ) {
        let mut pruned = default.clone();
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
        for mut error in validate_value(compiled, default, self.compiling) {
            error.field = match error.field.as_str() {
                "<nil>" => path.to_owned(),
                field => format!("{path}.{field}"),
            };
            errors.push(error);
        }
    }
}
