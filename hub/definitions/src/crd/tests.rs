//! Definitions of the right words in any order: nothing they say ends a process.

use karmada_schema::{Schema, run_rules, validate as judge};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::validate;

/// Schemas of the right words in any order.
fn schema() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just(json!("object")),
        Just(json!("array")),
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("map")),
        Just(json!("set")),
        Just(json!("a")),
        Just(json!(["a"])),
        Just(json!(true)),
        Just(json!(null)),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!({})),
        Just(json!("(")),
        Just(json!([{"rule": "self.a == 1"}])),
        Just(json!([{"rule": "self"}, {}])),
    ];
    let key = prop_oneof![
        Just("type"),
        Just("required"),
        Just("default"),
        Just("enum"),
        Just("pattern"),
        Just("format"),
        Just("nullable"),
        Just("minLength"),
        Just("maximum"),
        Just("x-kubernetes-list-type"),
        Just("x-kubernetes-list-map-keys"),
        Just("x-kubernetes-int-or-string"),
        Just("x-kubernetes-validations"),
        Just("x-kubernetes-preserve-unknown-fields"),
        Just("x-kubernetes-embedded-resource"),
    ];
    let leaf = prop::collection::vec((key, word), 0..6)
        .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()));
    leaf.prop_recursive(4, 24, 4, |inner| {
        (
            inner.clone(),
            inner,
            prop::sample::select(vec![
                "properties",
                "items",
                "additionalProperties",
                "not",
                "anyOf",
                "allOf",
            ]),
        )
            .prop_map(|(mut outer, inner, key)| {
                outer[key] = match key {
                    "properties" => json!({"a": inner, "spec": inner}),
                    "anyOf" | "allOf" => json!([inner]),
                    _ => inner,
                };
                outer
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is sent is judged; whatever is taken can be compiled and judges any object.
    #[test]
    fn any_schema_is_judged_and_any_that_is_taken_judges(schema in schema(), object in schema()) {
        let definition = json!({
            "metadata": {"name": "foos.a.b"},
            "spec": {"group": "a.b", "scope": "Cluster", "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "conversion": {"strategy": "None"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
            "status": {"storedVersions": ["v1"]},
        });
        let mut errors = Vec::new();
        validate(&definition, None, &Default::default(), &mut errors);
        if errors.is_empty() {
            let compiled = Schema::of_custom(&schema).unwrap();
            let _ = judge(compiled.root(), &object, &Default::default());
            let _ = run_rules(compiled.root(), &object, Some(&json!({"a": 1})));
        }
    }
}
