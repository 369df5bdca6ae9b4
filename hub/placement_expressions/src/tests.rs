//! Expressions over clusters: what is refused when they are written, what they say, what they may cost.

use karmada_core::scheduler::{self, Input, Outcome};

use serde_json::json;

use super::*;

fn cluster(name: &str, labels: &Value, region: &str) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {"region": region, "zones": ["z1"],
            "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"kubernetesVersion": "v1.36.1", "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "resourceSummary": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "2"}, "allocated": {"cpu": "1500m"}},
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}}))
    .unwrap()
}

fn template() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "gold"}},
        "spec": {"replicas": 3}, "data": {"password": "x"}})
}

fn said(filter: &str, score: &str) -> Said {
    Said { filter: filter.to_owned(), score: score.to_owned() }
}

fn asked(filter: &str, score: &str, cluster: &Cluster) -> Result<i64, Fault> {
    PlacementExpressions::default().evaluator(&said(filter, score), Some(&template())).score(cluster)
}

#[test]
fn a_filter_and_a_score_see_the_cluster_and_the_template() {
    let (gold, bare) = (cluster("a", &json!({"tier": "gold"}), "eu"), cluster("b", &json!({}), ""));
    for (filter, holds) in [
        ("cluster.spec.region == 'eu' && cluster.metadata.labels['tier'] != 'test'", true),
        ("cluster.metadata.name.startsWith('b')", false),
        ("object.metadata.labels['tier'] == cluster.metadata.labels['tier']", true),
        ("'z1' in cluster.spec.zones && cluster.spec.zone == ''", true),
        ("cluster.spec.taints.exists(t, t.key == 'k' && t.effect == 'NoSchedule' && t.value == '')", true),
        ("semver(cluster.status.kubernetesVersion, true).isGreaterThan(semver('1.36.0'))", true),
        (
            "quantity(cluster.status.resourceSummary.allocatable['nvidia.com/gpu']).isGreaterThan(quantity('1'))",
            true,
        ),
        ("cluster.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", true),
        ("object.spec.replicas <= cluster.status.nodeSummary.readyNum", false),
        ("object.kind == 'Deployment' && object.metadata.namespace == 'shop'", true),
        ("cluster.metadata.labels[?'tier'].orValue('') == 'gold'", true),
    ] {
        let wanted = if holds { Ok(0) } else { Err(Fault::Filtered) };
        assert_eq!(asked(filter, "", &gold), wanted, "{filter}");
    }
    assert_eq!(asked("", "cluster.spec.region == 'eu' ? 70 : 5", &gold), Ok(70));
    assert_eq!(
        asked("true", "cluster.spec.region == 'eu' ? 70 : 5", &bare),
        Ok(5),
        "a field that says nothing is there"
    );
    assert_eq!(asked("", "cluster.status.nodeSummary.readyNum * 10 + object.spec.replicas", &gold), Ok(23));
}

#[test]
fn what_fails_on_a_cluster_says_how() {
    let bare = cluster("b", &json!({}), "");
    for (filter, score, words) in [
        (
            "cluster.metadata.labels['tier'] == 'gold'",
            "",
            "cluster-filter: no such key (has() tells whether there is one)",
        ),
        ("object.spec.nothing == 1", "", "cluster-filter: no such key (has() tells whether there is one)"),
        ("", "101", "cluster-score: it yields no whole number from 0 to 100"),
        ("", "-1", "cluster-score: it yields no whole number from 0 to 100"),
        ("", "object.spec", "cluster-score: it yields no whole number from 0 to 100"),
        ("", "1 / (cluster.spec.zones.size() - 1)", "cluster-score: division by zero"),
    ] {
        assert_eq!(asked(filter, score, &bare), Err(Fault::Failed(words.to_owned())), "{filter} {score}");
    }
    let data = asked("has(object.data)", "", &bare);
    assert!(matches!(&data, Err(Fault::Stopped(why)) if why.contains("undefined field 'data'")), "{data:?}");
    let nobody =
        PlacementExpressions::default().evaluator(&said("object.kind == 'x'", ""), None).score(&bare);
    assert_eq!(nobody, Err(Fault::Stopped("its template is not there".to_owned())));
    assert_eq!(
        PlacementExpressions::default()
            .evaluator(&said("cluster.metadata.name == 'b'", ""), None)
            .score(&bare),
        Ok(0)
    );
}

#[test]
fn what_does_not_compile_is_refused_with_its_place_where_it_is_written() {
    let policy = |filter: &str, score: &str| json!({"kind": "PropagationPolicy", "metadata": {"name": "p", "annotations": {CLUSTER_FILTER: filter, CLUSTER_SCORE: score}}});
    assert!(validate(&policy("cluster.spec.region == 'eu'", "10"), None).is_empty());
    assert!(validate(&policy("", ""), None).is_empty());
    for (filter, score, at, words) in [
        ("cluster.spec.regoin == 'eu'", "", CLUSTER_FILTER, "<input>:1:13: undefined field 'regoin'"),
        ("cluster.spec.region = 'eu'", "", CLUSTER_FILTER, "<input>:1:21"),
        ("cluster.spec.region", "", CLUSTER_FILTER, "must evaluate to bool but got string"),
        ("clusters.size() > 1", "", CLUSTER_FILTER, "undeclared reference to 'clusters'"),
        ("", "1.5", CLUSTER_SCORE, "must evaluate to int but got double"),
        ("", "cluster.spec.region == 'eu'", CLUSTER_SCORE, "must evaluate to int but got bool"),
    ] {
        let errors = validate(&policy(filter, score), None);
        let [error] = &errors[..] else { panic!("{filter} {score}: {errors:?}") };
        assert_eq!(error.field.to_string(), format!("metadata.annotations[{at}]"));
        assert!(error.to_string().contains(words), "{error}");
        assert!(
            validate(&policy(filter, score), Some(&policy(filter, score))).is_empty(),
            "it stood there before"
        );
    }
}

