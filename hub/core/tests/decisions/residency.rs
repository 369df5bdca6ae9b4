//! Which objects rules cover, which clusters they allow, which Works they refuse.

use karmada_api::residency_rule::ResidencyViolation;
use proptest::prelude::*;
use serde_json::{Value, json};

use std::sync::Arc;

use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::residency_rule::ResidencyRule;
use karmada_core::detector::Subject;
use karmada_core::residency::status::{Held, news, status};
use karmada_core::residency::*;
use karmada_core::scheduler::filter::{self, Unfit};

fn rule(name: &str, spec: &Value) -> Arc<ResidencyRule> {
    let mut value = json!({"metadata": {"name": name, "generation": 3}, "spec": spec});
    if value["spec"]["clusterAffinity"].is_null() {
        value["spec"]["clusterAffinity"] = json!({"fieldSelector": {"matchExpressions": [
            {"key": "region", "operator": "In", "values": ["eu"]}]}});
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn cluster(name: &str, region: &str) -> Cluster {
    serde_json::from_value(
        json!({"metadata": {"name": name, "labels": {"site": name}}, "spec": {"region": region}}),
    )
    .unwrap()
}

fn object(api_version: &str, kind: &str, key: &str) -> Value {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name, "labels": {"data": "personal"}}})
}

fn secret() -> Value {
    object("v1", "Secret", "shop/db")
}

fn work(manifests: &[Value]) -> Value {
    json!({"spec": {"workload": {"manifests": manifests}}})
}

fn refused(rules: &Rules, new: &Value, old: Option<&Value>, at: &Cluster) -> Option<Refusal> {
    judge(rules, at.name(), (new, old), || Some(at.clone())).err()
}

#[test]
fn a_cluster_that_a_rule_keeps_away_is_unfit_by_the_name_of_the_rule() {
    let residency = Rules::of([rule("home", &json!({"namespaces": ["shop"]}))]).covering_object(&secret());
    let unfit = Err(Unfit::Residency("home".to_owned()));
    assert_eq!(filter::residency(&cluster("m1", "us"), &residency), unfit);
    assert_eq!(filter::residency(&cluster("m2", "eu"), &residency), Ok(()));
}

