//! Recorded cases of the reference implementation: which customization answers, or who after it: the kinds of other projects, then the
//! native ones, operation by operation.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/recorded/mod.rs"]
mod recorded;

use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use karmada_interpreter::{Answer, Chain, Interpreter, Native, Operation, ThirdParty};
use karmada_lua::{Customization, Customized, Scripts};
use recorded::{Differences, Verdict, compare};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2024-05-06T07:08:09Z".parse().unwrap()
}

fn customizations(case: &Value) -> Vec<Customization> {
    case["customizations"].as_array().unwrap().iter().map(Customization::of).collect()
}

/// As hub and agent are put together.
fn customized(case: &Value) -> Customized {
    let customized = Customized::new(Arc::new(Chain::default()), Arc::new(now));
    customized.replace(customizations(case));
    customized
}

fn operation(case: &Value) -> Operation {
    match case["op"].as_str().unwrap() {
        "replicas" => Operation::InterpretReplica,
        "components" => Operation::InterpretComponent,
        "reviseReplica" => Operation::ReviseReplica,
        "retain" => Operation::Retain,
        "aggregateStatus" => Operation::AggregateStatus,
        "reflectStatus" => Operation::InterpretStatus,
        "health" => Operation::InterpretHealth,
        "dependencies" => Operation::InterpretDependency,
        other => panic!("{other}"),
    }
}

/// The object that is asked about.
fn asked(case: &Value) -> &Value {
    if case["desired"].is_null() { &case["object"] } else { &case["desired"] }
}

/// Who says that they have an answer, in the order in which they are asked.
fn hooks(case: &Value) -> Value {
    let (object, operation) = (asked(case), operation(case));
    let scripts = Scripts::new(customizations(case), Arc::new(now));
    let layers: [(&str, &dyn Interpreter); 3] =
        [("customization", &scripts), ("thirdparty", &ThirdParty), ("native", &Native)];
    let known = layers
        .iter()
        .filter(|(_, layer)| layer.enabled(object::api_version(object), object::kind(object), operation));
    json!(known.map(|(name, _)| *name).collect::<Vec<_>>())
}

fn sorted(dependencies: &Value) -> Value {
    let mut all = dependencies.as_array().cloned().unwrap_or_default();
    all.sort_by_key(ToString::to_string);
    json!(all)
}

/// What was recorded, and what ours answers.
fn answer(case: &Value) -> Answer<(Value, Value)> {
    let chain = customized(case);
    let object = asked(case);
    let mut changed = object.clone();
    Ok(match operation(case) {
        Operation::InterpretReplica => {
            let got = chain.replicas(object)?;
            (json!([case["replicas"], case["requirements"]]), json!([got.count, got.requirements]))
        }
        Operation::InterpretComponent => {
            let wanted: Option<Vec<Component>> = serde_json::from_value(case["components"].clone()).unwrap();
            (json!(wanted.unwrap_or_default()), json!(chain.components(object)?))
        }
        Operation::ReviseReplica => {
            chain.revise_replica(&mut changed, case["replica"].as_i64().unwrap())?;
            (case["out"].clone(), changed)
        }
        Operation::Retain => {
            chain.retain(&mut changed, &case["observed"])?;
            (case["out"].clone(), changed)
        }
        Operation::AggregateStatus => {
            let items: Vec<AggregatedStatusItem> = serde_json::from_value(case["items"].clone()).unwrap();
            chain.aggregate_status(&mut changed, &items, now())?;
            let mut got = changed["status"].clone();
            if object["kind"] == "Deployment" && hooks(case) == json!(["native"]) {
                // Ours reports conditions on top: a Deployment is waited for.
                got.as_object_mut().unwrap().remove("conditions");
            }
            (case["out"]["status"].clone(), got)
        }
        Operation::InterpretStatus => (case["status"].clone(), json!(chain.reflect_status(object)?)),
        Operation::InterpretHealth => (case["healthy"].clone(), json!(chain.health(object)?)),
        Operation::InterpretDependency => {
            (sorted(&case["dependencies"]), sorted(&json!(chain.dependencies(object)?)))
        }
    })
}

fn judge(case: &Value) -> Verdict {
    if let differs @ Verdict::Differs(_) = compare(&case["hooks"], &hooks(case)) {
        return differs;
    }
    match (answer(case), case.get("error")) {
        (Ok((wanted, got)), None) => compare(&wanted, &got),
        (Err(_), Some(_)) => Verdict::Agrees,
        (Ok((_, got)), Some(error)) => Verdict::Differs(format!("wanted the error {error}, got {got}")),
        (Err(error), None) => Verdict::Differs(format!("got the error {error}")),
    }
}

const NO_STATUS: &str = "nil is no status, not an error";
const NO_DEPENDENCIES: &str =
    "recorded bug: nil failed the call, so that an object without dependencies never settled";
const EACH_ONCE: &str = "a dependency is told once, by labels as by name";

const DIFFERENCES: Differences = &[
    (154, NO_STATUS),
    (160, NO_STATUS),
    (166, NO_STATUS),
    (256, NO_DEPENDENCIES),
    (262, NO_DEPENDENCIES),
    (268, NO_DEPENDENCIES),
    (294, EACH_ONCE),
];

#[test]
fn recorded_customizations() {
    recorded::run("customizations.json", "recorded_customizations", DIFFERENCES, judge);
}

/// Whoever writes a customization teaches how to read a kind, and makes no other object of one: it would be applied with the agent's rights.
#[test]
fn a_script_that_makes_another_object_of_one_has_no_answer() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 1}});
    for (change, fits) in [
        ("obj.spec.replicas = n", true),
        ("obj.metadata.labels = {a = 'b'}", true),
        ("obj.metadata.name = 'coredns'", false),
        ("obj.metadata.namespace = 'kube-system'", false),
        ("obj.metadata.namespace = nil", false),
        ("obj.kind = 'DaemonSet'", false),
    ] {
        let script = format!("function ReviseReplica(obj, n) {change} return obj end");
        let customization = json!({"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"replicaRevision": {"luaScript": script}}}});
        let scripts = Scripts::new(vec![Customization::of(&customization)], Arc::new(now));
        let mut revised = object.clone();
        let came = scripts.revise_replica(&mut revised, 3);
        assert_eq!(came.is_ok(), fits, "{change}: {came:?}");
        assert!(fits || revised == object, "{change}");
    }
}
