//! What the controllers of the member in memory make of a workload. Pure.

use karmada_api::object;
use serde_json::{Value, json};

/// The status of a workload whose pods are all ready.
pub(super) fn ready_status(object: &Value) -> Option<Value> {
    let generation = object::generation(object);
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason});
    Some(match object::kind(object) {
        "Deployment" => json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")],
        }),
        "StatefulSet" => json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas, "currentReplicas": replicas,
        }),
        "DaemonSet" => json!({
            "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": 1, "numberMisscheduled": 0,
        }),
        "Job" => json!({"succeeded": 1, "conditions": [condition("Complete", "CompletionsReached")]}),
        "Pod" => json!({"phase": "Running", "conditions": [condition("Ready", "")]}),
        "Namespace" => json!({"phase": "Active"}),
        "PersistentVolumeClaim" => json!({"phase": "Bound"}),
        "Service" => json!({"loadBalancer": {}}),
        _ => return None,
    })
}