#[test]
fn a_rule_covers_what_its_selectors_mean_within_its_namespaces() {
    let selects = |selector: Value| json!({"resourceSelectors": [selector]});
    let by = |labels: Value| json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": labels});
    for (spec, of, is) in [
        (selects(json!({"apiVersion": "v1", "kind": "Secret"})), secret(), true),
        (selects(json!({"apiVersion": "v1", "kind": "ConfigMap"})), secret(), false),
        (selects(json!({"apiVersion": "v1", "kind": "Secret", "namespace": "shop"})), secret(), true),
        (selects(json!({"apiVersion": "v1", "kind": "Secret", "namespace": "other"})), secret(), false),
        (selects(json!({"apiVersion": "v1", "kind": "Secret", "name": "db"})), secret(), true),
        (selects(json!({"apiVersion": "v1", "kind": "Secret", "name": "other"})), secret(), false),
        (selects(by(json!({"matchLabels": {"data": "personal"}}))), secret(), true),
        (selects(by(json!({"matchLabels": {"data": "public"}}))), secret(), false),
        (selects(by(json!({"matchExpressions": [{"key": "data", "operator": "Odd"}]}))), secret(), true),
        (json!({"namespaces": ["shop"]}), secret(), true),
        (json!({"namespaces": ["shop"]}), object("apps/v1", "Deployment", "shop/web"), true),
        (json!({"namespaces": ["shop"]}), object("v1", "Secret", "other/db"), false),
        (json!({"namespaces": ["shop"]}), object("v1", "Namespace", "shop"), false),
        (
            json!({"namespaces": ["other"], "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}),
            secret(),
            false,
        ),
        // What is one object can be written in any version, and a group of the same name's beginning is another one.
        (
            selects(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"})),
            object("autoscaling/v1", "HorizontalPodAutoscaler", "shop/web"),
            true,
        ),
        (
            selects(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"})),
            object("autoscaling.karmada.io/v2", "HorizontalPodAutoscaler", "shop/web"),
            false,
        ),
        // It cannot be stored; were it there, it would cover everything.
        (json!({}), secret(), true),
    ] {
        let rules = Rules::of([rule("r", &spec)]);
        assert_eq!(!rules.covering_object(&of).is_free(), is, "{spec} {of}");
        assert_eq!(
            covers(&rule("r", &spec), &Subject::of(&of)),
            is,
            "the index decides nothing: {spec} {of}"
        );
    }
}

#[test]
fn all_rules_must_allow_a_cluster_and_the_first_that_does_not_is_named() {
    let names = json!({"namespaces": ["shop"], "clusterAffinity": {"clusterNames": ["m1", "m2"]}});
    let rules = Rules::of([rule("z", &json!({"namespaces": ["shop"]})), rule("a", &names)]);
    let residency = rules.covering_object(&secret());
    let admits = |name: &str, region: &str| residency.admits(&cluster(name, region)).map_err(str::to_owned);
    assert_eq!(admits("m1", "eu"), Ok(()));
    assert_eq!(admits("m1", "us"), Err("z".into()));
    assert_eq!(admits("m3", "eu"), Err("a".into()));
    assert_eq!(admits("m3", ""), Err("a".into()), "of two the first by name");
    assert!(rules.covering_object(&object("v1", "Secret", "other/db")).admits(&cluster("m3", "us")).is_ok());
}

#[test]
fn a_selector_of_clusters_that_cannot_be_read_allows_none() {
    let broken = json!({"namespaces": ["shop"], "clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "site", "operator": "Odd"}]}}});
    let rules = Rules::of([rule("r", &broken)]);
    assert_eq!(rules.covering_object(&secret()).admits(&cluster("m1", "eu")), Err("r"));
}

#[test]
fn labels_are_asked_for_where_they_decide() {
    let by_label = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchLabels": {"a": "b"}}}]});
    let rules = Rules::of([rule("r", &by_label), rule("s", &json!({"namespaces": ["shop"]}))]);
    let of = |kind: &str| ObjectReference {
        api_version: "v1".into(),
        kind: kind.into(),
        ..ObjectReference::default()
    };
    assert!(rules.look_at_labels(&of("Secret")) && !rules.look_at_labels(&of("ConfigMap")));
    assert!(
        may_mean(&rule("r", &by_label), &of("Secret")) && !may_mean(&rule("r", &by_label), &of("ConfigMap"))
    );
}

#[test]
fn a_work_is_refused_for_what_is_new_in_it_and_what_is_there_is_let_be() {
    let rules = Rules::of([rule("eu-only", &json!({"namespaces": ["shop"]}))]);
    let (eu, us) = (cluster("m1", "eu"), cluster("m2", "us"));
    let free = object("v1", "Secret", "other/x");
    let (one, both) = (work(&[secret()]), work(&[free.clone(), secret()]));
    assert_eq!(refused(&rules, &one, None, &eu), None);
    let refusal = refused(&rules, &both, None, &us).unwrap();
    assert_eq!((&*refusal.rule, &*refusal.object, &*refusal.cluster), ("eu-only", "Secret shop/db", "m2"));
    assert!(refusal.to_string().contains("kubectl get residencyrule eu-only"), "{refusal}");
    assert_eq!(refused(&rules, &work(std::slice::from_ref(&free)), None, &us), None);
    // It was there before the rule: a finalizer of its Work can go, other things in it can change, and it can be taken out.
    assert_eq!(refused(&rules, &one, Some(&one), &us), None);
    assert_eq!(refused(&rules, &both, Some(&one), &us), None);
    assert_eq!(refused(&rules, &work(&[free]), Some(&both), &us), None);
    let mut changed = secret();
    changed["data"] = json!({"password": "bmV3"});
    assert!(
        refused(&rules, &work(&[changed]), Some(&one), &us).is_some(),
        "what is new in it would go there"
    );
    // What was held back is in no cluster yet.
    let mut held_back = one.clone();
    held_back["spec"]["suspendDispatching"] = json!(true);
    assert_eq!(refused(&rules, &held_back, Some(&one), &us), None);
    assert_eq!(refused(&rules, &held_back, Some(&held_back), &us), None);
    assert!(refused(&rules, &one, Some(&held_back), &us).is_some());
}

#[test]
fn a_cluster_of_which_nothing_is_known_may_have_nothing_that_is_covered() {
    let rules =
        Rules::of([rule("r", &json!({"namespaces": ["shop"], "clusterAffinity": {"exclude": ["m2"]}}))]);
    let refusal = judge(&rules, "m9", (&work(&[secret()]), None), || None).unwrap_err();
    assert!(refusal.to_string().contains("cluster m9, of which nothing is known"), "{refusal}");
    let free = work(&[object("v1", "Secret", "other/x")]);
    let unasked =
        || -> Option<Cluster> { panic!("no rule covers anything: nobody needs to know the cluster") };
    assert_eq!(judge(&rules, "m9", (&free, None), unasked), Ok(()));
}

#[test]
fn a_status_counts_all_and_names_some() {
    let rule = rule("eu-only", &json!({"namespaces": ["shop"]}));
    let now = "2026-05-01T12:00:00.5Z".parse().unwrap();
    let held: Held =
        serde_json::from_value(work(&[json!({"kind": 5}), object("v1", "Secret", "other/x"), secret()]))
            .unwrap();
    assert_eq!(held.covered_by(&rule).as_deref(), Some("Secret shop/db"));
    let none = status(&rule, Vec::new(), now);
    assert_eq!((none.violating_works, none.observed_generation, &*none.conditions[0].status), (0, 3, "True"));
    let one = |at: usize| ResidencyViolation {
        cluster: format!("m{at:02}"),
        work: "w".into(),
        object: "Secret shop/db".into(),
    };
    let many = status(&rule, (0..30).rev().map(one).collect(), now);
    assert_eq!((many.violating_works, many.violations.len(), &*many.violations[0].cluster), (30, 20, "m00"));
    let said = &many.conditions[0];
    assert_eq!((&*said.type_, &*said.status, &*said.reason), ("Compliant", "False", "ResidencyViolated"));
    assert!(
        said.message.contains("Secret shop/db in m00 (Work w)") && said.message.contains("and 27 more"),
        "{}",
        said.message
    );
    assert_eq!(news(&none, &many).as_ref(), Some(&said.message));
    let fewer = status(&rule, (0..3).map(one).collect(), now);
    assert_eq!((news(&many, &fewer), news(&many, &none), news(&none, &none)), (None, None, None));
}

proptest! {
    /// The index finds what asking each rule finds, in whatever order rules come.
    #[test]
    fn the_index_changes_no_answer(
        rules in prop::collection::vec((0..3_usize, 0..4_usize, any::<bool>()), 0..8),
        at in (0..3_usize, 0..3_usize),
        turned in any::<bool>(),
    ) {
        const KINDS: [(&str, &str); 3] = [("v1", "Secret"), ("v1", "ConfigMap"), ("apps/v1", "Deployment")];
        const PLACES: [&str; 3] = ["shop", "bank", "other"];
        let made = |(index, (kind, place, any)): (usize, &(usize, usize, bool))| {
            let mut spec = json!({});
            if !any {
                let (version, kind) = KINDS[*kind];
                spec["resourceSelectors"] = json!([{"apiVersion": version, "kind": kind}, {"apiVersion": version, "kind": kind, "name": "x"}]);
            }
            if let Some(place) = PLACES.get(*place) {
                spec["namespaces"] = json!([place]);
            }
            rule(&format!("r{index}"), &spec)
        };
        let mut all: Vec<Arc<ResidencyRule>> = rules.iter().enumerate().map(made).collect();
        let (version, kind) = KINDS[at.0];
        let of = object(version, kind, &format!("{}/a", PLACES[at.1]));
        let asked: Vec<Arc<ResidencyRule>> = all.iter().filter(|rule| covers(rule, &Subject::of(&of))).cloned().collect();
        if turned {
            all.reverse();
        }
        let found = Rules::of(all).covering_object(&of);
        prop_assert_eq!(found.is_free(), asked.is_empty());
        // All of these cover it: what is found among all rules is what is found among them.
        prop_assert_eq!(found, Rules::of(asked).covering_object(&of));
    }
}
