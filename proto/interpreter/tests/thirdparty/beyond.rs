//! What goes beyond the recordings: JobSet, LeaderWorkerSet, faults that were mended, and the list of what is known.

use karmada_api::binding::AggregatedStatusItem;
use karmada_interpreter::{Chain, Interpreter, Native, Operation, ThirdParty};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::now;
use crate::samples::{samples, template};

fn sample(kind: &str) -> Value {
    samples().iter().find(|sample| sample["kind"] == kind).unwrap().clone()
}

fn with_spec(kind: &str, spec: &Value) -> Value {
    let mut object = sample(kind);
    object["spec"] = spec.clone();
    object
}

fn with_status(kind: &str, status: &Value) -> Value {
    let mut object = sample(kind);
    object["status"] = status.clone();
    object
}

fn aggregated(object: &Value, statuses: &[Value]) -> Value {
    let named = statuses.iter().enumerate().map(|(index, status)| AggregatedStatusItem {
        cluster_name: format!("m{}", index + 1),
        status: Some(status.clone()).filter(|status| !status.is_null()),
        ..Default::default()
    });
    let mut object = object.clone();
    ThirdParty.aggregate_status(&mut object, &named.collect::<Vec<_>>(), now()).unwrap();
    object["status"].clone()
}

fn names(object: &Value) -> Vec<String> {
    let found = ThirdParty.dependencies(object).unwrap();
    found.iter().map(|dependency| format!("{}/{}", dependency.kind, dependency.name)).collect()
}

/// The parts of a workload: name, replicas, CPUs of one.
fn parts(object: &Value) -> Vec<(String, i32, String)> {
    let parts = ThirdParty.components(object).unwrap().into_iter();
    parts
        .map(|part| {
            let cpu =
                part.replica_requirements.and_then(|wanted| wanted.resource_request.get("cpu").copied());
            (part.name, part.replicas, cpu.map(|cpu| cpu.to_string()).unwrap_or_default())
        })
        .collect()
}

#[test]
fn every_kind_has_a_sample_and_every_sample_is_known() {
    let mut kinds: Vec<(String, String)> =
        ThirdParty::kinds().map(|(v, k)| (v.to_owned(), k.to_owned())).collect();
    let text = |sample: &Value, key: &str| sample[key].as_str().unwrap().to_owned();
    let mut known: Vec<_> = samples().iter().map(|s| (text(s, "apiVersion"), text(s, "kind"))).collect();
    kinds.sort();
    known.sort();
    assert_eq!(kinds, known);
}

/// What the documentation of the table says of each kind is what the table says.
#[test]
fn the_list_of_what_is_known_is_true() {
    let words = [
        (Operation::InterpretReplica, "replicas"),
        (Operation::InterpretComponent, "components"),
        (Operation::ReviseReplica, "revision"),
        (Operation::Retain, "retention"),
        (Operation::AggregateStatus, "aggregation"),
        (Operation::InterpretStatus, "reflection"),
        (Operation::InterpretHealth, "health"),
        (Operation::InterpretDependency, "dependencies"),
    ];
    let told: Vec<String> = ThirdParty::kinds()
        .map(|(api_version, kind)| {
            let known = words.iter().filter(|(asked, _)| ThirdParty.enabled(api_version, kind, *asked));
            let known: Vec<&str> = known.map(|(_, word)| *word).collect();
            format!("//! | {api_version} {kind} | {} |", known.join(", "))
        })
        .collect();
    let source = include_str!("../../src/thirdparty.rs");
    let listed: Vec<&str> =
        source.lines().filter(|line| line.starts_with("//! | ") && line.contains("/v")).collect();
    assert_eq!(listed, told, "\n{}\n", told.join("\n"));
}

