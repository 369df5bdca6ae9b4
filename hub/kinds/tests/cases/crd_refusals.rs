//! Definitions that kube-apiserver 1.34.4 refused or took, with what it said.

use karmada_definitions::crd::{GROUP, first_status, validate};
use karmada_kinds::kind::Kind;
use serde_json::Value;

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
        Kind::builtin(GROUP, "v1", "CustomResourceDefinition").unwrap().default(&mut object);
        object["status"] = first_status(&object);
        let mut errors = Vec::new();
        validate(&object, None, &Default::default(), &mut errors);
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
