//! Room on a member's nodes: what holds for any member and any question.
#![allow(clippy::unwrap_used)]

use karmada_api::binding::{Component, ReplicaRequirements};
use karmada_interpreter::node_room::{Assumed, NodeRoom, Quota, component_sets, replicas};
use karmada_interpreter::nodes_and_pods::{NodeOffer, PodUse};
use proptest::prelude::*;
use serde_json::{Value, json};

/// CPUs, Gi of memory, places for pods.
type Amounts = (u32, u32, u32);

fn allocatable((cpu, memory, pods): Amounts) -> Value {
    json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": pods.to_string()})
}

fn node(name: usize, amounts: Amounts, pool: &str, taint: Option<&str>) -> NodeOffer {
    let taints: Vec<Value> = taint.iter().map(|effect| json!({"key": "k", "effect": effect})).collect();
    NodeOffer::of(&json!({"metadata": {"name": format!("n{name}"), "labels": {"pool": pool}},
        "spec": {"taints": taints}, "status": {"allocatable": allocatable(amounts)}}))
}

fn some_amounts() -> impl Strategy<Value = Amounts> {
    (0_u32..12, 0_u32..12, 0_u32..9)
}

fn some_nodes() -> impl Strategy<Value = Vec<NodeOffer>> {
    let effects = prop::sample::select(vec![
        None,
        None,
        Some("NoSchedule"),
        Some("NoExecute"),
        Some("PreferNoSchedule"),
    ]);
    let one = (some_amounts(), prop::sample::select(vec!["a", "b"]), effects);
    prop::collection::vec(one, 0..6).prop_map(|nodes| {
        let numbered = nodes.into_iter().enumerate();
        numbered.map(|(name, (amounts, pool, taint))| node(name, amounts, pool, taint)).collect()
    })
}

fn some_pods() -> impl Strategy<Value = Vec<PodUse>> {
    let one = (0_usize..7, 0_u32..5000, 0_u32..4, prop::sample::select(vec!["Running", "Succeeded"]));
    prop::collection::vec(one, 0..9).prop_map(|pods| {
        let pod = |(node, milli, memory, phase): (usize, u32, u32, &str)| {
            let requests = json!({"cpu": format!("{milli}m"), "memory": format!("{memory}Gi")});
            PodUse::of(&json!({"spec": {"nodeName": format!("n{node}"), "containers": [{"resources": {"requests": requests}}]},
                "status": {"phase": phase}}))
        };
        pods.into_iter().map(pod).collect()
    })
}

/// What a replica asks for; `tolerant` ones may be put anywhere.
fn some_requirements() -> impl Strategy<Value = Value> {
    let pools = prop::sample::select(vec![None, None, Some("a"), Some("b")]);
    (0_u32..3000, 0_u32..4, pools, any::<bool>()).prop_map(|(milli, memory, pool, tolerant)| {
        let tolerations = if tolerant { json!([{"operator": "Exists"}]) } else { json!([]) };
        let selector = pool.map_or(json!({}), |pool| json!({"pool": pool}));
        json!({"nodeClaim": {"nodeSelector": selector, "tolerations": tolerations},
               "resourceRequest": {"cpu": format!("{milli}m"), "memory": format!("{memory}Gi")}, "namespace": "ns"})
    })
}

fn some_components() -> impl Strategy<Value = Vec<Component>> {
    prop::collection::vec((some_requirements(), 0_i32..4), 1..4).prop_map(|parts| {
        let part = |(requirements, replicas): &(Value, i32)| json!({"replicas": replicas, "replicaRequirements": requirements});
        parts.iter().map(|one| serde_json::from_value(part(one)).unwrap()).collect()
    })
}

fn some_assumed() -> impl Strategy<Value = Vec<Assumed>> {
    let one = some_components().prop_map(|components| Assumed { namespace: "ns".into(), components });
    prop::collection::vec(one, 0..3)
}

fn requirements(json: &Value) -> ReplicaRequirements {
    serde_json::from_value(json.clone()).unwrap()
}

fn quota(cpu: u32, used: u32) -> Quota {
    Quota::of(&json!({"metadata": {"namespace": "ns"},
        "status": {"hard": {"cpu": cpu.to_string()}, "used": {"cpu": used.to_string()}}}))
}