#[test]
fn a_chain_asks_for_kinds_of_other_projects_before_the_native_ones() {
    let chain = Chain::default();
    let clones = sample("CloneSet");
    assert_eq!(chain.replicas(&clones).unwrap().count, 3);
    // What the kind has no answer to, the native interpreter answers as for any kind: the whole status is reported.
    let cluster = sample("RayCluster");
    assert!(!ThirdParty.enabled("ray.io/v1", "RayCluster", Operation::InterpretStatus));
    assert_eq!(chain.reflect_status(&cluster).unwrap(), Native.reflect_status(&cluster).unwrap());
    assert!(!chain.enabled("ray.io/v1", "RayCluster", Operation::InterpretReplica));
    assert!(!chain.enabled("apps.kruise.io/v1", "CloneSet", Operation::InterpretReplica));
    assert!(ThirdParty.replicas(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})).is_err());
}

/// The recorded fault added them to those of the template, again on every pass, and only where it had some.
#[test]
fn failures_are_counted_once() {
    let release = |status: &Value| with_status("HelmRelease", status);
    let members = [json!({"failures": 2, "installFailures": 1}), json!({"failures": 1})];
    let once = aggregated(&release(&json!({})), &members);
    let counters = |status: &Value| {
        [&status["failures"], &status["installFailures"], &status["upgradeFailures"]].map(Clone::clone)
    };
    assert_eq!(counters(&once), [json!(3), json!(1), Value::Null]);
    assert_eq!(aggregated(&release(&once), &members), once);
    assert_eq!(
        counters(&aggregated(&release(&json!({"failures": 9, "upgradeFailures": 2})), &members)),
        counters(&once)
    );
}

#[test]
fn a_united_deployment_asks_for_what_its_subsets_do() {
    for kind in
        ["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"]
    {
        let object = with_spec(
            "UnitedDeployment",
            &json!({"replicas": 3, "template": {kind: {"spec": {"template": template()}}}}),
        );
        let replicas = ThirdParty.replicas(&object).unwrap();
        assert_eq!(
            (replicas.count, replicas.requirements.unwrap().resource_request["cpu"].to_string()),
            (3, "2".to_owned())
        );
        assert_eq!(
            names(&object),
            ["ConfigMap/config", "Secret/env", "Secret/volume", "ServiceAccount/runner"]
        );
    }
}

#[test]
fn a_job_of_ray_is_over_once_it_is_in_all_members() {
    let stands = |deployment: &str, job: &str| json!({"jobDeploymentStatus": deployment, "jobStatus": job, "message": deployment});
    let told = |members: &[Value]| {
        let status = aggregated(&with_status("RayJob", &json!({})), members);
        (status["jobDeploymentStatus"].clone(), status["jobStatus"].clone(), status["message"].clone())
    };
    let (done, runs) = (stands("Complete", "SUCCEEDED"), stands("Running", "RUNNING"));
    let table = [
        (vec![done.clone(), runs.clone()], ("Running", "RUNNING")),
        (vec![done.clone(), stands("Waiting", "PENDING")], ("Waiting", "PENDING")),
        (vec![done.clone(), done.clone()], ("Complete", "SUCCEEDED")),
        (vec![done, runs, stands("Failed", "FAILED")], ("Failed", "FAILED")),
    ];
    for (members, (deployment, job)) in table {
        assert_eq!(told(&members), (json!(deployment), json!(job), json!(deployment)));
    }
}

#[test]
fn a_broadcast_job_is_judged_member_by_member() {
    let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    let verdict = |members: &[Value]| {
        aggregated(&with_status("BroadcastJob", &json!({})), members)["conditions"].clone()
    };
    assert_eq!(verdict(&[condition("Complete"), json!({"active": 1})]), Value::Null);
    assert_eq!(verdict(&[condition("Complete"), Value::Null]), Value::Null);
    assert_eq!(verdict(&[condition("Complete"), condition("Complete")])[0]["type"], "Completed");
    let failed = verdict(&[condition("Failed"), json!({"active": 1}), condition("Failed")]);
    assert_eq!(failed[0]["message"], "Job executed failed in member clusters: m1, m3");
}

