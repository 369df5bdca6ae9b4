//! Networking and discovery: Ingresses, network policies, EndpointSlices, addresses and ranges of Services.
//!
//! In: an object of one of these kinds, and the time. Out: its cells in the order of the kind's columns in `data/catalogue.jsonl`, wide
//! ones included.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Row;
use super::cells::{Fields as _, NONE, first_few, scalar, selector_or_none, texts};

/// Where a balancer is reached, as the status of a Service or an Ingress says: addresses, or names, without repetition.
pub(super) fn load_balancer(row: Row<'_>) -> String {
    let mut addresses = BTreeSet::new();
    for ingress in row.list("/status/loadBalancer/ingress") {
        let text = |field: &str| ingress[field].as_str().filter(|text| !text.is_empty());
        addresses.extend(text("ip").or_else(|| text("hostname")));
    }
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(crate) fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/ports")
        .iter()
        .map(|port| match (&port["port"], port["name"].as_str()) {
            (Value::Number(number), _) => number.to_string(),
            (_, Some(name)) => name.to_owned(),
            _ => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = row
        .list("/endpoints")
        .iter()
        .flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten())
        .map(scalar)
        .collect();
    vec![
        row.name(),
        row.text_or("/addressType", ""),
        first_few(&ports, ports.len(), 3, "<unset>").into(),
        first_few(&addresses, addresses.len(), 3, "<unset>").into(),
        row.age(),
    ]
}

pub(crate) fn ingress(row: Row<'_>) -> Vec<Value> {
    let rules = row.list("/spec/rules");
    let (mut hosts, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= hosts.len() == 3;
        let host = rule["host"].as_str().unwrap_or_default();
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let hosts = match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        _ => hosts.join(","),
    };
    let ports = if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        row.name(),
        row.at("/spec/ingressClassName").as_str().unwrap_or(NONE).into(),
        hosts.into(),
        load_balancer(row).into(),
        ports.into(),
        row.age(),
    ]
}

pub(crate) fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let parameters = row.at("/spec/parameters");
    let text = |field: &str| parameters[field].as_str().unwrap_or_default();
    let parameters = match (parameters, parameters["apiGroup"].as_str()) {
        (Value::Null, _) => NONE.to_owned(),
        (_, Some(group)) => format!("{}.{group}/{}", text("kind"), text("name")),
        (_, None) => format!("{}/{}", text("kind"), text("name")),
    };
    vec![row.name(), row.text_or("/spec/controller", ""), parameters.into(), row.age()]
}

pub(crate) fn network_policy(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), selector_or_none(row.at("/spec/podSelector")), row.age()]
}

pub(crate) fn ip_address(row: Row<'_>) -> Vec<Value> {
    let parent = row.at("/spec/parentRef");
    let text = |field: &str| parent[field].as_str().unwrap_or_default();
    let mut name = match (parent, text("group")) {
        (Value::Null, _) => NONE.to_owned(),
        (_, "") => text("resource").to_lowercase(),
        (_, group) => format!("{}.{group}", text("resource")).to_lowercase(),
    };
    if parent.is_object() {
        for part in [text("namespace"), text("name")].iter().filter(|part| !part.is_empty()) {
            name = format!("{name}/{part}");
        }
    }
    // One cell more than there are columns: so kube-apiserver writes it.
    vec![row.name(), name.into(), row.age()]
}

pub(crate) fn service_cidr(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), texts(row.list("/spec/cidrs"), ",").into(), row.age()]
}
