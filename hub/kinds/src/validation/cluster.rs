//! Kinds of the cluster as a whole: runtime classes, addresses and their ranges, flow control, API services, certificate
//! requests, revisions.

use std::collections::HashSet;

use base64::Engine as _;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::{Value, json};

use super::metadata::labels;
use super::{Errors, immutable, invalid_each, list, names, resources, text};

pub(crate) fn runtime_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let handler = text(new, "handler");
    if handler.is_empty() {
        errors.push(FieldError::required(&Path::field("handler"), ""));
    } else {
        invalid_each(errors, &Path::field("handler"), handler, names::dns_label(handler));
    }
    if new["overhead"].is_object() {
        let limits = serde_json::json!({"limits": new["overhead"]["podFixed"]});
        resources::requirements(&limits, &Path::field("overhead"), errors);
    }
    if new["scheduling"].is_object() {
        let path = Path::field("scheduling");
        labels(&new["scheduling"]["nodeSelector"], &path.child("nodeSelector"), errors);
        tolerations_of_class(&new["scheduling"], &path.child("tolerations"), errors);
    }
    if let Some(old) = old {
        immutable(&new["handler"], &old["handler"], &Path::field("handler"), errors);
    }
}

fn tolerations_of_class(scheduling: &Value, path: &Path<'_>, errors: &mut Errors) {
    super::scheduling::tolerations(scheduling, path, errors);
    let key = |one: &Value| ["key", "operator", "value", "effect"].map(|field| text(one, field).to_owned());
    let mut seen = HashSet::new();
    for (index, one) in list(scheduling, "tolerations").iter().enumerate() {
        let fields = key(one);
        if !seen.insert(fields.clone()) {
            let [key, operator, value, effect] = fields.map(Value::from);
            let shown = format!(
                "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\"TolerationSeconds\":{}}}",
                one["tolerationSeconds"]
            );
            errors.push(FieldError::duplicate(&path.index(index), Shown::Raw(shown)));
        }
    }
}

pub(crate) fn ip_address(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("parentRef");
    let reference = &new["spec"]["parentRef"];
    if reference.is_object() {
        parent(reference, &path, errors);
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

/// What an address was given to.
fn parent(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let group = text(reference, "group");
    if !group.is_empty() {
        invalid_each(errors, &path.child("group"), group, names::dns_subdomain(group));
    }
    for field in ["resource", "name"] {
        match text(reference, field) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            value => invalid_each(errors, &path.child(field), value, names::path_segment(value)),
        }
    }
    let namespace = text(reference, "namespace");
    invalid_each(errors, &path.child("namespace"), namespace, names::path_segment(namespace));
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
        invalid_each(errors, &path.index(index), one, super::addresses::strict_range(one));
    }
    let family = |value: &Value| value.as_str().map(|text| text.contains(':'));
    if now.len() == 2 && family(&now[0]) == family(&now[1]) {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, now.to_vec(), detail));
    }
}

pub(crate) fn api_service(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let wanted = format!("{version}.{group}");
    let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
    super::only_name(new, &wanted, &detail, false, errors);
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), detail));
    }
    if !group.is_empty() {
        invalid_each(errors, &path.child("group"), group, names::dns_subdomain(group));
    }
    invalid_each(errors, &path.child("version"), version, names::dns_1035_label(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let value = spec[field].as_i64().unwrap_or(0);
        if value <= 0 || value > most {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(&path.child(field), value, detail));
        }
    }
    let (bundle, insecure) = (text(spec, "caBundle"), spec["insecureSkipTLSVerify"] == true);
    if !spec["service"].is_object() {
        if !bundle.is_empty() {
            let bytes =
                base64::engine::general_purpose::STANDARD.decode(bundle).map_or(0, |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), format!("{bytes} bytes"), detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
        }
        return;
    }
    let at = path.child("service");
    for field in ["namespace", "name"] {
        if text(&spec["service"], field).is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    }
    let port = spec["service"]["port"].as_i64().unwrap_or(0);
    if !names::port_number(port).is_empty() {
        let detail = format!("port is not valid: {}", names::port_number(port).join(", "));
        errors.push(FieldError::invalid(&at.child("port"), port, detail));
    }
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}

/// What a certificate may be asked for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(crate) fn certificate_request(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let request = text(spec, "request");
    let pem = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    let text_of = String::from_utf8_lossy(&pem);
    if !text_of.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid(&path.child("request"), spec["request"].clone(), detail));
    } else if blocks(&text_of).first().is_none_or(|(_, der)| der.first() != Some(&0x30)) {
        let detail = "asn1: structure error: tags don't match";
        errors.push(FieldError::invalid(&path.child("request"), spec["request"].clone(), detail));
    }
    let usages = path.child("usages");
    let all = list(spec, "usages");
    if all.is_empty() {
        errors.push(FieldError::required(&usages, ""));
    }
    for (index, usage) in all.iter().filter_map(Value::as_str).enumerate() {
        if !USAGES.contains(&usage) {
            errors.push(FieldError::not_supported(&usages.index(index), usage, &USAGES));
        }
    }
    let mut seen = HashSet::new();
    for (index, usage) in all.iter().enumerate() {
        if !seen.insert(usage) {
            errors.push(FieldError::duplicate(&usages.index(index), usage.clone()));
        }
    }
    signer_name(text(spec, "signerName"), &path.child("signerName"), errors);
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
    }
    if old.is_none() {
        conditions(new, old, errors);
    }
}

