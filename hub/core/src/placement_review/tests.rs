//! Reviews of one Deployment over three clusters.

use karmada_api::strings::DEFAULT_SCHEDULER;
use karmada_interpreter::Chain;
use serde_json::json;

use super::*;
use crate::detector::Parts;
use crate::scheduler::ClusterVerdict;
use crate::scheduler::filter::Unfit;

struct World {
    template: Value,
    binding: Option<ResourceBinding>,
    policies: Vec<PropagationPolicy>,
    clusters: Vec<Cluster>,
    overrides: Vec<OverridePolicy>,
}

fn cluster(name: &str, cpu: &str) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"site": name}}, "spec": {"syncMode": "Pull"},
        "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"cpu": cpu, "memory": "100Gi", "pods": "100"}}}}))
    .unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn world() -> World {
    World {
        template: json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "t"},
            "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]}}}}),
        binding: None,
        policies: vec![read(
            json!({"metadata": {"name": "all", "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                "placement": {"clusterAffinity": {"clusterNames": ["a", "b"]},
                    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}}}}),
        )],
        clusters: vec![cluster("a", "10"), cluster("b", "30"), cluster("c", "10")],
        overrides: vec![read(json!({"metadata": {"name": "mirror", "namespace": "shop"},
            "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["b"]},
                "overriders": {"imageOverrider": [{"component": "Registry", "operator": "add", "value": "mirror.example.com"}]}}]}}))],
    }
}

fn asked(world: &World, what_if: &WhatIf) -> Review {
    let interpreter = Chain::default();
    let input = Input {
        template: &world.template,
        binding: world.binding.as_ref(),
        policies: &world.policies,
        cluster_policies: &[],
        clusters: &world.clusters,
        overrides: &world.overrides,
        cluster_overrides: &[],
        reading: Reading { interpreter: &interpreter, parts: Parts::Together, quotas_count: false },
        skip: &SkipRules::default(),
        scheduler: DEFAULT_SCHEDULER,
        keeps_empty: false,
        takeover: Takeover::AsPoliciesSay,
        evicts_for_taints: true,
        injects_state: false,
        residency: Default::default(),
    };
    review(&input, what_if, |_| Default::default())
}

fn replicas(review: &Review) -> Vec<(String, i64)> {
    let of = |work: &ClusterWork| {
        let manifest = &work.work.as_ref().unwrap().spec.workload.manifests[0];
        (work.cluster.clone(), manifest["spec"]["replicas"].as_i64().unwrap())
    };
    review.works.iter().map(of).collect()
}

fn placed(review: &Review) -> Vec<(&str, i64)> {
    let Some(Decision { outcome: Outcome::Scheduled(targets), .. }) = &review.decision else {
        panic!("{review:?}");
    };
    targets.iter().map(|target| (target.name.as_str(), i64::from(target.replicas))).collect()
}