#[test]
fn the_sample_says_what_it_means() {
    let text = include_str!("../../../deploy/samples/propagationpolicy-expressions.yaml");
    let policy: Value = serde_saphyr::from_str(text).unwrap();
    assert!(validate(&policy, None).is_empty(), "{:?}", validate(&policy, None));
    let note = |key: &str| object::annotation(&policy, key).unwrap().to_owned();
    let (filter, score) = (note(CLUSTER_FILTER), note(CLUSTER_SCORE));
    assert_eq!(
        asked(&filter, &score, &cluster("a", &json!({}), "eu")),
        Ok(6),
        "8 CPUs, of which 1.5 are taken"
    );
    assert_eq!(asked(&filter, &score, &cluster("a", &json!({"tier": "test"}), "eu")), Err(Fault::Filtered));
    assert_eq!(asked(&filter, &score, &cluster("a", &json!({}), "us")), Err(Fault::Filtered));
}

/// A cluster that says much is left out; a decision that costs too much is none, and says so, at the same cluster each time.
#[test]
fn what_it_costs_is_bounded_for_a_cluster_and_for_a_decision() {
    let many: serde_json::Map<String, Value> = (0..3_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    let (much, little) = (cluster("a", &Value::Object(many), "eu"), cluster("b", &json!({"k": "v"}), "eu"));
    let filter = "cluster.metadata.labels.all(a, cluster.metadata.labels.all(b, a != b || a == b))";
    let compiler = PlacementExpressions::default();
    let evaluator = compiler.evaluator(&said(filter, ""), None);
    assert_eq!(evaluator.score(&much), Err(Fault::Failed("cluster-filter: it costs too much".to_owned())));
    assert_eq!(evaluator.score(&little), Ok(0), "others are none the worse");
    let heavy: serde_json::Map<String, Value> = (0..40).map(|at| (format!("k{at}"), json!("v"))).collect();
    let heavy = cluster("c", &Value::Object(heavy), "eu");
    let stops = || {
        let (programs, said) = (compiler.programs(&said(filter, "")), said(filter, ""));
        let budget = Budget::new(Limits { steps: 100_000, ..IN_A_DECISION });
        let bound = Bound { programs, said, object: None, budget };
        let (at, fault) = (0..1_000).find_map(|at| Some((at, bound.score(&heavy).err()?))).unwrap();
        assert!(
            matches!(&fault, Fault::Stopped(why) if why.contains("costs too much over so many clusters")),
            "{fault:?}"
        );
        at
    };
    assert_eq!(stops(), stops());
}

#[test]
fn compiled_expressions_are_kept_and_not_without_end() {
    let compiler = PlacementExpressions::default();
    let program = |source: &str| compiler.program(Role::Filter, source).unwrap().unwrap();
    assert!(Arc::ptr_eq(&program("true"), &program("true")));
    for at in 0..3 * KEPT {
        drop(program(&format!("{at} > 1")));
        assert!(compiler.compiled.lock().len() <= KEPT);
    }
    assert!(
        compiler.look_at_object(&said("object.kind == 'x'", ""))
            && !compiler.look_at_object(&said("true", "1"))
    );
}

/// Ten thousand clusters: the whole decision, with a filter and a score.
#[test]
fn a_large_fleet_is_decided_within_the_bounds_of_a_decision() {
    let clusters: Vec<Cluster> = (0..10_000)
        .map(|at| {
            cluster(
                &format!("m{at:05}"),
                &json!({"tier": "gold", "rack": at.to_string()}),
                if at % 2 == 0 { "eu" } else { "us" },
            )
        })
        .collect();
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            "annotations": {CLUSTER_FILTER: "cluster.spec.region == 'eu' && cluster.metadata.labels['tier'] != 'test'", CLUSTER_SCORE: "int(cluster.metadata.labels['rack']) % 100"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}, "replicas": 3, "schedulerName": "default-scheduler",
            "placement": {"clusterTolerations": [{"operator": "Exists"}], "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]}}});
    let binding: karmada_api::binding::ResourceBinding = serde_json::from_value(binding).unwrap();
    let evaluator = PlacementExpressions::default().evaluator(&Said::of(&binding.metadata), None);
    let decision =
        scheduler::schedule(&Input { expressions: Some(&*evaluator), ..Input::plain(&binding, &clusters) });
    let Outcome::Scheduled(targets) = &decision.outcome else { panic!("{:?}", decision.outcome) };
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["m00098", "m00198"], "of the region, the best racks, the first by name");
}
