//! Division against an oracle that is written from the rules alone, one replica at a time; and what shrinking promises.

use std::collections::BTreeMap;

use karmada_api::binding::TargetCluster;
use karmada_api::cluster::Cluster;
use karmada_api::policy::ReplicaSchedulingStrategy;
use karmada_core::scheduler::division::{self, Candidate, Division, DivisionError, Mode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Duplicated,
    /// Everybody weighs the same.
    Even,
    /// By weights, 0 for whom none is said.
    Static,
    Dynamic,
    Aggregated,
}

/// One question: room and weight of each cluster in the order of preference, what each has, how many are wanted.
#[derive(Clone, Debug)]
struct Asked {
    rule: Rule,
    free: Vec<i64>,
    weights: Vec<i64>,
    held: Vec<i64>,
    replicas: i64,
    fresh: bool,
    odd: bool,
}

type Shares = BTreeMap<usize, i64>;

/// One seat after the other to the greatest of votes / (2 seats + 1); of equal ones to the fewest seats, then the first name, or the last where the
/// template's uid says so. Fractions are compared as such.
fn webster(seats: i64, votes: &Shares, downwards: bool) -> Shares {
    let mut given: Shares = votes.iter().filter(|(_, votes)| **votes > 0).map(|(who, _)| (*who, 0)).collect();
    if given.is_empty() {
        return given;
    }
    for _ in 0..seats {
        let better = |a: usize, b: usize| {
            let (left, right) = (votes[&a] * (2 * given[&b] + 1), votes[&b] * (2 * given[&a] + 1));
            let by_name = if downwards { a > b } else { a < b };
            left > right || (left == right && (given[&a] < given[&b] || (given[&a] == given[&b] && by_name)))
        };
        let next =
            given.keys().copied().reduce(|best, who| if better(who, best) { who } else { best }).unwrap();
        *given.get_mut(&next).unwrap() += 1;
    }
    given
}

/// The roomiest first, as they stand where they are equal; those in use before all others. The fewest of them that hold everything.
fn fewest(seats: i64, room: &Shares, in_use: &[usize]) -> Shares {
    let mut order: Vec<usize> = room.keys().copied().collect();
    order.sort_by_key(|who| (!in_use.contains(who), -room[who], *who));
    let mut sum = 0;
    let mut taken = Shares::new();
    for who in order {
        if sum >= seats {
            break;
        }
        sum += room[&who];
        taken.insert(who, room[&who]);
    }
    taken
}

/// By room: none where there is not enough.
fn by_room(asked: &Asked, seats: i64, room: &Shares, in_use: &[usize]) -> Option<Shares> {
    if room.values().sum::<i64>() < seats {
        return None;
    }
    let votes = if asked.rule == Rule::Aggregated { fewest(seats, room, in_use) } else { room.clone() };
    Some(webster(seats, &votes, asked.odd))
}

fn oracle(asked: &Asked) -> Option<Shares> {
    let all = || 0..asked.free.len();
    let of = |numbers: &[i64]| all().map(|who| (who, numbers[who])).collect::<Shares>();
    let placed: i64 = asked.held.iter().sum();
    let shares = match asked.rule {
        Rule::Duplicated => all().map(|who| (who, asked.replicas)).collect(),
        Rule::Even => webster(asked.replicas, &all().map(|who| (who, 1)).collect(), asked.odd),
        Rule::Static if asked.weights.iter().all(|weight| *weight == 0) => {
            webster(asked.replicas, &all().map(|who| (who, 1)).collect(), asked.odd)
        }
        Rule::Static => webster(asked.replicas, &of(&asked.weights), asked.odd),
        Rule::Dynamic | Rule::Aggregated if asked.fresh => {
            let room = all().map(|who| (who, asked.free[who] + asked.held[who])).collect();
            by_room(asked, asked.replicas, &room, &[])?
        }
        Rule::Dynamic | Rule::Aggregated if placed >= asked.replicas => {
            if placed == asked.replicas {
                of(&asked.held)
            } else {
                by_room(asked, asked.replicas, &of(&asked.held), &[])?
            }
        }
        Rule::Dynamic | Rule::Aggregated => {
            let in_use: Vec<usize> = all().filter(|who| asked.held[*who] > 0).collect();
            let more = by_room(asked, asked.replicas - placed, &of(&asked.free), &in_use)?;
            all().map(|who| (who, asked.held[who] + more.get(&who).copied().unwrap_or(0))).collect()
        }
    };
    Some(shares.into_iter().filter(|(_, share)| *share > 0).collect())
}