#[test]
fn it_tells_the_policy_the_clusters_and_what_each_of_them_gets() {
    let review = asked(&world(), &WhatIf::default());
    assert_eq!((review.policy.clone(), review.message.as_str()), (Some(("shop".into(), "all".into())), ""));
    assert_eq!(placed(&review), [("a", 1), ("b", 3)]);
    assert_eq!(review.decision.as_ref().unwrap().report["c"], ClusterVerdict::Unfit(Unfit::Affinity));
    assert_eq!(replicas(&review), [("a".to_owned(), 1), ("b".to_owned(), 3)]);
    let image = |at: usize| {
        let work = review.works[at].work.as_ref().unwrap();
        work.spec.workload.manifests[0]["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!((image(0), image(1)), (json!("nginx"), json!("mirror.example.com/nginx")));
    assert_eq!(review.works[1].applied.namespaced.names(), ["mirror"]);
}

#[test]
fn it_tells_what_would_be_without_a_cluster_with_a_taint_and_without_room() {
    let taint = || Taint { key: "down".into(), effect: "NoSchedule".into(), ..Taint::default() };
    let world = world();
    let removed = WhatIf { removed_clusters: ["b".into()].into(), ..WhatIf::default() };
    assert_eq!(placed(&asked(&world, &removed)), [("a", 4)]);
    let tainted =
        WhatIf { taints: vec![ClusterTaint { cluster: "b".into(), taint: taint() }], ..WhatIf::default() };
    let review = asked(&world, &tainted);
    assert_eq!(placed(&review), [("a", 4)]);
    assert_eq!(
        review.decision.unwrap().report["b"],
        ClusterVerdict::Unfit(Unfit::Taint("down:NoSchedule".into()))
    );
    let full = WhatIf { full_clusters: ["b".into()].into(), ..WhatIf::default() };
    assert_eq!(placed(&asked(&world, &full)), [("a", 4)]);
    let all = WhatIf { full_clusters: ["a".into(), "b".into()].into(), ..WhatIf::default() };
    let nowhere = asked(&world, &all);
    assert!(
        nowhere.message.contains("Clusters available replicas 0 are not enough to schedule"),
        "{}",
        nowhere.message
    );
    assert!(nowhere.works.is_empty());
    let wrong = WhatIf {
        removed_clusters: ["z".into()].into(),
        full_clusters: ["a".into()].into(),
        ..WhatIf::default()
    };
    assert_eq!(wrong.unknown(&world.clusters), ["z"]);
}

/// The template's binding, as it would be had the scheduler placed it in `a`; nobody says that it has.
fn all_in_a(world: &World) -> ResourceBinding {
    let input = Input {
        template: &world.template,
        binding: None,
        policies: &world.policies,
        cluster_policies: &[],
        clusters: &world.clusters,
        overrides: &world.overrides,
        cluster_overrides: &[],
        reading: Reading { interpreter: &Chain::default(), parts: Parts::Together, quotas_count: false },
        skip: &SkipRules::default(),
        scheduler: DEFAULT_SCHEDULER,
        keeps_empty: false,
        takeover: Takeover::Never,
        evicts_for_taints: true,
        injects_state: false,
        residency: Default::default(),
    };
    let mut binding = binding_of(&input, &world.policies[0]).unwrap();
    binding.spec.clusters =
        vec![karmada_api::binding::TargetCluster { name: "a".into(), replicas: 4, ..Default::default() }];
    binding
}

/// What stands is shown as what it is, with each cluster's verdict, though nothing would be scheduled.
#[test]
fn what_is_placed_stays_and_is_explained_too() {
    let mut world = world();
    let first = asked(&world, &WhatIf::default());
    let binding = all_in_a(&world);
    world.binding = Some(binding);
    let review = asked(&world, &WhatIf::default());
    assert_eq!(placed(&review), [("a", 4)], "four are wanted, and four are there");
    assert_ne!(placed(&first), placed(&review));
    let gone = WhatIf { removed_clusters: ["a".into()].into(), ..WhatIf::default() };
    assert_eq!(placed(&asked(&world, &gone)), [("b", 4)]);
    // Who is placed stays for a taint that keeps others away, leaves for one that evicts, and stays for that where it bears it without end.
    let tainted = |effect: &str| {
        let taint = Taint { key: "down".into(), effect: effect.into(), ..Taint::default() };
        WhatIf { taints: vec![ClusterTaint { cluster: "a".into(), taint }], ..WhatIf::default() }
    };
    assert_eq!(placed(&asked(&world, &tainted("NoSchedule"))), [("a", 4)]);
    let left = asked(&world, &tainted("NoExecute"));
    assert_eq!(placed(&left), [("b", 4)]);
    assert_eq!(replicas(&left), [("b".to_owned(), 4)]);
    for (seconds, at) in [(json!(30), "b"), (Value::Null, "a")] {
        let bears = json!([{"key": "down", "operator": "Exists", "tolerationSeconds": seconds}]);
        world.policies[0].spec.placement.cluster_tolerations = read(bears);
        assert_eq!(placed(&asked(&world, &tainted("NoExecute"))), [(at, 4)], "{seconds}");
    }
    assert_eq!(review.scores, [("a".to_owned(), 100)].into(), "it is there already");
}

/// By fixed weights each cluster would have its part, had it been there from the beginning.
#[test]
fn what_stands_is_told_where_a_division_would_come_to_something_else() {
    let mut world = world();
    world.policies[0].spec.placement = read(json!({"clusterAffinity": {"clusterNames": ["a", "b"]},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}));
    assert_eq!(placed(&asked(&world, &WhatIf::default())), [("a", 2), ("b", 2)]);
    let mut binding = all_in_a(&world);
    let applied = serde_json::to_string(&binding.spec.placement).unwrap();
    let notes = binding.metadata.annotations.get_or_insert_default();
    notes.insert("policy.karmada.io/applied-placement".to_owned(), applied);
    let said = json!({"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    binding.status.conditions = vec![read(said)];
    world.binding = Some(binding);
    let review = asked(&world, &WhatIf::default());
    assert_eq!(placed(&review), [("a", 4)]);
    let report = review.decision.unwrap().report;
    assert_eq!((&report["a"], &report["b"]), (&ClusterVerdict::Chosen(4), &ClusterVerdict::Passed));
    // What asks for a division is told as ever.
    world.template["spec"]["replicas"] = json!(6);
    assert_eq!(placed(&asked(&world, &WhatIf::default())), [("a", 3), ("b", 3)]);
}

#[test]
fn without_a_policy_it_says_that_it_waits() {
    let mut world = world();
    world.policies.clear();
    let review = asked(&world, &WhatIf::default());
    assert_eq!((review.policy, review.decision.is_none()), (None, true));
    assert!(review.message.contains("no policy"), "{}", review.message);
    world.template["metadata"]["namespace"] = json!("karmada-system");
    assert!(asked(&world, &WhatIf::default()).message.contains("never propagated"));
}

/// A template of a megabyte over hundreds of clusters would else be an answer of hundreds of megabytes.
#[test]
fn of_a_large_template_only_some_clusters_are_shown() {
    let mut world = world();
    world.clusters = (0..40).map(|at| cluster(&format!("m{at:02}"), "10")).collect();
    world.policies[0].spec.placement = serde_json::from_value(json!({})).unwrap();
    world.template["metadata"]["annotations"] = json!({"large": "x".repeat(1 << 20)});
    let review = asked(&world, &WhatIf::default());
    assert_eq!((review.works.len(), review.left_out), (16, 24));
    assert_eq!(placed(&review).len(), 40, "where it goes is told of all");
}

/// What counts is what is made: a small template may become a large one.
#[test]
fn of_what_an_override_makes_large_only_some_clusters_are_shown() {
    let mut world = world();
    world.clusters = (0..40).map(|at| cluster(&format!("m{at:02}"), "10")).collect();
    world.policies[0].spec.placement = serde_json::from_value(json!({})).unwrap();
    let path =
        json!({"path": "/metadata/labels", "operator": "add", "value": {"large": "x".repeat(1 << 20)}});
    let large = json!({"metadata": {"name": "large", "namespace": "shop"},
        "spec": {"overrideRules": [{"overriders": {"plaintext": [path]}}]}});
    world.overrides = vec![serde_json::from_value(large).unwrap()];
    let review = asked(&world, &WhatIf::default());
    assert_eq!((review.works.len(), review.left_out), (16, 24));
}
