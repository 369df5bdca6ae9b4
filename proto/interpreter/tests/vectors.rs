//! Recorded cases of the reference implementation: the native interpreter, metadata retention, the summary of a
//! member; and what goes beyond the recordings, by table.
#![allow(clippy::unwrap_used)]

#[path = "../../api/tests/recorded/mod.rs"]
mod recorded;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, Health};
use karmada_api::cluster::ResourceModel;
use karmada_interpreter::nodes_and_pods::{NodeOffer, PodUse};
use karmada_interpreter::{
    Answer, Chain, DependentObject, InterpretError, Interpreter, Native, Operation, Replicas,
    conflict_resolution, health_of, resource_summary, retain, retain_metadata,
};
use proptest::prelude::*;
use recorded::{BESIDE, Differences, Verdict, compare};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2024-05-06T07:08:09Z".parse().unwrap()
}

fn items(case: &Value) -> Vec<AggregatedStatusItem> {
    let items = if case["items"].is_null() { json!([]) } else { case["items"].clone() };
    serde_json::from_value(items).unwrap()
}

/// Present times of the recordings are written NOW.
fn with_now(text: &Value) -> Value {
    serde_json::from_str(&text.to_string().replace("NOW", "2024-05-06T07:08:09Z")).unwrap()
}

fn answer(case: &Value) -> Answer<(Value, Value)> {
    let object = &case["object"];
    Ok(match case["op"].as_str().unwrap() {
        "hooks" => {
            let (api_version, kind) = (case["apiVersion"].as_str().unwrap(), case["kind"].as_str().unwrap());
            let enabled: Vec<&str> = Operation::ALL
                .into_iter()
                .filter(|operation| Native.enabled(api_version, kind, *operation))
                .map(Operation::name)
                .collect();
            (case["enabled"].clone(), json!(enabled))
        }
        "replicas" => {
            let replicas = Native.replicas(object)?;
            (json!([case["replicas"], case["requirements"]]), json!([replicas.count, replicas.requirements]))
        }
        "reviseReplica" => {
            let mut object = object.clone();
            Native.revise_replica(&mut object, case["replica"].as_i64().unwrap())?;
            (case["out"].clone(), object)
        }
        "retain" => {
            let mut desired = case["desired"].clone();
            Native.retain(&mut desired, &case["observed"])?;
            (case["out"].clone(), desired)
        }
        "reflectStatus" => {
            let mut status = Native.reflect_status(object)?.unwrap_or(Value::Null);
            if object["kind"] == "StatefulSet" && case["status"].is_object() {
                // Ours reports more than the recordings do: see `rollout_status_of_a_stateful_set_ends`.
                for field in ["observedGeneration", "currentRevision", "updateRevision"] {
                    status.as_object_mut().unwrap().remove(field);
                }
            }
            (case["status"].clone(), status)
        }
        "health" => (case["healthy"].clone(), json!(Native.health(object)?)),
        "aggregateStatus" => {
            let mut object = object.clone();
            Native.aggregate_status(&mut object, &items(case), now())?;
            if object["kind"] == "Deployment" {
                // Ours reports conditions on top: see `a_deployment_tells_available_and_progressing`.
                object["status"].as_object_mut().unwrap().remove("conditions");
            }
            (with_now(&case["status"]), object["status"].clone())
        }
        "dependencies" => (case["dependencies"].clone(), json!(Native.dependencies(object)?)),
        other => (json!(other), Value::Null),
    })
}

const NO_TEMPLATE_GENERATION: &str = "recorded bug: a status without the template generation was refused";
const NULL_LISTS: &str = "recorded bug: empty lists became null";
const NO_METRICS: &str = "recorded bug: currentMetrics null; ours is absent";
const NAMELESS: &str = "recorded bug: container statuses lost name, image and restarts";
const OWN_GENERATION: &str = "recorded bug: the template generation was compared with the member's own";

