//! Services.
//!
//! In: a Service, on an update with what stands. Out: field errors in kube-apiserver's order. Cluster addresses are also judged by
//! themselves, before any is given out; which are free is not known here.

use std::collections::BTreeSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::addresses::{reachable, usable, usable_range};
use super::metadata::labels;
use super::pod::number_each;
use super::{Errors, facts, invalid_each, is_empty, judge, list, names, text};

/// The first cluster address, wherever it is said.
fn cluster_ip(spec: &Value) -> &str {
    match spec["clusterIPs"][0].as_str() {
        Some(address) => address,
        None => text(spec, "clusterIP"),
    }
}

pub(crate) fn service(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (ty, headless) = (text(spec, "type"), cluster_ip(spec) == "None");
    if let Some(old) = old {
        update(spec, &old["spec"], &path, errors);
    }
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let annotations = &new["metadata"]["annotations"];
    if let (Some(mode), Some(hints)) = (annotations[MODE].as_str(), annotations[HINTS].as_str())
        && mode != hints
    {
        let meta = Path::field("metadata");
        let at = meta.child("annotations");
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        errors.push(FieldError::invalid(&at.key(MODE), mode, detail));
    }
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
    ports(spec, &path.child("ports"), errors);
    labels(&spec["selector"], &path.child("selector"), errors);
    judge(facts::CORE_V1_SERVICE_SPEC, spec, None, &path, errors);
    affinity(spec, &path, errors);
    errors.extend(addresses(new, old));
    external(spec, old, &path, errors);
    judge(facts::CORE_V1_SERVICE_SPEC_TYPE, spec, None, &path, errors);
    node_ports(spec, ty, &path.child("ports"), errors);
    ranges(new, old, errors);
    if !spec["allocateLoadBalancerNodePorts"].is_null() && ty != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&path.child("allocateLoadBalancerNodePorts"), detail));
    }
    balancer_class(spec, &path, errors);
    traffic(spec, ty, &path, errors);
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

fn ports(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let ports = list(spec, "ports");
    let mut names_seen = BTreeSet::new();
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
        judge(facts::CORE_V1_SERVICE_PORT, one, None, &at, errors);
    }
}

/// Ports by their numbers, each once.
fn node_ports(spec: &Value, ty: &str, path: &Path<'_>, errors: &mut Errors) {
    let ports = list(spec, "ports");
    let (mut seen, mut nodes) = (BTreeSet::new(), BTreeSet::new());
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

/// Cluster addresses and their families: what they are, and how they fit together.
pub(crate) fn addresses(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if text(spec, "type") == "ExternalName" {
        return errors;
    }
    let errors_ref = &mut errors;
    let at = path.child("clusterIPs");
    let (all, single) = (list(spec, "clusterIPs"), text(spec, "clusterIP"));
    let shown = || Value::from(all.to_vec());
    match (single.is_empty(), all.first()) {
        (false, None) => errors_ref.push(FieldError::required(&at, "")),
        (false, Some(first)) if first != single => {
            errors_ref.push(FieldError::invalid(&at, shown(), "first value must match `clusterIP`"));
        }
        (true, Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors_ref.push(FieldError::invalid(&at, shown(), detail));
        }
        _ => {}
    }
    families(spec, &path, errors_ref);
    let before = old.map_or(&[][..], |old| list(&old["spec"], "clusterIPs"));
    let known: Vec<&str> = before.iter().filter_map(Value::as_str).collect();
    let mut good = true;
    for (index, ip) in all.iter().filter_map(Value::as_str).enumerate() {
        if index == 0 && ip == "None" {
            if all.len() > 1 {
                good = false;
                let detail = "'None' must be the first and only value";
                errors_ref.push(FieldError::invalid(&at, shown(), detail));
            }
        } else if !usable(ip, &known, &at.index(index), errors_ref) {
            good = false;
        }
    }
    if all.len() > 2 {
        errors_ref.push(FieldError::invalid(&at, shown(), "may only hold up to 2 values"));
    }
    if !good {
        return errors;
    }
    let six = |ip: &Value| ip.as_str().is_some_and(|ip| ip.contains(':'));
    if all.len() > 1 && !(all.iter().any(six) && all.iter().any(|ip| !six(ip))) {
        let detail = "may specify no more than one IP for each IP family";
        errors_ref.push(FieldError::invalid(&at, shown(), detail));
    }
    if cluster_ip(spec) != "None" {
        for (index, (ip, family)) in all.iter().zip(list(spec, "ipFamilies")).enumerate() {
            let wanted = family.as_str().unwrap_or_default();
            if (wanted == "IPv4" && six(ip)) || (wanted == "IPv6" && !six(ip)) {
                let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
                errors_ref.push(FieldError::invalid(&at.index(index), ip.clone(), detail));
            }
        }
    }
    errors
}

fn families(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("ipFamilies");
    let all = list(spec, "ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in all.iter().enumerate() {
        if family != "IPv4" && family != "IPv6" {
            errors.push(FieldError::not_supported(&at.index(index), family.clone(), &["IPv4", "IPv6"]));
        }
        if !seen.insert(family.as_str()) {
            errors.push(FieldError::duplicate(&at.index(index), family.clone()));
        }
    }
    judge(facts::CORE_V1_SERVICE_SPEC_FAMILIES, spec, None, path, errors);
}

/// Addresses that others reach the Service at.
fn external(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let before = old.map_or(&[][..], |old| list(&old["spec"], "externalIPs"));
    let known: Vec<&str> = before.iter().filter_map(Value::as_str).collect();
    let external = path.child("externalIPs");
    for (index, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let at = external.index(index);
        if usable(ip, &known, &at, errors) {
            reachable(ip, &at, errors);
        }
    }
}

/// Whose requests a balancer takes, in the spec or in an annotation.
fn ranges(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let (spec, balanced) = (&new["spec"], new["spec"]["type"] == "LoadBalancer");
    let detail = "may only be used when `type` is 'LoadBalancer'";
    let annotation =
        |object: &Value| object["metadata"]["annotations"][ANNOTATION].as_str().map(str::to_owned);
    if !list(spec, "loadBalancerSourceRanges").is_empty() {
        let path = Path::field("spec");
        let at = path.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(FieldError::forbidden(&at, detail));
        }
        let before = old.map_or(&[][..], |old| list(&old["spec"], "loadBalancerSourceRanges"));
        let known: Vec<&str> = before.iter().filter_map(Value::as_str).map(str::trim).collect();
        for (index, range) in
            list(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate()
        {
            usable_range(range.trim(), &known, &at.index(index), errors);
        }
    } else if let Some(value) = annotation(new) {
        let meta = Path::field("metadata");
        let at = meta.child("annotations");
        let at = at.key(ANNOTATION);
        if !balanced {
            errors.push(FieldError::forbidden(&at, detail));
        }
        if old.and_then(annotation).is_none_or(|before| before != value) && !value.trim().is_empty() {
            value.trim().split(',').for_each(|range| usable_range(range.trim(), &[], &at, errors));
        }
    }
}

fn affinity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(spec, "sessionAffinity") != "ClientIP" {
        return;
    }
    let at = path.child("sessionAffinityConfig");
    let at = at.child("clientIP");
    let config = &spec["sessionAffinityConfig"]["clientIP"];
    judge(facts::CORE_V1_CLIENT_IPCONFIG, config, None, &at, errors);
}

