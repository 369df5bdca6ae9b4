//! Objects and statuses with pieces taken out or put in anywhere: every question has an answer, and no sum goes astray.

use karmada_api::binding::AggregatedStatusItem;
use karmada_interpreter::{Interpreter, ThirdParty};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::now;
use crate::samples::samples;

/// The greatest count that the API can hold.
const MOST: i64 = i32::MAX as i64;

/// The place of every value in a value, as a JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        _ => {}
    }
}

/// Puts something else in the place of some value, or takes it out where there is nothing to put.
fn mutate(object: &mut Value, which: prop::sample::Index, with: Option<&Value>) {
    let mut found = Vec::new();
    places(object, "", &mut found);
    let place = which.get(&found);
    match (with, place.rsplit_once('/')) {
        (Some(with), _) => *object.pointer_mut(place).unwrap() = with.clone(),
        (None, Some((parent, last))) => match object.pointer_mut(parent).unwrap() {
            Value::Array(list) => drop(list.remove(last.parse().unwrap())),
            Value::Object(map) => drop(map.remove(&last.replace("~1", "/").replace("~0", "~"))),
            _ => {}
        },
        (None, None) => *object = Value::Null,
    }
}

/// Asks everything there is to ask.
fn ask(object: &Value, statuses: &[Value]) -> Value {
    let items: Vec<AggregatedStatusItem> = statuses
        .iter()
        .map(|status| AggregatedStatusItem {
            cluster_name: "m".to_owned(),
            status: Some(status.clone()),
            ..Default::default()
        })
        .collect();
    let _ = ThirdParty.replicas(object);
    let _ = ThirdParty.components(object);
    let _ = ThirdParty.reflect_status(object);
    let _ = ThirdParty.health(object);
    let _ = ThirdParty.dependencies(object);
    for replicas in [-1, 0, 1, 7, i64::MAX, i64::MIN] {
        let _ = ThirdParty.revise_replica(&mut object.clone(), replicas);
    }
    let _ = ThirdParty.retain(&mut object.clone(), &samples()[0]);
    let _ = ThirdParty.retain(&mut samples()[0].clone(), object);
    let mut told = object.clone();
    let _ = ThirdParty.aggregate_status(&mut told, &items, now());
    told
}

fn odd() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        Just(Some(json!({}))),
        Just(Some(json!([]))),
        Just(Some(json!([null, 1, {"name": []}]))),
        Just(Some(json!("€ 1h2"))),
        Just(Some(json!("9999999999999999999g"))),
        Just(Some(json!(i64::MAX))),
        Just(Some(json!(i64::MIN))),
        Just(Some(json!(u64::MAX))),
        Just(Some(json!(1.5e308))),
        Just(Some(json!(true))),
    ]
}

/// All whole numbers in a value.
fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::Object(map) => map.values().flat_map(numbers).collect(),
        Value::Number(number) => number.as_i64().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The same with each count as great as it can be.
fn greatest(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(greatest).collect(),
        Value::Object(map) => {
            let generations = ["generation", "observedGeneration", "resourceTemplateGeneration"];
            let entry = |(key, value): (&String, &Value)| {
                let value = if generations.contains(&key.as_str()) { value.clone() } else { greatest(value) };
                (key.clone(), value)
            };
            Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
        }
        Value::Number(number) if number.is_i64() => json!(MOST),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_question_has_an_answer(which in any::<prop::sample::Index>(), pieces in prop::collection::vec((any::<prop::sample::Index>(), odd()), 1..4)) {
        let mut object = which.get(samples()).clone();
        for (at, with) in &pieces {
            mutate(&mut object, *at, with.as_ref());
        }
        let status = object.get("status").cloned().unwrap_or_default();
        ask(&object, &[]);
        ask(&object, std::slice::from_ref(&status));
        ask(&object, &[status.clone(), which.get(samples())["status"].clone(), status]);
    }
}

/// Kinds of which nothing is summed.
const UNCOUNTED: [&str; 10] = [
    "AdvancedCronJob",
    "Bucket",
    "FlinkDeployment",
    "GitRepository",
    "HelmChart",
    "HelmRepository",
    "Kustomization",
    "OCIRepository",
    "RayJob",
    "Workflow",
];

#[test]
fn sums_end_at_the_most_that_there_can_be() {
    for sample in samples() {
        let kind = sample["kind"].as_str().unwrap();
        let status = greatest(&sample["status"]);
        let told = ask(sample, &[status.clone(), status.clone(), status]);
        let numbers = numbers(&told["status"]);
        assert!(numbers.iter().all(|number| (0..=MOST).contains(number)), "{kind}: {told}");
        assert_eq!(numbers.contains(&MOST), !UNCOUNTED.contains(&kind), "{kind}: {told}");
    }
}

#[test]
fn a_second_look_at_the_same_members_changes_nothing() {
    for sample in samples() {
        let statuses = vec![sample["status"].clone(); 2];
        let once = ask(sample, &statuses);
        let items: Vec<AggregatedStatusItem> = statuses
            .iter()
            .map(|status| AggregatedStatusItem {
                cluster_name: "m".to_owned(),
                status: Some(status.clone()),
                ..Default::default()
            })
            .collect();
        let mut twice = once.clone();
        let later = "2030-01-01T00:00:00Z".parse().unwrap();
        let _ = ThirdParty.aggregate_status(&mut twice, &items, later);
        assert_eq!(once, twice);
    }
}