/// Lays pods one by one, as slow and plain as can be.
struct Slow<'a> {
    nodes: &'a [NodeOffer],
    pods: Vec<PodUse>,
}

impl Slow<'_> {
    /// Puts one pod on the first node that has room by itself.
    fn put(&mut self, wanted: Option<&ReplicaRequirements>) -> bool {
        let room = |node: &NodeOffer| {
            replicas(
                &NodeRoom { nodes: std::slice::from_ref(node), pods: &self.pods, ..NodeRoom::default() },
                wanted,
            )
        };
        let Some(node) = self.nodes.iter().find(|node| room(node) > 0) else { return false };
        let mut request = wanted.map(|wanted| wanted.resource_request.clone()).unwrap_or_default();
        request.insert("pods".into(), "1".parse().unwrap());
        self.pods.push(PodUse { node: node.name.clone(), request, ..PodUse::default() });
        true
    }

    /// Puts one set, up to the first pod that finds no room.
    fn put_set(&mut self, parts: &[Component]) -> bool {
        parts.iter().all(|part| {
            let wanted = part.replica_requirements.as_ref().map(|wanted| ReplicaRequirements {
                node_claim: wanted.node_claim.clone(),
                resource_request: wanted.resource_request.clone(),
                ..ReplicaRequirements::default()
            });
            (0..part.replicas).all(|_| self.put(wanted.as_ref()))
        })
    }
}

