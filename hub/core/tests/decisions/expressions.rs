//! Expressions of a policy beside its placement: how a binding carries them, when it is scheduled anew by them, and what they make of clusters.

use std::collections::BTreeMap;
use std::sync::Mutex;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::policy::PropagationPolicy;
use karmada_core::cluster_expressions::{ClusterExpressions, Fault};
use karmada_core::detector::{self, BindingChange, Parts, Reading};
use karmada_core::scheduler::{self, ClusterVerdict, Decision, Failure, Input, Outcome};
use karmada_interpreter::Native;
use serde_json::{Value, json};

use super::{all_deployments, binding, deployment, member, now, policy};

const FILTER: &str = "edge.karmada.io/cluster-filter";
const APPLIED: &str = "edge.karmada.io/applied-cluster-expressions";
const NATIVE: Reading<'_> = Reading { interpreter: &Native, parts: Parts::Together, quotas_count: false };

/// What it says of each cluster; those that are not named score nothing.
#[derive(Default)]
struct Told(BTreeMap<&'static str, Result<i64, Fault>>);

impl ClusterExpressions for Told {
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault> {
        self.0.get(cluster.name()).cloned().unwrap_or(Ok(0))
    }
}

fn schedule(binding: &ResourceBinding, told: Option<&Told>) -> Decision {
    let clusters: Vec<Cluster> = ["m1", "m2", "m3"].into_iter().map(member).collect();
    let input = Input {
        expressions: told.map(|told| told as &dyn ClusterExpressions),
        ..Input::plain(binding, &clusters)
    };
    let explained = scheduler::explained(&input);
    let unexplained = Decision { report: Default::default(), ..explained.clone() };
    assert_eq!(scheduler::schedule(&input), unexplained, "to explain it decides nothing");
    explained
}

fn placed(decision: &Decision) -> Vec<&str> {
    let Outcome::Scheduled(targets) = &decision.outcome else { panic!("{:?}", decision.outcome) };
    targets.iter().map(|target| target.name.as_str()).collect()
}

/// A binding whose policy has a filter.
fn filtered(placement: Value) -> ResourceBinding {
    let mut binding = binding(placement);
    binding.metadata.annotations = Some([(FILTER.to_owned(), "x".to_owned())].into());
    binding
}

fn saying<const N: usize>(says: [(&'static str, Result<i64, Fault>); N]) -> Told {
    Told(says.into())
}

#[test]
fn a_filter_leaves_clusters_out_and_says_why() {
    let told = saying([
        ("m1", Err(Fault::Filtered)),
        ("m3", Err(Fault::Failed("cluster-filter: no such key: tier".into()))),
    ]);
    let decision = schedule(&filtered(json!({})), Some(&told));
    assert_eq!(placed(&decision), ["m2"]);
    let reason = |name: &str| match &decision.report[name] {
        ClusterVerdict::Unfit(why) => why.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(reason("m1"), "cluster(s) did not match the policy's cluster-filter");
    assert_eq!(reason("m3"), "cluster(s) failed the policy's cluster-filter: no such key: tier");
    assert_eq!(placed(&schedule(&binding(json!({})), Some(&told))), ["m1", "m2", "m3"], "of another policy");
}

#[test]
fn a_score_decides_whom_a_constraint_takes_and_moves_nothing_by_itself() {
    let two = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]});
    let told = saying([("m2", Ok(40)), ("m3", Ok(90))]);
    let binding = filtered(two);
    assert_eq!(placed(&schedule(&binding, Some(&told))), ["m2", "m3"]);
    let mut there = binding.clone();
    there.spec.clusters = serde_json::from_value(json!([{"name": "m1", "replicas": 6}])).unwrap();
    assert_eq!(placed(&schedule(&there, Some(&told))), ["m1", "m3"], "what is there counts more");
    assert_eq!(placed(&schedule(&binding, Some(&saying([("m1", Ok(5_000))])))), ["m1", "m2"]);
}

/// It notes whom it was asked of.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl ClusterExpressions for Asked {
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault> {
        self.0.lock().unwrap().push(cluster.name().to_owned());
        Ok(0)
    }
}