const INTERPRETER: Differences = &[
    (89, NULL_LISTS),
    (91, NULL_LISTS),
    (92, NULL_LISTS),
    (110, NO_TEMPLATE_GENERATION),
    (112, NO_TEMPLATE_GENERATION),
    (114, NO_TEMPLATE_GENERATION),
    (116, NO_TEMPLATE_GENERATION),
    (118, NO_TEMPLATE_GENERATION),
    (120, NO_TEMPLATE_GENERATION),
    (122, NO_TEMPLATE_GENERATION),
    (126, NO_TEMPLATE_GENERATION),
    (128, NO_TEMPLATE_GENERATION),
    (131, NO_TEMPLATE_GENERATION),
    (133, NO_TEMPLATE_GENERATION),
    (135, NO_TEMPLATE_GENERATION),
    (138, NO_TEMPLATE_GENERATION),
    (140, NO_TEMPLATE_GENERATION),
    (142, NO_TEMPLATE_GENERATION),
    (168, NO_METRICS),
    (265, OWN_GENERATION),
    (319, NAMELESS),
    (320, NAMELESS),
    (321, NAMELESS),
    (322, NAMELESS),
    (323, NAMELESS),
    (324, NAMELESS),
    (325, NAMELESS),
    (326, "recorded bug: a claim that is nowhere was shown as bound"),
    (352, NO_METRICS),
    (353, NO_METRICS),
    (380, "recorded bug: a TLS entry without a secret is legal, but failed the whole call"),
    (383, "recorded bug: the same secret twice is one dependency"),
];

#[test]
fn recorded_interpreter() {
    recorded::run("interpreter.json", "recorded_interpreter", INTERPRETER, |case| {
        match (answer(case), case.get("error")) {
            (Ok((wanted, got)), None) => compare(&wanted, &got),
            (Err(_), Some(_)) => Verdict::Agrees,
            (Ok((_, got)), Some(error)) => Verdict::Differs(format!("wanted the error {error}, got {got}")),
            (Err(error), None) => Verdict::Differs(format!("got the error {error}")),
        }
    });
}

#[test]
fn recorded_retention() {
    recorded::run("retention.json", "recorded_retention", &[], |case| match case["op"].as_str().unwrap() {
        "retainCommon" => {
            let mut desired = case["desired"].clone();
            retain_metadata::retain_common(&mut desired, &case["observed"]);
            compare(&case["out"], &desired)
        }
        "allowUpdate" => {
            let with = |map: &str, key: &str, value: &Value| match value.as_str() {
                Some("") => json!({}),
                _ => json!({"metadata": {map: {key: value}}}),
            };
            let observed = with("labels", "karmada.io/managed", &case["observedManagedLabel"]);
            let key = "work.karmada.io/conflict-resolution";
            let desired = with("annotations", key, &case["desiredConflictResolution"]);
            compare(&case["allowed"], &json!(conflict_resolution::allow_update(&desired, &observed)))
        }
        _ => Verdict::Skip(BESIDE),
    });
}

const SUMMARY: Differences =
    &[(14, "recorded bug: counting stopped at the first node without a free place for a pod")];

#[test]
fn recorded_summary() {
    recorded::run("summary.json", "recorded_summary", SUMMARY, |case| {
        let list = |key: &str| case[key].as_array().cloned().unwrap_or_default();
        let nodes: Vec<NodeOffer> = list("nodes").iter().map(NodeOffer::of).collect();
        let pods: Vec<PodUse> = list("pods").iter().map(PodUse::of).collect();
        let models: Vec<ResourceModel> =
            serde_json::from_value(case.get("resourceModels").cloned().unwrap_or(json!([]))).unwrap();
        let mut summary = resource_summary::resource_summary(&nodes, &pods, &models);
        let modelings = std::mem::take(&mut summary.allocatable_modelings);
        let wanted_modelings = case.get("allocatableModelings").cloned().unwrap_or(json!([]));
        compare(
            &json!([case["nodeSummary"], case["resourceSummary"], wanted_modelings]),
            &json!([resource_summary::node_summary(&nodes), summary, modelings]),
        )
    });
}

