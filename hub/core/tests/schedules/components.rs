//! Workloads of several parts: how many sets of them fit, and several who estimate that.

use karmada_api::binding::Component;
use karmada_api::cluster::Cluster;
use karmada_api::policy::SpreadConstraint;
use karmada_core::scheduler::components;
use serde_json::{Value, json};

use crate::recorded::{self, Differences, Verdict, compare};

fn parts(case: &Value) -> Vec<Component> {
    serde_json::from_value(case["components"].clone()).unwrap_or_default()
}

/// Of the recorded sets those that are counted from sums; nothing here counts node by node, or what is assumed.
fn sets(case: &Value) -> Option<Value> {
    let models = case.pointer("/cluster/status/resourceSummary/allocatableModelings").is_some();
    if models || case.get("assumed").is_some() {
        return None;
    }
    let mut told = case["cluster"].clone();
    told["spec"]["syncMode"] = json!("Pull");
    let cluster: Cluster = serde_json::from_value(told).unwrap();
    Some(json!(components::max_sets(&cluster, &parts(case))))
}

/// What each cluster is said to have room for, all asked.
fn estimated(case: &Value) -> Value {
    let wanted = case["replicas"].as_i64().unwrap();
    let told = case["clusters"].as_array().unwrap().iter().map(|cluster| {
        let answers = [cluster["general"].as_i64(), cluster["accurate"].as_i64()];
        // What has no replicas has room everywhere: nobody is asked.
        let asked = wanted > 0 || case["bySets"] == true;
        let room = if asked { components::together(&answers, wanted) } else { i64::from(i32::MAX) };
        json!([cluster["name"], room])
    });
    json!(told.collect::<Vec<_>>())
}

const AMOUNTS: &str = "recorded bug: amounts in decimal notation counted in thousandths, others did not";
const EACH_ALONE: &str = "recorded bug: where one estimator failed, the answers of all were dropped";
const BELOW_NOTHING: &str = "recorded bug: room below nothing; here it is no answer";

const DIFFERENCES: Differences = &[
    (12, AMOUNTS),
    (13, AMOUNTS),
    (14, AMOUNTS),
    (16, AMOUNTS),
    (17, AMOUNTS),
    (46, AMOUNTS),
    (428, EACH_ALONE),
    (429, EACH_ALONE),
    (431, BELOW_NOTHING),
    (436, EACH_ALONE),
    (437, EACH_ALONE),
    (439, BELOW_NOTHING),
    (461, EACH_ALONE),
    (477, EACH_ALONE),
];

#[test]
fn recorded_components() {
    recorded::run("components.json", DIFFERENCES, |case| match case["kind"].as_str().unwrap() {
        "applicable" => {
            let constraints: Vec<SpreadConstraint> =
                serde_json::from_value(case["spreadConstraints"].clone()).unwrap();
            let count = usize::try_from(case["components"].as_u64().unwrap()).unwrap();
            compare(&case["bySets"], &json!(components::by_sets(count, &constraints)))
        }
        "sets" => sets(case).map_or(Verdict::Skip, |sets| compare(&case["sets"], &sets)),
        "estimators" => compare(&case["available"], &estimated(case)),
        _ => Verdict::Skip,
    });
}
