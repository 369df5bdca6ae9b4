//! Autoscalers, of one cluster and of the fleet.
//!
//! In: the fields of an autoscaler, or its spec. Out: the same with defaults that follow from others: metrics, scaling behaviour.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set};

/// In v1, metrics other than CPU stand in annotations. The object is converted to v2 and back: annotations that cannot be read are dropped,
/// and one without any metric aims at 80 % of CPU.
pub(super) fn autoscaler_v1(fields: &mut Fields) {
    let mut whole = Value::Object(std::mem::take(fields));
    crate::conversion::autoscaler_v2(&mut whole);
    crate::conversion::autoscaler_v1(&mut whole);
    if let Value::Object(whole) = whole {
        *fields = whole;
    }
}

/// The defaults of a FederatedHPA: those of an autoscaler of one cluster.
pub(crate) fn federated_autoscaler(new: &mut Value, _: Option<&Value>) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    set(spec, "minReplicas", json!(1));
    autoscaler_v2(spec);
}

pub(super) fn autoscaler_v2(spec: &mut Fields) {
    if is_empty(spec, "metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert(
            "metrics".to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let policy = |ty: &str, value: i64| json!({"type": ty, "value": value, "periodSeconds": 15});
    let up = object(behavior, "scaleUp");
    set(up, "stabilizationWindowSeconds", json!(0));
    set(up, "selectPolicy", json!("Max"));
    set(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
    let down = object(behavior, "scaleDown");
    set(down, "selectPolicy", json!("Max"));
    set(down, "policies", json!([policy("Percent", 100)]));
}
