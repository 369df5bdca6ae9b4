//! Structural schemas: every field has a type, said in one place; what `anyOf` and its like add only restricts.
//!
//! In: the schema as JSON with its path, and what the request compiles (its patterns). Out: field errors in no order; or, as text, the
//! first reason why it cannot be read as a structural schema at all.

use karmada_cel::{Compiling, PatternError};
use karmada_schema::{FieldError, pattern_problem};
use serde_json::Value;

use super::report::{Errors, fields, forbidden, invalid, items, required, text};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps the schema from being structural. Unordered.
pub(super) fn validate(schema: &Value, path: &str, compiling: &Compiling) -> Errors {
    let mut errors = Found { errors: Errors::new(), compiling };
    node(schema, Level::Root, path, &mut errors);
    // Only what the root combines is held against what is declared: so kube-apiserver looks.
    combined(schema, path, &mut |one, at| complete(Some(schema), one, path, at, &mut errors));
    errors.errors
}

/// What was found so far, and by what patterns are judged.
struct Found<'c> {
    errors: Errors,
    compiling: &'c Compiling,
}

impl Found<'_> {
    fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }
}

/// Keywords that no structural schema can hold.
const UNKNOWN: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

/// Why a schema cannot even be read as a structural one; the first reason there is.
pub(super) fn unreadable(schema: &Value) -> Option<String> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if let Some(key) = UNKNOWN.into_iter().find(|key| match *key {
        "additionalItems" => !schema[*key].is_null(),
        key => !is_empty(&schema[key]),
    }) {
        return Some(format!(
            "OpenAPIV3Schema '{}' is not supported",
            if key == "$schema" { "schema" } else { key }
        ));
    }
    let mut why = None;
    combined(schema, "", &mut |one, _| why = why.take().or_else(|| unreadable(one)));
    if why.is_none() && schema["x-kubernetes-preserve-unknown-fields"] == false {
        why = Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    if why.is_none() && !items(schema, "items").is_empty() {
        why = Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let nested = ["items", "additionalProperties"].into_iter().map(|key| &schema[key]);
    let nested = nested.chain(fields(&schema["properties"]).map(|(_, child)| child));
    why.or_else(|| nested.filter(|one| one.is_object()).find_map(unreadable))
}

/// `path.properties[name]`.
pub(super) fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

fn node(schema: &Value, level: Level, path: &str, errors: &mut Found<'_>) {
    let at = |field: &str| format!("{path}.{field}");
    let on = |key: &str| schema[key] == true;
    let ty = text(schema, "type");
    children(schema, level, path, errors);
    let (preserve, int_or_string, embedded) = (
        on("x-kubernetes-preserve-unknown-fields"),
        on("x-kubernetes-int-or-string"),
        on("x-kubernetes-embedded-resource"),
    );
    if int_or_string && preserve {
        let why = "must be false if x-kubernetes-int-or-string is true";
        errors.push(invalid(&at("x-kubernetes-preserve-unknown-fields"), true, why));
    }
    if int_or_string && embedded {
        let why = "must be false if x-kubernetes-int-or-string is true";
        errors.push(invalid(&at("x-kubernetes-embedded-resource"), true, why));
    }
    pattern(schema, path, errors);
    let excused = if int_or_string { forms(schema, path) } else { Vec::new() };
    nested_all(schema, path, &excused, errors);
    if embedded && ty != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if ty.is_empty() { required(&at("type"), why) } else { invalid(&at("type"), ty, why) });
    } else if ty.is_empty() && !int_or_string && !preserve {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(required(&at("type"), why));
    }
    if ty == "array" && !schema["items"].is_object() {
        errors.push(required(&at("items"), "must be specified"));
    }
    if embedded && !schema["additionalProperties"].is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(forbidden(&at("additionalProperties"), why));
    }
    if level == Level::Root && !matches!(ty, "" | "object") {
        errors.push(invalid(&at("type"), ty, "must be object at the root"));
    }
    if level == Level::Root || embedded {
        type_meta(schema, level, path, errors);
    }
    let empty = fields(&schema["properties"]).next().is_none();
    if embedded && !preserve && empty {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(required(&at("properties"), why));
    }
}

/// The schemas of items, properties and other properties.
fn children(schema: &Value, level: Level, path: &str, errors: &mut Found<'_>) {
    let at = |field: &str| format!("{path}.{field}");
    if schema["items"].is_object() {
        node(&schema["items"], Level::Item, &at("items"), errors);
    }
    for (name, child) in fields(&schema["properties"]) {
        node(child, Level::Field, &property(path, name), errors);
    }
    if !schema["additionalProperties"].is_null() {
        if level == Level::Root {
            errors.push(forbidden(&at("additionalProperties"), "must not be used at the root"));
        }
        if schema["additionalProperties"].is_object() {
            node(&schema["additionalProperties"], Level::Field, &at("additionalProperties"), errors);
        }
    }
}

