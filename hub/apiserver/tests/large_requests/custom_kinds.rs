//! Rows of custom kinds: their definitions, and objects of one that has lists of each sort.

use serde_json::{Value, json};

use super::rows::{Row, create, create_wide, list, map};

/// A custom kind with lists of each sort.
pub fn crates() -> Value {
    let texts = |more: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        schema
    };
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "plain": texts(json!({})),
        "set": texts(json!({"x-kubernetes-list-type": "set"})),
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "value": {"type": "string", "default": "v"}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "members": {"type": "object", "additionalProperties": {"type": "integer"}},
        "one": {"type": "string", "enum": ["a", "b"]},
        "objects": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object",
            "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "integer"}}}},
    }}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crates.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "crates", "singular": "crate", "kind": "Crate", "listKind": "CrateList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// A custom kind of this schema and these versions besides.
fn definition(schema: &Value, more: Value, fields: Value) -> Value {
    let mut versions =
        vec![json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}})];
    versions.extend(more.as_array().cloned().unwrap_or_default());
    let mut spec = json!({"group": "large.example.com", "scope": "Namespaced",
        "names": {"plural": "larges", "singular": "large", "kind": "Large", "listKind": "LargeList"}, "versions": versions});
    for (field, value) in fields.as_object().cloned().unwrap_or_default() {
        match value {
            Value::Object(inner) => {
                for (name, value) in inner {
                    spec[&field][name] = value;
                }
            }
            other => spec[&field] = other,
        }
    }
    json!({"metadata": {"name": "larges.large.example.com"}, "spec": spec})
}

pub fn rows() -> Vec<Row> {
    let mut all = of_definitions();
    all.extend(of_custom_objects());
    all
}

fn of_definitions() -> Vec<Row> {
    const V1: &str = "apiextensions.k8s.io/v1";
    const DEFINITION: (&str, &str) = ("customresourcedefinitions", "CustomResourceDefinition");
    let plain = || json!({"type": "object"});
    let of = |name: &'static str, schema: fn(usize) -> Value| {
        create_wide(name, V1, DEFINITION, move |n| definition(&schema(n), json!([]), json!({})))
    };
    vec![
        of(
            "properties",
            |n| json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({"type": "string"})))}),
        ),
        of("required properties", |n| {
            json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({"type": "string"}))),
                "required": list(n, |at| json!(format!("p{at}")))})
        }),
        of(
            "enumerated values",
            |n| json!({"type": "object", "properties": {"a": {"type": "string", "enum": list(n, |at| json!(format!("v{at}")))}}}),
        ),
        of(
            "rules of a schema",
            |n| json!({"type": "object", "x-kubernetes-validations": list(n, |_| json!({"rule": "true"}))}),
        ),
        of(
            "wrong rules of a schema",
            |n| json!({"type": "object", "x-kubernetes-validations": list(n, |_| json!({"rule": "x"}))}),
        ),
        of("rules over many properties", |n| {
            let half = n / 2;
            json!({"type": "object", "properties": map(half, |at| (format!("p{at}"), json!({"type": "string"}))),
                "x-kubernetes-validations": list(half, |_| json!({"rule": "true"}))})
        }),
        of("properties with a rule each", |n| {
            json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({"type": "string",
                "x-kubernetes-validations": [{"rule": "self != ''"}]})))})
        }),
        of("keys of a list", |n| {
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": list(n, |at| json!(format!("k{at}"))), "items": {"type": "object",
                    "properties": map(n, |at| (format!("k{at}"), json!({"type": "string"}))),
                    "required": list(n, |at| json!(format!("k{at}")))}}}})
        }),
        of("branches", |n| {
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "anyOf": list(n, |_| json!({"required": ["a"]}))})
        }),
        of(
            "defaults",
            |n| json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({"type": "string", "default": "d"})))}),
        ),
        of("a large default", |n| {
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"},
                "default": list(n, |at| json!(format!("v{at}")))}}})
        }),
        of(
            "properties that are wrong",
            |n| json!({"type": "object", "properties": map(n, |at| (format!("p{at}"), json!({"type": "what"})))}),
        ),
        create_wide("versions", V1, DEFINITION, move |n| {
            let more = list(
                n,
                |at| json!({"name": format!("v{}", at + 2), "served": true, "storage": false, "schema": {"openAPIV3Schema": plain()}}),
            );
            definition(&plain(), more, json!({}))
        }),
        create_wide("columns", V1, DEFINITION, move |n| {
            let mut whole = definition(&plain(), json!([]), json!({}));
            whole["spec"]["versions"][0]["additionalPrinterColumns"] =
                list(n, |at| json!({"name": format!("c{at}"), "type": "string", "jsonPath": ".spec.a"}));
            whole
        }),
        create_wide("selectable fields", V1, DEFINITION, move |n| {
            let properties = map(n, |at| (format!("p{at}"), json!({"type": "string"})));
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
            let mut whole = definition(&schema, json!([]), json!({}));
            whole["spec"]["versions"][0]["selectableFields"] =
                list(n, |at| json!({"jsonPath": format!(".spec.p{at}")}));
            whole
        }),
        create_wide("short names", V1, DEFINITION, move |n| {
            let names = list(n, |at| json!(format!("s{at}")));
            definition(&plain(), json!([]), json!({"names": {"shortNames": names, "categories": names}}))
        }),
        create_wide("versions of conversions", V1, DEFINITION, move |n| {
            let hook = json!({"clientConfig": {"url": "https://x/y"},
                "conversionReviewVersions": list(n, |at| json!(format!("v{at}")))});
            definition(&plain(), json!([]), json!({"conversion": {"strategy": "Webhook", "webhook": hook}}))
        }),
    ]
}

fn of_custom_objects() -> Vec<Row> {
    let of = |name: &'static str, spec: fn(usize) -> Value| {
        create(name, "example.com/v1", ("crates", "Crate"), move |n| json!({"spec": spec(n)}))
    };
    vec![
        of("custom list", |n| json!({"plain": list(n, |at| json!(format!("v{at}")))})),
        of("custom set", |n| json!({"set": list(n, |at| json!(format!("v{at}")))})),
        of("custom set of one value", |n| json!({"set": list(n, |_| json!("v"))})),
        of("custom keyed list", |n| json!({"keyed": list(n, |at| json!({"name": format!("v{at}")}))})),
        of("custom keyed list of one key", |n| json!({"keyed": list(n, |_| json!({"name": "v"}))})),
        of("custom keyed list without keys", |n| json!({"keyed": list(n, |_| json!({}))})),
        of("custom set of objects", |n| json!({"objects": list(n, |at| json!({"a": at}))})),
        of("custom members", |n| json!({"members": map(n, |at| (format!("k{at}"), json!(at)))})),
        of(
            "custom members that are wrong",
            |n| json!({"members": map(n, |at| (format!("k{at}"), json!("")))}),
        ),
        of("custom anything", |n| json!({"any": map(n, |at| (format!("k{at}"), json!([at])))})),
        of("custom unknown fields", |n| map(n, |at| (format!("k{at}"), json!(at)))),
        of("custom list of wrong values", |n| json!({"plain": list(n, |at| json!(at))})),
    ]
}
