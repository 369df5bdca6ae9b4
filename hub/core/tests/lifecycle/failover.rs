//! Unhealthy workloads: step by step, what goes along with them, and where it is put on.

use jiff::SignedDuration;
use karmada_api::admission::{Context, Operation, mutate};
use karmada_api::binding::ResourceBinding;
use karmada_api::defaulting::cluster::Grades;
use karmada_api::policy::StatePreservation;
use karmada_core::failover::preservation::{self, brought, put_on, taken};
use karmada_core::failover::{FailoverDecision, Rules, look, unhealthy_since};
use karmada_interpreter::Chain;
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::{seconds, without_nulls};

const TO_THE_SECOND: &str =
    "recorded bug: a wait that ends in this very second was waited for no more; here it ends a second later";
const NO_TARGET: &str =
    "what a cluster reports that the binding does not place anything in moves nothing, and is not waited for";

const STEPS: Differences = &[
    (0, TO_THE_SECOND),
    (1, TO_THE_SECOND),
    (2, TO_THE_SECOND),
    (3, TO_THE_SECOND),
    (4, TO_THE_SECOND),
    (5, TO_THE_SECOND),
    (6, TO_THE_SECOND),
    (7, TO_THE_SECOND),
    (8, TO_THE_SECOND),
    (9, TO_THE_SECOND),
    (13, TO_THE_SECOND),
    (20, TO_THE_SECOND),
    (21, NO_TARGET),
    (33, NO_TARGET),
    (35, TO_THE_SECOND),
    (37, TO_THE_SECOND),
    (38, TO_THE_SECOND),
    (40, TO_THE_SECOND),
    (41, TO_THE_SECOND),
    (45, TO_THE_SECOND),
    (46, TO_THE_SECOND),
    (47, TO_THE_SECOND),
    (49, TO_THE_SECOND),
    (53, TO_THE_SECOND),
    (54, TO_THE_SECOND),
    (57, TO_THE_SECOND),
    (59, TO_THE_SECOND),
    (60, TO_THE_SECOND),
    (61, TO_THE_SECOND),
    (63, TO_THE_SECOND),
];

const EXACT: &str =
    "recorded bug: numbers were written as floats, which are no labels; here they have all their digits";
const NULL: &str = "a status that is null is text as any null in it is";

const LABELS: Differences = &[(71, EXACT), (91, EXACT), (97, EXACT), (98, EXACT), (99, EXACT), (163, NULL)];

fn rules(case: &Value) -> Rules {
    let said = case.get("gates").and_then(Value::as_str).unwrap_or_default();
    Rules {
        preserves_state: said.contains("StatefulFailoverInjection=true"),
        evicts_gracefully: !said.contains("GracefulEviction=false"),
    }
}

/// The binding of a case, with a spec and a status.
fn binding(case: &Value, spec: &Value, status: &Value) -> ResourceBinding {
    let namespace = if case["clusterScoped"] == true { Value::Null } else { json!("d") };
    let labels = json!({"propagationpolicy.karmada.io/permanent-id": "p-1"});
    let value = json!({"metadata": {"name": "n-deployment", "namespace": namespace, "labels": labels}, "spec": spec,
        "status": {"aggregatedStatus": status}});
    serde_json::from_value(without_nulls(value)).unwrap()
}

/// What each step comes to: clusters, tasks, when to look again, whether it is refused.
fn steps(case: &Value) -> Vec<[Value; 4]> {
    let mut now: jiff::Timestamp = "2000-01-01T12:00:00Z".parse().unwrap();
    let mut held = binding(case, &case["spec"], &json!([]));
    let mut came = Vec::new();
    for step in case["steps"].as_array().unwrap() {
        now += SignedDuration::from_secs(step["afterSeconds"].as_i64().unwrap());
        let spec = step.get("specBefore").cloned().unwrap_or(json!(held.spec));
        let notes = held.metadata.clone();
        held = binding(case, &spec, &step["aggregatedStatus"]);
        held.metadata = notes;
        let FailoverDecision { wanted, look_again, refused, .. } =
            look(&held, &Chain::default(), rules(case), now);
        if let Some(wanted) = wanted {
            held = *wanted;
        }
        let (clusters, tasks) = (json!(held.spec.clusters), json!(held.spec.graceful_eviction_tasks));
        came.push([clusters, tasks, json!(seconds(look_again)), json!(refused.is_some())]);
    }
    came
}

