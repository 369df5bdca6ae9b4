//! Certificate signing requests: what is to be signed and by whom, and what became of it.
//!
//! In: a request, or a part of it, on an update with what stands. Out: field errors in kube-apiserver's order.
//! Certificates and requests are looked at as PEM text and the first byte of what it holds; no signature is checked.

use std::collections::HashSet;

use base64::Engine as _;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, list, names, text};

/// What is to be signed.
pub(super) fn csr_request(request: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
