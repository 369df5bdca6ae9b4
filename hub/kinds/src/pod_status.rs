//! The status of a Pod that was created just now, and what its class is when its status is written.
//!
//! In: the Pod, defaulted and stamped. Out: its first status, with the Pod's fields that annotations name; of a changed status, its class.

use karmada_quantity::Quantity;
use serde_json::{Value, json};

/// Waiting for a scheduler, or, where a gate is closed, not even that.
pub(crate) fn first(pod: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": quality_of_service(&pod["spec"])});
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        }]);
    }
    status
}

/// Finishes a new Pod: a negative grace period becomes one second, the status is the first one (made anew, as what the Pod asks for may
/// have been filled in since it was decoded), and AppArmor profiles that annotations name become fields. Answers what to warn of.
pub(crate) fn finish_create(pod: &mut Value) -> Vec<String> {
    if let Some(grace) = pod.pointer_mut("/spec/terminationGracePeriodSeconds")
        && grace.as_i64().is_some_and(|seconds| seconds < 0)
    {
        // What once meant "at once".
        *grace = Value::from(1);
    }
    pod["status"] = first(pod);
    crate::validation::app_armor_from_annotations(pod)
}

/// A status that says no class keeps the one there is.
pub(crate) fn finish(new: &mut Value, old: &Value, _now: &str) {
    if new["status"]["qosClass"].as_str().is_none_or(str::is_empty) {
        new["status"]["qosClass"] = old["status"]["qosClass"].clone();
    }
}

/// Of processor and memory: BestEffort where nothing is asked for or limited, Guaranteed where every container has limits of both and
/// as much is asked for in all, else Burstable. What is said of the Pod as a whole counts in place of what its containers say.
fn quality_of_service(spec: &Value) -> &'static str {
    let parts: Vec<&Value> = match &spec["resources"] {
        Value::Null => {
            let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
            lists.into_iter().flatten().flatten().map(|one| &one["resources"]).collect()
        }
        whole => vec![whole],
    };
    let amount = |part: &Value, side: &str, name: &str| {
        Quantity::from_value(&part[side][name]).map_or(0, Quantity::nanos).max(0)
    };
    let sum = |side: &str| NAMES.map(|name| parts.iter().map(|part| amount(part, side, name)).sum::<i128>());
    let (asked, limited) = (sum("requests"), sum("limits"));
    if asked == [0; 2] && limited == [0; 2] {
        return "BestEffort";
    }
    let all_limited = parts.iter().all(|part| NAMES.iter().all(|name| amount(part, "limits", name) > 0));
    if all_limited && asked == limited { "Guaranteed" } else { "Burstable" }
}

const NAMES: [&str; 2] = ["cpu", "memory"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_is_that_of_all_containers_or_of_the_whole() {
        let both =
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        let half = json!({"requests": {"cpu": "1"}});
        let quality = |spec: Value| quality_of_service(&spec);
        assert_eq!(quality(json!({"containers": [{}, {"resources": {}}]})), "BestEffort");
        assert_eq!(quality(json!({"containers": [{"resources": both}]})), "Guaranteed");
        assert_eq!(quality(json!({"containers": [{"resources": both}, {}]})), "Burstable");
        let init = json!({"containers": [{"resources": both}], "initContainers": [{"resources": half}]});
        assert_eq!(quality(init), "Burstable");
        assert_eq!(quality(json!({"containers": [{"resources": half}], "resources": both})), "Guaranteed");
        assert_eq!(quality(json!({"containers": [{}], "resources": half})), "Burstable");
        let disk = json!({"requests": {"ephemeral-storage": "1Gi", "cpu": "0"}});
        assert_eq!(quality(json!({"containers": [{"resources": disk}]})), "BestEffort");
    }

    #[test]
    fn a_pod_behind_a_gate_says_so() {
        let gated = json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"containers": [{}], "schedulingGates": [{"name": "a"}]}});
        let status = first(&gated);
        assert_eq!(status["conditions"][0]["reason"], "SchedulingGated");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
        assert!(first(&json!({"spec": {"schedulingGates": []}}))["conditions"].is_null());
    }
}