proptest! {
    #[test]
    fn more_capacity_never_lowers_the_answer(nodes in some_nodes(), pods in some_pods(), wanted in some_requirements(),
                                             more in some_amounts(), at in 0_usize..6, hard in 0_u32..20, used in 0_u32..20) {
        let wanted = requirements(&wanted);
        let answer = |nodes: &[NodeOffer], quotas: &[Quota]| {
            replicas(&NodeRoom { nodes, pods: &pods, quotas, assumed: &[] }, Some(&wanted))
        };
        let before = answer(&nodes, &[]);
        let mut larger = nodes.clone();
        let at = at % nodes.len().max(1);
        if let Some(node) = larger.get_mut(at) {
            let more = requirements(&json!({"resourceRequest": allocatable(more)})).resource_request;
            for (name, amount) in more {
                let entry = node.allocatable.entry(name).or_default();
                *entry = entry.plus(amount);
            }
        }
        let after = answer(&larger, &[]);
        prop_assert!(after >= before, "{} {}", before, after);
        larger.push(node(9, more, "a", None));
        prop_assert!(answer(&larger, &[]) >= after);
        let bounded = answer(&nodes, &[quota(hard, used)]);
        prop_assert!(bounded >= 0 && bounded <= before);
        prop_assert!(answer(&nodes, &[quota(hard + more.0, used)]) >= bounded);
    }

    #[test]
    fn a_node_with_an_untolerated_taint_counts_nothing(nodes in some_nodes(), pods in some_pods(), assumed in some_assumed(),
                                                       wanted in some_requirements(), parts in some_components(), at in 0_usize..6,
                                                       effect in prop::sample::select(vec!["NoSchedule", "NoExecute"])) {
        let tainted = NodeOffer::of(&json!({"metadata": {"name": "n9", "labels": {"pool": "a"}}, "status": {"allocatable": allocatable((64, 64, 110))},
            "spec": {"taints": [{"key": "mine", "value": "v", "effect": effect}]}}));
        let mut with = nodes.clone();
        with.insert(at.min(nodes.len()), tainted);
        let strict = |mut json: Value| { json["nodeClaim"]["tolerations"] = json!([{"key": "mine", "value": "w"}]); json };
        let wanted = requirements(&strict(wanted));
        let strict_parts = |parts: &[Component]| -> Vec<Component> {
            parts.iter().map(|part| {
                let mut json = json!(part);
                json["replicaRequirements"] = strict(json["replicaRequirements"].clone());
                serde_json::from_value(json).unwrap()
            }).collect()
        };
        let parts = strict_parts(&parts);
        let assumed: Vec<Assumed> = assumed.iter().map(|one| Assumed { namespace: "ns".into(), components: strict_parts(&one.components) }).collect();
        let room = |nodes: &[NodeOffer]| {
            let room = NodeRoom { nodes, pods: &pods, quotas: &[], assumed: &assumed };
            (replicas(&room, Some(&wanted)), replicas(&room, None), component_sets(&room, "ns", &parts))
        };
        prop_assert_eq!(room(&with), room(&nodes));
    }

    #[test]
    fn replicas_are_the_sum_over_single_nodes(nodes in some_nodes(), pods in some_pods(), wanted in some_requirements()) {
        let wanted = requirements(&wanted);
        let answer = |nodes: &[NodeOffer]| replicas(&NodeRoom { nodes, pods: &pods, ..NodeRoom::default() }, Some(&wanted));
        let single: i32 = nodes.iter().map(|node| answer(std::slice::from_ref(node))).sum();
        prop_assert_eq!(answer(&nodes), single);
    }

    #[test]
    fn order_of_nodes_and_pods_does_not_matter_for_replicas(mut nodes in some_nodes(), mut pods in some_pods(), wanted in some_requirements()) {
        let wanted = requirements(&wanted);
        let forth = replicas(&NodeRoom { nodes: &nodes, pods: &pods, ..NodeRoom::default() }, Some(&wanted));
        nodes.reverse();
        pods.reverse();
        prop_assert_eq!(replicas(&NodeRoom { nodes: &nodes, pods: &pods, ..NodeRoom::default() }, Some(&wanted)), forth);
    }

    #[test]
    fn sets_are_those_laid_pod_by_pod(nodes in some_nodes(), pods in some_pods(), parts in some_components(), assumed in some_assumed()) {
        prop_assume!(parts.iter().any(|part| part.replicas > 0));
        let mut slow = Slow { nodes: &nodes, pods: pods.clone() };
        for workload in &assumed {
            slow.put_set(&workload.components);
        }
        let mut sets = 0;
        while sets < 99 && slow.put_set(&parts) {
            sets += 1;
        }
        let room = NodeRoom { nodes: &nodes, pods: &pods, quotas: &[], assumed: &assumed };
        prop_assert_eq!(component_sets(&room, "ns", &parts), sets);
    }

    #[test]
    fn a_set_of_one_part_is_so_many_replicas(nodes in some_nodes(), pods in some_pods(), wanted in some_requirements(), count in 1_i32..5,
                                             hard in 0_u32..20) {
        let quotas = [quota(hard, 1)];
        let room = NodeRoom { nodes: &nodes, pods: &pods, quotas: &quotas, assumed: &[] };
        let parts: Vec<Component> = serde_json::from_value(json!([{"replicas": count, "replicaRequirements": wanted}])).unwrap();
        prop_assert_eq!(component_sets(&room, "ns", &parts), replicas(&room, Some(&requirements(&wanted))) / count);
    }

    #[test]
    fn any_amounts_are_answered(amounts in prop::collection::vec(prop::sample::select(vec!["-9E", "-1", "0", "1n", "1", "9223372036854775807", "8Ei"]), 8),
                                count in any::<i32>(), quota_left in prop::sample::select(vec!["-9E", "0", "9E"])) {
        let offered = json!({"cpu": amounts[0], "memory": amounts[1], "pods": amounts[2]});
        let nodes: Vec<NodeOffer> = (0..3)
            .map(|n| NodeOffer::of(&json!({"metadata": {"name": format!("n{n}")}, "status": {"allocatable": offered}})))
            .collect();
        let requests = json!({"cpu": amounts[3], "memory": amounts[4]});
        let pod = PodUse::of(&json!({"spec": {"nodeName": "n1", "containers": [{"resources": {"requests": requests}}]}}));
        let wanted = json!({"resourceRequest": {"cpu": amounts[5], "memory": amounts[6]}, "namespace": "ns"});
        let parts: Vec<Component> = serde_json::from_value(json!([{"replicas": count, "replicaRequirements": wanted},
            {"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": amounts[7]}}}])).unwrap();
        let quotas = [Quota::of(&json!({"metadata": {"namespace": "ns"}, "status": {"hard": {"requests.cpu": quota_left}, "used": {"requests.cpu": amounts[3]}}}))];
        let assumed = [Assumed { namespace: "ns".into(), components: parts.clone() }];
        let room = NodeRoom { nodes: &nodes, pods: &[pod.clone(), pod], quotas: &quotas, assumed: &assumed };
        prop_assert!(replicas(&room, Some(&requirements(&wanted))) >= 0);
        prop_assert!(component_sets(&room, "ns", &parts) >= 0);
    }
}
