//! One version's schema: read as a structural one, then judged as such, then as OpenAPI, then its rules and defaults.
//!
//! In: a schema as its definition has it. Out: everything that is wrong with it, in kube-apiserver's order; and formats that nobody
//! knows, of which only is warned.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_cel::Compiling;
use karmada_schema::{Schema, is_known_format};
use serde_json::Value;

use super::report::{Errors, fields, forbidden, invalid, invalid_raw, items, refused_at_root, schema, text};
use super::{cel_rules, default_rules, openapi_rules, structural};

/// The schemas of the spec that stood.
pub(super) struct Stood<'s>(HashSet<&'s Value>);

impl<'s> Stood<'s> {
    pub(super) fn of(spec: &'s Value) -> Stood<'s> {
        Stood(items(spec, "versions").iter().map(|version| &version["schema"]).collect())
    }
}

/// Everything that is wrong with a version's schema. `before`: those that stood; `status`: whether a status is written by itself.
/// `compiling`: what the definition compiles, of all its versions.
pub(super) fn validate(
    given: &Value,
    before: &Stood<'_>,
    status: bool,
    path: &str,
    compiling: &Arc<Compiling>,
    errors: &mut Errors,
) {
    let stood = before.0.contains(given);
    let before = errors.len();
    let given = &given["openAPIV3Schema"];
    if !given.is_object() {
        return;
    }
    let path = format!("{path}.openAPIV3Schema");
    if status {
        beside_status(given, &path, errors);
    }
    if given["nullable"] == true {
        errors.push(forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let unreadable = structural::unreadable(given);
    let mut structure = match unreadable {
        Some(_) => Errors::new(),
        None => structural::validate(given, &path, compiling),
    };
    structure.sort_by_key(ToString::to_string);
    let compiled = Schema::of_custom(given);
    if let (true, None, Ok(compiled)) = (structure.is_empty(), &unreadable, &compiled) {
        default_rules::validate(given, compiled.root(), &path, compiling, &mut structure);
    }
    let mut own = Errors::new();
    openapi_rules::validate(given, &path, &mut own);
    if structure.is_empty() && unreadable.is_none() {
        cel_rules::validate(given, &path, !stood, compiling, &mut own);
    }
    errors.append(&mut structure);
    errors.append(&mut own);
    if errors.len() > before {
        return;
    }
    if let Some(why) = unreadable {
        errors.push(invalid(&path, "", why));
    } else if let Err(error) = compiled {
        errors.push(invalid(&path, "", format!("error building validator: {error}")));
    }
}

/// A root schema beside a status of its own can only say what holds for the status, too.
fn beside_status(given: &Value, path: &str, errors: &mut Errors) {
    let early = ["id", "$schema"].iter().any(|key| !text(given, key).is_empty()) || given["$ref"].is_string();
    if !early && !matches!(text(given, "type"), "" | "object") {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(invalid(&format!("{path}.type"), text(given, "type"), why));
    } else if let Some(why) = refused_at_root(given) {
        errors.push(invalid_raw(path, schema(given), why));
    }
}

/// Whether a schema has a default, here or below.
pub(super) fn has_default(schema: &Value) -> bool {
    let below = ["items", "additionalProperties", "not"].into_iter().map(|key| &schema[key]);
    let below = below.chain(fields(&schema["properties"]).map(|(_, child)| child));
    let combined = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| items(schema, key));
    !schema["default"].is_null() || below.filter(|one| one.is_object()).chain(combined).any(has_default)
}

/// Formats that nobody knows, each once, where the schemas are new: they are taken and mean nothing.
pub fn unknown_formats(new: &Value, old: Option<&Value>) -> Vec<String> {
    fn named(version: &Value) -> (&Value, &Value) {
        (&version["name"], &version["schema"])
    }
    let mut found = Found::default();
    let before: HashSet<(&Value, &Value)> =
        old.into_iter().flat_map(|old| items(&old["spec"], "versions")).map(named).collect();
    for version in items(&new["spec"], "versions") {
        if !before.contains(&named(version)) {
            formats(&version["schema"]["openAPIV3Schema"], &mut found);
        }
    }
    found.all
}

/// Sentences, each once.
#[derive(Default)]
struct Found {
    all: Vec<String>,
    seen: HashSet<String>,
}

fn formats(schema: &Value, found: &mut Found) {
    let format = text(schema, "format");
    let told = format!("unrecognized format {format:?}");
    if !format.is_empty() && !is_known_format(text(schema, "type"), format) && found.seen.insert(told.clone())
    {
        found.all.push(told);
    }
    fields(&schema["properties"]).for_each(|(_, child)| formats(child, found));
    for key in ["items", "additionalProperties", "not"] {
        if schema[key].is_object() {
            formats(&schema[key], found);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        items(schema, key).iter().for_each(|one| formats(one, found));
    }
}
