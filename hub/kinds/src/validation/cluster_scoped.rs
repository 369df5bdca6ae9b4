//! Kinds of the cluster as a whole: runtime classes, addresses and their ranges, flow control, API services, certificate
//! requests, revisions.
//!
//! In: an object of one of these kinds, or a part of it, on an update with what stands. Out: field errors in kube-apiserver's order.
//! Certificates and requests are looked at as PEM text and the first byte of what it holds; no signature is checked.

use std::collections::HashSet;

use base64::Engine as _;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::{Value, json};

use super::metadata::labels;
use super::{Errors, facts, invalid_each, judge, list, names, resources, text};

/// What Pods of the class cost beside themselves.
pub(super) fn overhead(overhead: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    resources::requirements(&json!({"limits": overhead["podFixed"]}), path, errors);
}

/// The nodes that support the class.
pub(super) fn nodes_of_class(scheduling: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    labels(&scheduling["nodeSelector"], &path.child("nodeSelector"), errors);
    tolerations_of_class(scheduling, &path.child("tolerations"), errors);
}

fn tolerations_of_class(scheduling: &Value, path: &Path<'_>, errors: &mut Errors) {
    super::scheduling::tolerations(&scheduling["tolerations"], None, path, errors);
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
    super::only_name(new, &wanted, &detail, errors);
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), detail));
    }
    judge(facts::KUBE_AGGREGATOR_PKG_APIS_APIREGISTRATION_V1_APISERVICE_SPEC, spec, None, &path, errors);
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
    let own = facts::KUBE_AGGREGATOR_PKG_APIS_APIREGISTRATION_V1_SERVICE_REFERENCE;
    judge(own, &spec["service"], None, &at, errors);
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}

/// What is to be signed.
pub(super) fn request(request: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let pem = base64::engine::general_purpose::STANDARD.decode(request.as_str().unwrap_or_default());
    let pem = pem.unwrap_or_default();
    let text_of = String::from_utf8_lossy(&pem);
    let detail = if !text_of.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        "PEM block type must be CERTIFICATE REQUEST"
    } else if blocks(&text_of).first().is_none_or(|(_, der)| der.first() != Some(&0x30)) {
        "asn1: structure error: tags don't match"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, request.clone(), detail));
}

/// Conditions that a new request brings.
pub(super) fn first_conditions(new: &Value, old: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
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

/// Who is to sign.
pub(super) fn signer_name(name: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let name = name.as_str().unwrap_or_default();
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
    // Only the first label that is wrong is told.
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

/// The data of a revision: a JSON object that never changes.
pub(super) fn revision_data(data: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match (old, data) {
        (Some(old), data) if data != old => {
            errors.push(FieldError::invalid(path, Shown::Raw(go_json(data)), "field is immutable"));
        }
        (Some(_), _) | (None, Value::Object(_)) => {}
        (None, Value::Null) => errors.push(FieldError::required(path, "data is mandatory")),
        (None, _) => errors.push(FieldError::required(path, "data must be a valid JSON object")),
    }
}