fn deployment(replicas: i64, generation: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "d", "generation": generation},
           "spec": {"replicas": replicas}})
}

fn item(cluster: &str, status: &Value) -> AggregatedStatusItem {
    serde_json::from_value(json!({"clusterName": cluster, "applied": true, "status": status})).unwrap()
}

fn running(replicas: i64, generation: i64) -> Value {
    json!({"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
           "generation": 7, "observedGeneration": 7, "resourceTemplateGeneration": generation})
}

fn conditions(object: &Value) -> Vec<(String, String, String)> {
    let list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value, key: &str| c[key].as_str().unwrap().to_owned();
    list.iter().map(|c| (text(c, "type"), text(c, "status"), text(c, "reason"))).collect()
}

#[test]
fn a_deployment_tells_available_and_progressing() {
    let gave_up = json!({"replicas": 1, "generation": 7, "observedGeneration": 7, "resourceTemplateGeneration": 2,
        "conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "m"},
                       {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}]});
    let unseen = json!({"replicas": 4, "updatedReplicas": 4, "availableReplicas": 4, "generation": 8, "observedGeneration": 7,
                        "resourceTemplateGeneration": 2});
    let table: Vec<(Vec<AggregatedStatusItem>, &str, (&str, &str))> = vec![
        (vec![], "False", ("True", "ReplicaSetUpdated")),
        (
            vec![item("m1", &running(4, 2)), item("m2", &running(2, 2))],
            "True",
            ("True", "NewReplicaSetAvailable"),
        ),
        (vec![item("m1", &running(4, 2)), item("m2", &running(2, 1))], "True", ("True", "ReplicaSetUpdated")),
        (vec![item("m1", &running(4, 2)), item("m2", &running(1, 2))], "True", ("True", "ReplicaSetUpdated")),
        (vec![item("m1", &running(4, 2)), item("m2", &Value::Null)], "False", ("True", "ReplicaSetUpdated")),
        (vec![item("m1", &running(4, 2)), item("m2", &unseen)], "False", ("True", "ReplicaSetUpdated")),
        (
            vec![item("m1", &running(4, 2)), item("m2", &gave_up)],
            "False",
            ("False", "ProgressDeadlineExceeded"),
        ),
    ];
    for (items, available, (progressing, reason)) in table {
        let mut object = deployment(6, 2);
        Native.aggregate_status(&mut object, &items, now()).unwrap();
        let told = conditions(&object);
        assert_eq!((told[0].0.as_str(), told[0].1.as_str()), ("Available", available), "{items:?}");
        assert_eq!(
            (told[1].0.as_str(), told[1].1.as_str(), told[1].2.as_str()),
            ("Progressing", progressing, reason),
            "{items:?}"
        );
    }
}

#[test]
fn condition_times_move_only_when_something_changes() {
    let mut object = deployment(2, 1);
    Native.aggregate_status(&mut object, &[item("m1", &running(1, 1))], now()).unwrap();
    let before = object.clone();
    let later: Timestamp = "2024-06-06T00:00:00Z".parse().unwrap();
    Native.aggregate_status(&mut object, &[item("m1", &running(1, 1))], later).unwrap();
    assert_eq!(object, before);
    Native.aggregate_status(&mut object, &[item("m1", &running(2, 1))], later).unwrap();
    let progressing = &object["status"]["conditions"][1];
    assert_eq!(progressing["reason"], "NewReplicaSetAvailable");
    assert_eq!(progressing["lastUpdateTime"], "2024-06-06T00:00:00Z");
    assert_eq!(progressing["lastTransitionTime"], "2024-05-06T07:08:09Z");
}

#[test]
fn a_deployment_reports_what_is_wrong() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1},
        "status": {"observedGeneration": 1, "conditions": [
            {"type": "Available", "status": "False", "reason": "r", "message": "m", "lastUpdateTime": "2024-01-01T00:00:00Z"},
            {"type": "Progressing", "status": "True", "reason": "r"}, {"type": "Mine", "status": "False"}]}});
    let status = Native.reflect_status(&object).unwrap().unwrap();
    assert_eq!(
        status["conditions"],
        json!([{"type": "Available", "status": "False", "reason": "r", "message": "m"}])
    );
}

