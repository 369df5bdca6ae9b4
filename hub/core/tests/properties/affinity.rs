//! A cluster that leaves what a placement means loses what it has to the others; one that comes into it changes what is copied alone.

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{binding, cluster, division_of, schedule, written};

/// Clusters of which these bear the label by which the placement means them.
fn fleet(meant: &[bool]) -> Vec<Cluster> {
    let one = |(index, meant): (usize, &bool)| {
        let mut one = cluster(&format!("m{index}"), 100);
        let labels = one.metadata.labels.get_or_insert_default();
        labels.insert("group".to_owned(), if *meant { "in" } else { "out" }.to_owned());
        one
    };
    meant.iter().enumerate().map(one).collect()
}

fn shares(binding: &ResourceBinding) -> Vec<(String, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.clone(), target.replicas)).collect()
}

/// With clusters named, as policies are edited.
fn named(names: &[usize], kind: u8) -> Value {
    let names: Vec<String> = names.iter().map(|index| format!("m{index}")).collect();
    json!({"clusterAffinity": {"clusterNames": names}, "replicaScheduling": division_of(kind)})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn statement_24_a_cluster_that_is_meant_no_more_gives_its_replicas_to_the_others(count in 2_usize..6, gone in 0_usize..6, kind in 0_u8..4, replicas in 1_i64..40) {
        let (gone, clusters) = (gone % count, fleet(&vec![true; count]));
        let all: Vec<usize> = (0..count).collect();
        let first = binding(named(&all, kind), replicas);
        let placed = written(&first, &schedule(&first, &clusters));
        let left: Vec<usize> = all.into_iter().filter(|index| *index != gone).collect();
        let mut narrowed = placed.clone();
        narrowed.spec.placement = serde_json::from_value(named(&left, kind)).unwrap();
        let after = written(&narrowed, &schedule(&narrowed, &clusters));
        let name = format!("m{gone}");
        prop_assert!(after.spec.clusters.iter().all(|target| target.name != name));
        if kind == 0 {
            prop_assert_eq!(after.spec.clusters.len(), count - 1);
            prop_assert!(after.spec.clusters.iter().all(|target| i64::from(target.replicas) == replicas));
        } else {
            prop_assert_eq!(after.spec.clusters.iter().map(|target| i64::from(target.replicas)).sum::<i64>(), replicas);
        }
        // By room nobody who stays loses any.
        if kind > 1 {
            for (name, had) in shares(&placed).into_iter().filter(|(held, _)| *held != name) {
                let has = after.spec.clusters.iter().find(|target| target.name == name).map_or(0, |target| target.replicas);
                prop_assert!(has >= had, "{} had {} and has {}", name, had, has);
            }
        }
    }

    #[test]
    fn statement_24_a_cluster_that_comes_to_be_meant_gets_a_copy_and_nothing_of_what_is_divided(
        meant in prop::collection::vec(any::<bool>(), 1..6), new in 0_usize..6, kind in 0_u8..4, replicas in 1_i64..40,
    ) {
        let mut meant = meant;
        let new = new % meant.len();
        meant[new] = false;
        meant.push(true);
        let placement = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"group": "in"}}}, "replicaScheduling": division_of(kind)});
        let first = binding(placement, replicas);
        let placed = written(&first, &schedule(&first, &fleet(&meant)));
        meant[new] = true;
        let after = written(&placed, &schedule(&placed, &fleet(&meant)));
        if kind == 0 {
            let mut wanted = shares(&placed);
            wanted.push((format!("m{new}"), i32::try_from(replicas).unwrap()));
            wanted.sort();
            prop_assert_eq!(shares(&after), wanted);
        } else {
            prop_assert_eq!(shares(&after), shares(&placed));
        }
    }
}
