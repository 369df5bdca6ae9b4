//! Recorded cases of the reference implementation: what scripts may do, what they are handed, and what becomes of their answers.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/recorded/mod.rs"]
mod recorded;

mod differences;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_interpreter::{Answer, Interpreter, Operation};
use karmada_lua::customization::OPERATIONS;
use karmada_lua::machine::{Call, Limits, Returned, ScriptError, run};
use karmada_lua::{Customization, Scripts, validation};
use recorded::{BESIDE, Verdict, compare};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2024-05-06T07:08:09Z".parse().unwrap()
}

fn limits() -> Limits {
    Limits { time: Duration::from_millis(300), ..Limits::default() }
}

/// What a recorded value says once empties, nulls and the kinds of numbers are out of the way: an empty table is a list or a map,
/// and which of them is judged where it matters.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(list) => Value::Array(list.iter().map(plain).filter(|v| !blank(v)).collect()),
        Value::Object(members) => {
            let kept = members.iter().map(|(k, v)| (k.clone(), plain(v))).filter(|(_, v)| !blank(v));
            let members: serde_json::Map<String, Value> = kept.collect();
            if members.is_empty() { json!([]) } else { Value::Object(members) }
        }
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

fn blank(value: &Value) -> bool {
    value.is_null() || value == &json!([]) || value == &json!({})
}

fn eval(case: &Value) -> Result<Vec<Returned>, ScriptError> {
    let script = case["script"].as_str().unwrap_or("");
    let arguments: Vec<&Value> = case["args"].as_array().into_iter().flatten().collect();
    let references: Vec<&Value> = case["references"].as_array().into_iter().flatten().collect();
    let call = Call { script, function: "Eval", arguments: &arguments, references: &references, now: now() };
    run(&call, limits())
}

fn judge_eval(case: &Value) -> Verdict {
    let returned = match (eval(case), case.get("error")) {
        (Err(_), Some(_)) => return Verdict::Agrees,
        (Err(error), None) => return Verdict::Differs(format!("got the error {error}")),
        (Ok(got), Some(error)) => return Verdict::Differs(format!("wanted the error {error}, got {got:?}")),
        (Ok(got), None) => got,
    };
    for (index, wanted) in case["returns"].as_array().unwrap().iter().enumerate() {
        let nothing = Returned { kind: "nil", value: Ok(Value::Null) };
        let got = returned.get(index).unwrap_or(&nothing);
        let same = match (&got.value, wanted.get("json")) {
            (Ok(got), Some(json)) => {
                let wanted: Value = serde_json::from_str(json.as_str().unwrap()).unwrap();
                plain(&wanted) == plain(got)
            }
            (Err(_), None) => true,
            _ => false,
        };
        if !same || got.kind != wanted["type"] {
            return Verdict::Differs(format!("wanted {wanted}\n     got {got:?}"));
        }
    }
    Verdict::Agrees
}

fn judge_convert(case: &Value) -> Verdict {
    let outcomes = || case["outcomes"].as_array().cloned().unwrap_or_else(|| vec![case.clone()]);
    let got = eval(case).map(|returned| returned[0].value.clone());
    match got {
        Ok(Ok(got)) if got.get("kind").is_some() => {
            if outcomes().iter().any(|outcome| outcome["out"] == got) {
                Verdict::Agrees
            } else {
                Verdict::Differs(format!("wanted one of {outcomes:?}\n     got {got}", outcomes = outcomes()))
            }
        }
        other if case.get("error").is_some() => {
            drop(other);
            Verdict::Agrees
        }
        other => Verdict::Differs(format!("got {other:?}")),
    }
}

fn scripts(case: &Value, operation: Operation, object: &Value) -> Scripts {
    let script = case["script"].as_str().unwrap_or("").to_owned();
    let customization = Customization {
        name: "c".to_owned(),
        api_version: object["apiVersion"].as_str().unwrap().to_owned(),
        kind: object["kind"].as_str().unwrap().to_owned(),
        scripts: [(operation, script)].into(),
    };
    Scripts::limited(vec![customization], Arc::new(now), limits())
}

