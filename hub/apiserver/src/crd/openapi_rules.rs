//! What of OpenAPI a definition's schema may use, and what its Kubernetes extensions ask of each other.

use serde_json::Value;

use super::report::{Errors, fields, forbidden, invalid, items, not_supported, required, text};
use super::structural::property;
use crate::schema::pattern_problem;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn validate(schema: &Value, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    standard(schema, path, errors);
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(forbidden(&at("uniqueItems"), why));
    }
    let more = &schema["additionalProperties"];
    if (more.is_object() || *more == false) && fields(&schema["properties"]).next().is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(forbidden(&at("additionalProperties"), why));
    }
    if more.is_object() {
        validate(more, &at("additionalProperties"), errors);
    }
    for (name, child) in fields(&schema["properties"]) {
        validate(child, &property(path, name), errors);
    }
    if schema["not"].is_object() {
        validate(&schema["not"], &at("not"), errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, one) in items(schema, key).iter().enumerate() {
            validate(one, &format!("{path}.{key}[{index}]"), errors);
        }
    }
    if schema["items"].is_object() {
        validate(&schema["items"], &at("items"), errors);
    }
    extensions(schema, path, errors);
}

fn standard(schema: &Value, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let ty = text(schema, "type");
    if !ty.is_empty() && !TYPES.contains(&ty) {
        errors.push(not_supported(&at("type"), ty, &TYPES));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let empty =
            |value: &Value| value.is_null() || value == "" || value.as_object().is_some_and(|o| o.is_empty());
        if !empty(&schema[key]) {
            errors.push(forbidden(&at(key), format!("{key} is not supported")));
        }
    }
    if ty == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(forbidden(&at("type"), why));
    }
    if schema["items"].is_array() {
        errors.push(forbidden(&at("items"), "items must be a schema object and not an array"));
    }
    let pattern = text(schema, "pattern");
    if let Some(why) = pattern_problem(pattern) {
        errors.push(invalid(
            &at("pattern"),
            pattern,
            format!("must be a valid regular expression, but isn't: {why}"),
        ));
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
        }
        return;
    }
    if text(element, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(invalid(&at("items.type"), text(element, "type"), why));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let all = schema["x-kubernetes-list-map-keys"].clone();
        if keys[..index].contains(key) {
            errors.push(invalid(
                &at("x-kubernetes-list-map-keys"),
                all,
                "must not contain duplicate entries",
            ));
            continue;
        }
        match element["properties"].get(name) {
            None => {
                let why = "entries must all be names of item properties";
                errors.push(invalid(&at("x-kubernetes-list-map-keys"), all, why));
            }
            Some(field) if matches!(text(field, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let path = format!("{}.type", property(&at("items"), name));
                errors.push(invalid(&path, text(field, "type"), why));
            }
            Some(_) => {}
        }
    }
}