#[test]
fn rollout_status_of_a_stateful_set_ends() {
    let member = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"generation": 3, "annotations": {"resourcetemplate.karmada.io/generation": "2"}},
        "status": {"replicas": 2, "availableReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentReplicas": 2,
                   "observedGeneration": 3, "currentRevision": "w-1", "updateRevision": "w-1"}});
    let done = Native.reflect_status(&member).unwrap().unwrap();
    assert_eq!((&done["observedGeneration"], &done["updateRevision"]), (&json!(3), &json!("w-1")));
    let mut rolling = done.clone();
    rolling["updateRevision"] = json!("w-2");
    let mut other = done.clone();
    other["currentRevision"] = json!("x");
    other["updateRevision"] = json!("x");

    let table: Vec<(Vec<&Value>, Value, Value)> = vec![
        (vec![&done, &done], json!("w-1"), json!("w-1")),
        (vec![&done, &other], Value::Null, Value::Null),
        (vec![&other, &rolling], json!("w-1"), json!("w-2")),
    ];
    for (statuses, current, update) in table {
        let mut template = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 2}, "spec": {"replicas": 4}});
        let items: Vec<_> = statuses.iter().map(|status| item("m", status)).collect();
        Native.aggregate_status(&mut template, &items, now()).unwrap();
        let status = &template["status"];
        assert_eq!(status["observedGeneration"], 2);
        assert_eq!((&status["currentRevision"], &status["updateRevision"]), (&current, &update));
    }
}

#[test]
fn a_pod_keeps_the_names_of_its_containers() {
    let status = json!({"phase": "Running", "containerStatuses": [{"name": "a", "image": "i", "ready": true, "restartCount": 3}]});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    Native.aggregate_status(&mut pod, &[item("m1", &status)], now()).unwrap();
    assert_eq!(pod["status"], status);
}

#[test]
fn health_without_a_hook_and_with_a_broken_object() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    assert_eq!(health_of(&Native, &config), Health::Healthy);
    let broken =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"updatedReplicas": "many"}});
    assert_eq!(health_of(&Native, &broken), Health::Unknown);
    let waiting =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
    assert_eq!(health_of(&Native, &waiting), Health::Unhealthy);
}

/// Says that everything wants 42 replicas, and knows nothing else.
struct FortyTwo;

impl Interpreter for FortyTwo {
    fn enabled(&self, _: &str, kind: &str, operation: Operation) -> bool {
        kind != "Pod" && operation == Operation::InterpretReplica
    }
    fn replicas(&self, _: &Value) -> Answer<Replicas> {
        Ok(Replicas { count: 42, requirements: None })
    }
    fn components(&self, _: &Value) -> Answer<Vec<Component>> {
        unreachable!()
    }
    fn revise_replica(&self, _: &mut Value, _: i64) -> Answer<()> {
        unreachable!()
    }
    fn retain(&self, _: &mut Value, _: &Value) -> Answer<()> {
        unreachable!()
    }
    fn aggregate_status(&self, _: &mut Value, _: &[AggregatedStatusItem], _: Timestamp) -> Answer<()> {
        unreachable!()
    }
    fn reflect_status(&self, _: &Value) -> Answer<Option<Value>> {
        unreachable!()
    }
    fn health(&self, _: &Value) -> Answer<bool> {
        unreachable!()
    }
    fn dependencies(&self, _: &Value) -> Answer<Vec<DependentObject>> {
        unreachable!()
    }
}

