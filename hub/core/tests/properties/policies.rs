//! Which policy has a template: by priority, closeness and name, in whatever order policies are listed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_core::detector::{Decision, Takeover, decide};
use karmada_core::overrides;
use karmada_core::skipped_resources::SkipRules;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{cluster, now};

/// How closely a policy means the template: not at all, all of its kind, by a label, by name.
fn selector(rank: u8) -> Value {
    match rank {
        0 => json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}),
        1 => json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
        2 => {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}})
        }
        _ => json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}),
    }
}

fn policy(index: usize, (priority, rank, leaving): (i32, u8, bool)) -> PropagationPolicy {
    let mut policy: PropagationPolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": format!("p{index}"), "namespace": "shop",
            "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{index}")}},
        "spec": {"priority": priority, "resourceSelectors": [selector(rank)]}}))
    .unwrap();
    policy.metadata.deletion_timestamp = leaving.then(|| Time(now()));
    policy
}

fn template() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "t", "labels": {"app": "web"}}, "spec": {"replicas": 2}})
}

fn winner(policies: &[PropagationPolicy]) -> Option<String> {
    match decide(&template(), policies, &[], &SkipRules::default(), Takeover::Never) {
        Decision::Claimed(policy) | Decision::TakenOver(policy, _) => policy.metadata.name.clone(),
        Decision::Leave | Decision::Waits => None,
    }
}

/// One that sets a label which others set as well, and one of its own.
fn override_policy(index: usize, (rank, value): (u8, u8)) -> OverridePolicy {
    let labels =
        json!([{"operator": "add", "value": {"by": format!("v{value}-{index}"), format!("l{index}"): "x"}}]);
    serde_json::from_value(
        json!({"metadata": {"name": format!("o{index}")}, "spec": {"resourceSelectors": [selector(rank)],
        "overrideRules": [{"overriders": {"labelsOverrider": labels}}]}}),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn statement_6_priority_then_closeness_then_name_in_whatever_order_and_never_one_on_its_way_out(
        told in prop::collection::vec((-2_i32..3, 0_u8..4, prop::bool::weighted(0.3)), 0..7), turn in 0_usize..7, back in any::<bool>(),
    ) {
        let wanted = told.iter().enumerate().filter(|(_, (_, rank, leaving))| *rank > 0 && !leaving)
            .max_by_key(|(index, (priority, rank, _))| (*priority, *rank, std::cmp::Reverse(*index)))
            .map(|(index, _)| format!("p{index}"));
        let mut policies: Vec<PropagationPolicy> = told.iter().copied().enumerate().map(|(at, told)| policy(at, told)).collect();
        prop_assert_eq!(&winner(&policies), &wanted);
        if !policies.is_empty() {
            let turn = turn % policies.len();
            policies.rotate_left(turn);
        }
        if back {
            policies.reverse();
        }
        prop_assert_eq!(winner(&policies), wanted);
    }

    /// Of overrides, too: what a manifest becomes, and which policies are noted for it.
    #[test]
    fn the_order_in_which_overrides_are_listed_does_not_matter(told in prop::collection::vec((0_u8..4, 0_u8..3), 1..6), turn in 0_usize..6) {
        let mut policies: Vec<OverridePolicy> = told.iter().enumerate().map(|(at, told)| override_policy(at, *told)).collect();
        let given = |policies: &[OverridePolicy]| {
            let mut manifest = template();
            let applied = overrides::apply(&mut manifest, &cluster("m1", 1), policies, &[]).unwrap();
            (manifest, applied.cluster.names().iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let wanted = given(&policies);
        let turn = turn % policies.len();
        policies.rotate_left(turn);
        prop_assert_eq!(given(&policies), wanted);
    }
}
