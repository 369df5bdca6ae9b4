//! Sequences of what is placed, reported and forgotten, and what room it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::{ReplicaRequirements, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_core::scheduler::assumptions::{Assumed, Assumptions, footprint, healthy, summed};
use karmada_core::scheduler::estimate;
use serde_json::{Value, json};

use crate::recorded::{self, compare};

fn targets(pairs: &Value) -> Vec<TargetCluster> {
    let pairs = pairs.as_array().unwrap().iter();
    let target = |pair: &Value| json!({"name": pair[0], "replicas": pair[1]});
    pairs.map(|pair| serde_json::from_value(target(pair)).unwrap()).collect()
}

fn binding(value: &Value) -> ResourceBinding {
    serde_json::from_value(value.clone()).unwrap()
}

/// What Karmada assumes of a schedule: the whole of it.
fn whole(binding: &ResourceBinding, targets: &[TargetCluster]) -> BTreeMap<String, Assumed> {
    let all = targets.iter().map(|target| Some((target.name.clone(), footprint(binding, target.replicas)?)));
    all.flatten().collect()
}

/// What is assumed after a step, as it is recorded.
fn assumed(assumptions: &Assumptions, now: Duration) -> Value {
    let mut all = BTreeMap::new();
    for (cluster, list) in assumptions.by_cluster(now) {
        let one = |(namespace, assumed): &(&str, &Assumed)| json!({"components": assumed.components, "namespace": namespace});
        let mut list: Vec<Value> = list.iter().map(one).collect();
        list.sort_by_key(Value::to_string);
        all.insert(cluster, list);
    }
    json!(all)
}

/// Quantities as text, in whichever order.
fn sorted(assumed: &Value) -> Value {
    let mut all = assumed.clone();
    for list in all.as_object_mut().unwrap().values_mut() {
        list.as_array_mut().unwrap().sort_by_key(Value::to_string);
    }
    all
}

fn step(assumptions: &mut Assumptions, op: &Value, now: &mut Duration) -> Value {
    match op["op"].as_str().unwrap() {
        "scheduled" => {
            let (binding, targets) = (binding(&op["binding"]), targets(&op["result"]));
            assumptions.placed(&binding, &targets, whole(&binding, &targets), *now);
        }
        "updated" => {
            let of = |which: &str| -> (ResourceBinding, BTreeSet<String>) {
                let binding = binding(&op[which]);
                let items = healthy(&binding.status.aggregated_status);
                (binding, items)
            };
            let ((binding, after), (_, before)) = (of("new"), of("old"));
            assumptions.reported(binding.namespace(), binding.name(), &before, &after);
        }
        "deleted" => {
            let binding = binding(&op["binding"]);
            assumptions.remove(binding.namespace(), binding.name());
        }
        "wait" => *now += Duration::from_secs(op["seconds"].as_u64().unwrap()),
        "collect" => return json!(assumptions.collect(*now)),
        other => panic!("{other}"),
    }
    Value::Null
}

#[test]
fn recorded_assumptions() {
    recorded::run("assumptions.json", "recorded_assumptions", &[], |case| {
        let clusters: Vec<Cluster> = serde_json::from_value(case["clusters"].clone()).unwrap();
        let asked: Option<ReplicaRequirements> =
            serde_json::from_value(case["requirements"].clone()).unwrap();
        let (mut assumptions, mut now) = (Assumptions::default(), Duration::ZERO);
        let (mut wanted, mut got) = (Vec::new(), Vec::new());
        for op in case["ops"].as_array().unwrap() {
            let removed = step(&mut assumptions, op, &mut now);
            let taken = assumptions.taken(now);
            let free = clusters.iter().map(|cluster| {
                let taken = taken.get(cluster.name()).map(Vec::as_slice).unwrap_or_default();
                let room = estimate::max_beside(cluster, asked.as_ref(), taken);
                json!([cluster.name(), room])
            });
            got.push(json!([assumed(&assumptions, now), free.collect::<Vec<_>>(), removed]));
            wanted.push(json!([sorted(&op["assumed"]), op["free"], op["removed"]]));
        }
        compare(&json!(wanted), &json!(got))
    });
}

