//! Groups of workloads that want to be together, or apart.

use karmada_api::binding::{BindingSpec, ResourceBinding};
use karmada_core::scheduler::filter::Unfit;
use karmada_core::scheduler::workload_affinity::WorkloadAffinityIndex;
use serde_json::{Value, json};

use crate::recorded::{self, Differences, compare};

fn bindings(list: &Value) -> Vec<ResourceBinding> {
    list.as_array().into_iter().flatten().map(|told| serde_json::from_value(told.clone()).unwrap()).collect()
}

fn version(binding: &ResourceBinding) -> Option<u64> {
    binding.metadata.resource_version.as_ref()?.parse().ok()
}

/// Of a binding that is known the newer word counts, whoever says it.
fn groups(case: &Value) -> WorkloadAffinityIndex {
    let mut groups = WorkloadAffinityIndex::default();
    let decided = bindings(&case["assigning"]);
    for known in bindings(&case["existing"]) {
        let same =
            |other: &&ResourceBinding| (other.namespace(), other.name()) == (known.namespace(), known.name());
        let newer = decided.iter().filter(same).find(|decided| version(decided) > version(&known));
        let newest = newer.unwrap_or(&known);
        groups.put(newest.namespace(), newest.name(), &newest.spec);
    }
    groups
}

const JOINED: &str = "who joined the group counts at once";
const NO_NUMBER: &str = "versions are numbers here: one that is none belongs to no newer word";

const DIFFERENCES: Differences = &[(15, JOINED), (16, NO_NUMBER), (21, NO_NUMBER)];

#[test]
fn recorded_workload_affinity() {
    recorded::run("workloadaffinity.json", "recorded_workload_affinity", DIFFERENCES, |case| {
        let spec: BindingSpec = serde_json::from_value(case["spec"].clone()).unwrap();
        let neighbours = groups(case).neighbours("ns", "w-deployment", &spec);
        let told = case["results"].as_array().unwrap().iter().map(|result| {
            let cluster = result["cluster"].as_str().unwrap();
            let already = spec.clusters.iter().any(|target| target.name == cluster);
            let say = |verdict: Result<(), Unfit>| match verdict {
                Ok(()) => json!({"pass": true}),
                Err(unfit) => json!({"pass": false, "reason": unfit.to_string()}),
            };
            json!({"cluster": cluster, "affinity": say(neighbours.together(cluster, already)),
                "antiAffinity": say(neighbours.apart(cluster, already))})
        });
        compare(&case["results"], &json!(told.collect::<Vec<_>>()))
    });
}

fn spec(clusters: &[&str], affinity: &str, apart: &str) -> BindingSpec {
    let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({"resource": {}, "clusters": targets,
        "workloadAffinityGroups": {"affinityGroup": affinity, "antiAffinityGroup": apart}}))
    .unwrap()
}

#[test]
fn nothing_is_kept_of_those_that_went_or_moved() {
    let mut groups = WorkloadAffinityIndex::default();
    for turn in 0..3 {
        groups.put("n", "a", &spec(&["m1", "m2"], "g", "h"));
        groups.put("n", "b", &spec(&["m2"], "g", "h"));
        let newcomer = groups.neighbours("n", "c", &spec(&[], "g", ""));
        assert!(newcomer.together("m2", false).is_ok() && newcomer.together("m1", false).is_err(), "{turn}");
        groups.put("n", "b", &spec(&["m1"], "g", "h"));
        let newcomer = groups.neighbours("n", "c", &spec(&[], "g", ""));
        assert!(newcomer.together("m1", false).is_ok() && newcomer.together("m2", false).is_err(), "{turn}");
        groups.remove("n", "a");
        groups.remove("n", "b");
        assert!(groups.is_empty());
    }
}
