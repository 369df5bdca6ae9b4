//! Service and Ingress: the addresses of all clusters, each once.
//!
//! In: the template, and what each cluster reports. Out: `status.loadBalancer` of the template, in an order that does not depend on that of
//! the clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Value, json};

use super::{reported, status_mut};
use crate::Answer;

/// What tells addresses apart, in the order in which they are listed: by hostname, those without one last, then by
/// ip as text.
type Identity = (bool, String, String, String);

/// A port of an address: number and protocol order it, the rest goes along as text.
type Port = (i64, String, String);

/// Service of type LoadBalancer; any other has no status.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn service(object: &mut Value, items: &[AggregatedStatusItem], now: Timestamp) -> Answer<()> {
    let balanced = object::get(object, &["spec", "type"]).and_then(Value::as_str) == Some("LoadBalancer");
    if balanced { ingress(object, items, now) } else { Ok(()) }
}

/// Ingress.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn ingress(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let entries = reported(items)
        .filter_map(|status| status.pointer("/loadBalancer/ingress").and_then(Value::as_array))
        .flatten();
    let mut merged: BTreeMap<Identity, BTreeSet<Port>> = BTreeMap::new();
    for entry in entries {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let hostname = text("hostname");
        let ports = merged.entry((hostname.is_empty(), hostname, text("ip"), text("ipMode"))).or_default();
        for port in entry.get("ports").and_then(Value::as_array).into_iter().flatten() {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("").to_owned();
            ports.insert((number, protocol, port.to_string()));
        }
    }
    let list: Vec<Value> = merged.into_iter().map(|(identity, ports)| entry(identity, ports)).collect();
    let balancer = if list.is_empty() { json!({}) } else { json!({"ingress": list}) };
    status_mut(object).insert("loadBalancer".to_owned(), balancer);
    Ok(())
}

fn entry((_, hostname, ip, ip_mode): Identity, ports: BTreeSet<Port>) -> Value {
    let mut out = json!({});
    for (key, value) in [("hostname", hostname), ("ip", ip), ("ipMode", ip_mode)] {
        if !value.is_empty() {
            out[key] = Value::from(value);
        }
    }
    if !ports.is_empty() {
        let ports = ports.into_iter().map(|(number, protocol, text)| {
            serde_json::from_str(&text).unwrap_or_else(|_| json!({"port": number, "protocol": protocol}))
        });
        out["ports"] = Value::Array(ports.collect());
    }
    out
}