/// `apiVersion` and `kind` are texts and `metadata` is an object; at the root nothing of the metadata may be restricted but the names.
fn type_meta(schema: &Value, level: Level, path: &str, errors: &mut Found<'_>) {
    for name in ["apiVersion", "kind"] {
        let ty = text(&schema["properties"][name], "type");
        if schema["properties"].get(name).is_some() && ty != "string" {
            let path = format!("{}.type", property(path, name));
            errors.push(invalid(&path, ty, "must be string"));
        }
    }
    let Some(metadata) = schema["properties"].get("metadata") else { return };
    let at = property(path, "metadata");
    let ty = text(metadata, "type");
    if ty != "object" {
        errors.push(invalid(&format!("{at}.type"), ty, "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let named =
        fields(&metadata["properties"]).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    // What is told elsewhere, or is forgotten.
    let known = ["type", "properties", "default", "example", "externalDocs"];
    if !named || fields(metadata).any(|(key, value)| !known.contains(&key.as_str()) && is_set(value)) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(forbidden(&at, why));
    }
}

/// Whether a keyword's value differs from none.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

fn pattern(schema: &Value, path: &str, errors: &mut Found<'_>) {
    let given = text(schema, "pattern");
    if given.is_empty() {
        return;
    }
    let at = format!("{path}.pattern");
    match errors.compiling.pattern(given) {
        Ok(()) => {}
        Err(error @ PatternError::Spent) => errors.push(forbidden(&at, error.to_string())),
        Err(error) => {
            let why = pattern_problem(given, &error);
            let why = format!("must be a valid regular expression, but isn't: {why}");
            errors.push(invalid(&at, given, why));
        }
    }
}

/// Calls `each` with every schema that is combined rather than nested, and its path.
fn combined(schema: &Value, path: &str, each: &mut dyn FnMut(&Value, &str)) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for (at, one) in items(schema, key).iter().enumerate() {
            each(one, &format!("{path}.{key}[{at}]"));
        }
    }
    if schema["not"].is_object() {
        each(&schema["not"], &format!("{path}.not"));
    }
}

/// The form in which an int-or-string says that it is an integer or a string.
fn integer_or_string(schema: &Value) -> bool {
    let types: Vec<&str> = items(schema, "anyOf").iter().map(|one| text(one, "type")).collect();
    types == ["integer", "string"] && items(schema, "anyOf").iter().all(|one| fields(one).count() == 1)
}

/// How the paths begin of those combined schemas of an int-or-string that say that it is an integer or a string: only these may have a
/// type.
fn forms(schema: &Value, path: &str) -> Vec<String> {
    let any = integer_or_string(schema).then(|| format!("{path}.anyOf["));
    let first = items(schema, "allOf").first().is_some_and(integer_or_string);
    any.into_iter().chain(first.then(|| format!("{path}.allOf[0]"))).collect()
}

fn nested_all(schema: &Value, path: &str, excused: &[String], errors: &mut Found<'_>) {
    combined(schema, path, &mut |one, at| {
        if !excused.iter().any(|form| at.starts_with(form.as_str())) {
            nested(one, at, errors);
        }
    });
}

fn nested(schema: &Value, path: &str, errors: &mut Found<'_>) {
    pattern(schema, path, errors);
    nested_all(schema, path, &[], errors);
    if schema["items"].is_object() {
        nested(&schema["items"], &format!("{path}.items"), errors);
    }
    for (name, child) in fields(&schema["properties"]) {
        nested(child, &property(path, name), errors);
    }
    let set = |key: &str| match key {
        "x-kubernetes-list-type" | "x-kubernetes-map-type" => schema[key].is_string(),
        _ => is_set(&schema[key]),
    };
    for (key, state) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        if set(key) {
            errors.push(forbidden(&format!("{path}.{key}"), format!("must be {state} to be structural")));
        }
    }
    if schema["properties"].get("metadata").is_some() {
        errors.push(forbidden(&property(path, "metadata"), "must not be specified in a nested context"));
    }
}

/// What combined schemas restrict must be declared outside them. `path`: where it would be declared; `own`: where it is restricted.
fn complete(declared: Option<&Value>, restricting: &Value, path: &str, own: &str, errors: &mut Found<'_>) {
    let Some(declared) = declared else {
        errors.push(required(path, &format!("because it is defined in {own}")));
        return;
    };
    combined(restricting, own, &mut |one, at| complete(Some(declared), one, path, at, errors));
    if restricting["items"].is_object() {
        let items = Some(&declared["items"]).filter(|items| items.is_object());
        complete(items, &restricting["items"], &format!("{path}.items"), &format!("{own}.items"), errors);
    }
    for (name, child) in fields(&restricting["properties"]) {
        complete(
            declared["properties"].get(name),
            child,
            &property(path, name),
            &property(own, name),
            errors,
        );
    }
}
