//! Definitions that kube-apiserver 1.34.4 refused or took, with what it said.

use serde_json::Value;

use super::{GROUP, first_status, validate};
use crate::defaults::default_builtin;

const RECORDED: &str = include_str!("../../data/crd-refusals.jsonl");

/// What is worded otherwise, and why.
const DIFFERENT: [(&str, &str); 1] = [("no versions", "an empty list is shown as none")];

#[test]
fn definitions_are_judged_as_kube_apiserver_judges_them() {
    let (mut wrong, mut total) = (Vec::new(), 0);
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        let mut object = case["crd"].clone();
        default_builtin(GROUP, "v1", "CustomResourceDefinition", &mut object);
        object["status"] = first_status(&object);
        let mut errors = Vec::new();
        validate(&object, None, &mut errors);
        let got: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect();
        let wanted: Vec<String> = case["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|cause| {
                format!("{}: {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
            })
            .collect();
        total += 1;
        let excused = DIFFERENT.iter().any(|(one, _)| *one == name);
        if got != wanted && !(excused && got.is_empty() == wanted.is_empty()) {
            wrong.push(format!("{name}\n   wanted {wanted:#?}\n   got    {got:#?}"));
        }
    }
    assert!(total > 120, "{total} cases");
    assert!(wrong.is_empty(), "{} of {total}:\n{}", wrong.len(), wrong.join("\n"));
}

mod absurd {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::validate;
    use crate::schema::{Schema, run_rules, validate as judge};

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
            validate(&definition, None, &mut errors);
            if errors.is_empty() {
                let compiled = Schema::of_custom(&schema).unwrap();
                let _ = judge(compiled.root(), &object);
                let _ = run_rules(compiled.root(), &object, Some(&json!({"a": 1})));
            }
        }
    }
}
