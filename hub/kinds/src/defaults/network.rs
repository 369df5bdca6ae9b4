//! Services, policies, ingress classes, endpoint slices.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, set_text, text};

pub(super) fn service(fields: &mut Fields) {
    let spec = object(fields, "spec");
    set_text(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            set(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", json!(10_800));
        }
        _ => {}
    }
    set_text(spec, "type", "ClusterIP");
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

pub(super) fn rule(type_name: &str, fields: &mut Fields) {
    match type_name {
        "networking.v1.NetworkPolicyPort" => set(fields, "protocol", json!("TCP")),
        "networking.v1.NetworkPolicy" => {
            let spec = object(fields, "spec");
            if is_empty(spec, "policyTypes") {
                let types =
                    if is_empty(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
                spec.insert("policyTypes".to_owned(), types);
            }
        }
        "networking.v1.IngressClassParametersReference" => set(fields, "scope", json!("Cluster")),
        "discovery.v1.EndpointPort" => {
            set(fields, "name", json!(""));
            set(fields, "protocol", json!("TCP"));
        }
        _ => {}
    }
}
