//! What one cluster may report of each kind, by table: the rest is left out before it is added up.
#![allow(clippy::unwrap_used)]

use karmada_interpreter::reported_status;
use serde_json::{Value, json};

fn judge(api_version: &str, kind: &str, status: &Value) -> Result<(), String> {
    reported_status::status(api_version, kind, status)
}

#[test]
fn counts_are_whole_and_fit() {
    let kinds = [
        ("apps/v1", "Deployment", "readyReplicas"),
        ("apps/v1", "ReplicaSet", "availableReplicas"),
        ("apps/v1", "StatefulSet", "currentReplicas"),
        ("apps/v1", "DaemonSet", "numberReady"),
        ("batch/v1", "Job", "succeeded"),
        ("policy/v1", "PodDisruptionBudget", "disruptionsAllowed"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "desiredReplicas"),
    ];
    for (api_version, kind, field) in kinds {
        let of = |value: Value| judge(api_version, kind, &json!({ field: value }));
        for good in [json!(0), json!(7), json!(i32::MAX), Value::Null] {
            assert_eq!(of(good.clone()), Ok(()), "{kind} {good}");
        }
        for bad in [
            json!(1.5),
            json!(-3),
            json!(i64::MAX),
            json!(u64::MAX),
            json!("7"),
            json!([7]),
            json!({}),
            json!(true),
        ] {
            let why = of(bad.clone()).unwrap_err();
            assert!(why.starts_with(&format!("status.{field} is {bad}")), "{kind} {bad}: {why}");
        }
        let huge = of(json!("x".repeat(100_000))).unwrap_err();
        assert!(huge.len() < 200, "what is told is bounded");
    }
    for field in ["generation", "observedGeneration", "resourceTemplateGeneration"] {
        assert_eq!(judge("apps/v1", "Deployment", &json!({field: i64::MAX})), Ok(()));
        assert!(judge("apps/v1", "Deployment", &json!({field: -1})).is_err());
    }
}

#[test]
fn shapes_are_those_of_the_kind() {
    let balancer = |entry: Value| json!({"loadBalancer": {"ingress": [entry]}});
    let table = [
        (
            "apps/v1",
            "Deployment",
            json!({"conditions": [{"type": "Available", "status": "False", "reason": "r", "message": "m"}]}),
            true,
        ),
        ("apps/v1", "Deployment", json!({"conditions": [{"type": 5}]}), false),
        ("apps/v1", "Deployment", json!({"conditions": "all is well"}), false),
        ("apps/v1", "Deployment", json!("ready"), false),
        ("apps/v1", "StatefulSet", json!({"replicas": 1, "currentRevision": "a-1"}), true),
        ("apps/v1", "StatefulSet", json!({"replicas": 1, "currentRevision": 1}), false),
        ("batch/v1", "Job", json!({"active": 1, "startTime": "2024-01-01T00:00:00Z"}), true),
        ("batch/v1", "Job", json!({"active": 1, "startTime": "yesterday"}), false),
        ("batch/v1", "CronJob", json!({"active": [{"name": "a"}]}), true),
        ("batch/v1", "CronJob", json!({"active": ["a"]}), false),
        ("v1", "Pod", json!({"phase": "Running", "containerStatuses": []}), true),
        ("v1", "Pod", json!({"phase": "Running", "containerStatuses": [{"restartCount": 1.5}]}), false),
        ("v1", "PersistentVolumeClaim", json!({"phase": "Bound"}), true),
        ("v1", "PersistentVolumeClaim", json!({"phase": ["Bound"]}), false),
        ("v1", "Service", balancer(json!({"ip": "10.0.0.1", "ipMode": "VIP"})), true),
        (
            "v1",
            "Service",
            balancer(json!({"ip": "fd00::1", "ports": [{"port": 80, "protocol": "TCP"}]})),
            true,
        ),
        ("v1", "Service", balancer(json!({"hostname": "lb.example.org"})), true),
        ("v1", "Service", balancer(json!({"ip": "nowhere"})), false),
        ("v1", "Service", balancer(json!({"hostname": "10.0.0.1"})), false),
        ("v1", "Service", balancer(json!({"hostname": "Not A Host"})), false),
        ("v1", "Service", balancer(json!({"hostname": "a.example.org", "ipMode": "VIP"})), false),
        (
            "v1",
            "Service",
            balancer(json!({"ip": "10.0.0.1", "ports": [{"port": 70_000, "protocol": "TCP"}]})),
            false,
        ),
        ("networking.k8s.io/v1", "Ingress", balancer(json!({"ip": 5})), false),
        ("networking.k8s.io/v1", "Ingress", balancer(json!({"ip": "10.0.0.1"})), true),
        ("policy/v1", "PodDisruptionBudget", json!({"disruptedPods": {"a": "2024-01-01T00:00:00Z"}}), true),
        ("policy/v1", "PodDisruptionBudget", json!({"disruptedPods": {"a": 1}}), false),
        ("example.org/v1", "Windmill", json!({"blades": -1.5}), true),
    ];
    for (api_version, kind, status, good) in table {
        assert_eq!(
            judge(api_version, kind, &status).is_ok(),
            good,
            "{kind} {status}: {:?}",
            judge(api_version, kind, &status)
        );
    }
}
