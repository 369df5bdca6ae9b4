//! Taints keep newcomers out, whatever the placement is, and those of effect NoExecute clear a cluster.

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::policy::PurgeMode;
use karmada_core::eviction::evict;
use karmada_core::eviction::no_execute::{Rules, Stay, look};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{binding, cluster, division_of, now, schedule, written};

/// Key, value, effect; of the fourth effect none is.
type Word = (u8, u8, u8);

fn effect(number: u8) -> &'static str {
    ["NoSchedule", "NoExecute", "PreferNoSchedule", ""][usize::from(number % 4)]
}

fn taint((key, value, effect_of): &Word) -> Value {
    json!({"key": format!("k{key}"), "value": format!("v{value}"), "effect": effect(*effect_of)})
}

/// A toleration: one of the fourth key has none, and one of the third value tolerates any.
fn toleration((key, value, effect_of): &Word) -> Value {
    let mut told = json!({"effect": effect(*effect_of)});
    if *key < 3 {
        told["key"] = json!(format!("k{key}"));
    }
    if *value < 2 && *key < 3 {
        told["value"] = json!(format!("v{value}"));
    } else {
        told["operator"] = json!("Exists");
    }
    told
}

/// As Kubernetes says it: effect and key are the same or are not said, and the value is the same unless any will do.
fn bears((key, value, effect_of): &Word, taint: &Word) -> bool {
    (effect_of % 4 == 3 || effect_of % 4 == taint.2 % 4)
        && (*key == 3 || *key == taint.0)
        && (*value == 2 || *key == 3 || *value == taint.1)
}

/// Whether a taint of one of these effects is borne by nobody.
fn is_closed(taints: &[Word], tolerations: &[Word], effects: &[u8]) -> bool {
    let counts = |taint: &&Word| effects.contains(&(taint.2 % 4));
    taints.iter().filter(counts).any(|taint| !tolerations.iter().any(|toleration| bears(toleration, taint)))
}

fn fleet(all: &[Vec<Word>]) -> Vec<Cluster> {
    let one = |(index, taints): (usize, &Vec<Word>)| {
        let mut one = cluster(&format!("m{index}"), 20);
        let taints: Vec<Value> = taints.iter().map(taint).collect();
        one.spec.taints = serde_json::from_value(json!(taints)).unwrap();
        one
    };
    all.iter().enumerate().map(one).collect()
}

fn index(name: &str) -> usize {
    name[1..].parse().unwrap()
}

fn words(keys: u8, values: u8, effects: u8, most: usize) -> impl Strategy<Value = Vec<Word>> {
    prop::collection::vec((0..keys, 0..values, 0..effects), 0..most)
}

/// Takes a binding out of the clusters whose taints it does not bear.
fn evicted(mut binding: ResourceBinding, clusters: &[Cluster]) -> ResourceBinding {
    let rules = Rules { purge_mode: PurgeMode::Gracefully, preserves_state: false };
    for cluster in clusters {
        let looked = look(&binding, cluster.name(), &cluster.spec.taints, rules, now());
        if let Ok(Stay::Leaves(task)) = looked {
            evict(&mut binding.spec, *task);
        }
    }
    binding
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn statement_25_nothing_new_lands_where_a_taint_is_not_tolerated_and_noexecute_clears_the_cluster(
        before in prop::collection::vec(words(3, 2, 3, 2), 2..6), after in prop::collection::vec(words(3, 2, 3, 3), 6),
        tolerations in words(4, 3, 4, 4), kind in 0_u8..5, replicas in 1_i64..30, more in 0_i64..9,
    ) {
        let told: Vec<Value> = tolerations.iter().map(toleration).collect();
        let first = binding(json!({"clusterTolerations": told, "replicaScheduling": division_of(kind)}), replicas);
        let placed = written(&first, &schedule(&first, &fleet(&before)));
        let noexecute_too = [0, 1];
        for target in &placed.spec.clusters {
            prop_assert!(!is_closed(&before[index(&target.name)], &tolerations, &noexecute_too), "{} is closed", target.name);
        }
        // The taints are others now: who is there stays, unless it is to leave; nobody comes in.
        let after = &after[..before.len()];
        let clusters = fleet(after);
        let mut grown = evicted(placed.clone(), &clusters);
        for target in &placed.spec.clusters {
            let stays = grown.spec.clusters.iter().any(|held| held.name == target.name);
            prop_assert_eq!(stays, !is_closed(&after[index(&target.name)], &tolerations, &[1]), "{}", &target.name);
        }
        grown.spec.replicas += i32::try_from(more).unwrap();
        let again = written(&grown, &schedule(&grown, &clusters));
        for target in &again.spec.clusters {
            let closed = is_closed(&after[index(&target.name)], &tolerations, &noexecute_too);
            let stood = grown.spec.clusters.iter().any(|held| held.name == target.name);
            prop_assert!(stood || !closed, "{} came in", target.name);
        }
    }
}