/// What grew takes what is new, until it is seen: the rest is in the cluster's report already.
#[test]
fn what_grows_is_not_counted_twice() {
    let of = |clusters: Value, replicas: i32| -> ResourceBinding {
        binding(
            &json!({"metadata": {"name": "b", "namespace": "n"}, "spec": {"resource": {"name": "b"}, "replicas": replicas, "clusters": clusters}}),
        )
    };
    let second = Duration::from_secs;
    let mut assumptions = Assumptions::default();
    let mut place = |before: Value, after: Value, now: u64| {
        let (binding, targets) = (of(before, 9), targets(&after));
        let unseen = assumptions.unseen(&binding, &targets, second(now));
        assumptions.placed(&binding, &targets, unseen, second(now));
        let pods =
            |taken: &Vec<Arc<Assumed>>| taken.iter().map(|one| one.components[0].replicas).sum::<i32>();
        json!(
            assumptions
                .taken(second(now))
                .iter()
                .map(|(name, taken)| (name.clone(), pods(taken)))
                .collect::<Vec<_>>()
        )
    };
    assert_eq!(place(json!([]), json!([["m1", 3]]), 0), json!([["m1", 3]]));
    assert_eq!(
        place(json!([{"name": "m1", "replicas": 3}]), json!([["m1", 5]]), 10),
        json!([["m1", 5]]),
        "none is seen yet"
    );
    let five = json!([{"name": "m1", "replicas": 5}]);
    assert_eq!(
        place(five.clone(), json!([["m1", 6], ["m2", 1]]), 400),
        json!([["m1", 1], ["m2", 1]]),
        "by now the five are"
    );
    assert_eq!(place(five, json!([["m1", 2]]), 1000), json!([]), "what shrinks takes nothing");
}

#[test]
fn replicas_of_one_sort_are_told_once() {
    let one = |namespace: &str, replicas: i32, cpu: &str| -> Arc<Assumed> {
        let part = json!({"name": "web", "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
        Arc::new(serde_json::from_value(json!({"namespace": namespace, "components": [part]})).unwrap())
    };
    let taken =
        [one("a", 2, "1"), one("a", 1, "2"), one("b", 1, "1"), one("a", i32::MAX, "1"), one("a", 3, "2")];
    let told: Vec<(String, Vec<i32>)> = summed(&taken)
        .into_iter()
        .map(|one| (one.namespace, one.components.iter().map(|part| part.replicas).collect()))
        .collect();
    let told: Vec<(&str, &[i32])> = told.iter().map(|(namespace, of)| (&**namespace, &**of)).collect();
    assert_eq!(told, [("a", &[i32::MAX][..]), ("a", &[4]), ("b", &[1])]);
    let many: Vec<Arc<Assumed>> = (0..10_000).map(|cpu| one("a", 1, &cpu.to_string())).collect();
    assert_eq!(summed(&many).len(), 256, "the list is bounded");
}

/// One workload of a namespace that finds no room must not hide what the others of it take.
#[test]
fn what_is_summed_takes_the_room_that_it_takes_apart() {
    use karmada_interpreter::node_room::{NodeRoom, replicas};
    use karmada_interpreter::nodes_and_pods::NodeOffer;
    let allocatable = serde_json::from_value(json!({"cpu": "10", "pods": "110"})).unwrap();
    let nodes = [NodeOffer { name: "n".into(), ready: true, allocatable, ..NodeOffer::default() }];
    let one = |replicas: i32, cpu: &str| -> Arc<Assumed> {
        let part = json!({"name": "web", "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
        Arc::new(serde_json::from_value(json!({"namespace": "shop", "components": [part]})).unwrap())
    };
    let taken = [one(1, "64"), one(2, "4")];
    let wanted: ReplicaRequirements =
        serde_json::from_value(json!({"resourceRequest": {"cpu": "1"}})).unwrap();
    let room = |assumed: &[Assumed]| {
        replicas(&NodeRoom { nodes: &nodes, pods: &[], quotas: &[], assumed }, Some(&wanted))
    };
    let apart: Vec<Assumed> = taken.iter().map(|one| Assumed::clone(one)).collect();
    assert_eq!(room(&apart), 2);
    assert_eq!(room(&summed(&taken)), 2, "told by the hub's sums");
}
