//! Ingresses and network policies.

use serde_json::Value;

use super::pod::number_each;
use super::selector::label_selector;
use super::{Errors, invalid_each, list, names, text};
use crate::schema::FieldError;
use crate::schema::path::Path;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) fn ingress(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if list(spec, "rules").is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, spec["rules"].clone(), detail));
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], &path.child("defaultBackend"), errors);
    }
    let rules = path.child("rules");
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        let at = rules.index(index);
        host(text(rule, "host"), &at.child("host"), errors);
        if rule["http"].is_object() {
            let http = at.child("http");
            let paths = http.child("paths");
            if list(&rule["http"], "paths").is_empty() {
                errors.push(FieldError::required(&paths, ""));
            }
            for (index, one) in list(&rule["http"], "paths").iter().enumerate() {
                http_path(one, &paths.index(index), errors);
            }
        }
    }
    let class = text(spec, "ingressClassName");
    if !class.is_empty() {
        invalid_each(errors, &path.child("ingressClassName"), class, names::dns_subdomain(class));
    }
    let annotation = new["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    if let Some(annotation) =
        annotation.filter(|annotation| old.is_none() && !class.is_empty() && *annotation != class)
    {
        let annotations = Path::field("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&annotations.child(CLASS_ANNOTATION), annotation, detail));
    }
}

fn host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    let problems =
        if host.contains('*') { names::wildcard_subdomain(host) } else { names::dns_subdomain(host) };
    invalid_each(errors, path, host, problems);
}

fn http_path(one: &Value, path: &Path<'_>, errors: &mut Errors) {
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
    backend(&one["backend"], &path.child("backend"), errors);
}

fn backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (false, true) => {
            let at = path.child("resource");
            for field in ["kind", "name"] {
                if text(resource, field).is_empty() {
                    errors.push(FieldError::required(&at.child(field), ""));
                }
            }
        }
        (true, false) => service_backend(service, path, errors),
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
}

fn service_backend(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("service");
    let (name, port) = (text(service, "name"), at.child("port"));
    if name.is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    } else {
        invalid_each(errors, &at.child("name"), name, names::dns_1035_label(name));
    }
    let (port_name, number) =
        (text(&service["port"], "name"), service["port"]["number"].as_i64().unwrap_or(0));
    match (port_name.is_empty(), number) {
        (true, 0) => errors.push(FieldError::required(path, "port name or number is required")),
        (false, 0) => invalid_each(errors, &port.child("name"), port_name, names::port_name(port_name)),
        (true, number) => number_each(errors, &port.child("number"), number),
        (false, _) => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

pub(super) fn ingress_class(new: &Value, errors: &mut Errors) {
    let (controller, spec) = (text(&new["spec"], "controller"), Path::field("spec"));
    if controller.is_empty() {
        errors.push(FieldError::required(&spec.child("controller"), ""));
    } else if !controller.contains('/') {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(&spec.child("controller"), controller, detail));
    }
}

pub(super) fn network_policy(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    label_selector(&spec["podSelector"], &path.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = path.child(direction);
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let at = rules.index(index);
            for (index, port) in list(rule, "ports").iter().enumerate() {
                policy_port(port, &at.child("ports").index(index), errors);
            }
            for (index, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(peer, &at.child(peers).index(index), errors);
            }
        }
    }
    let types = path.child("policyTypes");
    for (index, ty) in list(spec, "policyTypes").iter().filter_map(Value::as_str).enumerate() {
        if !matches!(ty, "Ingress" | "Egress") {
            errors.push(FieldError::not_supported(&types.index(index), ty, &["Ingress", "Egress"]));
        }
    }
}

fn policy_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    let protocol = text(port, "protocol");
    if !matches!(protocol, "" | "TCP" | "UDP" | "SCTP") {
        errors.push(FieldError::not_supported(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]));
    }
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

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selectors =
        ["podSelector", "namespaceSelector"].iter().filter(|field| peer[**field].is_object()).count();
    for field in ["podSelector", "namespaceSelector"] {
        label_selector(&peer[field], &path.child(field), errors);
    }
    match (selectors, peer["ipBlock"].is_object()) {
        (0, false) => errors.push(FieldError::required(path, "must specify a peer")),
        (1.., true) => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
    if peer["ipBlock"].is_object() && text(&peer["ipBlock"], "cidr").is_empty() {
        errors.push(FieldError::required(&path.child("ipBlock").child("cidr"), ""));
    }
}