#[test]
fn memory_is_read_as_flink_and_spark_mean_it() {
    let flink = |memory: &str| {
        let object = with_spec("FlinkDeployment", &json!({"jobManager": {"resource": {"memory": memory}}}));
        ThirdParty
            .replicas(&object)
            .map(|replicas| replicas.requirements.unwrap().resource_request["memory"].to_string())
    };
    for (written, meant) in
        [("2048m", "2Gi"), ("2g", "2Gi"), ("2G", "2G"), ("1.5Gi", "1536Mi"), ("4294967296", "4294967296")]
    {
        assert_eq!(flink(written).unwrap(), meant, "{written}");
    }
    assert!(flink("-1g").is_err() && flink("much").is_err());
    let spark = |kind: &str| {
        let executor = json!({"memory": "10g"});
        let object =
            with_spec("SparkApplication", &json!({"type": kind, "driver": {}, "executor": executor}));
        let parts = ThirdParty.components(&object).unwrap();
        parts[1].replica_requirements.as_ref().unwrap().resource_request["memory"].to_string()
    };
    assert_eq!((spark("Scala"), spark("Python")), ("11Gi".to_owned(), "14Gi".to_owned()));
}

#[test]
fn the_parts_of_a_job_set_are_the_pods_of_its_groups() {
    let object = sample("JobSet");
    // Two Jobs of four pods at once, of which no more than three shall complete.
    assert_eq!(
        parts(&object),
        [("w".to_owned(), 6, "2".to_owned()), ("driver".to_owned(), 1, "2".to_owned())]
    );
    assert_eq!(names(&object), ["ConfigMap/config", "Secret/env", "Secret/volume", "ServiceAccount/runner"]);
    assert!(parts(&with_spec("JobSet", &json!({}))).is_empty());
}

#[test]
fn a_job_set_ends_once_it_does_in_all_members() {
    let ends = |kind: &str, ready: i64| {
        json!({"restarts": 1, "conditions": [{"type": kind, "status": "True"}],
               "replicatedJobsStatus": [{"name": "w", "ready": ready, "active": 1}, {"name": "x", "failed": 1}]})
    };
    let object = with_status("JobSet", &json!({}));
    let told = aggregated(&object, &[ends("Completed", 1), ends("Completed", 2)]);
    assert_eq!(
        (&told["conditions"][0]["type"], &told["terminalState"]),
        (&json!("Completed"), &json!("Completed"))
    );
    assert_eq!(told["conditions"][0]["lastTransitionTime"], "2024-05-06T07:08:09Z");
    assert_eq!(told["restarts"], 2);
    let group = |name: &str, ready: i64, active: i64, failed: i64| json!({"name": name, "ready": ready, "active": active, "failed": failed, "succeeded": 0, "suspended": 0});
    assert_eq!(told["replicatedJobsStatus"], json!([group("w", 3, 2, 0), group("x", 0, 0, 2)]));
    let going = aggregated(&object, &[ends("Completed", 1), json!({"restarts": 0})]);
    assert_eq!((&going["conditions"], &going["terminalState"]), (&Value::Null, &Value::Null));
    let failed = aggregated(&object, &[ends("Completed", 1), ends("Failed", 0)]);
    assert_eq!(failed["conditions"][0]["message"], "the jobset failed in member clusters: m2");
    let halted = aggregated(&object, &[ends("Suspended", 0), ends("Suspended", 0)]);
    assert_eq!(
        (&halted["conditions"][0]["type"], &halted["terminalState"]),
        (&json!("Suspended"), &Value::Null)
    );
    let health = |status: &Value| ThirdParty.health(&with_status("JobSet", status)).unwrap();
    assert!(health(&ends("Completed", 1)) && health(&json!({})) && !health(&ends("Failed", 0)));
    assert!(!health(&json!({"terminalState": "Failed"})) && !health(&Value::Null));
}