/// What was recorded of them.
fn wanted(case: &Value) -> Vec<[Value; 4]> {
    let list = |value: &Value| if value.is_null() { json!([]) } else { value.clone() };
    let steps = case["steps"].as_array().unwrap().iter().map(|step| {
        let refused = json!(step.get("error").is_some_and(|error| !error.is_null()));
        let again = json!(step["requeueAfterSeconds"].as_i64().unwrap_or(0));
        [list(&step["clusters"]), list(&step["gracefulEvictionTasks"]), again, refused]
    });
    steps.collect()
}

#[test]
fn recorded_application_failover() {
    recorded::run("appfailover.json", "recorded_application_failover", STEPS, |case| {
        if case["kind"] != "steps" {
            return Verdict::Skip(BESIDE);
        }
        compare(&json!(wanted(case)), &json!(steps(case)))
    });
}

/// What is listed above differs in when to look again, and in nothing else.
#[test]
fn recorded_application_failover_whenever_it_is_looked_at() {
    recorded::run(
        "appfailover.json",
        "recorded_application_failover_whenever_it_is_looked_at",
        &[],
        |case| {
            if case["kind"] != "steps" {
                return Verdict::Skip(BESIDE);
            }
            let but_for_time =
                |steps: Vec<[Value; 4]>| steps.into_iter().map(|[a, b, _, d]| [a, b, d]).collect::<Vec<_>>();
            compare(&json!(but_for_time(wanted(case))), &json!(but_for_time(steps(case))))
        },
    );
}

#[test]
fn recorded_labels_of_a_status() {
    recorded::run("appfailover.json", "recorded_labels_of_a_status", LABELS, |case| {
        if case["kind"] != "label" {
            return Verdict::Skip(BESIDE);
        }
        let rules = case.get("rules").cloned();
        let rules = rules.unwrap_or_else(|| json!([{"aliasLabelName": "x", "jsonPath": case["jsonPath"]}]));
        let rules: StatePreservation = serde_json::from_value(json!({"rules": rules})).unwrap();
        // What is no JSON is no status: it is refused before any template looks at it.
        let Ok(status) = serde_json::from_str::<Value>(case["status"].as_str().unwrap()) else {
            return compare(&json!(true), &json!(case.get("error").is_some()));
        };
        match taken(&rules, &status) {
            Ok(labels) => compare(&case["labels"], &json!(labels)),
            Err(_) if case.get("error").is_some_and(|error| !error.is_null()) => Verdict::Agrees,
            Err(error) => Verdict::Differs(error.to_string()),
        }
    });
}

#[test]
fn recorded_labels_that_are_put_on() {
    recorded::run("appfailover.json", "recorded_labels_that_are_put_on", &[], |case| {
        if case["kind"] != "inject" {
            return Verdict::Skip(BESIDE);
        }
        let targets: Vec<Value> =
            (0..case["targetClusters"].as_u64().unwrap()).map(|n| json!({"name": format!("t{n}")})).collect();
        let spec = json!({"resource": {}, "clusters": targets, "gracefulEvictionTasks": case["gracefulEvictionTasks"]});
        let binding: ResourceBinding =
            serde_json::from_value(without_nulls(json!({"metadata": {}, "spec": spec}))).unwrap();
        let mut manifest = without_nulls(json!({"metadata": {"labels": case["labelsBefore"]}}));
        if let Some(labels) = brought(&binding, case["cluster"].as_str().unwrap()) {
            put_on(&mut manifest, labels);
        }
        compare(&case["labels"], &manifest["metadata"]["labels"])
    });
}

#[test]
fn recorded_defaults_of_application_failover() {
    recorded::run("appfailover.json", "recorded_defaults_of_application_failover", &[], |case| {
        if case["kind"] != "default" {
            return Verdict::Skip(BESIDE);
        }
        let spec = json!({"resourceSelectors": [], "failover": {"application": case["behavior"]}});
        let mut policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "d"}, "spec": spec});
        let context = Context {
            now: jiff::Timestamp::UNIX_EPOCH,
            new_uuid: &|| "UUID".to_owned(),
            grades: Grades::Completed,
        };
        mutate("policy.karmada.io", "PropagationPolicy", Operation::Create, &mut policy, None, &context);
        compare(&case["result"], &policy["spec"]["failover"]["application"])
    });
}

fn unhealthy(seconds: i64) -> ResourceBinding {
    let spec = json!({"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "n"}, "propagateDeps": true,
        "clusters": [{"name": "m1", "replicas": 2}],
        "failover": {"application": {"decisionConditions": {"tolerationSeconds": seconds}, "purgeMode": "Gracefully"}}});
    binding(&json!({}), &spec, &json!([{"clusterName": "m1", "health": "Unhealthy"}]))
}