#[test]
fn a_chain_asks_the_first_that_knows() {
    let chain = Chain::new(vec![std::sync::Arc::new(FortyTwo), std::sync::Arc::new(Native)]);
    let mut object = deployment(3, 1);
    assert_eq!(chain.replicas(&object).unwrap().count, 42);
    chain.revise_replica(&mut object, 5).unwrap();
    assert_eq!(object["spec"]["replicas"], 5);
    assert_eq!(chain.replicas(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap().count, 1);
    assert!(chain.enabled("v1", "Foo", Operation::InterpretReplica));
    assert!(!chain.enabled("v1", "Foo", Operation::Retain));
    let error = chain.retain(&mut json!({"apiVersion": "v1", "kind": "Foo"}), &json!({})).unwrap_err();
    assert!(matches!(error, InterpretError::NoHook { operation: "Retain", .. }));
    assert!(Chain::default().enabled("apps/v1", "Deployment", Operation::Retain));
}

#[test]
fn what_the_member_decides_is_withheld() {
    let mut service =
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "ports": []}});
    retain::withhold(&mut service, &json!({"spec": {"clusterIP": "10.0.0.1"}}));
    assert_eq!(service["spec"], json!({"ports": []}));
    let mut scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}, "spec": {"replicas": 2}});
    let mut fixed = scaled.clone();
    fixed["metadata"]["labels"] = json!({});
    let observed = json!({"spec": {"replicas": 9}});
    retain::withhold(&mut scaled, &observed);
    retain::withhold(&mut fixed, &observed);
    assert_eq!((scaled["spec"].clone(), fixed["spec"].clone()), (json!({}), json!({"replicas": 2})));
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "a"}});
    retain::withhold(&mut claim, &json!({"spec": {}}));
    assert_eq!(claim["spec"], json!({"volumeName": "a"}));
}

proptest! {
    #[test]
    fn aggregation_adds_up_and_settles(members in prop::collection::vec((0_i64..9, 0_i64..9, 1_i64..4), 0..5), generation in 1_i64..4) {
        let items: Vec<_> = members.iter().map(|(ready, available, given)| item("m", &json!({
            "replicas": 9, "readyReplicas": ready, "availableReplicas": available, "generation": 1, "observedGeneration": 1,
            "resourceTemplateGeneration": given}))).collect();
        let mut object = deployment(6, generation);
        Native.aggregate_status(&mut object, &items, now()).unwrap();
        let ready: i64 = members.iter().map(|(ready, _, _)| ready).sum();
        prop_assert_eq!(object["status"]["readyReplicas"].as_i64().unwrap_or(0), ready);
        let seen = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
        prop_assert_eq!(seen == generation, members.iter().all(|(_, _, given)| *given >= generation));
        let once = object.clone();
        Native.aggregate_status(&mut object, &items, "2030-01-01T00:00:00Z".parse().unwrap()).unwrap();
        prop_assert_eq!(object, once);
    }

    #[test]
    fn the_order_of_clusters_does_not_matter(mut members in prop::collection::vec(0_i64..9, 1..5)) {
        let aggregate = |members: &[i64]| {
            let items: Vec<_> = members.iter().map(|n| item("m", &running(*n, 1))).collect();
            let mut object = deployment(6, 1);
            Native.aggregate_status(&mut object, &items, now()).unwrap();
            object
        };
        let forth = aggregate(&members);
        members.reverse();
        prop_assert_eq!(forth, aggregate(&members));
    }

    #[test]
    fn any_json_is_answered(text in "[a-z]{0,4}", number in any::<i64>()) {
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "Service", "Ingress"] {
            for api_version in ["apps/v1", "batch/v1", "v1", "networking.k8s.io/v1"] {
                let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": [], "spec": {"template": text, "replicas": number},
                                        "status": {"conditions": number, "replicas": number, "phase": number}});
                let _ = Native.replicas(&object);
                let _ = Native.health(&object);
                let _ = Native.reflect_status(&object);
                let _ = Native.dependencies(&object);
                let observed = object.clone();
                let _ = Native.retain(&mut object, &observed);
                let _ = Native.aggregate_status(&mut object, &[item("m", &json!({"replicas": 1}))], now());
            }
        }
    }
}