#[test]
fn a_replica_of_a_leader_worker_set_is_a_group() {
    let object = sample("LeaderWorkerSet");
    assert_eq!(
        parts(&object),
        [("leader".to_owned(), 2, "2".to_owned()), ("worker".to_owned(), 6, "2".to_owned())]
    );
    let (mut leader, mut worker) = (template(), template());
    leader["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1", "memory": "4Gi"});
    worker["spec"]["containers"][0]["resources"]["requests"] =
        json!({"cpu": "8", "memory": "1Gi", "x/gpu": "1"});
    let spec =
        json!({"leaderWorkerTemplate": {"size": 3, "leaderTemplate": leader, "workerTemplate": worker}});
    let mut object = with_spec("LeaderWorkerSet", &spec);
    let replicas = ThirdParty.replicas(&object).unwrap();
    assert_eq!(
        (replicas.count, json!(replicas.requirements.unwrap().resource_request)),
        (1, json!({"cpu": "8", "memory": "4Gi", "x/gpu": "1"}))
    );
    ThirdParty.revise_replica(&mut object, 5).unwrap();
    assert_eq!(object["spec"]["replicas"], 5);
    // Without a template of its own the leader is as the workers are, and a group of one has no worker.
    let alone = with_spec(
        "LeaderWorkerSet",
        &json!({"replicas": 4, "leaderWorkerTemplate": {"workerTemplate": template()}}),
    );
    assert_eq!(parts(&alone), [("leader".to_owned(), 4, "2".to_owned())]);
    assert!(ThirdParty.replicas(&with_spec("LeaderWorkerSet", &json!({}))).is_err());
}

#[test]
fn a_leader_worker_set_is_available_once_it_is_in_all_members() {
    let member = |ready: i64, available: &str| {
        json!({"replicas": 2, "readyReplicas": ready, "updatedReplicas": 2, "observedGeneration": 7, "generation": 7,
               "resourceTemplateGeneration": 2, "conditions": [{"type": "Available", "status": available}]})
    };
    let object = with_status("LeaderWorkerSet", &json!({}));
    let told = aggregated(&object, &[member(2, "True"), member(1, "False")]);
    assert_eq!(
        (&told["replicas"], &told["readyReplicas"], &told["observedGeneration"]),
        (&json!(4), &json!(3), &json!(2))
    );
    let condition = |status: &Value| {
        (status["conditions"][0]["status"].clone(), status["conditions"][0]["message"].clone())
    };
    assert_eq!(condition(&told), (json!("False"), json!("Replicas are progressing in member clusters: m2")));
    let told = aggregated(&object, &[member(2, "True"), member(2, "True")]);
    assert_eq!(condition(&told).0, "True");
    let health = |status: &Value| ThirdParty.health(&with_status("LeaderWorkerSet", status)).unwrap();
    let available = json!([{"type": "Available", "status": "True"}]);
    assert!(
        health(&json!({"conditions": available}))
            && health(&json!({"observedGeneration": 2, "conditions": available}))
    );
    assert!(!health(&json!({"observedGeneration": 1, "conditions": available})) && !health(&json!({})));
}

proptest! {
    #[test]
    fn workers_of_a_service_are_shared_without_a_rest(had in prop::collection::vec(0_i64..4, 1..6), replicas in 0_i64..20) {
        let groups: Vec<Value> = had.iter().map(|replicas| json!({"replicas": replicas})).collect();
        let mut object = with_spec("RayService", &json!({"rayClusterConfig": {"workerGroupSpecs": groups}}));
        ThirdParty.revise_replica(&mut object, replicas).unwrap();
        let groups = object["spec"]["rayClusterConfig"]["workerGroupSpecs"].as_array().unwrap();
        let given: Vec<i64> = groups.iter().map(|group| group["replicas"].as_i64().unwrap()).collect();
        prop_assert!(given.iter().all(|given| *given >= 0), "{given:?}");
        prop_assert_eq!(given.iter().sum::<i64>(), (replicas - 1).max(0));
    }
}