/// What was recorded, and what ours answers.
fn operate(case: &Value) -> Answer<(Value, Value)> {
    let object = if case["desired"].is_null() { &case["object"] } else { &case["desired"] };
    let with = |operation| scripts(case, operation, object);
    let mut changed = object.clone();
    Ok(match case["op"].as_str().unwrap() {
        "replicas" => {
            let got = with(Operation::InterpretReplica).replicas(object)?;
            (json!([case["replicas"], case["requirements"]]), json!([got.count, got.requirements]))
        }
        "components" => {
            let wanted = if case["components"].is_null() { json!([]) } else { case["components"].clone() };
            (wanted, json!(with(Operation::InterpretComponent).components(object)?))
        }
        "reviseReplica" => {
            with(Operation::ReviseReplica).revise_replica(&mut changed, case["replica"].as_i64().unwrap())?;
            (case["out"].clone(), changed)
        }
        "retain" => {
            with(Operation::Retain).retain(&mut changed, &case["observed"])?;
            (case["out"].clone(), changed)
        }
        "aggregateStatus" => {
            let items = if case["items"].is_null() { json!([]) } else { case["items"].clone() };
            let items: Vec<AggregatedStatusItem> = serde_json::from_value(items).unwrap();
            with(Operation::AggregateStatus).aggregate_status(&mut changed, &items, now())?;
            (case["out"]["status"].clone(), changed["status"].clone())
        }
        "reflectStatus" => {
            (case["status"].clone(), json!(with(Operation::InterpretStatus).reflect_status(object)?))
        }
        "health" => (case["healthy"].clone(), json!(with(Operation::InterpretHealth).health(object)?)),
        "dependencies" => {
            let mut wanted = case["dependencies"].as_array().cloned().unwrap_or_default();
            wanted.sort_by_key(ToString::to_string);
            wanted.dedup();
            let mut got: Vec<Value> =
                with(Operation::InterpretDependency).dependencies(object)?.iter().map(|d| json!(d)).collect();
            got.sort_by_key(ToString::to_string);
            (json!(wanted), json!(got))
        }
        other => panic!("{other}"),
    })
}

fn judge_operation(case: &Value) -> Verdict {
    match (operate(case), case.get("error")) {
        (Ok((wanted, got)), None) if case.get("outcomes").is_none() => compare(&wanted, &got),
        (Ok((_, got)), None) => {
            let outcomes = case["outcomes"].as_array().unwrap();
            let any = outcomes.iter().any(|outcome| outcome["out"]["status"] == got || outcome["out"] == got);
            if any { Verdict::Agrees } else { Verdict::Differs(format!("got {got}")) }
        }
        (Err(_), Some(_)) => Verdict::Agrees,
        (Ok((_, got)), Some(error)) => Verdict::Differs(format!("wanted the error {error}, got {got}")),
        (Err(error), None) => Verdict::Differs(format!("got the error {error}")),
    }
}

/// The words that were recorded, or why ours are others: the reader of Lua has its own for what it cannot read.
fn judge_validation(case: &Value) -> Verdict {
    let others: Vec<Customization> =
        case["existing"].as_array().into_iter().flatten().map(Customization::of).collect();
    let got = validation::check(&Customization::of(&case["customization"]), &others);
    match (got, case["error"].as_str()) {
        (Ok(()), None) => Verdict::Agrees,
        (Err(got), Some(wanted)) => {
            let cut = |text: &str| text.split(" Lua script error: ").next().unwrap().to_owned();
            compare(&json!(cut(wanted)), &json!(cut(&got)))
        }
        (got, wanted) => Verdict::Differs(format!("wanted {wanted:?}, got {got:?}")),
    }
}

fn judge(case: &Value) -> Verdict {
    match case["op"].as_str().unwrap() {
        "eval" => judge_eval(case),
        "convert" => judge_convert(case),
        "validate" => judge_validation(case),
        "sequence" => {
            let steps = case["steps"].as_array().unwrap().iter().zip(case["results"].as_array().unwrap());
            for (step, result) in steps {
                let mut step = step.clone();
                step.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
                if let Verdict::Differs(how) = judge(&step) {
                    return Verdict::Differs(how);
                }
            }
            Verdict::Agrees
        }
        _ => judge_operation(case),
    }
}

#[test]
fn recorded_scripts() {
    recorded::run("lua.json", "recorded_scripts", differences::LUA, judge);
}

#[test]
fn recorded_answers_to_customizations() {
    recorded::run("validation.json", "recorded_answers_to_customizations", &[], |case| {
        if case["webhook"] != "validate ResourceInterpreterCustomization" {
            return Verdict::Skip(BESIDE);
        }
        let mut asked = json!({"customization": case["object"], "existing": case["existing"]});
        if let Some(words) = case["messageOneOf"].as_array() {
            asked["error"] = words[0].clone();
        }
        judge_validation(&asked)
    });
}

#[test]
fn every_operation_has_a_function() {
    assert_eq!(OPERATIONS.len(), Operation::ALL.len());
    for operation in Operation::ALL {
        assert!(!karmada_lua::customization::function(operation).is_empty());
    }
}
