//! Spread constraints on several fields at once.

use std::collections::BTreeMap;

use karmada_api::binding::TargetCluster;
use karmada_api::cluster::Cluster;
use karmada_api::policy::Placement;
use karmada_core::scheduler::division::Candidate;
use karmada_core::scheduler::spread;
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, alike, compare};
use crate::spread_differences::{ONE_FIELD, SEVERAL_FIELDS};

fn cluster(told: &Value) -> Cluster {
    let text = |key: &str| told.get(key).cloned().unwrap_or_else(|| json!(""));
    serde_json::from_value(json!({"metadata": {"name": told["name"], "labels": told.get("labels")},
        "spec": {"provider": text("provider"), "region": text("region"), "zones": told.get("zones").unwrap_or(&json!([]))}}))
    .unwrap()
}

/// What a recorded case asks for.
struct Asked<'a> {
    candidates: Vec<Candidate<'a>>,
    placement: Placement,
    previous: Vec<TargetCluster>,
    replicas: i64,
}

impl<'a> Asked<'a> {
    fn of(case: &Value, clusters: &'a [Cluster]) -> Asked<'a> {
        let of = |(cluster, told): (&'a Cluster, &Value)| Candidate {
            cluster,
            free: told["free"].as_i64().unwrap(),
            tier: usize::try_from(told["tier"].as_u64().unwrap_or(0)).unwrap(),
            score: told["score"].as_i64().unwrap(),
        };
        let mut candidates: Vec<Candidate<'a>> =
            clusters.iter().zip(case["clusters"].as_array().unwrap()).map(of).collect();
        let placement: Placement = serde_json::from_value(json!({
            "spreadConstraints": case["spreadConstraints"], "replicaScheduling": case["replicaScheduling"]}))
        .unwrap();
        let pairs = case["prev"].as_array().into_iter().flatten();
        let target = |pair: &Value| json!({"name": pair[0], "replicas": pair[1]});
        let previous: Vec<TargetCluster> =
            pairs.map(|pair| serde_json::from_value(target(pair)).unwrap()).collect();
        spread::order(&mut candidates, &previous);
        Asked { candidates, placement, previous, replicas: case["replicas"].as_i64().unwrap() }
    }
}

fn clusters(case: &Value) -> Vec<Cluster> {
    case["clusters"].as_array().unwrap().iter().map(cluster).collect()
}

/// The names selected, or why none.
fn select(case: &Value) -> Result<Vec<String>, String> {
    let clusters = clusters(case);
    let Asked { candidates, placement, previous, replicas } = Asked::of(case, &clusters);
    let selected = spread::select(&candidates, &placement, replicas, &previous);
    let names = selected.map_err(|error| error.to_string())?;
    Ok(names.iter().map(|candidate| candidate.cluster.name().to_owned()).collect())
}

/// Where no selection is found in the end, the regions have their worth all the same.
fn region_scores(case: &Value) -> Verdict {
    if case.get("regionScores").is_none() {
        return Verdict::Skip(BESIDE);
    }
    let clusters = clusters(case);
    let Asked { candidates, placement, previous, replicas } = Asked::of(case, &clusters);
    let scores = spread::region_scores(&candidates, &placement, replicas, &previous);
    compare(&case["regionScores"], &json!(scores.into_iter().collect::<BTreeMap<_, _>>()))
}

const NO_SHARE: &str = "recorded bug: without minGroups a region's share was nothing, and room did not count; here it is the whole";

const SCORES: Differences = &alike(
    [
        33, 46, 59, 72, 106, 111, 113, 115, 124, 130, 134, 140, 156, 170, 177, 183, 198, 210, 222, 230, 236,
        237, 242, 244, 249, 257, 267, 274, 318, 350, 363, 368, 374, 376, 402, 405, 416, 421, 468, 479, 485,
        493, 497, 498, 500, 510, 522,
    ],
    NO_SHARE,
);

#[test]
fn recorded_scores_of_regions() {
    recorded::run("spread.json", "recorded_scores_of_regions", &[], region_scores);
}

#[test]
fn recorded_scores_of_regions_over_several_fields() {
    recorded::run(
        "spreadmulti.json",
        "recorded_scores_of_regions_over_several_fields",
        SCORES,
        region_scores,
    );
}

#[test]
fn recorded_spread_over_several_fields() {
    recorded::run("spreadmulti.json", "recorded_spread_over_several_fields", SEVERAL_FIELDS, compared);
}

#[test]
fn recorded_spread() {
    recorded::run("spread.json", "recorded_spread", ONE_FIELD, compared);
}

fn compared(case: &Value) -> Verdict {
    match select(case) {
        Ok(names) => compare(&json!([case["selected"], case.get("error")]), &json!([names, Value::Null])),
        Err(error) => compare(&case["error"], &json!(error)),
    }
}

fn member(name: &str, provider: &str, zones: &[&str], rack: &str) -> Value {
    json!({"name": name, "provider": provider, "zones": zones, "labels": {"rack": rack}, "free": 10, "score": 0})
}

fn duplicated(clusters: &Value, constraints: &Value) -> Result<Vec<String>, String> {
    select(&json!({"clusters": clusters, "spreadConstraints": constraints, "replicas": 1,
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}))
}

#[test]
fn providers_zones_and_labels_are_counted_beside_clusters_and_alone() {
    let clusters = json!([
        member("a", "p1", &["z1"], "r1"),
        member("b", "p1", &["z1"], "r1"),
        member("c", "p2", &["z2", "z3"], "r2"),
        member("d", "p3", &["z4"], "r3"),
    ]);
    let two = json!({"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2});
    let table = [
        (json!([two, {"spreadByField": "provider", "minGroups": 2}]), Ok(vec!["a", "c"])),
        (json!([two, {"spreadByField": "zone", "minGroups": 3}]), Ok(vec!["a", "c"])),
        (json!([two, {"spreadByLabel": "rack", "minGroups": 2}]), Ok(vec!["a", "c"])),
        (json!([{"spreadByField": "provider", "minGroups": 1, "maxGroups": 2}]), Ok(vec!["a", "b", "c"])),
        (json!([{"spreadByLabel": "rack", "maxGroups": 1}]), Ok(vec!["a", "b"])),
        (
            json!([two, {"spreadByField": "provider", "minGroups": 4}]),
            Err("the number of feasible provider is less than spreadConstraint.MinGroups"),
        ),
        (
            json!([two, {"spreadByField": "provider", "minGroups": 3}]),
            Err("no selection of clusters was found that has what all spread constraints ask for"),
        ),
    ];
    for (constraints, wanted) in table {
        let got = duplicated(&clusters, &constraints);
        let got =
            got.as_ref().map(|names| names.iter().map(String::as_str).collect()).map_err(String::as_str);
        assert_eq!(got, wanted, "{constraints}");
    }
}

/// The first provider by preference has one cluster only.
#[test]
fn fewer_groups_begin_with_another_where_the_first_will_not_do() {
    let clusters =
        json!([member("a", "p1", &[], ""), member("b", "p2", &[], ""), member("c", "p2", &[], ""),]);
    let constraints = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2},
        {"spreadByField": "provider", "maxGroups": 1}]);
    assert_eq!(duplicated(&clusters, &constraints), Ok(vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn fields_that_cross_each_other_are_bounded_work() {
    let clusters: Vec<Value> = (0..3000_usize)
        .map(|at| member(&format!("m{at}"), &format!("p{}", at % 700), &[], &format!("r{}", at % 1100)))
        .collect();
    let constraints = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1100},
        {"spreadByField": "provider", "minGroups": 700}, {"spreadByLabel": "rack", "minGroups": 1100}]);
    let _ = duplicated(&json!(clusters), &constraints);
    let many: Vec<Value> = (0..5000).map(|at| json!({"spreadByLabel": format!("k{at}")})).collect();
    let refused = duplicated(&json!(clusters), &json!(many));
    assert_eq!(refused, Err("at most 16 spread constraints can be looked at".to_owned()));
}