/// Expressions cost the most of what is asked of a cluster.
#[test]
fn clusters_that_are_left_out_anyway_are_not_asked_about() {
    let asked = |binding: &ResourceBinding| {
        let mut clusters: Vec<Cluster> = ["m1", "m2", "m3"].into_iter().map(member).collect();
        clusters[1].spec.taints =
            serde_json::from_value(json!([{"key": "closed", "effect": "NoSchedule"}])).unwrap();
        let asked = Asked::default();
        let decision =
            scheduler::schedule(&Input { expressions: Some(&asked), ..Input::plain(binding, &clusters) });
        assert!(matches!(decision.outcome, Outcome::Scheduled(_)), "{:?}", decision.outcome);
        asked.0.into_inner().unwrap()
    };
    assert_eq!(asked(&filtered(json!({}))), ["m1", "m3"], "one is tainted");
    let named = json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}});
    assert_eq!(asked(&filtered(named)), ["m1"], "one is not meant");
    assert_eq!(asked(&binding(json!({}))), [""; 0], "its policy has no expression");
}

/// A decision that cannot be made changes nothing; where nobody evaluates, none is made.
#[test]
fn what_cannot_be_evaluated_now_leaves_everything_where_it_is() {
    let mut there = filtered(json!({}));
    there.spec.clusters = serde_json::from_value(json!([{"name": "m1", "replicas": 6}])).unwrap();
    let stops = saying([("m2", Err(Fault::Stopped("too much".into())))]);
    for told in [Some(&stops), None] {
        let decision = schedule(&there, told);
        assert!(matches!(&decision.outcome, Outcome::Failed(Failure::Error(_))), "{:?}", decision.outcome);
        assert_eq!(scheduler::apply(&there, &decision), None);
    }
    // A cluster that goes is told all the same: what is there is lost.
    let going: Cluster = serde_json::from_value(
        json!({"metadata": {"name": "m1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"syncMode": "Pull"}}),
    )
    .unwrap();
    let decision = scheduler::schedule(&Input {
        expressions: Some(&stops),
        ..Input::plain(&there, &[going, member("m2")])
    });
    assert_eq!(decision.going, ["m1"]);
    assert_eq!(scheduler::apply(&there, &decision).unwrap().spec.clusters, []);
    // Whom no group means is not asked about.
    let named = filtered(json!({"clusterAffinity": {"clusterNames": ["m1", "m3"]}}));
    assert_eq!(placed(&schedule(&named, Some(&stops))), ["m1", "m3"]);
}

#[test]
fn another_expression_has_it_scheduled_anew_and_the_same_one_does_not() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let told = Told::default();
    let mut binding = filtered(divided);
    let decision = schedule(&binding, Some(&told));
    binding = scheduler::apply(&binding, &decision).unwrap();
    binding.status = scheduler::status(&binding, &[], &decision, now()).unwrap();
    assert_eq!(binding.annotation(APPLIED), Some(r#"{"filter":"x","score":""}"#));
    assert_eq!(schedule(&binding, Some(&told)).outcome, Outcome::UpToDate);
    binding.metadata.annotations.as_mut().unwrap().insert(FILTER.to_owned(), "y".to_owned());
    assert_ne!(schedule(&binding, Some(&told)).outcome, Outcome::UpToDate);
    binding.metadata.annotations.as_mut().unwrap().remove(FILTER);
    let decision = schedule(&binding, None);
    assert_ne!(decision.outcome, Outcome::UpToDate, "it has none any more");
    assert_eq!(scheduler::apply(&binding, &decision).unwrap().annotation(APPLIED), None);
}

fn made(policy: &PropagationPolicy, existing: Option<&ResourceBinding>) -> Option<ResourceBinding> {
    match detector::plan_binding(&deployment(), policy, existing, NATIVE, None).unwrap() {
        BindingChange::Create(binding) | BindingChange::Update(binding) => Some(*binding),
        BindingChange::Nothing | BindingChange::Replace => None,
    }
}

#[test]
fn a_binding_carries_what_its_policy_says_and_a_lazy_one_with_the_next_change() {
    let with = |filter: &str, activation: Value| {
        let mut policy = policy(
            "p",
            "default",
            json!({"resourceSelectors": all_deployments(), "activationPreference": activation}),
        );
        policy.metadata.annotations = Some([(FILTER.to_owned(), filter.to_owned())].into());
        policy
    };
    let binding = made(&with("a", Value::Null), None).unwrap();
    assert_eq!(binding.annotation(FILTER), Some("a"));
    assert_eq!(made(&with("a", Value::Null), Some(&binding)), None, "nothing changed");
    let changed = made(&with("b", Value::Null), Some(&binding)).unwrap();
    assert_eq!(changed.annotation(FILTER), Some("b"));
    let without = made(&with("", Value::Null), Some(&changed)).unwrap();
    assert_eq!(without.annotation(FILTER), None);
    let lazy = made(&with("b", json!("Lazy")), Some(&binding));
    assert!(lazy.is_none_or(|binding| binding.annotation(FILTER) == Some("a")));
}
