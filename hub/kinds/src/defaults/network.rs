//! Services, policies, ingress classes, endpoint slices.
//!
//! In: a Service's fields, or a NetworkPolicy's spec. Out: the same, with ports, traffic policies and session affinity as the Service's
//! type asks for them; the only thing removed is the affinity's configuration where there is no affinity.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, set_text, text};

pub(super) fn service(fields: &mut Fields) {
    let spec = object(fields, "spec");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            set(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", json!(10_800));
        }
        _ => {}
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        set_text(port, "protocol", "TCP");
        let unset = |target: &Value| target.is_null() || *target == json!(0) || *target == json!("");
        if port.get("targetPort").is_none_or(unset) {
            let number = port.get("port").cloned().unwrap_or(json!(0));
            port.insert("targetPort".to_owned(), number);
        }
    }
    let ty = text(spec, "type").to_owned();
    let reachable = matches!(ty.as_str(), "NodePort" | "LoadBalancer")
        || (ty == "ClusterIP" && !is_empty(spec, "externalIPs"));
    if reachable {
        set_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(ty.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if ty == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
        balancer_mode(fields);
    }
}

fn balancer_mode(fields: &mut Fields) {
    let ingress = fields.get_mut("status").and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for address in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(address) = address.as_object_mut()
            && !text(address, "ip").is_empty()
        {
            set(address, "ipMode", json!("VIP"));
        }
    }
}

/// Which directions a policy is about, where it does not say: ingress, and egress where it has rules for it.
pub(super) fn policy(spec: &mut Fields) {
    if is_empty(spec, "policyTypes") {
        let types = if is_empty(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}
