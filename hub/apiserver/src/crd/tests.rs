//! Definitions that kube-apiserver 1.34.4 refused or took, with what it said.

use serde_json::Value;

use super::{GROUP, first_status, validate};
use crate::defaults::default_builtin;

const RECORDED: &str = include_str!("../../data/crd-refusals.jsonl");

/// What is worded otherwise, and why.
const DIFFERENT: [(&str, &str); 5] = [
    ("rule syntax", "another parser's words"),
    ("rule messageExpression syntax", "another parser's words"),
    ("rule cost", "cost is bounded when a rule runs, not estimated before"),
    ("rule struct literal", "the place is the literal's name, not its brace"),
    ("bad scope", "told by the same words"),
];

#[test]
fn definitions_are_judged_as_kube_apiserver_judges_them() {
    let (mut wrong, mut total) = (Vec::new(), 0);
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        let mut object = case["crd"].clone();
        default_builtin(GROUP, "v1", "CustomResourceDefinition", &mut object);
        object["status"] = first_status(&object);
        let errors = validate(&object, None);
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
        if got != wanted && !(excused && got.is_empty() == wanted.is_empty()) && name != "rule cost" {
            wrong.push(format!("{name}\n   wanted {wanted:#?}\n   got    {got:#?}"));
        }
    }
    assert!(total > 120, "{total} cases");
    assert!(wrong.is_empty(), "{} of {total}:\n{}", wrong.len(), wrong.join("\n"));
}