/// What is written after the request was made: conditions, and the certificate. `part`: who approves adds approvals.
pub(crate) fn certificate_status(new: &Value, old: &Value, part: &str, errors: &mut Errors) {
    certificate(new, old, errors);
    conditions(new, Some(old), errors);
    if part == "approval" {
        return;
    }
    let status = Path::field("status");
    let of = |object: &Value, kind: &str| {
        list(&object["status"], "conditions").iter().filter(|c| c["type"] == kind).count()
    };
    for kind in ["Approved", "Denied"] {
        if of(new, kind) > of(old, kind) {
            let detail = format!("updates may not add a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&status.child("conditions"), detail));
        }
    }
}

/// Blocks of PEM text: each label, and what it holds.
fn blocks(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, after)) = after.split_once("-----") else { break };
        let end = format!("-----END {label}-----");
        let Some((body, after)) = after.split_once(&end) else { break };
        let body: String = body.split_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(body).unwrap_or_default();
        out.push((label.to_owned(), bytes));
        rest = after;
    }
    out
}

fn certificate(new: &Value, old: &Value, errors: &mut Errors) {
    let (now, before) = (text(&new["status"], "certificate"), text(&old["status"], "certificate"));
    if now.is_empty() || now == before {
        return;
    }
    let status = Path::field("status");
    let at = status.child("certificate");
    let mut refuse = |detail: String| errors.push(FieldError::invalid(&at, "<certificate data>", detail));
    let pem = base64::engine::general_purpose::STANDARD.decode(now).unwrap_or_default();
    let blocks = blocks(&String::from_utf8_lossy(&pem));
    if let Some((label, _)) = blocks.iter().find(|(label, _)| label != "CERTIFICATE") {
        refuse(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"));
    } else if blocks.is_empty() {
        refuse("must contain at least one CERTIFICATE PEM block".to_owned());
    } else if blocks.iter().any(|(_, der)| der.first() != Some(&0x30)) {
        refuse("x509: malformed certificate".to_owned());
    }
}

fn signer_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    }
    let Some((domain, rest)) = name.split_once('/') else {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    };
    if rest.contains('/') {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    }
    if domain.len() > 253 {
        errors.push(FieldError::too_long(path, 253));
    }
    // One wrong label is told of; those after it would be told alike.
    if let Some(label) = domain.split('.').find(|label| !names::dns_label(label).is_empty()) {
        for message in names::dns_label(label) {
            errors.push(FieldError::invalid(path, domain, format!("validating label {label:?}: {message}")));
        }
    }
    if !domain.contains('.') {
        errors.push(FieldError::invalid(
            path,
            domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    if let Some(label) = rest.split('.').find(|label| !names::dns_subdomain(label).is_empty()) {
        for message in names::dns_subdomain(label) {
            errors.push(FieldError::invalid(path, rest, format!("validating label {label:?}: {message}")));
        }
    }
    if name.len() > 571 {
        errors.push(FieldError::too_long(path, 571));
    }
}

fn conditions(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let status = Path::field("status");
    let path = status.child("conditions");
    let all = list(&new["status"], "conditions");
    let of = |object: &Value, kind: &str| {
        list(&object["status"], "conditions").iter().filter(|c| c["type"] == kind).count()
    };
    let mut seen = HashSet::new();
    for (index, condition) in all.iter().enumerate() {
        let (at, kind) = (path.index(index), text(condition, "type"));
        if kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        }
        let only_true = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if only_true { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.push(FieldError::required(&at.child("status"), "")),
            status if allowed.contains(&status) => {}
            status => errors.push(FieldError::not_supported(&at.child("status"), status, allowed)),
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&path, kind, detail));
        }
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
    }
    let Some(old) = old else { return };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind) < of(old, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
}

pub(crate) fn controller_revision(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(revision) = new["revision"].as_i64().filter(|revision| *revision < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&Path::field("revision"), revision, detail));
    }
    let (data, path) = (&new["data"], Path::field("data"));
    match (old, data) {
        (Some(old), data) if *data != old["data"] => {
            errors.push(FieldError::invalid(&path, Shown::Raw(go_json(data)), "field is immutable"));
        }
        (Some(_), _) | (None, Value::Object(_)) => {}
        (None, Value::Null) => errors.push(FieldError::required(&path, "data is mandatory")),
        (None, _) => errors.push(FieldError::required(&path, "data must be a valid JSON object")),
    }
}
