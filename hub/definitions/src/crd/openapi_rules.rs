//! What of OpenAPI a definition's schema may use, and what its Kubernetes extensions ask of each other.
//!
//! In: the schema as JSON with its path. Out: field errors in kube-apiserver's order. Whether the schema is structural, and its CEL rules
//! compile, is judged elsewhere.

use std::collections::HashSet;

use serde_json::Value;

use super::cel_rules;
use super::report::{
    self, Errors, fields, forbidden, invalid, invalid_raw, items, not_supported, required, text,
};
use super::structural::property;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Where in a definition's schema this is.
#[derive(Clone, Copy, Default)]
struct SchemaPosition {
    /// Whether this is the schema of the whole object.
    root: bool,
    /// Whether this is within the `apiVersion`, `kind` or `metadata` of an object.
    meta: bool,
    /// Why no default can be here.
    undefaulted: Option<&'static str>,
}

/// What is wrong with a definition's schema, from its root.
pub(super) fn validate(schema: &Value, path: &str, errors: &mut Errors) {
    node(schema, path, SchemaPosition { root: true, ..SchemaPosition::default() }, errors);
}

fn node(schema: &Value, path: &str, place: SchemaPosition, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    standard(schema, path, place, errors);
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(forbidden(&at("uniqueItems"), why));
    }
    let more = &schema["additionalProperties"];
    if (more.is_object() || *more == false) && fields(&schema["properties"]).next().is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(forbidden(&at("additionalProperties"), why));
    }
    let within = SchemaPosition { root: false, ..place };
    if more.is_object() {
        let why = Some("inside additionalProperties applying to object metadata").filter(|_| place.meta);
        let undefaulted = why.or(place.undefaulted);
        node(more, &at("additionalProperties"), SchemaPosition { undefaulted, ..within }, errors);
    }
    let whole = place.root || schema["x-kubernetes-embedded-resource"] == true;
    for (name, child) in fields(&schema["properties"]) {
        let top = match name.as_str() {
            "metadata" => Some("in top-level metadata"),
            "apiVersion" => Some("in top-level apiVersion"),
            "kind" => Some("in top-level kind"),
            _ => None,
        };
        let undefaulted = top.filter(|_| place.root).or(place.undefaulted);
        let meta = place.meta || whole && top.is_some();
        node(child, &property(path, name), SchemaPosition { meta, undefaulted, ..within }, errors);
    }
    if schema["not"].is_object() {
        node(&schema["not"], &at("not"), within, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, one) in items(schema, key).iter().enumerate() {
            node(one, &format!("{path}.{key}[{index}]"), within, errors);
        }
    }
    for (name, child) in fields(&schema["definitions"]) {
        node(child, &format!("{path}.definitions[{name}]"), within, errors);
    }
    if schema["items"].is_object() {
        node(&schema["items"], &at("items"), within, errors);
    }
    for (index, one) in items(schema, "items").iter().enumerate() {
        node(one, &format!("{path}.items[{index}]"), within, errors);
    }
    for (name, child) in fields(&schema["dependencies"]).filter(|(_, child)| child.is_object()) {
        node(child, &format!("{path}.dependencies[{name}]"), within, errors);
    }
    extensions(schema, path, errors);
    for (index, rule) in items(schema, "x-kubernetes-validations").iter().enumerate() {
        cel_rules::words(schema, rule, &format!("{path}.x-kubernetes-validations[{index}]"), errors);
    }
}

