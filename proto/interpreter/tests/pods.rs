//! Recorded cases of the reference implementation: what pods ask for, what bindings use, what workloads refer to.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/recorded/mod.rs"]
mod recorded;

use karmada_api::binding::{BindingSpec, Component};
use karmada_interpreter::replicas::{QuotaEstimate, node_claim, pod_requirements};
use karmada_interpreter::{Answer, Interpreter, Native, usage};
use recorded::{BESIDE, Differences, Verdict, compare};
use serde_json::{Value, json};

const SATURATED: &str = "recorded bug: amounts whose sum is too large to count were taken for nothing; ours are the most there can be";

const REQUIREMENTS: Differences =
    &[(101, SATURATED), (230, "recorded bug: replicas were added in 32 bits, and a usage was negative")];

/// Absent lists of node affinity are empty in ours.
fn terms(wanted: &Value) -> Value {
    serde_json::from_str(
        &wanted.to_string().replace(r#""nodeSelectorTerms":null"#, r#""nodeSelectorTerms":[]"#),
    )
    .unwrap()
}

fn asked(case: &Value) -> Answer<(Value, Value)> {
    Ok(match case["fn"].as_str().unwrap() {
        "replicaRequirements" => {
            let quotas =
                if case["resourceQuotaEstimate"] == true { QuotaEstimate::On } else { QuotaEstimate::Off };
            let got = pod_requirements(&case["template"]["spec"], quotas)?;
            (terms(&case["requirements"]), json!(got))
        }
        "nodeClaim" => (terms(&case["nodeClaim"]), json!(node_claim(&case["podSpec"])?)),
        "resourceUsage" => {
            let spec: BindingSpec = serde_json::from_value(case["spec"].clone()).unwrap();
            (case["usage"].clone(), json!(usage::of_binding(&spec)))
        }
        _ => {
            let parts: Vec<Component> = serde_json::from_value(case["components"].clone()).unwrap();
            (case["total"].clone(), json!(usage::of_components(&parts)))
        }
    })
}

#[test]
fn recorded_requirements() {
    recorded::run("podrequirements.json", "recorded_requirements", REQUIREMENTS, |case| match asked(case) {
        Ok((wanted, got)) => compare(&wanted, &got),
        Err(error) => Verdict::Differs(format!("got the error {error}")),
    });
}

const DEPENDENCIES: Differences = &[
    (137, "recorded bug: the same secret twice is one dependency"),
    (138, "recorded bug: a TLS entry without a secret is legal, but failed the whole call"),
    (139, "recorded bug: a TLS entry without a secret is legal, but failed the whole call"),
    (140, "recorded bug: a TLS entry without a secret is legal, but failed the whole call"),
];

#[test]
fn recorded_dependencies() {
    recorded::run("dependencies.json", "recorded_dependencies", DEPENDENCIES, |case| {
        if case["op"] != "dependencies" {
            return Verdict::Skip(BESIDE);
        }
        match (Native.dependencies(&case["object"]), case.get("error")) {
            (Ok(got), None) => compare(&case["dependencies"], &json!(got)),
            (Err(_), Some(_)) => Verdict::Agrees,
            (Ok(got), Some(error)) => {
                Verdict::Differs(format!("wanted the error {error}, got {}", json!(got)))
            }
            (Err(error), None) => Verdict::Differs(format!("got the error {error}")),
        }
    });
}
