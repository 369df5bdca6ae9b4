//! What a propagated HorizontalPodAutoscaler scales is scaled in the members: the hub's own number of replicas is not to undo that.
//!
//! In: a scale target, the HorizontalPodAutoscalers of its namespace. Out: the target with the label `retain-replicas`, or without it.
//!
//! Who set the label is noted beside it, so that one that a person set stays when the autoscaler goes. (Karmada takes any away, and leaves
//! its own where an autoscaler is no longer propagated.)

use karmada_api::object;
use karmada_api::strings::{annotations, labels};
use serde_json::Value;

/// Labels by which a policy says that it propagates an object.
const PROPAGATED: [&str; 2] = [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID];

/// What an autoscaler scales, in its own namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScaleTarget {
    /// As `apps/v1`.
    pub api_version: String,
    /// As `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What an autoscaler scales in the members; none where it is not propagated, or on its way out.
pub fn scaled(hpa: &Value) -> Option<ScaleTarget> {
    let is_propagated = PROPAGATED.iter().any(|label| object::label(hpa, label).is_some());
    let target = &hpa["spec"]["scaleTargetRef"];
    let text = |field: &str| target[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if !is_propagated || object::deleting(hpa) {
        return None;
    }
    Some(ScaleTarget {
        api_version: text("apiVersion").unwrap_or_else(|| "v1".to_owned()),
        kind: text("kind")?,
        name: text("name")?,
    })
}

/// The target with the label that keeps its replicas, or without it; none where it is so already. `hpa` names an autoscaler that scales it in the members, if one does.
pub fn with_retain_replicas(target: &Value, hpa: Option<&str>) -> Option<Value> {
    let is_labelled = object::label(target, labels::RETAIN_REPLICAS) == Some("true");
    let marker = object::annotation(target, annotations::RETAIN_REPLICAS_BY);
    match (hpa, is_labelled, marker) {
        // A person's own label does it as well.
        (Some(_), true, None) | (None, _, None) => None,
        (Some(hpa), true, Some(by)) if hpa == by => None,
        (Some(hpa), _, _) => Some(with(target, Some(hpa))),
        (None, _, Some(_)) => Some(with(target, None)),
    }
}

fn with(target: &Value, hpa: Option<&str>) -> Value {
    let mut wanted = target.clone();
    match hpa {
        Some(hpa) => {
            object::set_label(&mut wanted, labels::RETAIN_REPLICAS, "true");
            object::set_annotation(&mut wanted, annotations::RETAIN_REPLICAS_BY, hpa);
        }
        None => {
            object::remove_label(&mut wanted, labels::RETAIN_REPLICAS);
            object::remove_annotation(&mut wanted, annotations::RETAIN_REPLICAS_BY);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_that_a_person_set_stays_and_is_not_taken_over() {
        let target = json!({"metadata": {"labels": {labels::RETAIN_REPLICAS: "true"}}});
        assert_eq!(with_retain_replicas(&target, Some("h")), None);
        assert_eq!(with_retain_replicas(&target, None), None);
    }

    #[test]
    fn what_was_marked_is_marked_no_more_with_its_last_autoscaler() {
        let fresh = json!({"metadata": {"name": "a"}});
        let mine = with_retain_replicas(&fresh, Some("h")).unwrap();
        assert_eq!(with_retain_replicas(&mine, Some("h")), None, "once is enough");
        let handed = with_retain_replicas(&mine, Some("i")).unwrap();
        assert_eq!(handed["metadata"]["annotations"][annotations::RETAIN_REPLICAS_BY], "i");
        let freed = with_retain_replicas(&handed, None).unwrap();
        assert_eq!(object::label(&freed, labels::RETAIN_REPLICAS), None);
        assert_eq!(object::annotation(&freed, annotations::RETAIN_REPLICAS_BY), None);
        assert_eq!(with_retain_replicas(&freed, None), None);
    }

    #[test]
    fn an_autoscaler_that_goes_or_names_nothing_scales_nothing() {
        let hpa = |meta: Value, target: Value| json!({"metadata": meta, "spec": {"scaleTargetRef": target}});
        let labels = json!({labels::PROPAGATION_POLICY_ID: "x"});
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
        assert!(scaled(&hpa(json!({"labels": labels}), target.clone())).is_some());
        assert_eq!(scaled(&hpa(json!({}), target.clone())), None);
        let leaving = json!({"labels": labels, "deletionTimestamp": "2026-05-01T12:00:00Z"});
        assert_eq!(scaled(&hpa(leaving, target)), None);
        assert_eq!(scaled(&hpa(json!({"labels": labels}), json!({"kind": "Deployment"}))), None);
        assert_eq!(scaled(&json!([1])), None);
    }
}
