//! Ingresses, network policies, addresses and ranges of Services.
//!
//! In: an Ingress, IngressClass, NetworkPolicy, IPAddress or ServiceCIDR, or a part of one, on an update with what stands. Out: field errors in kube-apiserver's
//! order. Ranges of addresses that a stored policy has already are taken as they are.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::{Value, json};

use super::pod::number_each;
use super::selector::label_selector;
use super::{Errors, addresses, facts, invalid_each, judge, list, names, text};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// There is something that answers: a default backend or rules.
pub(super) fn some_backend(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if list(spec, "rules").is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(path, spec["rules"].clone(), detail));
    }
}

/// What a new one says of its class in the older way, it says in the newer way as well.
pub(super) fn class_annotation(new: &Value, old: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    let annotation = new["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = new["spec"]["ingressClassName"].as_str();
    if let (Some(annotation), Some(class), None) = (annotation, class, old)
        && annotation != class
    {
        let annotations = Path::field("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&annotations.child(CLASS_ANNOTATION), annotation, detail));
    }
}

/// A name in the DNS, or a pattern of such names.
pub(super) fn dns_name(host: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let host = host.as_str().unwrap_or_default();
    let problems =
        if host.contains('*') { names::wildcard_subdomain(host) } else { names::dns_subdomain(host) };
    invalid_each(errors, path, host, problems);
}

/// The host that a rule is for.
pub(super) fn host(host: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if host.as_str().is_some_and(|host| addresses::parse(host).is_some()) {
        errors.push(FieldError::invalid(path, host.clone(), "must be a DNS name, not an IP address"));
    }
    dns_name(host, old, path, errors);
}

/// A path, and what answers there.
pub(super) fn http_path(one: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (value, at) = (text(one, "path"), path.child("path"));
    match one["pathType"].as_str() {
        None => {
            errors.push(FieldError::required(&path.child("pathType"), "pathType must be specified"));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                errors.push(FieldError::invalid(&at, value, "must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if value.contains(part) {
                    errors.push(FieldError::invalid(&at, value, format!("must not contain '{part}'")));
                }
            }
            for part in ["/..", "/."] {
                if value.ends_with(part) {
                    errors.push(FieldError::invalid(&at, value, format!("cannot end with '{part}'")));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                errors.push(FieldError::invalid(&at, value, "must be an absolute path"));
            }
        }
        Some(other) => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(&path.child("pathType"), other, &supported));
        }
    }
    backend(&one["backend"], None, &path.child("backend"), errors);
}

/// What answers: a Service, or another object.
pub(super) fn backend(backend: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (false, true) => {
            let at = path.child("resource");
            judge(facts::CORE_V1_TYPED_LOCAL_OBJECT_REFERENCE, resource, None, &at, errors);
        }
        (true, false) => service_backend(service, path, errors),
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
}

fn service_backend(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("service");
    let port = at.child("port");
    judge(facts::NETWORKING_V1_INGRESS_SERVICE_BACKEND, service, None, &at, errors);
    let (port_name, number) =
        (text(&service["port"], "name"), service["port"]["number"].as_i64().unwrap_or(0));
    match (port_name.is_empty(), number) {
        (true, 0) => errors.push(FieldError::required(path, "port name or number is required")),
        (false, 0) => invalid_each(errors, &port.child("name"), port_name, names::port_name(port_name)),
        (true, number) => number_each(errors, &port.child("number"), number),
        (false, _) => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

pub(crate) fn ingress_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (controller, at) = (text(spec, "controller"), path.child("controller"));
    if let Some(old) = old {
        super::immutable(&controller.into(), &text(&old["spec"], "controller").into(), &at, errors);
    }
    if controller.len() > 250 {
        errors.push(FieldError::too_long(&at, 250));
    }
    match controller.split_once('/') {
        None if controller.is_empty() => errors.push(FieldError::required(&at, "")),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            invalid_each(errors, &at, host, names::dns_subdomain(host));
            let known = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !rest.bytes().all(known) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.push(FieldError::invalid(&at, rest, detail));
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(&at, controller, detail));
        }
    }
    let parameters = &spec["parameters"];
    if parameters.is_object() {
        let at = path.child("parameters");
        judge(facts::NETWORKING_V1_INGRESS_CLASS_PARAMETERS_REFERENCE, parameters, None, &at, errors);
    }
}

/// Where the parameters of a class are.
pub(super) fn scope(parameters: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (scope, at) = (text(parameters, "scope"), path.child("namespace"));
    match (scope, parameters["namespace"].as_str()) {
        ("Namespace", None) => {
            errors.push(FieldError::required(&at, "`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", Some(namespace)) => invalid_each(errors, &at, namespace, names::dns_label(namespace)),
        ("Cluster", Some(_)) => {
            errors.push(FieldError::forbidden(&at, "`parameters.scope` is set to 'Cluster'"));
        }
        ("Cluster", None) => {}
        (other, _) => {
            let at = path.child("scope");
            errors.push(FieldError::not_supported(&at, other, &["Cluster", "Namespace"]));
        }
    }
}

/// Every range that a policy names.
fn ranges_of(policy: &Value) -> Vec<&str> {
    let peers = ["ingress", "egress"].into_iter().flat_map(|direction| {
        let peers = if direction == "ingress" { "from" } else { "to" };
        list(&policy["spec"], direction).iter().flat_map(move |rule| list(rule, peers))
    });
    peers
        .flat_map(|peer| {
            let block = &peer["ipBlock"];
            block["cidr"].as_str().into_iter().chain(list(block, "except").iter().filter_map(Value::as_str))
        })
        .collect()
}

pub(crate) fn network_policy(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let known = old.map(ranges_of).unwrap_or_default();
    label_selector(&spec["podSelector"], &path.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = path.child(direction);
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let at = rules.index(index);
            for (index, port) in list(rule, "ports").iter().enumerate() {
                judge(
                    facts::NETWORKING_V1_NETWORK_POLICY_PORT,
                    port,
                    None,
                    &at.child("ports").index(index),
                    errors,
                );
            }
            for (index, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(peer, &known, &at.child(peers).index(index), errors);
            }
        }
    }
    let types = path.child("policyTypes");
    if list(spec, "policyTypes").len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&types, spec["policyTypes"].clone(), detail));
        return;
    }
    for (index, ty) in list(spec, "policyTypes").iter().filter_map(Value::as_str).enumerate() {
        if !matches!(ty, "Ingress" | "Egress") {
            errors.push(FieldError::not_supported(&types.index(index), ty, &["Ingress", "Egress"]));
        }
    }
}

