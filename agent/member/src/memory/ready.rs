//! What the controllers of the member in memory make of a workload. Pure.
//!
//! In: an object. Out: the status that its controller would write at once; none for kinds that nobody looks after.

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
        // What was made without a node waits for one: there is no scheduler here.
        "Pod" if waits_for_a_node(object) => return None,
        "Pod" => json!({"phase": "Running", "conditions": [condition("Ready", "")]}),
        "Namespace" => json!({"phase": "Active"}),
        "PersistentVolumeClaim" => json!({"phase": "Bound"}),
        "Service" => json!({"loadBalancer": {}}),
        _ => return None,
    })
}

fn waits_for_a_node(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let waits = |condition: &Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    conditions.is_some_and(|conditions| conditions.iter().any(waits))
}
