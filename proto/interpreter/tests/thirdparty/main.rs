//! Recorded cases of the reference implementation: the kinds of other projects; and, by table and property, what goes beyond them.
#![allow(clippy::unwrap_used)]

#[path = "../../../api/tests/recorded/mod.rs"]
mod recorded;

mod beyond;
mod differences;
mod mutations;
mod samples;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, ReplicaRequirements};
use karmada_interpreter::{Answer, Interpreter, Operation, ThirdParty};
use recorded::{Verdict, compare};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2024-05-06T07:08:09Z".parse().unwrap()
}

fn items(items: &Value) -> Vec<AggregatedStatusItem> {
    if items.is_null() { Vec::new() } else { serde_json::from_value(items.clone()).unwrap() }
}

/// Present times of the recordings are written NOW.
fn with_now(text: &Value) -> Value {
    serde_json::from_str(&text.to_string().replace("NOW", "2024-05-06T07:08:09Z")).unwrap()
}

/// Operations, in any order.
fn operations(names: impl IntoIterator<Item = String>) -> Value {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    json!(names)
}

/// Both sides as JSON; amounts are compared by value, however they are written.
fn by_value<T: PartialEq + serde::Serialize>(wanted: &T, got: &T) -> (Value, Value) {
    if wanted == got { (json!(got), json!(got)) } else { (json!(wanted), json!(got)) }
}

/// Ours reads memory as Flink means it: `2048m` is 2048 mebibytes, where 2.048 bytes were recorded.
fn flink_memory(case: &Value) -> Value {
    let mut case = case.clone();
    if case["kind"] == "FlinkDeployment" {
        let text = case.to_string().replace(r#""memory":"2.048""#, r#""memory":"2Gi""#);
        let wanted: Value = serde_json::from_str(&text).unwrap();
        case["components"] = wanted["components"].clone();
        if case["requirements"]["resourceRequest"]["memory"] == "2048m" {
            case["requirements"]["resourceRequest"]["memory"] = json!("2Gi");
        }
    }
    case
}

fn components(case: &Value) -> Vec<Component> {
    let parts = case["components"].as_array().into_iter().flatten();
    let mut all: Vec<Component> = parts.map(|part| serde_json::from_value(part.clone()).unwrap()).collect();
    if case["unordered"] == true {
        all.sort_by(|one, other| one.name.cmp(&other.name));
    }
    all
}

/// Recorded without quotas, where templates tell no priority class: ours leaves it to whoever heeds none to drop it. Two
/// kinds say one of their own, which was recorded.
fn drop_class(case: &Value, class: &mut String) {
    if !["FlinkDeployment", "SparkApplication"].contains(&case["kind"].as_str().unwrap()) {
        class.clear();
    }
}

/// The status that ours makes of it. All else of the object stays as it is.
fn aggregate(object: &Value, case: &Value) -> Answer<(Value, Value)> {
    let mut got = object.clone();
    ThirdParty.aggregate_status(&mut got, &items(&case["items"]), now())?;
    let mut wanted = with_now(case.get("status").unwrap_or(&case["out"]["status"]));
    for side in [&mut wanted, &mut got["status"]] {
        // Ours counts the failures of a HelmRelease: see `failures_are_counted_once`.
        for counter in ["failures", "upgradeFailures", "installFailures"] {
            side.as_object_mut()
                .filter(|_| case["kind"] == "HelmRelease")
                .map(|status| status.remove(counter));
        }
    }
    let mut rest = got.clone();
    match object.get("status") {
        Some(status) => rest["status"] = status.clone(),
        None => drop(rest.as_object_mut().unwrap().remove("status")),
    }
    assert_eq!(&rest, object);
    Ok((wanted, got["status"].clone()))
}

/// What was recorded, and what ours answers.
fn answer(case: &Value) -> Answer<(Value, Value)> {
    let object = &case["object"];
    Ok(match case["op"].as_str().unwrap() {
        "kinds" => {
            let beyond = ["JobSet", "LeaderWorkerSet"];
            let ours = ThirdParty::kinds().filter(|(_, kind)| !beyond.contains(kind));
            (case["kinds"].clone(), operations(ours.map(|(version, kind)| format!("{version} {kind}"))))
        }
        "hooks" => {
            let (version, kind) = (case["apiVersion"].as_str().unwrap(), case["kind"].as_str().unwrap());
            let enabled =
                Operation::ALL.into_iter().filter(|asked| ThirdParty.enabled(version, kind, *asked));
            let wanted =
                case["enabled"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
            (operations(wanted), operations(enabled.map(|asked| asked.name().to_owned())))
        }
        "replicas" => {
            let mut got = ThirdParty.replicas(object)?;
            if let Some(asked) = &mut got.requirements {
                drop_class(case, &mut asked.priority_class_name);
            }
            let wanted: Option<ReplicaRequirements> =
                serde_json::from_value(case["requirements"].clone()).unwrap();
            by_value(&(case["replicas"].as_i64(), wanted), &(Some(i64::from(got.count)), got.requirements))
        }
        "components" => {
            let mut got = ThirdParty.components(object)?;
            for asked in got.iter_mut().filter_map(|part| part.replica_requirements.as_mut()) {
                drop_class(case, &mut asked.priority_class_name);
            }
            by_value(&components(case), &got)
        }
        "reviseReplica" => {
            let mut object = object.clone();
            ThirdParty.revise_replica(&mut object, case["replica"].as_i64().unwrap())?;
            (case["out"].clone(), object)
        }
        "retain" => {
            let mut desired = case["desired"].clone();
            ThirdParty.retain(&mut desired, &case["observed"])?;
            (case["out"].clone(), desired)
        }
        "reflectStatus" => {
            (case["status"].clone(), ThirdParty.reflect_status(object)?.unwrap_or(Value::Null))
        }
        "health" => (case["healthy"].clone(), json!(ThirdParty.health(object)?)),
        "aggregateStatus" => aggregate(object, case)?,
        "dependencies" => (case["dependencies"].clone(), json!(ThirdParty.dependencies(object)?)),
        other => panic!("{other}"),
    })
}

fn judge(case: &Value) -> Verdict {
    if case["op"] == "sequence" {
        let steps = case["steps"].as_array().unwrap().iter().zip(case["results"].as_array().unwrap());
        for (step, result) in steps {
            let mut step = step.clone();
            step.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
            if let Verdict::Differs(how) = judge(&step) {
                return Verdict::Differs(how);
            }
        }
        return Verdict::Agrees;
    }
    let case = &flink_memory(case);
    match (answer(case), case.get("error")) {
        (Ok((wanted, got)), None) => compare(&wanted, &got),
        (Err(_), Some(_)) => Verdict::Agrees,
        (Ok((_, got)), Some(error)) => Verdict::Differs(format!("wanted the error {error}, got {got}")),
        (Err(error), None) => Verdict::Differs(format!("got the error {error}")),
    }
}

#[test]
fn recorded_kinds_of_other_projects() {
    let listed = differences::GROUPS.iter().flat_map(|(why, cases)| cases.iter().map(|case| (*case, *why)));
    recorded::run(
        "thirdparty.json",
        "recorded_kinds_of_other_projects",
        listed.collect::<Vec<_>>().leak(),
        judge,
    );
}