fn balancer_class(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    let at = path.child("loadBalancerClass");
    if text(spec, "type") == "LoadBalancer" {
        invalid_each(errors, &at, class, names::qualified_name(class));
    } else {
        errors.push(FieldError::forbidden(&at, "may only be used when `type` is 'LoadBalancer'"));
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
    let (health, at) = (spec["healthCheckNodePort"].as_i64().unwrap_or(0), path.child("healthCheckNodePort"));
    match (is_watched(spec), health) {
        (false, 0) => {}
        (false, _) => errors.push(FieldError::invalid(
            &at,
            health,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
        (true, 0) => errors.push(FieldError::required(&at, "")),
        (true, _) => number_each(errors, &at, health),
    }
    judge(facts::CORE_V1_SERVICE_SPEC_TRAFFIC, spec, None, path, errors);
}

/// Cluster addresses stay, except to and from ExternalName; families stay, except for headless Services and where one becomes headless or
/// stops to be.
fn update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(new, "type") != "ExternalName" && text(old, "type") != "ExternalName" {
        kept(new, old, path, errors);
    }
    if text(new, "type") == "LoadBalancer" && text(old, "type") == "LoadBalancer" {
        let at = path.child("loadBalancerClass");
        if new["loadBalancerClass"] != old["loadBalancerClass"] {
            let now = new["loadBalancerClass"].clone();
            errors.push(FieldError::invalid(&at, now, "may not change once set"));
        }
    }
    balancer_class(new, path, errors);
    let health = |spec: &Value| spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if is_watched(new) && is_watched(old) && health(new) != health(old) {
        errors.push(FieldError::forbidden(&path.child("healthCheckNodePort"), "field is immutable"));
    }
}

/// Whether the nodes answer for the health of a local balancer, at a port of their own.
pub(crate) fn is_watched(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn kept(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let headless = (cluster_ip(new) == "None", cluster_ip(old) == "None");
    let at = path.child("clusterIPs");
    let (now, before) = (list(new, "clusterIPs"), list(old, "clusterIPs"));
    let shown = || new["clusterIPs"].clone();
    const ONCE: &str = "may not change once set";
    if headless == (true, true) {
        return;
    }
    if now.len() == before.len() {
        for (index, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
            errors.push(FieldError::invalid(&at.index(index), shown(), ONCE));
        }
    } else if now.is_empty() {
        errors.push(FieldError::invalid(&at.index(0), shown(), "primary clusterIP can not be unset"));
    } else if !before.is_empty() && now[0] != before[0] {
        errors.push(FieldError::invalid(&at.index(0), shown(), ONCE));
    }
    if headless.0 != headless.1 {
        return;
    }
    let at = path.child("ipFamilies");
    let (now, before) = (list(new, "ipFamilies"), list(old, "ipFamilies"));
    if now.len() == before.len() {
        for _ in now.iter().zip(before).filter(|(now, before)| now != before) {
            errors.push(FieldError::invalid(&at.index(0), new["ipFamilies"].clone(), ONCE));
        }
    }
}
