//! Statuses that come back from clusters: what a binding is told of each, and what a template shows of all.

use karmada_api::binding::AggregatedStatusItem;
use karmada_api::work::Work;
use karmada_core::status;
use karmada_interpreter::Native;
use serde_json::{Value, json};

use super::bindings::placed;
use super::{deployment, later, now};

fn items(works: &[Work]) -> Vec<AggregatedStatusItem> {
    let binding = placed(json!([]));
    works.iter().filter_map(|work| status::item(&binding, work)).collect()
}

fn work_in(cluster: &str, applied: Option<bool>, status: Value) -> Work {
    let conditions = applied.map(|applied| json!([{"type": "Applied", "status": if applied { "True" } else { "False" },
        "reason": "r", "message": if applied { "" } else { "it broke" }, "lastTransitionTime": "2024-01-01T00:00:00Z"}]));
    serde_json::from_value(json!({"metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")}, "spec": {},
        "status": {"conditions": conditions.unwrap_or(json!([])),
                   "manifestStatuses": if status.is_null() { json!([]) } else { json!([{"identifier": {}, "status": status, "health": "Healthy"}]) }}})).unwrap()
}

#[test]
fn statuses_come_together() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let (good, bad) =
        (work_in("m2", Some(true), json!({"replicas": 2})), work_in("m1", Some(false), Value::Null));
    let mut leaving = work_in("m3", Some(true), Value::Null);
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let partly = status::binding_status(&binding, items(&[good.clone(), bad, leaving]), now()).unwrap();
    assert_eq!(
        serde_json::to_value(&partly.aggregated_status).unwrap(),
        json!([
        {"clusterName": "m1", "appliedMessage": "it broke", "health": "Unknown"},
        {"clusterName": "m2", "applied": true, "health": "Healthy", "status": {"replicas": 2}}])
    );
    assert_eq!(partly.condition("FullyApplied").unwrap().reason, "FullyAppliedFailed");
    let works = [good, work_in("m1", Some(true), Value::Null)];
    let mut known = binding.clone();
    known.status = status::binding_status(&binding, items(&works), now()).unwrap();
    assert_eq!(known.status.condition("FullyApplied").unwrap().status, "True");
    assert_eq!(status::binding_status(&known, items(&works), later()), None);
    assert_eq!(
        status::binding_status(&known, items(&works[..1]), later())
            .unwrap()
            .condition("FullyApplied")
            .unwrap()
            .status,
        "False"
    );
    assert!(!status::fully_applied(&placed(json!([])), &[]));
}

#[test]
fn fully_applied_goes_by_the_clusters_names() {
    let mut binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let of = |clusters: &[&str]| {
        items(&clusters.iter().map(|c| work_in(c, Some(true), Value::Null)).collect::<Vec<_>>())
    };
    assert!(status::fully_applied(&binding, &of(&["m1", "m2"])));
    assert!(!status::fully_applied(&binding, &of(&["m1", "m3"])), "as many, but others");
    assert!(status::fully_applied(&binding, &of(&["m1", "m2", "m3"])), "one more is on its way out");
    binding.spec.graceful_eviction_tasks = serde_json::from_value(json!([
        {"fromCluster": "m3", "purgeMode": "Gracefully", "reason": "r", "producer": "p"}]))
    .unwrap();
    assert!(
        !status::fully_applied(&binding, &of(&["m1", "m2"])),
        "what is being left counts until it is left"
    );
    assert!(status::fully_applied(&binding, &of(&["m1", "m2", "m3"])));
}

#[test]
fn what_was_applied_of_an_older_generation_is_not_applied() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}]));
    let at = |observed: Option<i64>| {
        let mut work = work_in("m1", Some(true), json!({"replicas": 4}));
        work.metadata.generation = Some(2);
        work.status.conditions[0].observed_generation = observed;
        let known = status::binding_status(&binding, items(&[work]), now()).unwrap();
        let item = &known.aggregated_status[0];
        (item.applied, known.condition("FullyApplied").unwrap().status.clone(), item.applied_message.clone())
    };
    assert_eq!((at(Some(2)).0, at(Some(2)).1.as_str()), (true, "True"));
    assert_eq!((at(None).0, at(None).1.as_str()), (true, "True"), "from before generations were told");
    let mut held_back = work_in("m1", Some(true), json!({"replicas": 4}));
    held_back.metadata.generation = Some(2);
    held_back.status.conditions[0].observed_generation = Some(1);
    held_back.spec.suspend_dispatching = Some(true);
    assert!(items(&[held_back])[0].applied, "what is held back waits for nobody");
    let (applied, fully, message) = at(Some(1));
    assert_eq!((applied, fully.as_str()), (false, "False"));
    assert_eq!(message, "generation 2 has not been applied yet; the cluster has generation 1");
}

