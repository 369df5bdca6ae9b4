//! The order in which clusters are listed and in which the members of an object are written decides nothing.

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{binding, cluster, division_of, schedule, written};

/// The same JSON, with the members of every object written backwards.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let members =
                fields.iter().rev().map(|(name, value)| format!("{}:{}", json!(name), backwards(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(backwards).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

/// Read from the text that is written backwards.
fn read_backwards<T: serde::Serialize + serde::de::DeserializeOwned>(object: &T) -> T {
    serde_json::from_str(&backwards(&serde_json::to_value(object).unwrap())).unwrap()
}

/// A cluster of a region and provider, with a label, a taint that some tolerate, and room.
fn member(index: usize, (region, label, room): (u8, u8, i64)) -> Cluster {
    let mut one = cluster(&format!("m{index}"), room);
    one.spec.region = format!("r{}", region % 3);
    one.spec.provider = format!("p{}", region % 2);
    let labels = one.metadata.labels.get_or_insert_default();
    labels.insert("group".to_owned(), format!("g{}", label % 3));
    labels.insert("site".to_owned(), format!("s{label}"));
    let summary = one.status.resource_summary.as_mut().unwrap();
    let free =
        json!({"pods": room.to_string(), "cpu": (room * 2).to_string(), "memory": format!("{room}Gi")});
    summary.allocatable = serde_json::from_value(free).unwrap();
    if label == 5 {
        one.spec.taints = serde_json::from_value(json!([{"key": "k", "effect": "NoSchedule"}])).unwrap();
    }
    one
}

fn placement(kind: u8, constraints: u8, affinity: u8) -> Value {
    let mut placement = json!({"replicaScheduling": division_of(kind)});
    placement["spreadConstraints"] = match constraints {
        0 => json!([]),
        1 => json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}]),
        2 => {
            json!([{"spreadByField": "region", "minGroups": 1, "maxGroups": 2}, {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}])
        }
        _ => {
            json!([{"spreadByField": "provider", "minGroups": 1, "maxGroups": 2}, {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 4}])
        }
    };
    match affinity {
        0 => {}
        1 => placement["clusterAffinity"] = json!({"labelSelector": {"matchLabels": {"group": "g1"}}}),
        2 => placement["clusterAffinity"] = json!({"exclude": ["m1"]}),
        _ => {
            placement["clusterAffinities"] = json!([{"affinityName": "a", "labelSelector": {"matchLabels": {"group": "g0", "site": "s0"}}},
                {"affinityName": "b", "labelSelector": {"matchExpressions": [{"key": "group", "operator": "In", "values": ["g1", "g2"]}]}},
                {"affinityName": "c"}]);
        }
    }
    placement
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_order_of_clusters_and_of_an_objects_members_does_not_matter(
        members in prop::collection::vec((0_u8..3, 0_u8..6, 1_i64..40), 1..8), kind in 0_u8..5, constraints in 0_u8..4,
        affinity in 0_u8..4, replicas in 1_i64..60, held in prop::collection::vec((0_usize..8, 1_i32..9), 0..4), seed in any::<u64>(),
    ) {
        let clusters: Vec<Cluster> = members.into_iter().enumerate().map(|(at, told)| member(at, told)).collect();
        let mut first = binding(placement(kind, constraints, affinity), replicas);
        first.spec.replica_requirements = serde_json::from_value(json!({"resourceRequest": {"cpu": "1", "memory": "1Gi"}})).unwrap();
        let targets: std::collections::BTreeMap<usize, i32> = held.into_iter().collect();
        let targets: Vec<Value> = targets.iter().map(|(at, n)| json!({"name": format!("m{at}"), "replicas": n})).collect();
        first.spec.clusters = serde_json::from_value(json!(targets)).unwrap();
        let wanted = schedule(&first, &clusters);
        let mut shuffled: Vec<Cluster> = clusters.iter().map(read_backwards).collect();
        shuffled.sort_by_key(|cluster| {
            let bytes = cluster.name().bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            bytes.rotate_left(17)
        });
        let told: ResourceBinding = read_backwards(&first);
        prop_assert_eq!(&wanted, &schedule(&told, &shuffled));
        // And once it stands: whether there is anything to decide is asked of the list as well.
        let stands = written(&first, &wanted);
        prop_assert_eq!(schedule(&stands, &clusters), schedule(&read_backwards(&stands), &shuffled));
    }
}
