//! Recorded answers to FederatedResourceQuotas.
#![allow(clippy::unwrap_used)]

mod recorded;

use karmada_api::admission::{Operation, validate};
use recorded::{BESIDE, Verdict, compare};
use serde_json::{Value, json};

#[test]
fn recorded_federated_resource_quotas() {
    recorded::run("validation.json", "recorded_federated_resource_quotas", &[], |case| {
        if case["webhook"] != "validate FederatedResourceQuota" {
            return Verdict::Skip(BESIDE);
        }
        let (group, kind) = (karmada_api::POLICY_GROUP, "FederatedResourceQuota");
        let errors = validate(group, kind, Operation::Create, &case["object"], None);
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if case["allowed"] == true {
            return compare(&json!([]), &json!(words));
        }
        let told = if words.len() == 1 { words[0].clone() } else { format!("[{}]", words.join(", ")) };
        let wanted = case["messageOneOf"].as_array().unwrap();
        if wanted.contains(&Value::from(told.as_str())) {
            Verdict::Agrees
        } else {
            compare(&wanted[0], &json!(told))
        }
    });
}