/// A port by its number or name, or a range of them.
pub(super) fn policy_port(port: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let end = port["endPort"].as_i64();
    match (&port["port"], end) {
        (Value::Number(number), end) => {
            let number = number.as_i64().unwrap_or(0);
            number_each(errors, &path.child("port"), number);
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&path.child("endPort"), number, detail));
                }
                number_each(errors, &path.child("endPort"), end);
            }
        }
        (Value::String(name), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&path.child("endPort"), end, detail));
            }
            invalid_each(errors, &path.child("port"), name, names::port_name(name));
        }
        (_, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(&path.child("endPort"), end, detail));
        }
        _ => {}
    }
}

fn policy_peer(peer: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let selectors =
        ["podSelector", "namespaceSelector"].iter().filter(|field| peer[**field].is_object()).count();
    for field in ["podSelector", "namespaceSelector"] {
        label_selector(&peer[field], &path.child(field), errors);
    }
    if peer["ipBlock"].is_object() {
        block(&peer["ipBlock"], known, &path.child("ipBlock"), errors);
    }
    match (selectors, peer["ipBlock"].is_object()) {
        (0, false) => errors.push(FieldError::required(path, "must specify a peer")),
        (1.., true) => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

/// A range of addresses, and what of it is left out.
fn block(block: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let (cidr, at) = (text(block, "cidr"), path.child("cidr"));
    if cidr.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    addresses::usable_range(cidr, known, &at, errors);
    let Some(whole) = addresses::parse_range(cidr) else { return };
    let except = path.child("except");
    for (index, one) in list(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let at = except.index(index);
        addresses::usable_range(one, known, &at, errors);
        let Some((first, length)) = addresses::parse_range(one) else { continue };
        if !addresses::contains(whole, first) || whole.1 >= length {
            errors.push(FieldError::invalid(&at, one, "must be a strict subset of `cidr`"));
        }
    }
}

pub(crate) fn ip_address(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("parentRef");
    let reference = &new["spec"]["parentRef"];
    if reference.is_object() {
        judge(facts::NETWORKING_V1_PARENT_REFERENCE, reference, None, &path, errors);
    } else {
        errors.push(FieldError::required(&path, ""));
    }
    if old.is_some_and(|old| *reference != old["spec"]["parentRef"]) {
        let members = ["group", "resource", "namespace", "name"].map(|field| json!(text(reference, field)));
        let [group, resource, namespace, name] = members;
        let shown = json!({"Group": group, "Resource": resource, "Namespace": namespace, "Name": name});
        let shown = if reference.is_object() { shown } else { Value::Null };
        errors.push(FieldError::invalid(&path, shown, "field is immutable"));
    }
}

pub(crate) fn service_cidr(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("cidrs");
    let now = list(&new["spec"], "cidrs");
    let Some(old) = old else { return service_ranges(new, &path, errors) };
    let before = list(&old["spec"], "cidrs");
    match (before.len(), now.len()) {
        (one, other) if one == other => {
            for (index, (now, before)) in now.iter().zip(before).enumerate() {
                if now != before {
                    errors.push(FieldError::invalid(&path.index(index), now.clone(), "field is immutable"));
                }
            }
        }
        // A second family may come.
        (1, 2) => {
            if now[0] != before[0] {
                errors.push(FieldError::invalid(&path.index(0), now[0].clone(), "field is immutable"));
            }
            service_ranges(new, &path, errors);
        }
        _ => {
            let shown = new["spec"]["cidrs"].clone();
            errors.push(FieldError::invalid(&path, shown, "field is immutable"));
        }
    }
}

/// One range, or one of either family.
fn service_ranges(new: &Value, path: &Path<'_>, errors: &mut Errors) {
    let now = list(&new["spec"], "cidrs");
    if now.is_empty() {
        errors.push(FieldError::required(path, "at least one CIDR required"));
        return;
    }
    if now.len() > 2 {
        let shown = format!("{{\"CIDRs\":{}}}", Value::from(now.to_vec()));
        errors.push(FieldError::invalid(path, Shown::Raw(shown), "may only hold up to 2 values"));
        return;
    }
    for (index, one) in now.iter().filter_map(Value::as_str).enumerate() {
        invalid_each(errors, &path.index(index), one, addresses::strict_range(one));
    }
    let family = |value: &Value| value.as_str().map(|text| text.contains(':'));
    if now.len() == 2 && family(&now[0]) == family(&now[1]) {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, now.to_vec(), detail));
    }
}