const ALL: Rules = Rules { preserves_state: true, evicts_gracefully: true };

#[test]
fn statement_69_what_is_unhealthy_for_too_long_leaves_though_the_hub_was_started_anew() {
    let start: jiff::Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
    let at = |seconds: i64| start + SignedDuration::from_secs(seconds);
    let first = look(&unhealthy(300), &Chain::default(), ALL, at(0));
    assert_eq!((first.look_again, &first.left), (Some(SignedDuration::from_secs(300)), &vec![]));
    // All that is known is on the binding.
    let stored: ResourceBinding = serde_json::from_value(json!(first.wanted.unwrap())).unwrap();
    assert_eq!(unhealthy_since(&stored)["m1"], at(0));
    let waits = look(&stored, &Chain::default(), ALL, at(200));
    assert_eq!(
        (waits.wanted, waits.look_again),
        (None, Some(SignedDuration::from_secs(100))),
        "nothing is written"
    );
    let over = look(&stored, &Chain::default(), ALL, at(301));
    assert_eq!(over.left, ["m1"]);
    let after = over.wanted.unwrap();
    assert!(after.spec.clusters.is_empty() && unhealthy_since(&after).is_empty());
    let mut healthy = stored;
    healthy.status.aggregated_status[0].health = Some(karmada_api::binding::Health::Healthy);
    let back = look(&healthy, &Chain::default(), ALL, at(301));
    assert!(back.left.is_empty() && unhealthy_since(&back.wanted.unwrap()).is_empty());
}

#[test]
fn statement_70_status_goes_along_to_a_single_cluster_that_did_not_have_it_before() {
    let mut binding = unhealthy(0);
    binding.spec.graceful_eviction_tasks = serde_json::from_value(json!([{"fromCluster": "m1",
        "purgeMode": "Directly", "clustersBeforeFailover": ["m1"], "preservedLabelState": {"app.io/job": "a"}}]))
    .unwrap();
    let place = |clusters: &[&str]| {
        let mut placed = binding.clone();
        let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        placed.spec.clusters = serde_json::from_value(json!(targets)).unwrap();
        placed
    };
    assert!(brought(&place(&["m2"]), "m2").is_some());
    assert_eq!(brought(&place(&["m1"]), "m1"), None, "it was there before");
    assert_eq!(brought(&place(&["m2", "m3"]), "m2"), None, "it is in two");
    let mut gracefully = place(&["m2"]);
    gracefully.spec.graceful_eviction_tasks[0].purge_mode = None;
    assert_eq!(brought(&gracefully, "m2"), None, "both run for a while");
}

/// Where nobody places it elsewhere, it stays, and nothing is noted of it.
#[test]
fn what_nobody_places_anew_does_not_leave() {
    let now: jiff::Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
    let mut held = unhealthy(0);
    held.spec.suspension = serde_json::from_value(json!({"scheduling": true})).unwrap();
    let mut left = unhealthy(0);
    left.metadata.labels = None;
    for binding in [held, left] {
        assert_eq!(look(&binding, &Chain::default(), ALL, now), FailoverDecision::default());
    }
}

/// What takes it along as a label that no member would take stays where it is, and says so.
#[test]
fn what_cannot_be_a_label_lets_nothing_leave() {
    let of = |state: &str| {
        let mut binding = unhealthy(0);
        binding.status.aggregated_status[0].status = Some(json!({"job": state}));
        let wanted =
            serde_json::from_value(json!({"rules": [{"aliasLabelName": "job", "jsonPath": "{.job}"}]}))
                .unwrap();
        preservation::labels(&wanted, &binding, "m1")
    };
    assert_eq!(of("a-1").unwrap()["job"], "a-1");
    let refused = of("two words").unwrap_err().to_string();
    assert!(refused.contains("\"job\"") && refused.contains("\"two words\""), "{refused}");
}

/// All rules of a policy have one bound for what they look at.
#[test]
fn rules_share_what_may_be_looked_at() {
    let status = json!({"l": vec![0; 60_000]});
    let rules = |times: usize| -> StatePreservation {
        let rule = json!({"aliasLabelName": "x", "jsonPath": "{range .l[*]}{end}"});
        serde_json::from_value(json!({"rules": vec![rule; times]})).unwrap()
    };
    assert!(taken(&rules(1), &status).is_ok());
    assert!(taken(&rules(2), &status).is_err());
}
