//! Structural schemas: every field has a type, said in one place; what `anyOf` and its like add only restricts.

use serde_json::Value;

use super::report::{Errors, fields, forbidden, invalid, items, required, text};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps the schema from being structural. Unordered.
pub(super) fn validate(schema: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    node(schema, Level::Root, path, &mut errors);
    complete(schema, schema, path, path, &mut errors);
    errors
}

/// `path.properties[name]`.
pub(super) fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

fn node(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let on = |key: &str| schema[key] == true;
    if schema["$ref"].is_string() {
        // Not supported at all, which is said elsewhere.
        return;
    }
    let ty = text(schema, "type");
    if schema["items"].is_object() {
        node(&schema["items"], Level::Item, &at("items"), errors);
    }
    for (name, child) in fields(&schema["properties"]) {
        node(child, Level::Field, &property(path, name), errors);
    }
    if !schema["additionalProperties"].is_null() {
        if level == Level::Root {
            errors.push(forbidden(&at("additionalProperties"), "must not be used at the root"));
        } else if schema["additionalProperties"].is_object() {
            node(&schema["additionalProperties"], Level::Field, &at("additionalProperties"), errors);
        }
    }
    let (preserve, int_or_string, embedded) = (
        on("x-kubernetes-preserve-unknown-fields"),
        on("x-kubernetes-int-or-string"),
        on("x-kubernetes-embedded-resource"),
    );
    if int_or_string && preserve {
        let why = "must be false if x-kubernetes-int-or-string is true";
        errors.push(invalid(&at("x-kubernetes-preserve-unknown-fields"), true, why));
    }
    lists(schema, path, errors);
    nested_all(schema, int_or_string, path, errors);
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
    if ty == "array" && schema["items"].is_null() {
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

/// `apiVersion`, `kind` and `metadata` are what they are.
fn type_meta(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
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
        return;
    }
    if level == Level::Root && metadata.get("default").is_some() {
        errors.push(forbidden(&format!("{at}.default"), "must not be set in top-level metadata"));
        return;
    }
    let known =
        |key: &String| matches!(key.as_str(), "type" | "properties" | "description" | "title" | "default");
    let named =
        fields(&metadata["properties"]).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    if !named || !fields(metadata).all(|(key, _)| known(key)) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(forbidden(&at, why));
    }
}

/// Lists that merge by key, and sets.
fn lists(schema: &Value, path: &str, errors: &mut Errors) {
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
    let part = |name: &str| text(element, name);
    if list == "set" {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        if part("type") == "object" && part("x-kubernetes-map-type") != "atomic" {
            let value = element["x-kubernetes-map-type"].clone();
            errors.push(invalid(&format!("{path}.x-kubernetes-map-type"), value, why));
        }
        if part("type") == "array" && !matches!(part("x-kubernetes-list-type"), "" | "atomic") {
            let value = element["x-kubernetes-list-type"].clone();
            errors.push(invalid(&format!("{path}.x-kubernetes-list-type"), value, why));
        }
        return;
    }
    for key in items(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str) {
        let Some(field) = element["properties"].get(key) else { continue };
        let path = property(&path, key);
        if field["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(forbidden(&format!("{path}.nullable"), why));
        }
        let needed = items(element, "required").iter().any(|name| name == key);
        if !needed && field.get("default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(required(&format!("{path}.default"), why));
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

fn nested_all(schema: &Value, int_or_string: bool, path: &str, errors: &mut Errors) {
    let skip = int_or_string && integer_or_string(schema);
    let skip_first = int_or_string && items(schema, "allOf").first().is_some_and(integer_or_string);
    combined(schema, path, &mut |one, at| {
        let any = skip && at.starts_with(&format!("{path}.anyOf["));
        let first = skip_first && at == format!("{path}.allOf[0]");
        if !any && !first {
            nested(one, at, errors);
        }
    });
}

fn nested(schema: &Value, path: &str, errors: &mut Errors) {
    nested_all(schema, false, path, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], &format!("{path}.items"), errors);
    }
    for (name, child) in fields(&schema["properties"]) {
        nested(child, &property(path, name), errors);
    }
    let set = |key: &str| match &schema[key] {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
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

/// What combined schemas restrict must be declared outside them.
fn complete(declared: &Value, schema: &Value, path: &str, own: &str, errors: &mut Errors) {
    combined(schema, own, &mut |one, at| complete_with(declared, one, path, at, errors));
    if std::ptr::eq(declared, schema) {
        for (name, child) in fields(&schema["properties"]) {
            let path = property(path, name);
            complete(child, child, &path, &path, errors);
        }
        for key in ["items", "additionalProperties"] {
            if schema[key].is_object() {
                let path = format!("{path}.{key}");
                complete(&schema[key], &schema[key], &path, &path, errors);
            }
        }
    }
}

fn complete_with(declared: &Value, restricting: &Value, path: &str, own: &str, errors: &mut Errors) {
    for (name, child) in fields(&restricting["properties"]) {
        let (there, here) = (property(path, name), property(own, name));
        match declared["properties"].get(name) {
            Some(field) => complete_with(field, child, &there, &here, errors),
            None if name == "metadata" => {
                errors.push(required(&there, &format!("because it is defined in {here}")));
            }
            None => {}
        }
    }
    combined(restricting, own, &mut |one, at| complete_with(declared, one, path, at, errors));
}
