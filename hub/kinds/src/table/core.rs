//! Kinds of the core group other than Pods and what makes them: configuration, Services, Nodes, quotas, events.
//!
//! In: an object of one of these kinds, and the time. Out: its cells in the order of the kind's columns in `data/catalogue.jsonl`, wide
//! ones included; events of both groups have the same cells.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Row;
use super::cells::{Fields as _, NONE, UNKNOWN, count, first_few, labels, scalar, texts};
use super::network::load_balancer;

pub(crate) fn config_map(row: Row<'_>) -> Vec<Value> {
    let keys = |pointer: &str| row.at(pointer).as_object().map_or(0, serde_json::Map::len);
    vec![row.name(), (keys("/data") + keys("/binaryData")).into(), row.age()]
}

pub(crate) fn secret(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text_or("/type", ""), count(row.at("/data")), row.age()]
}

pub(crate) fn service_account(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

pub(crate) fn namespace(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text_or("/status/phase", ""), row.age()]
}

pub(crate) fn node(row: Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.at("/spec/unschedulable") == true {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles = BTreeSet::new();
    for (label, value) in row.at("/metadata/labels").as_object().into_iter().flatten() {
        match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.insert(role),
            _ if label == "kubernetes.io/role" => roles.insert(value.as_str().unwrap_or_default()),
            _ => false,
        };
    }
    roles.remove("");
    let roles: Vec<&str> = roles.into_iter().collect();
    let address = |ty: &str| {
        let found = row.list("/status/addresses").iter().find(|address| address["type"] == ty);
        Value::from(found.and_then(|address| address["address"].as_str()).unwrap_or(NONE))
    };
    let info = |field: &str| row.text_or(&format!("/status/nodeInfo/{field}"), UNKNOWN);
    vec![
        row.name(),
        status.into(),
        if roles.is_empty() { NONE.into() } else { roles.join(",").into() },
        row.age(),
        row.text_or("/status/nodeInfo/kubeletVersion", ""),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

pub(crate) fn component_status(row: Row<'_>) -> Vec<Value> {
    let healthy = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
    let status = match healthy {
        Some(condition) if condition["status"] == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let text = |field: &str| Value::from(healthy.and_then(|c| c[field].as_str()).unwrap_or_default());
    vec![row.name(), status.into(), text("message"), text("error")]
}

pub(crate) fn resource_quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("/status/hard").as_object().into_iter().flatten() {
        let text = format!("{resource}: {}/{}", scalar(&row.at("/status/used")[resource]), scalar(hard));
        let list = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        list.push(text);
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

fn external_ip(row: Row<'_>) -> Value {
    let own = texts(row.list("/spec/externalIPs"), ",");
    match row.text("/spec/type") {
        Some("ClusterIP" | "NodePort") if own.is_empty() => NONE.into(),
        Some("ClusterIP" | "NodePort") => own.into(),
        Some("LoadBalancer") => match (load_balancer(row), own) {
            (balancer, own) if balancer.is_empty() && own.is_empty() => "<pending>".into(),
            (balancer, own) if balancer.is_empty() => own.into(),
            (balancer, own) if own.is_empty() => balancer.into(),
            (balancer, own) => format!("{balancer},{own}").into(),
        },
        Some("ExternalName") => row.text_or("/spec/externalName", ""),
        _ => UNKNOWN.into(),
    }
}

pub(crate) fn service(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (scalar(&port["port"]), scalar(&port["protocol"]));
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        row.name(),
        row.text_or("/spec/type", ""),
        row.at("/spec/clusterIPs/0").as_str().unwrap_or(NONE).into(),
        external_ip(row),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        row.age(),
        labels(row.at("/spec/selector")).into(),
    ]
}

pub(crate) fn endpoints(row: Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in row.list("/subsets") {
        let addresses = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let ip = |address: &Value| address["ip"].as_str().unwrap_or_default().to_owned();
        match subset["ports"].as_array().map_or(&[][..], Vec::as_slice) {
            [] => all.extend(addresses.iter().map(ip)),
            ports => {
                for port in ports {
                    all.extend(addresses.iter().map(|address| match ip(address) {
                        v6 if v6.contains(':') => format!("[{v6}]:{}", scalar(&port["port"])),
                        v4 => format!("{v4}:{}", scalar(&port["port"])),
                    }));
                }
            }
        }
    }
    let empty = if row.list("/subsets").is_empty() { NONE } else { "" };
    vec![row.name(), first_few(&all, all.len(), 3, empty).into(), row.age()]
}

/// Events of both groups: events.k8s.io names the old fields `deprecated…`.
pub(crate) fn event(row: Row<'_>) -> Vec<Value> {
    let pick = |old: &str, new: &str| if row.at(old).is_null() { new.to_owned() } else { old.to_owned() };
    let first = pick("/firstTimestamp", "/deprecatedFirstTimestamp");
    let last = pick("/lastTimestamp", "/deprecatedLastTimestamp");
    let first = if row.time(&first).is_some() { row.since(&first) } else { row.since("/eventTime") };
    let mut seen = if row.time(&last).is_some() { row.since(&last) } else { first.clone() };
    let mut count = row.int(&pick("/count", "/deprecatedCount")).max(1);
    if row.at("/series").is_object() {
        seen = row.since("/series/lastObservedTime");
        count = row.int("/series/count");
    }
    let object = pick("/involvedObject", "/regarding");
    let part = |field: &str| row.text(&format!("{object}/{field}")).unwrap_or_default();
    let kind = part("kind").to_lowercase();
    let target = if part("name").is_empty() { kind } else { format!("{kind}/{}", part("name")) };
    let source = pick("/source", "/deprecatedSource");
    let either = |field: &str, a: &str, b: &str| {
        let candidates = [format!("{source}/{field}"), a.to_owned(), b.to_owned()];
        candidates
            .iter()
            .find_map(|p| row.text(p).filter(|text| !text.is_empty()))
            .unwrap_or_default()
            .to_owned()
    };
    let component = either("component", "/reportingComponent", "/reportingController");
    let instance = either("host", "/reportingInstance", "");
    vec![
        seen.into(),
        row.text_or("/type", ""),
        row.text_or("/reason", ""),
        target.into(),
        part("fieldPath").into(),
        if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() },
        row.text(&pick("/message", "/note")).unwrap_or_default().trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}