#[test]
fn what_no_deployment_can_say_is_left_out() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let good = json!({"replicas": 2, "readyReplicas": 2, "observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": 3});
    for bad in [json!(1.5), json!(i64::MAX), json!(-3), json!("2"), json!(2_147_483_648_i64)] {
        let works = [
            work_in("m1", Some(true), json!({"readyReplicas": bad})),
            work_in("m2", Some(true), good.clone()),
        ];
        let known = status::binding_status(&binding, items(&works), now()).unwrap();
        let item = serde_json::to_value(&known.aggregated_status[0]).unwrap();
        let why = item["appliedMessage"].as_str().unwrap_or_default();
        assert!(
            why.starts_with("what this cluster reports was left out: status.readyReplicas is "),
            "{bad}: {item}"
        );
        assert_eq!(
            (&item["health"], item.get("status"), &item["applied"]),
            (&json!("Unknown"), None, &json!(true))
        );
        let template = status::template_status(&deployment(), &known.aggregated_status, &Native, now())
            .unwrap()
            .unwrap();
        assert_eq!(template["status"]["readyReplicas"], 2, "{bad}: the other's counts");
        assert_eq!(template["status"].get("observedGeneration"), None, "{bad}: not all have seen it");
        assert_eq!(status::newly_left_out(&binding.status, &known), [format!("m1: {why}")]);
        assert!(status::newly_left_out(&known, &known).is_empty(), "told once");
    }
    let most = json!({"readyReplicas": i32::MAX});
    let works = ["m1", "m2"].map(|cluster| work_in(cluster, Some(true), most.clone()));
    let known = status::binding_status(&binding, items(&works), now()).unwrap();
    let template =
        status::template_status(&deployment(), &known.aggregated_status, &Native, now()).unwrap().unwrap();
    assert_eq!(template["status"]["readyReplicas"], i32::MAX, "as much as the API can hold");
}

/// Karmada's rule: a generation is observed once every cluster has said so. One whose word is left out has not said so, which takes
/// nothing back of what was observed before, and holds up nobody's numbers.
#[test]
fn a_cluster_whose_word_is_left_out_takes_back_no_generation() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let seen = |replicas: Value, generation: u64| json!({"replicas": replicas, "observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": generation});
    let told = |template: &Value, m1: Value, m2: Value| {
        let works = [work_in("m1", Some(true), m1), work_in("m2", Some(true), m2)];
        let known = status::binding_status(&binding, items(&works), now()).unwrap();
        let told = status::template_status(template, &known.aggregated_status, &Native, now()).unwrap();
        told.unwrap_or_else(|| template.clone())
    };
    let numbers =
        |template: &Value| ["replicas", "observedGeneration"].map(|field| template["status"][field].clone());
    let before = told(&deployment(), seen(json!(4), 3), seen(json!(2), 3));
    assert_eq!(numbers(&before), [6, 3]);
    for bad in [json!(-4), json!(1.5), json!(i64::MAX)] {
        let same = told(&before, seen(bad.clone(), 3), seen(json!(2), 3));
        assert_eq!(numbers(&same), [2, 3], "{bad}: what was observed stays observed");
        let mut newer = before.clone();
        newer["metadata"]["generation"] = json!(4);
        let newer = told(&newer, seen(bad.clone(), 4), seen(json!(3), 4));
        assert_eq!(numbers(&newer), [3, 3], "{bad}: nobody knows whether it has seen the newer one");
        assert_eq!(numbers(&told(&newer, seen(json!(3), 4), seen(json!(3), 4))), [6, 4], "until it says so");
    }
}

#[test]
fn a_template_that_is_placed_nowhere_any_more_is_told_so() {
    let mut binding = placed(json!([]));
    assert!(!status::tells_the_template(&binding, false), "nothing was placed yet");
    binding.status.last_scheduled_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert!(status::tells_the_template(&binding, false));
    let mut template = deployment();
    template["status"] = json!({"replicas": 6, "readyReplicas": 6, "availableReplicas": 6, "updatedReplicas": 6, "observedGeneration": 3});
    let told = status::template_status(&template, &[], &Native, now()).unwrap().unwrap();
    assert_eq!((told["status"].get("readyReplicas"), told["status"].get("replicas")), (None, None));
    let of = |api_version: &str, kind: &str, status: Value| {
        let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}, "status": status});
        status::template_status(&template, &[], &Native, now()).unwrap().map(|told| told["status"].clone())
    };
    assert_eq!(of("batch/v1", "Job", json!({"active": 2})), Some(json!({})));
    assert_eq!(of("batch/v1", "Job", json!({})), None);
    assert_eq!(
        of("batch/v1", "Job", json!({"conditions": [{"type": "Complete", "status": "True"}]})),
        None,
        "it is over"
    );
    assert_eq!(
        of("autoscaling/v2", "HorizontalPodAutoscaler", json!({"currentReplicas": 2})),
        Some(json!({}))
    );
    assert_eq!(of("v1", "Service", json!({"loadBalancer": {}})), None);
}

#[test]
fn a_template_shows_all_its_members() {
    let item = |replicas: i64| {
        json!({"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 3})
    };
    let items = items(&[work_in("m1", Some(true), item(4)), work_in("m2", Some(true), item(2))]);
    let template = status::template_status(&deployment(), &items, &Native, now()).unwrap().unwrap();
    assert_eq!(
        (&template["status"]["readyReplicas"], &template["status"]["observedGeneration"]),
        (&json!(6), &json!(3))
    );
    assert_eq!(status::template_status(&template, &items, &Native, later()).unwrap(), None);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert_eq!(status::template_status(&config, &items, &Native, now()).unwrap(), None);
}
