//! Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata::labels;
use super::pod::{number_each, port};
use super::{Errors, invalid_each, is_empty, list, names, one_of, text};
use crate::schema::path::Path;
use crate::schema::{FieldError, Shown};

/// The first cluster address, wherever it is said.
fn cluster_ip(spec: &Value) -> &str {
    match spec["clusterIPs"][0].as_str() {
        Some(address) => address,
        None => text(spec, "clusterIP"),
    }
}

pub(super) fn service(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (ty, headless) = (text(spec, "type"), cluster_ip(spec) == "None");
    if list(spec, "ports").is_empty() && !headless && ty != "ExternalName" {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    if headless && matches!(ty, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {ty} services");
        errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), "None", detail));
    }
    if ty == "ExternalName" {
        external_name(spec, &path, errors);
    }
    ports(spec, ty, &path.child("ports"), errors);
    labels(&spec["selector"], &path.child("selector"), errors);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &path, errors);
    addresses(spec, &path, errors);
    if !list(spec, "loadBalancerSourceRanges").is_empty() && ty != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&path.child("LoadBalancerSourceRanges"), detail));
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && ty != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&path.child("allocateLoadBalancerNodePorts"), detail));
    }
    traffic(spec, ty, &path, errors);
    if let Some(old) = old {
        update(spec, &old["spec"], &path, errors);
    }
}

fn external_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !cluster_ip(spec).is_empty() {
        errors.push(FieldError::forbidden(
            &path.child("clusterIPs"),
            "may not be set for ExternalName services",
        ));
    }
    for field in ["ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(&spec[field]) {
            errors
                .push(FieldError::forbidden(&path.child(field), "may not be set for ExternalName services"));
        }
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("externalName"), ""));
    } else {
        invalid_each(errors, &path.child("externalName"), name, names::dns_subdomain(name));
    }
}

fn ports(spec: &Value, ty: &str, path: &Path<'_>, errors: &mut Errors) {
    let ports = list(spec, "ports");
    let (mut names_seen, mut seen, mut nodes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, one) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = text(one, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(&at.child("name"), ""));
            }
        } else {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
            if !names_seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
        }
        number_each(errors, &at.child("port"), one["port"].as_i64().unwrap_or(0));
        one_of(one, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
        port(&one["targetPort"], &at.child("targetPort"), errors);
        if let Some(protocol) = one["appProtocol"].as_str() {
            invalid_each(errors, &at.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
    }
    for (index, one) in ports.iter().enumerate() {
        let (at, protocol) = (path.index(index), text(one, "protocol"));
        let node = one["nodePort"].as_i64().unwrap_or(0);
        if node != 0 && ty == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&at.child("nodePort"), detail));
        }
        if node != 0 && !nodes.insert((protocol, node)) {
            errors.push(FieldError::duplicate(&at.child("nodePort"), node));
        }
        if !seen.insert((protocol, one["port"].as_i64().unwrap_or(0))) {
            let value = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                one["port"]
            );
            errors.push(FieldError::duplicate(&at, Shown::Raw(value)));
        }
    }
}

fn addresses(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    const MESSAGE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let external = path.child("externalIPs");
    for (index, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        if !address(ip) {
            errors.push(FieldError::invalid(&external.index(index), ip, MESSAGE));
        }
    }
    let cluster = path.child("clusterIPs");
    // A lone `clusterIP` counts as the first of the list.
    let alone = [spec["clusterIP"].clone()];
    let all = if list(spec, "clusterIPs").is_empty() { &alone[..] } else { list(spec, "clusterIPs") };
    for (index, ip) in all.iter().filter_map(Value::as_str).enumerate() {
        if !ip.is_empty() && ip != "None" && !address(ip) {
            errors.push(FieldError::invalid(&cluster.index(index), ip, MESSAGE));
        }
    }
    let (first, single) = (spec["clusterIPs"][0].as_str().unwrap_or_default(), text(spec, "clusterIP"));
    if !first.is_empty() && !single.is_empty() && first != single {
        let detail = "first value must match `clusterIP`";
        errors.push(FieldError::invalid(&cluster, spec["clusterIPs"].clone(), detail));
    }
}

fn traffic(spec: &Value, ty: &str, path: &Path<'_>, errors: &mut Errors) {
    let reachable = matches!(ty, "NodePort" | "LoadBalancer")
        || (ty == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    let at = path.child("externalTrafficPolicy");
    match policy {
        "" if reachable => errors.push(FieldError::required(&at, "")),
        "" => {}
        _ if !reachable => errors.push(FieldError::invalid(
            &at,
            policy,
            "may only be set for externally-accessible services",
        )),
        "Cluster" | "Local" => {}
        _ => errors.push(FieldError::not_supported(&at, policy, &["Cluster", "Local"])),
    }
    let policy = text(spec, "internalTrafficPolicy");
    if !matches!(policy, "" | "Cluster" | "Local") {
        let at = path.child("internalTrafficPolicy");
        errors.push(FieldError::not_supported(&at, policy, &["Cluster", "Local"]));
    }
}

/// The first cluster address stays, save to and from ExternalName.
fn update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(new, "type") == "ExternalName" || text(old, "type") == "ExternalName" {
        return;
    }
    let (after, before) = (cluster_ip(new), cluster_ip(old));
    if !before.is_empty() && !after.is_empty() && after != before {
        let value = if is_empty(&new["clusterIPs"]) { json!([after]) } else { new["clusterIPs"].clone() };
        errors.push(FieldError::invalid(
            &path.child("clusterIPs").index(0),
            value,
            "may not change once set",
        ));
    }
}