fn strategy(asked: &Asked) -> ReplicaSchedulingStrategy {
    let weights = |(who, weight): (usize, &i64)| json!({"targetCluster": {"clusterNames": [format!("m{who}")]}, "weight": weight});
    let told = match asked.rule {
        Rule::Duplicated => json!({"replicaSchedulingType": "Duplicated"}),
        Rule::Even => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
        Rule::Static => {
            let list: Vec<Value> =
                asked.weights.iter().enumerate().filter(|(_, weight)| **weight > 0).map(weights).collect();
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": list}})
        }
        Rule::Dynamic => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        Rule::Aggregated => {
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
        }
    };
    serde_json::from_value(told).unwrap()
}

/// What the product answers: the shares by number, or nothing where there is not enough room.
fn answer(asked: &Asked) -> Option<Shares> {
    let clusters: Vec<Cluster> = (0..asked.free.len()).map(|who| cluster(&format!("m{who}"), 1)).collect();
    let candidates: Vec<Candidate<'_>> = clusters
        .iter()
        .zip(&asked.free)
        .map(|(cluster, free)| Candidate { cluster, free: *free, tier: 0, score: 0 })
        .collect();
    let previous: Vec<TargetCluster> = asked
        .held
        .iter()
        .enumerate()
        .filter(|(_, held)| **held > 0)
        .map(|(who, held)| TargetCluster {
            name: format!("m{who}"),
            replicas: i32::try_from(*held).unwrap(),
            ..TargetCluster::default()
        })
        .collect();
    let strategy = strategy(asked);
    let divided = division::divide(&Division {
        candidates: &candidates,
        replicas: asked.replicas,
        strategy: Some(&strategy),
        previous: &previous,
        uid: if asked.odd { ODD } else { EVEN },
        mode: if asked.fresh { Mode::Fresh } else { Mode::Steady },
        tiers: false,
        workload: true,
        keeps_empty: false,
    });
    match divided {
        Ok(targets) => Some(
            targets
                .iter()
                .map(|target| (target.name[1..].parse().unwrap(), i64::from(target.replicas)))
                .collect(),
        ),
        Err(DivisionError::Unschedulable(_)) => None,
        Err(DivisionError::Impossible(why)) => panic!("{why}"),
    }
}

const EVEN: &str = "a";
const ODD: &str = "b";

/// FNV-1a of 32 bits, by which the two uids were chosen.
#[test]
fn the_two_uids_break_ties_either_way() {
    let hash = |text: &str| {
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    assert_eq!((hash(EVEN) % 2, hash(ODD) % 2), (0, 1));
}

fn asked() -> impl Strategy<Value = Asked> {
    let rules = prop_oneof![
        Just(Rule::Duplicated),
        Just(Rule::Even),
        Just(Rule::Static),
        Just(Rule::Dynamic),
        Just(Rule::Aggregated),
        Just(Rule::Dynamic),
        Just(Rule::Aggregated)
    ];
    (1_usize..8).prop_flat_map(move |count| {
        let numbers = |most: i64| prop::collection::vec(0..most, count);
        (rules.clone(), numbers(30), numbers(4), numbers(12), 1_i64..80, any::<bool>(), any::<bool>())
            .prop_map(|(rule, free, weights, held, replicas, fresh, odd)| Asked {
                rule,
                free,
                weights,
                held,
                replicas,
                fresh,
                odd,
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn statement_22_replicas_are_divided_as_the_rules_say_seat_by_seat(asked in asked()) {
        prop_assert_eq!(answer(&asked), oracle(&asked));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Proportional: taking a replica from one and giving it to another would serve nobody's share better. And nobody gets more than it has.
    #[test]
    fn statement_23_shrinking_is_proportional_to_what_is_placed_and_growing_keeps_it(asked in asked(), aggregated in any::<bool>()) {
        let rule = if aggregated { Rule::Aggregated } else { Rule::Dynamic };
        let asked = Asked { rule, fresh: false, ..asked };
        let placed: i64 = asked.held.iter().sum();
        let Some(shares) = answer(&asked) else {
            prop_assert!(placed < asked.replicas, "shrinking needs no room");
            return Ok(());
        };
        let share = |who: usize| shares.get(&who).copied().unwrap_or(0);
        prop_assert_eq!(shares.values().sum::<i64>(), asked.replicas);
        for who in 0..asked.held.len() {
            if placed <= asked.replicas {
                prop_assert!(share(who) >= asked.held[who], "m{} keeps what it has", who);
                continue;
            }
            prop_assert!(share(who) <= asked.held[who], "m{} does not grow", who);
            for other in 0..asked.held.len() {
                if !aggregated && share(other) > 0 {
                    let (next, last) = (asked.held[who] * (2 * share(other) - 1), asked.held[other] * (2 * share(who) + 1));
                    prop_assert!(next <= last, "m{} should have one of m{}", who, other);
                }
            }
        }
    }
}
