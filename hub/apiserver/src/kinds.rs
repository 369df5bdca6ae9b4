//! What differs from kind to kind, gathered behind functions of a [`ResourceDefinition`]: decoding, defaults, first status,
//! rules, field ownership. The registry calls these and knows no kind by name.

use serde_json::{Value, json};

use crate::resource::{Family, ResourceDefinition};
use crate::status::{Cause, Status};

/// Refuses a body whose fields have types that the kind cannot hold.
pub fn decode(_definition: &ResourceDefinition, _object: &Value) -> Result<(), Status> {
    Ok(())
}

/// Drops fields that the kind does not have; returns a sentence for each.
pub fn drop_unknown(_definition: &ResourceDefinition, _object: &mut Value) -> Vec<String> {
    Vec::new()
}

/// Fills in defaults.
pub fn default(_definition: &ResourceDefinition, _object: &mut Value) {}

/// Every rule that the object, or its change, breaks.
pub fn validate(_definition: &ResourceDefinition, _new: &Value, _old: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}

/// Records which manager owns what a write changed.
pub fn update_managed(
    _definition: &ResourceDefinition,
    _old: Option<&Value>,
    _new: &mut Value,
    _manager: &str,
    _subresource: &str,
    _now: &str,
) {
}

/// Whether the kind counts generations.
pub fn has_generation(definition: &ResourceDefinition) -> bool {
    if definition.family == Family::Custom {
        return true;
    }
    matches!(
        (&*definition.group, &*definition.plural),
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets")
            | ("", "replicationcontrollers" | "pods")
            | ("batch", "jobs" | "cronjobs")
            | ("networking.k8s.io", "ingresses" | "networkpolicies" | "ingressclasses")
            | ("policy", "poddisruptionbudgets")
            | ("flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io" | "apiextensions.k8s.io", _)
            | ("scheduling.k8s.io", "priorityclasses")
            | ("resource.k8s.io", "resourceslices" | "deviceclasses")
            | ("discovery.k8s.io", "endpointslices")
    )
}

/// The status a new object starts with, as the kind's Go type prints when empty; `None` for none.
pub fn first_status(definition: &ResourceDefinition, object: &Value) -> Option<Value> {
    if definition.family == Family::Custom {
        return None;
    }
    Some(match (&*definition.group, &*definition.plural) {
        ("", "namespaces") => json!({"phase": "Active"}),
        ("", "pods") => json!({"phase": "Pending", "qosClass": quality_of_service(object)}),
        ("", "persistentvolumeclaims" | "persistentvolumes") => json!({"phase": "Pending"}),
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({"loadBalancer": {}}),
        ("apps", "daemonsets") => {
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
        }
        ("apps", "statefulsets") => json!({"availableReplicas": 0, "replicas": 0}),
        ("apps", "replicasets") | ("", "replicationcontrollers") => json!({"replicas": 0}),
        ("autoscaling", "horizontalpodautoscalers") => match &*definition.version {
            "v1" => json!({"currentReplicas": 0, "desiredReplicas": 0}),
            _ => json!({"currentMetrics": null, "desiredReplicas": 0}),
        },
        ("policy", "poddisruptionbudgets") => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        ("apiextensions.k8s.io", _) => {
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null})
        }
        ("storage.k8s.io", "volumeattachments") => json!({"attached": false}),
        _ => json!({}),
    })
}

/// BestEffort without requests and limits, Guaranteed where both agree everywhere, else Burstable.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers: Vec<&Value> = pod["spec"]["containers"].as_array().into_iter().flatten().collect();
    let empty = |v: &Value| v.as_object().is_none_or(serde_json::Map::is_empty);
    if containers.iter().all(|c| empty(&c["resources"]["requests"]) && empty(&c["resources"]["limits"])) {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|c| {
        let (requests, limits) = (&c["resources"]["requests"], &c["resources"]["limits"]);
        ["cpu", "memory"]
            .iter()
            .all(|r| limits[*r].is_string() && (requests[*r] == limits[*r] || requests[*r].is_null()))
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
