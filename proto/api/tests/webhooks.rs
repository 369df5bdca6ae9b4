//! Recorded cases of the reference implementation: which ClusterTaintPolicies may be stored, and what may be deleted.
#![allow(clippy::unwrap_used)]

mod recorded;

use karmada_api::admission::refuse_deletion;
use karmada_api::validation::taint_policy::{NoExecute, validate_cluster_taint_policy};
use recorded::{BESIDE, Verdict, compare};
use serde_json::json;

#[test]
fn recorded_protection_from_deletion() {
    recorded::run("validation.json", "recorded_protection_from_deletion", &[], |case| {
        if case["webhook"] != "deletion protection" {
            return Verdict::Skip(BESIDE);
        }
        // An update is not asked about.
        let refused = refuse_deletion(&case["old"]).filter(|_| case["operation"] == "DELETE");
        let words = case["messageOneOf"].as_array().map(|words| &words[0]);
        compare(&json!(words), &json!(refused))
    });
}

#[test]
fn recorded_validation_of_taint_policies() {
    recorded::run("validation.json", "recorded_validation_of_taint_policies", &[], |case| {
        let no_execute = match case["webhook"].as_str().unwrap() {
            "validate ClusterTaintPolicy" => NoExecute::Refused,
            "validate ClusterTaintPolicy, NoExecute allowed" => NoExecute::Allowed,
            _ => return Verdict::Skip(BESIDE),
        };
        let errors = validate_cluster_taint_policy(&case["object"], no_execute);
        compare(&case["allowed"], &json!(errors.is_empty()))
    });
}