fn standard(schema: &Value, path: &str, place: SchemaPosition, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let ty = text(schema, "type");
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.push(not_supported(&at("type"), ty, &TYPES));
    }
    if let Some(why) = place.undefaulted.filter(|_| !schema["default"].is_null()) {
        errors.push(forbidden(&at("default"), format!("must not be set {why}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let given = &schema[key];
        let there = match key {
            "id" => !text(schema, key).is_empty(),
            "patternProperties" | "definitions" => fields(given).next().is_some(),
            _ => !given.is_null(),
        };
        if there {
            errors.push(forbidden(&at(key), format!("{key} is not supported")));
        }
    }
    if ty == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(forbidden(&at("type"), why));
    }
    if !items(schema, "items").is_empty() {
        errors.push(forbidden(&at("items"), "items must be a schema object and not an array"));
    }
    if place.meta && schema["x-kubernetes-embedded-resource"] == true {
        let why = "must not be used inside of resource meta";
        errors.push(forbidden(&at("x-kubernetes-embedded-resource"), why));
    }
}

fn extensions(schema: &Value, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let ty = text(schema, "type");
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let path = at("x-kubernetes-preserve-unknown-fields");
        errors.push(invalid(&path, false, "must be true or undefined"));
    }
    let typed = |wanted: &str, key: &str, errors: &mut Errors| {
        let why = format!("must be {wanted} if {key} is specified");
        if schema[key].is_string() && ty != wanted {
            let path = at("type");
            errors.push(if ty.is_empty() { required(&path, &why) } else { invalid(&path, ty, why) });
        }
    };
    typed("object", "x-kubernetes-map-type", errors);
    let map = schema["x-kubernetes-map-type"].as_str();
    if let Some(other) = map.filter(|map| !matches!(*map, "atomic" | "granular")) {
        errors.push(not_supported(&at("x-kubernetes-map-type"), other, &["atomic", "granular"]));
    }
    typed("array", "x-kubernetes-list-type", errors);
    if ty == "array" {
        element_of_set(schema, path, errors);
    }
    let list = schema["x-kubernetes-list-type"].as_str();
    if let Some(other) = list.filter(|list| !matches!(*list, "atomic" | "set" | "map")) {
        errors.push(not_supported(&at("x-kubernetes-list-type"), other, &["atomic", "set", "map"]));
    }
    let keys = items(schema, "x-kubernetes-list-map-keys");
    if !keys.is_empty() && list != Some("map") {
        let (path, why) =
            (at("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
        errors.push(list.map_or_else(|| required(&path, why), |list| invalid(&path, list, why)));
    }
    if list == Some("map") {
        keyed(schema, keys, path, errors);
    }
    merged(schema, path, errors);
}

/// An item of a set is merged as a whole, so its schema is atomic.
fn element_of_set(schema: &Value, path: &str, errors: &mut Errors) {
    let element = &schema["items"];
    if text(schema, "x-kubernetes-list-type") != "set" || !element.is_object() {
        return;
    }
    let part = |name: &str| element[name].as_str();
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let wrong = match text(element, "type") {
        "object" if part("x-kubernetes-map-type") != Some("atomic") => "x-kubernetes-map-type",
        "array" if !matches!(part("x-kubernetes-list-type"), None | Some("atomic")) => {
            "x-kubernetes-list-type"
        }
        _ => return,
    };
    // In both cases the list's type is shown.
    let shown = element["x-kubernetes-list-type"].clone();
    errors.push(invalid(&format!("{path}.items.{wrong}"), shown, why));
}

/// Lists that merge by key, and sets: what tells their elements apart is always there.
fn merged(schema: &Value, path: &str, errors: &mut Errors) {
    let list = text(schema, "x-kubernetes-list-type");
    let element = &schema["items"];
    if !matches!(list, "map" | "set") || !element.is_object() {
        return;
    }
    let path = format!("{path}.items");
    if element["nullable"] == true {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        errors.push(forbidden(&format!("{path}.nullable"), why));
    }
    if list == "set" {
        return;
    }
    let required_names: HashSet<&str> = items(element, "required").iter().filter_map(Value::as_str).collect();
    for key in items(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str) {
        let Some(field) = element["properties"].get(key) else { continue };
        let path = property(&path, key);
        let needed = required_names.contains(key);
        if !needed && field["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(required(&format!("{path}.default"), why));
        }
        if field["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(forbidden(&format!("{path}.nullable"), why));
        }
    }
}

fn keyed(schema: &Value, keys: &[Value], path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(required(&at("x-kubernetes-list-map-keys"), why));
    }
    let element = &schema["items"];
    if !element.is_object() {
        if element.is_null() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            errors.push(required(&at("items"), why));
        } else {
            let shown = format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", report::schemas(element));
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(invalid_raw(&at("items"), shown, why));
        }
        return;
    }
    if text(element, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(invalid(&at("items.type"), text(element, "type"), why));
        return;
    }
    let (mut seen, mut turns) = (HashSet::new(), karmada_schema::fields::whole_lists(keys));
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let all = || schema["x-kubernetes-list-map-keys"].clone();
        match element["properties"].get(name) {
            None if turns.next().is_some() => {
                let why = "entries must all be names of item properties";
                errors.push(invalid(&at("x-kubernetes-list-map-keys"), all(), why));
            }
            Some(field) if matches!(text(field, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let path = format!("{}.type", property(&at("items"), name));
                // The element's type is shown, not the field's.
                errors.push(invalid(&path, text(element, "type"), why));
            }
            _ => {}
        }
        if !seen.insert(key) && turns.next().is_some() {
            let why = "must not contain duplicate entries";
            errors.push(invalid(&at("x-kubernetes-list-map-keys"), all(), why));
        }
    }
}
